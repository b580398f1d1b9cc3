"""Finds the commit to compare with.

It is what the tested state lies on top of, which only the checkout knows: an event tells the base branch's tip at the
time when it was made, and the branch may have moved since.
"""

from __future__ import annotations

import difflib
from dataclasses import replace

from agent_eval.baseline.git import Git, GitError, short
from agent_eval.baseline.lookup import FetchFailed
from agent_eval.baseline.request import BaselineRequest
from agent_eval.core.text import harmless
from agent_eval.github import Activity, Event, GitHub, GitHubError, runs

_BRANCHES = ("main", "master")
"""Where to look for the base outside of GitHub when the clone doesn't say which branch is the default one."""
_DEPTH = "Check out with `fetch-depth: 0`, or let this step have the token (`github-token`)."


class _Unknown(Exception):
    """The commit can't be told."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.failure = FetchFailed(message=message, hint=hint)


def find_request(
    event: Event,
    activity: Activity,
    *,
    git: Git | GitError,
    github: GitHub | None,
    artifact: str,
    base_ref: str | None = None,
) -> BaselineRequest | FetchFailed:
    """The commit whose results are request.

    - A pull request whose merge commit was checked out: that commit's first parent.
    - A pull request whose own head was checked out: its merge base with the base branch.
    - A merge group: what the event says; GitHub makes the group's commit itself.
    - A run that records: the tested commit itself, whose earlier runs it goes on from.
    - Anything else: the merge base with `base_ref`, or with the default branch.

    Args:
        event: What started the run.
        activity: What it does.
        git: The checkout, or why there is none.
        github: The repository on GitHub; None without a token.
        artifact: The setting `artifact-name`.
        base_ref: The setting `base-ref`, for where no pull request says it.

    Returns:
        `FetchFailed` if nobody can tell: a wrong commit would give wrong deltas.
    """
    try:
        branch, commit, how = _find(event, activity, git, github, base_ref)
    except _Unknown as unknown:
        return replace(unknown.failure, by_name=base_ref is not None)
    except GitError as error:
        return FetchFailed(message=f"The commit to compare with is unknown: {error.message}", hint=error.hint)
    except GitHubError as error:
        return FetchFailed(message=f"The commit to compare with is unknown: {error.message}", hint=error.hint or None)
    return BaselineRequest(
        repository=event.repository or "",
        base_ref=branch,
        commit=commit,
        how=how,
        is_pull_request=activity.kind == "compare" or base_ref is not None,
        workflow=event.workflow_path or "",
        artifact=artifact,
        own_run=event.run_id,
    )


def _find(
    event: Event, activity: Activity, git: Git | GitError, github: GitHub | None, named: str | None
) -> tuple[str, str, str]:
    tested = _tested(activity, git)
    if activity.kind == "record":
        return activity.base_ref or "", tested, "the tested commit itself"
    if activity.kind != "compare" or activity.base_ref is None:
        return _beside(named, event, tested, git, github)
    base_ref, told = activity.base_ref, activity.base_commit
    if activity.pull_request is None:
        if told is None or (activity.commit is not None and activity.commit != tested):
            raise _Unknown(
                f"The checkout ({short(tested)}) is not the merge group's commit "
                f"({short(activity.commit or 'unknown')}), so nobody knows what it is to be compared with.",
                "Check out without a `ref` of your own.",
            )
        return base_ref, told, "what the merge group was made on top of"
    head = activity.pull_request.head_sha
    if tested == head:
        base = _merge_base(told or base_ref, head, base_ref, git, github)
        return base_ref, base, f"the merge base of the pull request's head and {harmless(base_ref)}"
    parents = _parents(tested, git, github)
    if head not in parents[1:]:
        raise _Unknown(
            f"The checkout ({short(tested)}) is neither the pull request's head ({short(head)}) nor its merge with "
            f"{harmless(base_ref)}, so nobody knows what it is to be compared with.",
            "Check out without a `ref` of your own, on the event pull_request.",
        )
    return base_ref, parents[0], "the first parent of the merge commit that was tested"


def _tested(activity: Activity, git: Git | GitError) -> str:
    if isinstance(git, Git):
        if (found := git.commit("HEAD")) is None:
            raise _Unknown("The checkout has no commit.")
        return found
    if activity.commit is None:
        raise _Unknown(f"Nobody knows which commit is tested: {git.message}", git.hint)
    return activity.commit


def _parents(sha: str, git: Git | GitError, github: GitHub | None) -> tuple[str, ...]:
    if isinstance(git, Git):
        return git.parents(sha)
    if github is None:
        raise _Unknown(f"Nobody knows what {short(sha)} lies on top of: {git.message}", git.hint)
    return runs.commit_parents(github, sha)


def _merge_base(base: str, head: str, base_ref: str, git: Git | GitError, github: GitHub | None) -> str:
    """By git where all of history is here, else by GitHub."""
    between = f"{harmless(base_ref)} and {short(head)}"
    local = None if isinstance(git, GitError) or git.is_shallow() else git.commit(base)
    if isinstance(git, Git) and local is not None and git.commit(head) is not None:
        found = git.merge_base(local, head)
    elif github is not None:
        try:
            found = runs.merge_base(github, base, head)
        except GitHubError as error:
            if error.kind != "not-found":
                raise
            found = None
    else:
        raise _Unknown(
            f"The merge base of {between} can't be found, since this clone does not hold all history.", _DEPTH
        )
    if found is None:
        raise _Unknown(f"There is no commit that {between} have in common, so there is nothing to compare with.")
    return found


def _beside(
    named: str | None, event: Event, tested: str, git: Git | GitError, github: GitHub | None
) -> tuple[str, str, str]:
    names = [name for name in (named or event.default_branch,) if name] or list(_BRANCHES)
    for name in names:
        tips = [f"refs/remotes/origin/{name}", f"refs/heads/{name}"] + [name] * (name == named)
        tip = next((tip for tip in tips if isinstance(git, Git) and git.commit(tip) is not None), None)
        if tip is None and (github is None or event.default_branch is None):
            continue
        base = _merge_base(tip or name, tested, name, git, github)
        return name, base, f"the merge base with {harmless(name)}"
    listed = " or ".join(harmless(name) for name in names)
    first = _meant(named, git) if named else "Name one with `base-ref`."
    raise _Unknown(
        f"There is no branch {listed} to compare with in this clone.",
        f"{first} In CI, check out with `fetch-depth: 0`.",
    )


def _meant(name: str, git: Git | GitError) -> str:
    """The branches and tags of the clone that a name may stand for."""
    if isinstance(git, GitError):
        return "Is it spelt right?"
    near = difflib.get_close_matches(name, git.refs(), n=3)
    return f"Did you mean {' or '.join(harmless(ref) for ref in near)}?" if near else "Is it spelt right?"
