"""What the agents of all frameworks are asked, what their scripted model answers, and where their traces go."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

TALKS: dict[str, list[str]] = {
    "compare": ["Compare the weather in Rome and Oslo", "And in Atlantis?"],
    "hello": ["Hello"],
    "expert": ["Ask the expert about Rome"],
    "crash": ["Crash"],
    "outage": ["Hello", "Fail"],
}
INSTRUCTION = "You answer questions about the weather."
EXPERT = "You know all about cities."


class Failure(Exception):
    """What the scripted model raises."""


class RateLimitError(Failure):
    """The same, as a provider's package would."""


def weather(city: str) -> str:
    """What the tool of all agents does."""
    if city == "Atlantis":
        raise ValueError("there is no Atlantis")
    return f"{len(city) * 5} degrees"


def answer(message: str, results: Sequence[object]) -> str | list[tuple[str, dict[str, Any]]]:
    """The scripted model: a text, or calls."""
    if message == "Crash":
        raise Failure("the model's code is wrong")
    if message == "Fail":
        raise RateLimitError("429 Too Many Requests")
    if message == "Hello":
        return "Hi, ask me about the weather."
    if message.startswith("Compare"):
        cities = [("get_weather", {"city": city}) for city in ("Rome", "Oslo")]
        return "Rome has 20 degrees, Oslo 20." if results else cities
    if message.startswith("And in"):
        return "I know nothing of Atlantis." if results else [("get_weather", {"city": "Atlantis"})]
    if message.startswith("Ask the expert"):
        return "The expert says: Rome is old." if results else [("ask_expert", {"question": "Rome"})]
    return "Rome is old."


def provider() -> TracerProvider:
    """Writes each span to the file that the first argument names."""
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter

    made = TracerProvider(resource=Resource.create({"service.name": "weather"}))
    made.add_span_processor(SimpleSpanProcessor(FileSpanExporter(sys.argv[1])))
    trace.set_tracer_provider(made)
    return made
