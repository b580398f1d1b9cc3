"""The hidden first line by which we know our comment again, and which run wrote it. Pure.

    <!-- agent-eval key=default run=123 attempt=1 sha=abc... -->

Only the first line of a comment counts: what follows is a report, in which an agent's text may look like a marker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_MARKER = re.compile(
    r"<!-- agent-eval key=(?P<key>\S+) run=(?P<run>[0-9]{1,18}) attempt=(?P<attempt>[0-9]{1,9}) "
    r"sha=(?P<sha>[0-9a-f]{40,64}) -->"
)


@dataclass(frozen=True, kw_only=True, order=True)
class RunStamp:
    """Which run a comment was written for; the greater one is the newer one (GitHub's run ids grow)."""

    run_id: int
    """Of the run that gated, also when another one publishes."""
    attempt: int
    """1 for the first."""
    sha: str
    """The pull request's own last commit, in lower-case hex."""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """What a comment of ours says of itself."""

    key: str
    run: RunStamp
    text: str
    """What people see."""


def marked(key: str, run: RunStamp, text: str) -> str:
    """The body of a comment: its marker, and the text.

    Raises:
        ValueError: If the key is empty or the commit is no full hash: such a marker would not be found again.
    """
    if not key or not re.fullmatch("[0-9a-f]{40,64}", run.sha):
        raise ValueError(f"a comment needs a key and a full hash, not {key!r} and {run.sha!r}")
    # A dash is written as %2D: `--` would end the comment of HTML.
    name = quote(key, safe="").replace("-", "%2D")
    return f"<!-- agent-eval key={name} run={run.run_id} attempt={run.attempt} sha={run.sha} -->\n{text}"


def pointer(url: str) -> str:
    """The body of a comment that is left behind. It has no marker: nothing finds it again.

    Args:
        url: GitHub's address of the comment that is kept.
    """
    return f"<!-- agent-eval -->\nReplaced by [a newer comment]({url}): two runs commented at the same moment.\n"


def read_marker(body: str) -> Marked | None:
    """What a comment says of itself; None if it isn't ours."""
    # GitHub keeps the line ends of what was sent; those of people who edit in the browser are CRLF.
    first, _, text = body.replace("\r\n", "\n").partition("\n")
    found = _MARKER.fullmatch(first.strip())
    if found is None:
        return None
    run = RunStamp(run_id=int(found["run"]), attempt=int(found["attempt"]), sha=found["sha"])
    return Marked(key=unquote(found["key"]), run=run, text=text)


def same_text(one: str, other: str) -> bool:
    """Whether two texts look alike once GitHub has stored them (it strips blanks at the end)."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()
