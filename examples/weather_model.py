"""Stands in for Gemini in docs/tutorial.md: asks the tool for the weather, and says what it returned.

    python examples/weather_model.py [--port 8973]

Prints the two variables that point an agent at it, and serves until it is stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import re

from fake_gemini import Answer, FakeGemini, GenerateRequest


def model(request: GenerateRequest) -> Answer:
    if not request.tool_responses:
        cities = re.findall(r"\bin ([A-Z]\w+)", request.user_texts[-1])
        return Answer.calls(("get_weather", {"city": cities[-1]})) if cities else Answer.text("In which city?")
    weather = request.tool_responses[-1]["response"]
    if weather["celsius"] is None:
        return Answer.text("Sorry, I don't know that city.")
    return Answer.text(f"It is {weather['celsius']} degrees in {weather['city']}.")


def main() -> None:
    parser = argparse.ArgumentParser(description="The model of the tutorial, without a key.")
    parser.add_argument("--port", type=int, default=8973, help="0 lets the system choose")
    gemini = FakeGemini(model, port=parser.parse_args().port)

    def announce() -> None:
        print(f"export GOOGLE_GEMINI_BASE_URL={gemini.url}", "export GOOGLE_API_KEY=any", sep="\n", flush=True)

    with contextlib.suppress(KeyboardInterrupt):
        gemini.serve_forever(announce)


if __name__ == "__main__":
    main()
