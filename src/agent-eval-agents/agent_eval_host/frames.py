"""Which frames of a stack are the agent author's, and where something hangs."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import os
import sys
import traceback
from pathlib import Path
from typing import Any

_FRAMEWORK = ("/site-packages/google/adk/", "/site-packages/opentelemetry/")
_PLUMBING = tuple(str(Path(module.__file__ or "").parent) for module in (asyncio, importlib))
_PLACES = tuple(str(Path(name).parent) + os.sep for name in (__file__, sys._getframe().f_code.co_filename))
"""This package, and where it was compiled: the modules of an archive keep the names of those files."""
_OURS = (*_PLACES, str(Path(asyncio.__file__).parents[1] / "runpy.py"), "<frozen runpy>")
"""This package, and what starts it."""


def is_ours(filename: str) -> bool:
    """Whether a frame is in this package."""
    return filename.startswith(_OURS)


def is_framework(filename: str) -> bool:
    """Whether a frame is in this package, in ADK or in asyncio: not the agent author's code."""
    return filename.startswith((*_OURS, "<frozen importlib", *_PLUMBING)) or any(
        part in filename for part in _FRAMEWORK
    )


agent_places: list[str] = []
"""The agent's directory and the repository's root, with a trailing slash: they contain the agent's own source."""


def is_own(filename: str) -> bool:
    """Whether a file is the agent's own source, not an installed package."""
    return filename.startswith(tuple(agent_places)) and "/site-packages/" not in filename


def _own_frame(frames: list[traceback.FrameSummary]) -> tuple[str, traceback.FrameSummary] | None:
    """The innermost frame in the agent's own source: in its directory, else below the root. With that place."""
    found = ((place, frame) for place in agent_places for frame in reversed(frames) if frame.filename.startswith(place))
    return next(((place, frame) for place, frame in found if is_own(frame.filename)), None)


def own_line(frames: list[traceback.FrameSummary]) -> str:
    """The innermost line of the agent's own source, as `agent.py:41: await look_up(room)`; empty if there is none."""
    if (found := _own_frame(frames)) is None:
        return ""
    place, frame = found
    return f"{frame.filename[len(place) :]}:{frame.lineno}: {frame.line}"


def own_place(frames: list[traceback.FrameSummary]) -> dict[str, Any] | None:
    """The same line as file (relative to the root), line and function; None if there is none in the repository."""
    found = _own_frame(frames)
    if found is None or not found[1].filename.startswith(agent_places[-1]):
        return None
    frame = found[1]
    outer = frames[: frames.index(frame) + 1]
    # Python before 3.12 has a frame for each comprehension.
    named = (each.name for each in reversed(outer) if each.filename == frame.filename and each.name[:1] != "<")
    symbol = next(named, frame.name)
    return {"file": frame.filename[len(agent_places[-1]) :], "line": frame.lineno or None, "symbol": symbol}


def where_it_hangs(frames: list[traceback.FrameSummary]) -> dict[str, Any]:
    """The stack of something that hangs, without framework frames, and the innermost line of the agent's own code."""
    own = [number for number, frame in enumerate(frames) if not is_framework(frame.filename)]
    shown = [frames[number] for number in own] or [
        frame for frame in frames if not frame.filename.startswith(_PLUMBING)
    ][-2:]
    return {"where": "".join(traceback.format_list(shown)), "at": own_line(frames), "place": own_place(frames)}


def trimmed(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The agent's own frames and at most two frames after them."""
    frames = [frame for frame in frames if not is_ours(frame.filename)]
    own = [number for number, frame in enumerate(frames) if not is_framework(frame.filename)]
    after = frames[own[-1] + 1 if own else 0 :]
    return [frames[number] for number in own] + after[-2:]


_WRAPPERS = ("async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper")
"""Types in which `async for`, `aclosing` and `anext` wrap the generator that they await."""


def stack_of(task: asyncio.Task[Any]) -> list[traceback.FrameSummary]:
    """The stack of a suspended task: the chain of awaited coroutines, innermost last."""
    frames: list[traceback.FrameSummary] = []
    step: Any = task.get_coro()
    for _ in range(500):
        frame = next(
            (getattr(step, name) for name in ("cr_frame", "ag_frame", "gi_frame") if hasattr(step, name)), None
        )
        if frame is not None:
            code = frame.f_code
            frames.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name))
        following = [getattr(step, name, None) for name in ("cr_await", "ag_await", "gi_yieldfrom")]
        referents: list[Any] = []
        if type(step).__name__ in _WRAPPERS:
            referents = gc.get_referents(step)
        elif getattr(step, "gi_frame", None) is not None:  # an __await__ that drives a coroutine itself, as in ADK
            referents = list(step.gi_frame.f_locals.values())
        following += [value for value in referents if _has_frame(value) or type(value).__name__ in _WRAPPERS]
        step = next((value for value in following if value is not None), None) or _task_behind(task)
        if step is None:
            break
        if isinstance(step, asyncio.Task):
            task, step = step, step.get_coro()
    return frames


def _has_frame(value: Any) -> bool:
    return inspect.iscoroutine(value) or inspect.isasyncgen(value)


def _task_behind(task: asyncio.Task[Any]) -> asyncio.Task[Any] | None:
    """The task that a task waits for, directly or as the first of the tasks that it gathers."""
    waiter = getattr(task, "_fut_waiter", None)
    for awaited in (waiter, *getattr(waiter, "_children", ())):
        if isinstance(awaited, asyncio.Task) and not awaited.done():
            return awaited
    return None
