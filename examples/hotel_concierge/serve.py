"""Starts a Gemini on loopback that plays all parts of this example, and runs a command that talks to it.

    python examples/hotel_concierge/serve.py [--port 8972] [--latency 0.2] [COMMAND ...]

Without a command it prints the two variables that point an agent and its judge at it, and serves until it is stopped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fake_gemini import FakeGemini

from hotel_concierge.roles import Roles


def main() -> int:
    parser = argparse.ArgumentParser(description="A Gemini on loopback for the concierge, its judge and its guest.")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    gemini = FakeGemini(Roles(), latency=options.latency, port=options.port)
    if options.command:
        with gemini:
            variables = {"GOOGLE_GEMINI_BASE_URL": gemini.url, "GOOGLE_API_KEY": "any"}
            return subprocess.run(options.command, env={**os.environ, **variables}, check=False).returncode

    def announce() -> None:
        print(f"export GOOGLE_GEMINI_BASE_URL={gemini.url}", "export GOOGLE_API_KEY=any", sep="\n", flush=True)

    try:
        gemini.serve_forever(announce)
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
