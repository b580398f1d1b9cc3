from google.adk.agents.llm_agent import LlmAgent

import a_package_that_nobody_has

root_agent = LlmAgent(name="never")
