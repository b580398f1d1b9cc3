"""ADK finds the agent in agent.py. It is not imported here, so that serve.py and roles.py run without google-adk."""
