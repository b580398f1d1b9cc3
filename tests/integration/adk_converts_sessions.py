"""Runs in google-adk's interpreter: prints ADK's own invocations of session files, a JSON list for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.sessions import Session


def main() -> None:
    converted = []
    for path in sys.argv[1:]:
        session = Session.model_validate_json(Path(path).read_bytes())
        invocations = EvaluationGenerator.convert_events_to_eval_invocations(session.events)
        converted.append([one.model_dump(mode="json", exclude_none=True) for one in invocations])
    print(json.dumps(converted))


if __name__ == "__main__":
    main()
