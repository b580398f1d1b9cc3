"""Runs in google-adk's interpreter: reads conversations, writes what the model of its user simulator would see."""

from __future__ import annotations

import json
import sys
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulator
    from google.adk.events.event import Event

    message = []
    for conversation in json.load(sys.stdin):
        events = [Event.model_validate(event) for event in conversation]
        message.append([LlmBackedUserSimulator._summarize_conversation(events, calls) for calls in (False, True)])
    json.dump(message, sys.stdout)


if __name__ == "__main__":
    main()
