"""Results of the base branch: where they are looked for, and whether they can be compared with."""

from agent_eval.baseline.git import ORIGIN, Git, GitError, Remote, open_git, sentence
from agent_eval.baseline.lookup import Baseline, BaselineRequest, FetchFailed, Found, describe, to_report
from agent_eval.baseline.pin import find_request
