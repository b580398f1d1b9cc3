"""Reads Python's tracebacks: which lines of the repository they name."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRAME = re.compile(r'^ {0,8}File "([^"\n]{1,400})", line ([0-9]{1,7})(?:, in (\S{1,200}))?', re.MULTILINE)
_RAISED = re.compile(r"(?:\w{1,100}\.)*([^\W\d]\w{0,100})(?::|$)")
_MODULE_OF_ROOT = re.compile(r"(/.*/)(?:__init__|agent)\.py")
_MOST = 20_000
"""Characters of a traceback, from its end, that are read."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A line of the repository in a traceback."""

    file: str
    """Relative to the repository."""
    line: int
    """1-based."""
    function: str


def frames_of(traceback: str, agent: str) -> list[Frame]:
    """The frames in the agent's repository, judging by their paths, the innermost last.

    Args:
        traceback: As Python prints it.
        agent: The agent's path, relative to the repository.
    """
    found = [(match[1], int(match[2]), match[3] or "") for match in _FRAME.finditer(traceback[-_MOST:])]
    if not agent:
        return []
    parted = [path.rpartition(f"/{agent}/") for path, _, _ in found if path.startswith("/")]
    roots = {f"{before}/" for before, part, _ in parted if part and before}
    if agent == ".":  # No path names the root. The import of such an agent begins with a module that is there.
        modules = (_MODULE_OF_ROOT.fullmatch(path) for path, _, function in found if function in ("<module>", ""))
        roots = {match[1] for match in modules if match is not None and "site-packages" not in match[1]}
        roots = {min(roots, key=len)} if roots else roots
    frames = []
    for path, line, function in found:
        if "site-packages" in path or path.startswith("<"):
            continue
        root = next((root for root in roots if path.startswith(root)), None)
        file = path if path.startswith(f"{agent}/") else path.removeprefix(root) if root else ""
        if file:
            frames.append(Frame(file=file, line=line, function=function))
    return frames


def exception_of(traceback: str) -> str:
    """The type of the exception, without its module, e.g. `KeyError`; "" if the text is no traceback."""
    text = traceback[-_MOST:]
    last = max((match.end() for match in _FRAME.finditer(text)), default=None)
    lines = text[last:].splitlines()[1:] if last is not None else ()
    match = next((_RAISED.match(line) for line in lines if line[:1].strip()), None)
    return match[1] if match else ""
