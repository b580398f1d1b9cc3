"""Client for GitLab's REST API: its limits, its errors, and the notes of merge requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from agent_eval.forge.comments import Note
from agent_eval.forge.rest import RestClient, Wait
from agent_eval.gitlab.events import GitLabEvent
from agent_eval_scoring.net.retry import seconds_asked

_LIMIT_WAIT = 60.0
"""Seconds: GitLab counts requests by the minute (docs.gitlab.com, "Rate limits")."""
_TOKEN = "a project access token with the role Reporter and the scope `api`"  # noqa: S105
_BOT = re.compile(r"(?:project|group)_[0-9]+_bot(?:_[0-9a-f]+)?")
"""Names of the users of project and group access tokens."""
_QUICK_ACTION = re.compile(r"^(\s*)(?=/)", re.MULTILINE)
"""GitLab does what a line like `/merge` says, with the rights of the token."""
_REFERENCE = re.compile(r"(?:!|&#38;|(?<![\w/%.-])%)(?=[0-9])")
"""`!12`, `&12` and `%12`, with which GitLab mentions this merge request in others. `@`, `#` and `~` are escaped."""
_NOTHING = "\u200b"


class GitLabClient(RestClient):
    """Client for one project, for the duration of one job."""

    service = "GitLab"
    headers: ClassVar[Mapping[str, str]] = {"Accept": "application/json"}
    outages = "https://status.gitlab.com"
    token_hint = f"GITLAB_TOKEN is wrong, has expired or was revoked. Set it to {_TOKEN}."
    reads_runs: ClassVar[str] = f"Set GITLAB_TOKEN to {_TOKEN}."
    queue_branches: ClassVar[str] = ""
    url_hint = "Check CI_API_V4_URL: it should be https://HOST/api/v4."
    longest: ClassVar[int] = 1_000_000
    """Maximum characters of a note (docs.gitlab.com, "Notes API")."""
    to_comment: ClassVar[str] = ""

    def __init__(self, event: GitLabEvent, *, token: str, log: Callable[[str], None], **more: Any) -> None:
        """Creates the client of the project of an event; see `RestClient`. Nothing is sent."""
        super().__init__(api_url=event.api_url, repository=event.repository or "", token=token, log=log, **more)
        self._event = event
        self.no_token = (
            "The pipeline of a fork has no token of this project: a member can run a pipeline in this project."
            if event.in_fork
            else f"Add the CI/CD variable `GITLAB_TOKEN`, masked and not protected: {_TOKEN}."
        )

    def api(self, *parts: str | int) -> str:
        """Returns a path below the project, whose parts need no escaping."""
        return "/".join(["", "projects", *map(str, (self._event.project, *parts))])

    def notes(self, number: int) -> Iterator[Note]:
        """Yields the notes of a merge request that people and programs have written."""
        for item in self.paginate(self._notes(number), {"activity_filter": "only_comments"}):
            if (note := self._note(number, item)) is not None:
                yield note

    def create_note(self, number: int, body: str) -> Note | None:
        """Creates a note; None if the response does not show it."""
        return self._note(number, self.post(self._notes(number), {"body": body}))

    def rewrite_note(self, number: int, note: Note, body: str) -> str | None:
        """Replaces the text of a note, and returns its URL."""
        self.change("PUT", f"{self._notes(number)}/{note.id}", {"body": body})
        return note.url

    def own_logins(self, known: str | None) -> set[str]:
        """The username of the token's user in lower case; `known` saves a request."""
        user = {"username": known} if known is not None else self.get("/user")
        name = user.get("username") if isinstance(user, dict) else None
        return {name.casefold()} if isinstance(name, str) else set()

    def prepared(self, body: str) -> str:
        """A text without quick actions and references."""
        return _REFERENCE.sub(rf"\g<0>{_NOTHING}", _QUICK_ACTION.sub(rf"\1{_NOTHING}", body))

    def _notes(self, number: int) -> str:
        return self.api("merge_requests", number, "notes")

    def _note(self, number: int, item: Any) -> Note | None:
        item = item if isinstance(item, dict) else {}
        note_id, body, author = item.get("id"), item.get("body"), item.get("author")
        login = author.get("username") if isinstance(author, dict) else None
        if not isinstance(note_id, int) or not isinstance(body, str) or not isinstance(login, str):
            return None
        page = f"{self._event.server_url}/{self.repository}/-/merge_requests/{number}"
        return Note(id=note_id, body=body, url=f"{page}#note_{note_id}", login=login, is_bot=is_bot(login))

    def rate_limit(self, status: int, headers: Mapping[str, str], message: str, *, now: float) -> Wait | None:
        """The wait of a 429: GitLab says it in `Retry-After`."""
        if status != 429:
            return None
        asked = seconds_asked(headers, now=now)
        return Wait(seconds=_LIMIT_WAIT if asked is None else max(1.0, asked), is_exact=asked is not None)

    def permission_hint(self, message: str, headers: Mapping[str, str]) -> str:
        """What a token lacks that is refused with 403."""
        return self.reads_runs

    def message_of(self, body: Mapping[str, object]) -> str:
        """The message of an error, e.g. of `{"error": "insufficient_scope"}` or `{"message": {"note": ["is ..."]}}`."""
        raw = body.get("message") or body.get("error_description") or body.get("error") or ""
        return super().message_of({"message": raw if isinstance(raw, str) else json.dumps(raw)})


def is_bot(username: str) -> bool:
    """Whether the user is that of a project's or group's token."""
    return _BOT.fullmatch(username) is not None
