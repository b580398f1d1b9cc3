"""Appends what was said before to a new session."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any


async def seed(sessions: Any, session: Any, events: Iterable[Mapping[str, Any]], root: str) -> None:
    """Appends events as ADK's servers do it with those of a request.

    Args:
        sessions: The session service.
        session: The session.
        events: With `author` (`model`: the root agent) and `content`.
        root: The root agent's name.
    """
    for event in events:
        from google.adk.events.event import Event

        author = root if event["author"] == "model" else event["author"]
        seeded = Event(author=author, invocation_id=f"past-{uuid.uuid4()}", content=event["content"])
        await sessions.append_event(session, _restored(seeded))


def _restored(event: Any) -> Any:
    """The event as google-adk 2.13 marks it, so that it is not taken for one of its own."""
    try:
        mark = importlib.import_module("google.adk.events._internal_metadata").mark_restored
    except (ImportError, AttributeError):
        return event
    return mark(event)
