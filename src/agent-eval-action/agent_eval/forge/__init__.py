"""The forge: the host of the repository, of its pull requests and of its CI runs, as the gate uses it.

`agent_eval.github` and `agent_eval.gitlab` are two. Another one is another package with a `Host`, and a line in
`pipeline/ci_context.py`.
"""

from agent_eval.forge.event import Activity, Event, EventError, Host, Kind, Mode, same_repository
from agent_eval.forge.protocol import (
    TO_LINK,
    Acceptance,
    ApiModel,
    Artifact,
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
    Repository,
    RunStamp,
    Unbound,
    WorkflowRun,
)
