"""The weather example's Gemini with a quota: it answers 429 at once while enough requests are being answered."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "gemini_weather"))

from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from serve import lead_weather_agent


class LimitedGemini(FakeGemini):
    """Gemini for an account that may have a few requests in flight."""

    def __init__(self, latency: float, limit: int) -> None:
        """Answers `limit` requests at once, each after `latency` seconds."""
        super().__init__(lead_weather_agent, latency=latency)
        self.limit = limit

    def answer(self, request: GenerateRequest) -> Answer | Fault:
        """What the script says, or a refusal."""
        if self.stats.in_flight >= self.limit:
            return Fault(kind=429, message="Resource has been exhausted (e.g. check quota).", latency=0.0)
        return super().answer(request)


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("--limit", type=int, default=10, help="requests that it answers at once")
    options = parser.parse_args()
    gemini = LimitedGemini(options.latency, options.limit)
    gemini.serve_forever(lambda: print(f"export GOOGLE_GEMINI_BASE_URL={gemini.url}", flush=True))


if __name__ == "__main__":
    main()
