"""The forge: the host of the repository, of its pull requests and of its CI runs, as the gate uses it.

`agent_eval.github` and `agent_eval.gitlab` are two. Another one is another package with a `Host`, and a line in
`pipeline/ci_context.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_eval.forge.event import Activity, Event, EventError, Host, Kind, Mode, same_repository
from agent_eval.forge.protocol import (
    DEFAULT_KEY,
    TO_LINK,
    Acceptance,
    Bound,
    Claim,
    Comment,
    CommentMode,
    ErrorKind,
    Forge,
    ForgeError,
    Posted,
    PostKind,
    PullRequest,
    RunStamp,
    Unbound,
)

if TYPE_CHECKING:
    from agent_eval.forge.models import ApiModel, Artifact, Repository, WorkflowRun
else:

    def __getattr__(name: str) -> Any:
        """The models: the gate starts its agent without pydantic."""
        if name in ("ApiModel", "Artifact", "Repository", "WorkflowRun"):
            from agent_eval.forge import models

            return getattr(models, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
