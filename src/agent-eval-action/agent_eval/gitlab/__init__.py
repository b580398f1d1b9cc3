"""GitLab: the pipeline that started a run, what the run does because of it, and the API behind `Forge`."""

from __future__ import annotations

from collections.abc import Callable

from agent_eval.forge import Event, Forge, Host
from agent_eval.gitlab.events import GitLabEvent, activity, read_event


def _connect(event: Event, token: str, log: Callable[[str], None]) -> Forge:
    from agent_eval.gitlab.forge import GitLab  # imports the client

    assert isinstance(event, GitLabEvent)
    return GitLab(event, token=token, log=log)


GITLAB = Host(read_event=read_event, activity=activity, connect=_connect, token_variable="GITLAB_TOKEN")  # noqa: S106

__all__ = ["GITLAB"]
