"""GitHub: the event that started a run, what the run does because of it, and the API behind `Forge`."""

from __future__ import annotations

from collections.abc import Callable

from agent_eval.forge import Event, Forge, Host
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent, read_event


def _connect(event: Event, token: str, log: Callable[[str], None]) -> Forge:
    from agent_eval.github.forge import GitHub  # imports the client

    assert isinstance(event, GitHubEvent)
    return GitHub(api_url=event.api_url, repository=event.repository or "", token=token, log=log)


GITHUB = Host(read_event=read_event, activity=activity, connect=_connect)

__all__ = ["GITHUB"]
