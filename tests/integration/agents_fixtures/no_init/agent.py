from google.adk.agents.llm_agent import LlmAgent
from scripted_model import reply, scripted, text

from .words import WORDS

root_agent = LlmAgent(name="plain", model=scripted(lambda said, count, request: reply(text(WORDS))))
