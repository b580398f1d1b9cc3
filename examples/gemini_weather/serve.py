"""Starts a Gemini on loopback that knows how to lead the weather agent.

    python examples/gemini_weather/serve.py [--port 8971] [--latency 0.2] [--first 429,503,reset]

prints the two variables that point an agent at it. The rules below stand where the model's judgement would: which tool
to call for a question, and how to say what the tool returned.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest

CITY = re.compile(r"\b(?:in|about) ([A-Z][a-z]+)")


def lead_weather_agent(request: GenerateRequest) -> Answer:
    """One step of the conversation: a tool call for a new question, a sentence for a tool's response."""
    if responses := request.tool_responses:
        return Answer.text(" ".join(say(item["name"], item["response"]) for item in responses))
    question = request.user_texts[-1]
    city = next((match[1] for text in reversed(request.user_texts) if (match := CITY.search(text))), None)
    if city is None:
        return Answer.text("For which city?")
    tool = "get_local_time" if "time" in question else "get_forecast"
    if tool not in request.tool_names:
        return Answer.text("I have no tool for that.")
    return Answer.calls((tool, {"city": city}))


def say(tool: str, response: dict[str, Any]) -> str:
    """A tool's response as a sentence."""
    if "error" in response:
        return f"Sorry, there is {response['error']}."
    if tool == "get_local_time":
        return f"It is {response['time']} in {response['city']}."
    return f"The forecast for {response['city']} is {response['sky']} and {response['celsius']} degrees."


def parse_fault(text: str) -> Fault:
    """A status code, `reset`, `hang` or `garbage`."""
    if text.isdecimal():
        return Fault(kind=int(text))
    if text in {"reset", "hang", "garbage"}:
        return Fault(kind=text)  # type: ignore[arg-type]
    raise argparse.ArgumentTypeError(f"{text} is neither an HTTP status nor reset, hang or garbage")


def main() -> None:
    parser = argparse.ArgumentParser(description="A Gemini on loopback for the weather agent.")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("--first", type=lambda text: [parse_fault(item) for item in text.split(",")], default=[])
    options = parser.parse_args()
    gemini = FakeGemini(lead_weather_agent, latency=options.latency, faults=options.first, port=options.port)

    def announce() -> None:
        print(f"export GOOGLE_GEMINI_BASE_URL={gemini.url}", "export GOOGLE_API_KEY=any", sep="\n", flush=True)

    try:
        gemini.serve_forever(announce)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
