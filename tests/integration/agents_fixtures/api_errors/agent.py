"""An agent whose tool, callback and model raise errors of google-genai: made up, or because of a real request."""

from __future__ import annotations

import os
from typing import Any

import httpx
from google import genai
from google.adk.agents.llm_agent import LlmAgent
from google.genai import errors
from scripted_model import asked, call, reply, scripted, text

URL = os.environ["GOOGLE_GEMINI_BASE_URL"]
OVERLOADED = {"error": {"code": 503, "message": "made up", "status": "UNAVAILABLE"}}


def ask_with_genai() -> None:
    client = genai.Client()  # closes its connections when nothing holds it
    client.models.generate_content(model="gemini-2.5-pro", contents="hello")


def ask_with_httpx() -> None:
    httpx.post(f"{URL}/v1beta/models/gemini-2.5-pro:generateContent", json={"contents": []}).raise_for_status()


def fail_at(place: str, said: str) -> None:
    """Raises what the user asks for at this place, e.g. `model: made up`."""
    where, _, how = said.partition(": ")
    if where != place:
        return
    match how:
        case "made up":
            raise errors.ServerError(503, OVERLOADED)
        case "made-up connection":
            raise ConnectionResetError("made up")
        case "connection again":
            try:
                ask_with_httpx()
            except httpx.HTTPStatusError as error:
                raise ConnectionError("the model is away") from error
        case "again":  # the repository's own error, because of an answer
            try:
                ask_with_httpx()
            except httpx.HTTPStatusError as error:
                raise errors.ServerError(503, OVERLOADED) from error
        case "with genai":
            ask_with_genai()
        case "with httpx":
            ask_with_httpx()


def look_up(question: str) -> str:
    """Looks something up."""
    fail_at("tool", question)
    return "nothing"


def before(callback_context: Any, llm_request: Any) -> None:
    fail_at("callback", asked(llm_request))


def script(said: str, count: int, request: Any) -> Any:
    fail_at("model", said)
    return reply(text("done") if count else call("look_up", question=said))


root_agent = LlmAgent(name="api_errors", model=scripted(script), tools=[look_up], before_model_callback=before)
