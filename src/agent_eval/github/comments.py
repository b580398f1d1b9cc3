"""One comment per pull request and key, which is updated in place.

Nothing is written that has not just been looked at: before each attempt all comments are listed, so that an answer that
got lost does not lead to a second comment, and a run that had to wait does not overwrite a newer one. Two runs that
post their first comments at the same moment make two: each looks again afterwards. The comment of the newer run is
kept, the other one becomes a link to it, so that no outdated verdict stays; a comment is never deleted.

Posting never raises for what GitHub answers: the gate's verdict does not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent_eval.github.client import GitHub
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import text_at
from agent_eval.github.marker import Marked, RunStamp, marked, pointer, read_marker, same_text

ACTIONS_LOGIN = "github-actions[bot]"
"""Who a workflow's GITHUB_TOKEN is."""
LONGEST = 65_536
"""Characters of a comment; GitHub answers 422 above ("Body is too long (maximum is 65536 characters)")."""
_BUDGET = 240.0
"""Seconds that a comment may take, also when the client has spent its own on a baseline: enough for two secondary
limits in a row."""

CommentMode = Literal["always", "on-change", "on-failure", "never"]
Kind = Literal["created", "updated", "unchanged", "superseded", "skipped", "forbidden", "failed"]


@dataclass(frozen=True, kw_only=True)
class Posted:
    """What became of a comment."""

    kind: Kind
    """`superseded`: a newer run has already commented. `skipped`: the mode asks for none. `forbidden`: the token may
    not comment, as on pull requests from forks. `failed`: another error of GitHub's."""
    url: str | None = None
    """Of the comment, if there is one."""
    message: str
    """One or two plain sentences for the log."""
    overwrites: bool = False
    """The comment was another job's of the very same run and attempt."""

    @property
    def is_posted(self) -> bool:
        """Whether the pull request shows this run's text."""
        return self.kind in ("created", "updated", "unchanged")


@dataclass(frozen=True, kw_only=True)
class _Ours:
    id: int
    url: str
    marked: Marked


@dataclass(frozen=True, kw_only=True)
class _Look:
    """The comments, as far as they have our marker."""

    ours: list[_Ours]
    """Oldest first."""
    strangers: list[str]
    """Who else has posted our marker, as other bots' tokens do."""


def starts_comment(mode: CommentMode, *, failed: bool, changed: bool) -> bool:
    """Whether a run makes a comment where there is none. One that is there is brought up to date in any mode but
    `never`, so that it doesn't stay red.

    Args:
        mode: The input `comment`.
        failed: The verdict is not `passed`.
        changed: Something differs from the base.
    """
    match mode:
        case "always":
            return True
        case "on-change":
            return changed or failed
        case "on-failure":
            return failed
        case "never":
            return False


def upsert_comment(
    github: GitHub,
    *,
    number: int,
    key: str,
    body: str,
    run: RunStamp,
    mode: CommentMode = "always",
    failed: bool = False,
    changed: bool = False,
    author: str | None = None,
) -> Posted:
    """Makes the comment of this key, or brings it up to date.

    Args:
        github: The repository of the pull request.
        number: Of the pull request.
        key: Tells comments of several gates on one pull request apart.
        body: Markdown, up to 65,000 characters; the marker is added.
        run: Who writes. A comment by a newer run or attempt is left as it is.
        mode: When to comment.
        failed: For `mode`: the verdict is not `passed`.
        changed: For `mode`: something differs from the base.
        author: Login that the token comments as, e.g. `my-app[bot]` for an App of one's own. None: found out, where
            a token that may not ask is taken for `github-actions[bot]`.

    Returns:
        What became of it. No error of GitHub's is raised.

    Raises:
        ValueError: If the key is empty or the run's commit is no full hash.
    """
    if mode == "never":
        return Posted(kind="skipped", message="No comment, as comment: never asks.")
    text = marked(key, run, body)
    if len(text) > LONGEST:
        message = f"No comment: it has {len(text):,} characters, and GitHub takes {LONGEST:,}."
        return Posted(kind="failed", message=message)
    create = starts_comment(mode, failed=failed, changed=changed)
    upsert = _Upsert(github, number=number, key=key, text=text, body=body, run=run, mode=mode, create=create)
    try:
        return upsert.until_done(author)
    except GitHubError as error:
        kind: Kind = "forbidden" if error.kind in ("forbidden", "unauthorized") else "failed"
        return Posted(kind=kind, message=f"The comment could not be posted. {error}")


class _Upsert:
    def __init__(
        self,
        github: GitHub,
        *,
        number: int,
        key: str,
        text: str,
        body: str,
        run: RunStamp,
        mode: CommentMode,
        create: bool,
    ) -> None:
        self._github = github
        self._list = github.repo("issues", number, "comments")
        self._key = key
        self._text = text
        self._body = body
        self._run = run
        self._mode = mode
        self._create = create
        self._viewer: str | None = None
        self._sent: Kind | None = None
        """A write whose answer we may not have got."""
        self._overwrites = False

    def until_done(self, author: str | None) -> Posted:
        self._github.grant(_BUDGET)
        self._viewer = author
        attempt = 0
        while True:
            try:
                return self._once()
            except GitHubError as error:
                failure = error
            # A comment that was deleted between our look and our write is gone: look again.
            if failure.kind != "not-found" or attempt > 0:
                self._github.pause(failure, attempt)
            attempt += 1

    def _once(self) -> Posted:
        look = self._look()
        if not look.ours:
            return self._checked(self._new(look))
        kept = _newest(look.ours)
        posted = self._bring_up_to_date(kept)
        return replace(posted, message=posted.message + self._point_to(kept, look.ours))

    def _bring_up_to_date(self, current: _Ours) -> Posted:
        written = current.marked.run
        if (written.run_id, written.attempt) > (self._run.run_id, self._run.attempt):
            message = (
                f"The comment is by a newer run ({written.run_id}, attempt {written.attempt}); it is left as it is."
            )
            return Posted(kind="superseded", url=current.url, message=message)
        # With another commit the marker is renewed even if the text is the same: a run of an older commit that ends
        # late must see that it is late.
        same = same_text(current.marked.text, self._body)
        if same and self._sent is not None and current.marked.run == self._run:
            message = f"The comment was {self._sent}; GitHub's answer was lost on the way."
            return Posted(kind=self._sent, url=current.url, message=message, overwrites=self._overwrites)
        if same and current.marked.run.sha == self._run.sha:
            return Posted(kind="unchanged", url=current.url, message="The comment says so already.")
        note = ""
        if self._sent is None and current.marked.run == self._run:
            self._overwrites = True
            note = " Another job of this run had written it: give each job a `comment-key` of its own."
        path = self._github.repo("issues", "comments", current.id)
        self._sent = "updated"
        url = text_at(self._github.patch(path, {"body": self._text}), "html_url")
        return Posted(kind="updated", url=url, message=f"The comment was updated.{note}", overwrites=self._overwrites)

    def _checked(self, posted: Posted) -> Posted:
        """A comment that was just made, unless another run has made one since our look."""
        if posted.kind != "created":
            return posted
        try:
            ours = self._look().ours
        except GitHubError as error:
            return replace(posted, message=f"{posted.message} Whether it is the only one could not be read: {error}")
        if len(ours) < 2:
            return posted
        kept = _newest(ours)
        note = self._point_to(kept, ours)
        if (kept.marked.run.run_id, kept.marked.run.attempt) > (self._run.run_id, self._run.attempt):
            message = f"A newer run ({kept.marked.run.run_id}) has commented at the same moment.{note}"
            return Posted(kind="superseded", url=kept.url, message=message)
        return replace(posted, url=kept.url, message=posted.message + note)

    def _point_to(self, kept: _Ours, ours: list[_Ours]) -> str:
        """Makes links of the other comments; says so."""
        others = [one for one in ours if one.id != kept.id]
        try:
            for one in others:
                path = self._github.repo("issues", "comments", one.id)
                self._github.patch(path, {"body": pointer(kept.url)})
        except GitHubError as error:
            return f" There are {len(ours)} of them, and an older one could not be changed: {error}"
        return f" There were {len(ours)} of them: all others are links to it now." if others else ""

    def _new(self, look: _Look) -> Posted:
        if not self._create:
            return Posted(kind="skipped", message=f"No comment, as comment: {self._mode} asks.")
        note = ""
        if look.strangers:
            names = ", ".join(look.strangers)
            note = f" {names} has posted one of these before; if that was this token, name it as its author."
        self._sent = "created"
        answer = self._github.post(self._list, {"body": self._text})
        self._viewer = text_at(answer, "user", "login") or self._viewer  # Who we are needn't be asked.
        return Posted(kind="created", url=text_at(answer, "html_url"), message=f"The comment was created.{note}")

    def _look(self) -> _Look:
        found = []
        for comment in self._github.paginate(self._list):
            body, number, url = comment.get("body"), comment.get("id"), comment.get("html_url")
            known = read_marker(body) if isinstance(body, str) else None
            if known is not None and known.key == self._key and isinstance(number, int) and isinstance(url, str):
                found.append((comment, _Ours(id=number, url=url, marked=known)))
        ours, strangers = [], []
        for comment, one in sorted(found, key=lambda pair: pair[1].id):
            if self._is_by_us(comment):
                ours.append(one)
            elif text_at(comment, "user", "type") == "Bot":
                strangers.append(text_at(comment, "user", "login") or "")
        return _Look(ours=ours, strangers=sorted(set(strangers)))

    def _is_by_us(self, comment: Mapping[str, Any]) -> bool:
        """Anyone can write our marker; an edit of theirs would put our words into their mouth, or theirs into ours."""
        login = text_at(comment, "user", "login")
        return login is not None and login.casefold() in {ACTIONS_LOGIN, self._login().casefold()}

    def _login(self) -> str:
        if self._viewer is None:
            try:
                self._viewer = text_at(self._github.get("/user"), "login") or ACTIONS_LOGIN
            except GitHubError as error:
                # The token of an installation is nobody, and may not ask who it is.
                if error.kind not in ("forbidden", "not-found"):
                    raise
                self._viewer = ACTIONS_LOGIN
        return self._viewer


def _newest(ours: list[_Ours]) -> _Ours:
    """The comment of the newest run; of several, the one that was made last."""
    return max(ours, key=lambda one: (one.marked.run.run_id, one.marked.run.attempt, one.id))
