"""Creates or updates one comment per pull request and key.

All comments are listed before each attempt, so that a lost response doesn't lead to a second comment, and a run that
had to wait doesn't overwrite a newer one. Two runs that create their first comments at the same time create two, so
each lists them again afterwards. The newer run's comment remains, and the other one becomes a link to it. Comments are
never deleted.

Errors of the forge are not raised: the verdict does not depend on the comment.

The hidden first line identifies our comment and the run that wrote it:

    <!-- agent-eval key=default run=123 attempt=1 sha=abc... -->

Only the first line counts: the rest is a report, in which an agent's text may look like a marker. Hidden last lines are
what each attempt at the commit leaves for the next one (`Comment.memory`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol
from urllib.parse import quote, unquote

from agent_eval.forge.protocol import TO_LINK, Comment, Posted, PostKind, RunStamp
from agent_eval.forge.rest import RestError

_BUDGET = 90.0
"""Seconds for a comment, whatever the baseline has left of the client's time budget: enough for one secondary rate
limit. The verdict is known, and the job waits for nothing else."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A comment as the forge has it."""

    id: int
    body: str
    url: str
    login: str | None
    """Of the author; None if the account is gone."""
    is_bot: bool


class Commenting(Protocol):
    """A `RestClient` that reads and writes comments. All methods raise RestError."""

    service: ClassVar[str]
    longest: ClassVar[int]
    """Maximum characters of a comment."""
    to_comment: ClassVar[str]
    """What a job needs to comment; empty if the errors say it."""

    def notes(self, number: int) -> Iterator[Note]:
        """Yields the comments of a pull request."""
        ...

    def create_note(self, number: int, body: str) -> Note | None:
        """Creates a comment; None if the response does not show it."""
        ...

    def rewrite_note(self, number: int, note: Note, body: str) -> str | None:
        """Replaces the text of a comment, and returns its URL."""
        ...

    def own_logins(self, known: str | None) -> set[str]:
        """The logins of the token in lower case; `known` saves a request."""
        ...

    def prepared(self, body: str) -> str:
        """A text as it can be posted: the forge does nothing because of it."""
        ...

    def allow(self, seconds: float) -> None:
        """Sets the remaining time budget."""
        ...

    def pause(self, error: RestError, attempt: int) -> None:
        """Waits before a retry of a failed request, or raises its error."""
        ...


_MARKER = re.compile(
    r"<!-- agent-eval key=(?P<key>\S+) run=(?P<run>[0-9]{1,18}) attempt=(?P<attempt>[0-9]{1,18}) "
    r"sha=(?P<sha>[0-9a-f]{40,64}) -->"
)
_MEMORY = re.compile(
    r"<!-- agent-eval memory run=(?P<run>[0-9]{1,18}) attempt=(?P<attempt>[0-9]{1,18}) "
    r"sha=(?P<sha>[0-9a-f]{40,64}) (?P<data>[A-Za-z0-9+/=]+) -->"
)
_ATTEMPTS = 5
"""Most attempts of which a comment keeps the memory: the newest."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a run leaves in its comment for the next attempt at the same commit: an invisible line."""

    run: RunStamp
    data: str
    """Base64. Who can edit the comment can change it: untrusted."""

    @property
    def line(self) -> str:
        """The line, without its end."""
        run = self.run
        return f"<!-- agent-eval memory run={run.run_id} attempt={run.attempt} sha={run.sha} {self.data} -->"


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A parsed comment of ours."""

    key: str
    run: RunStamp
    text: str
    """The visible text."""
    memories: tuple[Memory, ...] = ()
    """Of this attempt and earlier ones at the same commit, oldest first."""


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
    # The forges keep line endings; edits in the browser use CRLF.
    first, _, text = body.replace("\r\n", "\n").partition("\n")
    match = _MARKER.fullmatch(first.strip())
    if match is None:
        return None
    lines = text.rstrip().split("\n")
    memories: list[Memory] = []
    while lines and (memory := _MEMORY.fullmatch(lines[-1].strip())) is not None:
        memories.insert(0, Memory(run=_stamp(memory), data=memory["data"]))
        lines.pop()
    if memories:
        text = "\n".join(lines)
    return Marked(key=unquote(match["key"]), run=_stamp(match), text=text, memories=tuple(memories))


def _stamp(match: re.Match[str]) -> RunStamp:
    return RunStamp(run_id=int(match["run"]), attempt=int(match["attempt"]), sha=match["sha"])


def same_text(left: str, right: str) -> bool:
    """Whether two texts are equal once a forge has stored them (it strips trailing white space)."""
    return left.replace("\r\n", "\n").strip() == right.replace("\r\n", "\n").strip()


@dataclass(frozen=True, kw_only=True)
class _Ours:
    note: Note
    marked: Marked


@dataclass(frozen=True, kw_only=True)
class _Listing:
    """All comments with our marker."""

    ours: list[_Ours]
    """Oldest first."""
    other_bots: list[str]
    """Logins of other bots that have posted our marker."""


def upsert_comment(client: Commenting, comment: Comment) -> Posted:
    """Creates the comment of this key, or updates it. Raises no error of the forge.

    Raises:
        ValueError: The key is empty or the run's commit is not a full hash.
    """
    if comment.mode == "never":
        return Posted(kind="skipped", message="No comment, since `comment` is never.")
    comment = replace(comment, body=client.prepared(comment.body))
    text = marked(comment.key, comment.run, comment.body)
    if len(text) > client.longest:
        message = f"No comment: it has {len(text):,} characters, and {client.service}'s limit is {client.longest:,}."
        return Posted(kind="failed", message=message)
    try:
        return _Upsert(client, comment, text).until_done()
    except RestError as error:
        kind: PostKind = "forbidden" if error.kind in ("forbidden", "unauthorized") else "failed"
        lacks = error.kind == "not-found" or "lacks a permission" in str(error)
        needs = client.to_comment if lacks else ""
        return Posted(kind=kind, message=f"The comment could not be posted. {error} {needs}".rstrip())


def memories(client: Commenting, number: int, key: str, *, sha: str, author: str | None) -> list[str]:
    """What earlier attempts at a commit have left in the comment of this key, oldest first (`Comment.memory`).

    Args:
        client: The repository.
        number: The pull request.
        key: The comment's.
        sha: Head commit of the pull request.
        author: Login that the token comments as; None: detected.

    Raises:
        RestError: A request failed.
    """
    listing = _listing(client, number, key, lambda: client.own_logins(author))
    kept = _newest(listing.ours).marked.memories if listing.ours else ()
    return [memory.data for memory in kept[-_ATTEMPTS:] if memory.run.sha == sha]


class _Upsert:
    def __init__(self, client: Commenting, comment: Comment, text: str) -> None:
        self._client = client
        self._comment = comment
        self._text = text
        self._login = comment.author
        self._logins: set[str] | None = None
        self._sent: PostKind | None = None
        """A write whose response may be lost."""
        self._overwrites = False

    def until_done(self) -> Posted:
        self._client.allow(TO_LINK if self._comment.own_only else _BUDGET)
        attempt = 0
        while True:
            try:
                return self._once()
            except RestError as error:
                failure = error
            # The comment was deleted after it was listed: list again.
            if failure.kind != "not-found" or attempt > 0:
                self._client.pause(failure, attempt)
            attempt += 1

    def _once(self) -> Posted:
        listing = self._read_comments()
        if self._comment.own_only:
            return self._update_own(listing.ours)
        if not listing.ours:
            return self._checked(self._create(listing))
        newest = _newest(listing.ours)
        posted = self._update(newest)
        return replace(posted, message=posted.message + self._link_others(newest, listing.ours))

    def _update_own(self, ours: list[_Ours]) -> Posted:
        """Updates the comment that this run has written. No other is changed, and none is created."""
        run = self._comment.run
        if not ours:
            return Posted(kind="skipped", message="There is no comment of this run.")
        newest = _newest(ours)
        written = newest.marked.run
        if written.order != run.order:
            message = (
                f"The comment belongs to another run ({written.run_id}, attempt {written.attempt}) and was not changed."
            )
            return Posted(kind="superseded", url=newest.note.url, message=message)
        if same_text(newest.marked.text, self._comment.body):
            return Posted(kind="unchanged", url=newest.note.url, message="The comment is up to date.")
        url = self._rewrite(newest, self._remembering(self._kept(newest.marked.memories)))
        return Posted(kind="updated", url=url, message="The comment was updated.")

    def _kept(self, before: Sequence[Memory] = ()) -> tuple[Memory, ...]:
        """The memory of this attempt and of those before it."""
        run, own = self._comment.run, self._comment.memory
        # Two jobs that share a key by mistake: neither may take the other's memory for its own.
        kept = [
            memory
            for memory in before
            if memory.run.sha == run.sha and (memory.run != run or not (own or self._overwrites))
        ]
        if own and not self._overwrites:
            kept.append(Memory(run=run, data=own))
        return tuple(kept[-_ATTEMPTS:])

    def _remembering(self, memories: Sequence[Memory]) -> str:
        """The comment's body with these memories, the newest ones of them if not all fit."""
        for first in range(len(memories)):
            text = "\n".join((self._text.rstrip("\n"), *(memory.line for memory in memories[first:])))
            if len(text) <= self._client.longest:
                return text
        return self._text

    def _update(self, current: _Ours) -> Posted:
        written = current.marked.run
        if written.order > self._comment.run.order:
            message = (
                f"The comment belongs to a newer run ({written.run_id}, attempt {written.attempt}) and was not changed."
            )
            return Posted(kind="superseded", url=current.note.url, message=message)
        # For another commit the marker is updated even if the text is the same, so that a late run of an older commit
        # sees that it is outdated.
        kept = self._kept(current.marked.memories)
        same = same_text(current.marked.text, self._comment.body)
        if same and self._sent is not None and current.marked.run == self._comment.run:
            message = f"The comment was {self._sent}; {self._client.service}'s response was lost."
            return Posted(kind=self._sent, url=current.note.url, message=message, overwrites=self._overwrites)
        if same and current.marked.run.sha == self._comment.run.sha and kept == current.marked.memories:
            return Posted(kind="unchanged", url=current.note.url, message="The comment is up to date.")
        note = ""
        if self._sent is None and current.marked.run == self._comment.run:
            self._overwrites = True
            kept = self._kept(current.marked.memories)
            note = " Another job of this run had written it: give each job its own `name`."
        self._sent = "updated"
        url = self._rewrite(current, self._remembering(kept))
        return Posted(kind="updated", url=url, message=f"The comment was updated.{note}", overwrites=self._overwrites)

    def _checked(self, posted: Posted) -> Posted:
        """Checks a new comment for a concurrent one of another run."""
        if posted.kind != "created":
            return posted
        try:
            ours = self._read_comments().ours
        except RestError as error:
            return replace(posted, message=f"{posted.message} Whether it is the only one could not be read: {error}")
        if len(ours) < 2:
            return posted
        newest = _newest(ours)
        note = self._link_others(newest, ours)
        if newest.marked.run.order > self._comment.run.order:
            message = f"A newer run ({newest.marked.run.run_id}) has commented at the same time.{note}"
            return Posted(kind="superseded", url=newest.note.url, message=message)
        return replace(posted, url=newest.note.url, message=posted.message + note)

    def _link_others(self, newest: _Ours, ours: list[_Ours]) -> str:
        """Replaces the other comments by links, and reports it."""
        others = [comment for comment in ours if comment.note.id != newest.note.id]
        try:
            for comment in others:
                self._rewrite(comment, pointer(newest.note.url))
        except RestError as error:
            return f" There are {len(ours)} of them, and an older one could not be changed: {error}"
        return f" There were {len(ours)} of them: the others link to it now." if others else ""

    def _rewrite(self, comment: _Ours, text: str) -> str | None:
        return self._client.rewrite_note(self._comment.number, comment.note, text)

    def _create(self, listing: _Listing) -> Posted:
        if not self._comment.creates:
            return Posted(kind="skipped", message=f"No comment, since `comment` is {self._comment.mode}.")
        note = ""
        if listing.other_bots:
            names = ", ".join(listing.other_bots)
            note = f" {names} has posted such a comment; if that is this token's login, set `comment-author` to it."
        self._sent = "created"
        created = self._client.create_note(self._comment.number, self._remembering(self._kept()))
        if created is not None:
            self._login = created.login or self._login  # Saves a request for the login.
        return Posted(kind="created", url=created.url if created else None, message=f"The comment was created.{note}")

    def _read_comments(self) -> _Listing:
        return _listing(self._client, self._comment.number, self._comment.key, self._own_logins)

    def _own_logins(self) -> set[str]:
        if self._logins is None:
            self._logins = self._client.own_logins(self._login)
        return self._logins


def _listing(client: Commenting, number: int, key: str, own_logins: Callable[[], set[str]]) -> _Listing:
    parsed = []
    for note in client.notes(number):
        marker = read_marker(note.body)
        if marker is not None and marker.key == key:
            parsed.append(_Ours(note=note, marked=marker))
    ours, other_bots = [], set()
    logins = own_logins() if parsed else set()
    for entry in sorted(parsed, key=lambda entry: entry.note.id):
        # Anyone can write our marker: it counts if our account wrote it.
        if (entry.note.login or "").casefold() in logins:
            ours.append(entry)
        elif entry.note.is_bot:
            other_bots.add(entry.note.login or "")
    return _Listing(ours=ours, other_bots=sorted(other_bots))


def _newest(ours: list[_Ours]) -> _Ours:
    """Returns the comment of the newest run; of several, the newest comment."""
    return max(ours, key=lambda comment: (comment.marked.run.order, comment.note.id))
