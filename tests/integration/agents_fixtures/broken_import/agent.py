import a_package_that_nobody_has
from google.adk.agents.llm_agent import LlmAgent

root_agent = LlmAgent(name="never", model=a_package_that_nobody_has.MODEL)
