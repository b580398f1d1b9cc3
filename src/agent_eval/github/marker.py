"""The hidden first line that identifies our comment and the run that wrote it. Pure.

    <!-- agent-eval key=default run=123 attempt=1 sha=abc... -->

Only the first line counts: the rest is a report, in which an agent's text may look like a marker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from agent_eval.forge import RunStamp

_MARKER = re.compile(
    r"<!-- agent-eval key=(?P<key>\S+) run=(?P<run>[0-9]{1,18}) attempt=(?P<attempt>[0-9]{1,9}) "
    r"sha=(?P<sha>[0-9a-f]{40,64}) -->"
)


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A parsed comment of ours."""

    key: str
    run: RunStamp
    text: str
    """The visible text."""


def marked(key: str, run: RunStamp, text: str) -> str:
    """Returns the body of a comment: marker and text.

    Raises:
        ValueError: The key is empty or the commit is not a full hash; such a marker could not be parsed.
    """
    if not key or not re.fullmatch("[0-9a-f]{40,64}", run.sha):
        raise ValueError(f"a comment needs a key and a full hash, not {key!r} and {run.sha!r}")
    # `-` is encoded as %2D: `--` would end the HTML comment.
    name = quote(key, safe="").replace("-", "%2D")
    return f"<!-- agent-eval key={name} run={run.run_id} attempt={run.attempt} sha={run.sha} -->\n{text}"


def pointer(url: str) -> str:
    """Returns the body of a superseded comment. It has no marker, so that no run updates it again.

    Args:
        url: URL of the comment that replaces it.
    """
    return f"<!-- agent-eval -->\nReplaced by [a newer comment]({url}): two runs commented at the same time.\n"


def read_marker(body: str) -> Marked | None:
    """Parses a comment; None if it isn't ours."""
    # GitHub keeps line endings; edits in the browser use CRLF.
    first, _, text = body.replace("\r\n", "\n").partition("\n")
    match = _MARKER.fullmatch(first.strip())
    if match is None:
        return None
    run = RunStamp(run_id=int(match["run"]), attempt=int(match["attempt"]), sha=match["sha"])
    return Marked(key=unquote(match["key"]), run=run, text=text)


def same_text(left: str, right: str) -> bool:
    """Whether two texts are equal once GitHub has stored them (it strips trailing white space)."""
    return left.replace("\r\n", "\n").strip() == right.replace("\r\n", "\n").strip()
