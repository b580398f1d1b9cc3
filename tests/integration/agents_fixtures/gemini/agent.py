from google.adk.agents.llm_agent import LlmAgent

root_agent = LlmAgent(name="gemini", model="gemini-2.5-flash", instruction="Be brief.")
