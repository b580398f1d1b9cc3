"""Results of the base branch: where they are looked for, and whether they can be compared with."""

from agent_eval.baseline._earlier_attempt import earlier_attempt
from agent_eval.baseline.adk_results import ADK_SUFFIX, read_adk_results
from agent_eval.baseline.archive import (
    ArchiveLimits,
    UnsafeArchive,
    archived_lines,
    read_recordings,
    read_results,
    unpack,
)
from agent_eval.baseline.artifact import ArtifactSource
from agent_eval.baseline.chain import Resolver, resolve
from agent_eval.baseline.compatibility import with_head
from agent_eval.baseline.file import FileSource
from agent_eval.baseline.git import ORIGIN, Git, GitError, Remote, open_git
from agent_eval.baseline.lookup import BaselineOutcome, FetchFailed, Found, describe, to_report
from agent_eval.baseline.pin import find_request
from agent_eval.baseline.reader import UnreadableError, read_file, read_report
from agent_eval.baseline.recordings import write_recordings
from agent_eval.baseline.request import BaselineRequest
from agent_eval.baseline.rerun import BaseWorktree, NotOnBase, RerunSource, agents_on_base, open_base
from agent_eval.baseline.stored import StoredResults, open_results

__all__ = [
    "ADK_SUFFIX",
    "ORIGIN",
    "ArchiveLimits",
    "ArtifactSource",
    "BaseWorktree",
    "BaselineOutcome",
    "BaselineRequest",
    "FetchFailed",
    "FileSource",
    "Found",
    "Git",
    "GitError",
    "NotOnBase",
    "Remote",
    "RerunSource",
    "Resolver",
    "StoredResults",
    "UnreadableError",
    "UnsafeArchive",
    "agents_on_base",
    "archived_lines",
    "describe",
    "earlier_attempt",
    "find_request",
    "open_base",
    "open_git",
    "open_results",
    "read_adk_results",
    "read_file",
    "read_recordings",
    "read_report",
    "read_results",
    "resolve",
    "to_report",
    "unpack",
    "with_head",
    "write_recordings",
]
