"""Tracebacks: the lines of the repository, and the type of the exception."""

from __future__ import annotations

from agent_eval.core.tracebacks import Frame, exception_of, frames_of

TEXT = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/google/adk/tools.py", line 5, in run
    return await f()
  File "/home/dev/repo/agents/shop/tools.py", line 33, in find
    return lookup(room)
  File "/home/dev/repo/shared/rooms.py", line 7, in lookup
    raise shared.NoSuchRoom(
  File "<string>", line 1, in <module>
shared.rooms.NoSuchRoom: 'kitchen'
  is not a room
ValueError: only a line of the message
"""


def test_frames_of__the_repository_is_above_the_agent() -> None:
    assert frames_of(TEXT, "agents/shop") == [
        Frame(file="agents/shop/tools.py", line=33, function="find"),
        Frame(file="shared/rooms.py", line=7, function="lookup"),
    ]
    assert frames_of(TEXT, "agents/other") == []
    assert frames_of(TEXT, "") == []
    assert frames_of("no traceback", "agents/shop") == []


def test_exception_of__the_first_line_after_the_last_frame() -> None:
    assert exception_of(TEXT) == "NoSuchRoom"
    assert exception_of(
        TEXT + "\nDuring handling of that:\n" + TEXT.replace("shared.rooms.NoSuchRoom", "KeyError")
    ) == ("KeyError")
    assert exception_of("KeyError: without a traceback") == ""
    assert exception_of('  File "a.py", line 1, in f\n') == ""
