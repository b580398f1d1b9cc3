"""Determines the commit to compare with.

It is the base of the tested state, which only the checkout knows: an event contains the tip of the base branch at the
time of the event, and the branch may have changed since.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from agent_eval.baseline.git import Git, GitError, short
from agent_eval.baseline.lookup import BaselineRequest, FetchFailed, forge_outage
from agent_eval.forge import Activity, Event, Forge, ForgeError
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.text import harmless

_BRANCHES = ("main", "master")
"""Branches to try outside GitHub if the default branch is unknown."""
_SPELLING = "Check the spelling."
_DEPTH = "Check out with `fetch-depth: 0`, or let this step have the token (`github-token`)."


class _Unknown(AgentEvalError):
    """The commit can't be determined."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        from agent_eval_results import SHORT_HISTORY, Reason  # The agent starts without them.

        self.failure = FetchFailed(
            message=message, hint=hint, why=Reason(code=SHORT_HISTORY) if hint == _DEPTH else None
        )


def find_request(
    event: Event,
    activity: Activity,
    *,
    git: Git | GitError,
    forge: Forge | None,
    artifact: str,
    base_ref: str | None = None,
) -> BaselineRequest | FetchFailed:
    """Determines the commit to compare with.

    - A pull request with its merge commit checked out: the first parent of that commit.
    - A pull request with its head checked out: the merge base with the base branch.
    - A merge group: the base in the event, since GitHub creates the group's commit itself.
    - A run that records a baseline: the tested commit itself, to continue its history.
    - Anything else: the merge base with `base_ref`, or with the default branch.

    Args:
        event: The event that started the run.
        activity: What the run does.
        git: The checkout, or why there is none.
        forge: The repository on its forge; None outside of one.
        artifact: The artifact's name.
        base_ref: The setting `base-ref`, for runs without a pull request.

    Returns:
        `FetchFailed` if the commit can't be determined: a wrong one would give wrong differences.
    """
    try:
        branch, commit, how = _find(event, activity, git, forge, base_ref)
        tip = "" if base_ref is None else _tip(base_ref, base_ref, git) or base_ref
    except _Unknown as unknown:
        return replace(unknown.failure, by_name=base_ref is not None)
    except GitError as error:
        return FetchFailed(message=f"The commit to compare with is unknown: {error.message}", hint=error.hint)
    except ForgeError as error:
        message = f"The commit to compare with is unknown: {error.message}"
        return FetchFailed(message=message, hint=error.hint or None, outage=forge_outage(error))
    return BaselineRequest(
        repository=event.repository or "",
        base_ref=branch,
        commit=commit,
        how=how,
        is_pull_request=activity.kind == "compare" or base_ref is not None,
        tip=tip,
        workflow=event.workflow_path or "",
        artifact=artifact,
        own_run=event.run_id,
    )


def _find(
    event: Event, activity: Activity, git: Git | GitError, forge: Forge | None, named: str | None
) -> tuple[str, str, str]:
    tested = _tested(activity, git)
    if activity.kind == "record":
        return activity.base_ref or "", tested, "the tested commit itself"
    if activity.kind != "compare" or activity.base_ref is None:
        return _with_branch(named, event, tested, git, forge)
    base_ref, event_base = activity.base_ref, activity.base_commit
    if activity.exact_base is not None and activity.commit == tested:
        return base_ref, activity.exact_base, f"the commit that the forge compares with {harmless(base_ref)}"
    if activity.pull_request is None:
        if event_base is None or (activity.commit is not None and activity.commit != tested):
            raise _Unknown(
                f"The checkout ({short(tested)}) is not the merge group's commit "
                f"({short(activity.commit or 'unknown')}), so its base is unknown.",
                "Remove `ref` from the checkout step.",
            )
        return base_ref, event_base, "the base of the merge group"
    head = activity.pull_request.head_sha
    if tested == head:
        base = _merge_base(event_base or base_ref, head, base_ref, git, forge)
        return base_ref, base, f"the merge base of the {event.change}'s head and {harmless(base_ref)}"
    parents = _parents(tested, git, forge)
    if head not in parents[1:]:
        raise _Unknown(
            f"The checkout ({short(tested)}) is neither the {event.change}'s head ({short(head)}) nor its merge with "
            f"{harmless(base_ref)}, so its base is unknown.",
            "Remove `ref` from the checkout step, and use the event pull_request.",
        )
    return base_ref, parents[0], "the first parent of the merge commit that was tested"


def _tested(activity: Activity, git: Git | GitError) -> str:
    if isinstance(git, Git):
        if (head := git.commit("HEAD")) is None:
            raise _Unknown("The checkout has no commit.", "Commit first: results belong to a commit.")
        return head
    if activity.commit is None:
        raise _Unknown(f"The tested commit is unknown: {git.message}", git.hint)
    return activity.commit


def _parents(sha: str, git: Git | GitError, forge: Forge | None) -> tuple[str, ...]:
    if isinstance(git, Git):
        return git.parents(sha)
    if forge is None:
        raise _Unknown(f"The parents of {short(sha)} are unknown: {git.message}", git.hint)
    return forge.commit_parents(sha)


def _merge_base(base: str, head: str, base_ref: str, git: Git | GitError, forge: Forge | None) -> str:
    """Uses git if the clone is complete, else the forge."""
    between = f"{harmless(base_ref)} and {short(head)}"
    local = None if isinstance(git, GitError) or git.is_shallow() else git.commit(base)
    if isinstance(git, Git) and local is not None and git.commit(head) is not None:
        base_commit = git.merge_base(local, head)
    elif forge is not None:
        try:
            base_commit = forge.merge_base(base, head)
        except ForgeError as error:
            if error.kind != "not-found":
                raise
            base_commit = None
    else:
        raise _Unknown(
            f"The merge base of {between} is unknown, since this clone does not have the full history.", _DEPTH
        )
    if base_commit is None:
        raise _Unknown(f"There is no common ancestor of {between}, so there is nothing to compare with.")
    return base_commit


def _with_branch(
    named: str | None, event: Event, tested: str, git: Git | GitError, forge: Forge | None
) -> tuple[str, str, str]:
    names = [name for name in (named or event.default_branch,) if name] or list(_BRANCHES)
    for name in names:
        tip = _tip(name, named, git)
        if tip is None and (forge is None or event.default_branch is None):
            continue
        base = _merge_base(tip or name, tested, name, git, forge)
        return name, base, f"the merge base with {harmless(name)}"
    listed = " or ".join(harmless(name) for name in names)
    first = _suggestion(named, git) if named else "Name one with `base-ref`."
    shallow = ""
    if isinstance(git, Git) and git.is_shallow():
        shallow = ": it is shallow"
        if named and first == _SPELLING and not named.startswith("-"):
            refs = shlex.quote(harmless(f"{named}:refs/remotes/origin/{named}"))
            first = f"Fetch it with `git fetch --unshallow origin {refs}`, or check the spelling."
    raise _Unknown(
        f"This clone has no branch {listed} to compare with{shallow}.",
        f"{first} In CI, check out with `fetch-depth: 0`.",
    )


def _tip(name: str, named: str | None, git: Git | GitError) -> str | None:
    """The commit of a branch; None if the clone lacks it.

    The remote's branch decides, since a local one may be old. A local branch that has commits which were not pushed
    yet is newer, and decides unless it is the branch that is tested.
    """
    if isinstance(git, GitError):
        return None
    remote, local = (git.commit(f"refs/{kind}/{name}") for kind in ("remotes/origin", "heads"))
    ahead = remote and local and local not in {remote, git.commit("HEAD")} and git.merge_base(remote, local) == remote
    first = local if ahead else remote or local
    return first or (git.commit(name) if name == named else None)


def _suggestion(name: str, git: Git | GitError) -> str:
    """Suggests branches and tags with a similar name."""
    if isinstance(git, GitError):
        return _SPELLING
    refs = git.refs()
    import difflib

    near = difflib.get_close_matches(name, refs, n=3) or [ref for ref in refs if name.endswith(f"/{ref}")]
    return f"Did you mean {' or '.join(harmless(ref) for ref in near)}?" if near else _SPELLING
