"""The weather example's Gemini, which judges answers as well: it finds all of them valid.

It answers both implementations in the form that each asks for: a JSON Schema, or a JSON text as google-adk reads it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "gemini_weather"))

from fake_gemini import Answer, FakeGemini, GenerateRequest
from serve import lead_weather_agent


def answer(request: GenerateRequest) -> Answer:
    """A vote for a judge's question, a step of the conversation for the agent's."""
    if request.body.get("generationConfig", {}).get("responseJsonSchema") is not None:
        return Answer.text(json.dumps({"reasoning": "It says the same.", "verdict": "valid"}))
    if not request.tool_names:
        return Answer.text(
            json.dumps({"reasoning": "It says the same.", "is_the_agent_response_valid": "valid"}) + "\n"
        )
    return lead_weather_agent(request)


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    gemini = FakeGemini(answer, latency=parser.parse_args().latency)
    gemini.serve_forever(lambda: print(f"export GOOGLE_GEMINI_BASE_URL={gemini.url}", flush=True))


if __name__ == "__main__":
    main()
