"""From an event to what is done about it. Pure, so that every event has a row in a table of tests.

Rules, the first that fits:

1. `pull_request_target` of a fork is refused unless it was allowed by name: the job holds the secrets and a token that
   writes, and whatever its checkout is, it is wrong. The default checkout would gate the base and report it as the pull
   request; the pull request's own would run a stranger's code beside the secrets.
2. `mode: gate`: the gate, with nothing compared, recorded or published.
3. `mode: publish`: `workflow_run` publishes what the finished run found; every other event is refused.
4. `mode: auto`: pull requests and merge groups are compared with their base; a run on the default branch (or one of
   `base_branches`) records a baseline; `workflow_run` after a pull request's run publishes; all else is gated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from agent_eval.github.events import Event, PullRequest, at, branch_of, pull_request_at, sha_at, text_at

Kind = Literal["compare", "record", "publish", "gate", "refuse"]
Mode = Literal["auto", "gate", "publish"]
_DEPENDABOT = "dependabot[bot]"
_FROM_DEPENDABOT = frozenset(
    {
        "pull_request",
        "pull_request_review",
        "pull_request_review_comment",
        "push",
        "create",
        "deployment",
        "deployment_status",
    }
)
"""Events whose runs get a reading token and no secrets when Dependabot is their actor (docs.github.com,
"Troubleshooting Dependabot on GitHub Actions")."""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What this run does."""

    kind: Kind
    """`compare`: gate, and tell what changed against the base. `record`: gate, and what comes out may serve as a base.
    `publish`: run nothing, post what another run found. `gate`: gate only. `refuse`: end with exit code 2."""
    pull_request: PullRequest | None = None
    """Not verified beyond the payload; for `publish` it is None (see binding.py)."""
    base_ref: str | None = None
    """The branch to compare with, without `refs/heads/`; for `record`, the branch that the results stand for."""
    commit: str | None = None
    """What the event is about. For `pull_request` GitHub's merge with the base; the workflow may have checked out the
    head instead, which only git knows. None if the event doesn't say."""
    base_commit: str | None = None
    """What the commit lies on top of: exact for `merge_group`. For pull requests the base's tip when the event was
    made; the first parent of the merge that was tested tells better."""
    secrets_withheld: bool = False
    """GitHub gives this run no secrets and a token that only reads (a fork's pull request, Dependabot). A private
    repository can be set to give them all the same: a key that is there counts."""
    explanation: str
    """One plain sentence for the log: what is done, and why."""


def activity(
    event: Event,
    *,
    mode: Mode,
    allow_unsafe_pull_request_target: bool = False,
    base_branches: Sequence[str] = (),
) -> Activity:
    """What to do about an event; see the rules above.

    Args:
        event: What started the run.
        mode: The input of the same name.
        allow_unsafe_pull_request_target: Run on a fork's pull request although secrets are at hand.
        base_branches: Names or globs (`release/*`) of branches besides the default one that record baselines.
    """
    told = pull_request_at(event.payload, "pull_request")
    pull_request = told if event.name in {"pull_request", "pull_request_target"} else None
    if event.name == "pull_request_target" and not allow_unsafe_pull_request_target:
        refusal = _unsafe(pull_request)
        if refusal is not None:
            return Activity(kind="refuse", pull_request=pull_request, explanation=refusal)
    if mode == "publish":
        return _publish(event)
    withheld = _secrets_withheld(event, told)
    if mode == "gate":
        about = _commit(event)
        explanation = "The gate runs alone, as mode: gate asks: nothing is compared, recorded or posted."
        return Activity(
            kind="gate", pull_request=pull_request, commit=about, secrets_withheld=withheld, explanation=explanation
        )
    match event.name:
        case "pull_request" | "pull_request_target":
            return _compare(event, pull_request, withheld)
        case "merge_group":
            return _merge_group(event)
        case "push":
            return _push(event, base_branches, withheld)
        case "schedule" | "workflow_dispatch":
            return _on_branch(event, base_branches)
        case "workflow_run" if text_at(event.payload, "workflow_run", "event") == "pull_request":
            return _publish(event)
        case "workflow_run":
            before = text_at(event.payload, "workflow_run", "event") or "an unknown event"
            explanation = (
                f"The run that ended was started by {before}, not by a pull request: gated, nothing to publish."
            )
            return Activity(kind="gate", commit=event.sha, explanation=explanation)
        case "":
            return Activity(kind="gate", explanation="This is no run of GitHub Actions: gated, and that is all.")
        case other:
            explanation = (
                f"The event {other} has no base to compare with and records no baseline: gated, and that is all."
            )
            return Activity(kind="gate", commit=event.sha, secrets_withheld=withheld, explanation=explanation)


def _unsafe(pull_request: PullRequest | None) -> str | None:
    if pull_request is not None and not pull_request.is_fork:
        return None
    whose = (
        "a fork's pull request"
        if pull_request
        else "a pull request of which the event does not say whether it is a fork's"
    )
    return (
        f"pull_request_target on {whose} is refused: the job holds secrets, and the pull request's code would run "
        "beside them. Use pull_request, and mode: publish in a workflow_run job to comment (docs/recipes.md); or set "
        "allow-pull-request-target if only trusted people can start this workflow."
    )


def _secrets_withheld(event: Event, pull_request: PullRequest | None) -> bool:
    """As GitHub does: for what a fork's pull request starts, and for what Dependabot starts (_FROM_DEPENDABOT)."""
    if pull_request is not None and pull_request.is_fork:
        return event.name != "pull_request_target"
    return event.actor == _DEPENDABOT and event.name in _FROM_DEPENDABOT


def _commit(event: Event) -> str | None:
    """`pull_request_target` has the base's commit in GITHUB_SHA, which isn't what is tested."""
    return None if event.name == "pull_request_target" else event.sha


def _compare(event: Event, pull_request: PullRequest | None, withheld: bool) -> Activity:
    if pull_request is None:
        explanation = f"The event {event.name} comes without a pull request in its payload: gated without a comparison."
        return Activity(kind="gate", commit=_commit(event), secrets_withheld=withheld, explanation=explanation)
    whose = ""
    if pull_request.is_fork:
        whose = " from a fork"
    elif withheld:
        whose = " by Dependabot"
    note = "; secrets are withheld" if withheld else ""
    return Activity(
        kind="compare",
        pull_request=pull_request,
        base_ref=pull_request.base_ref,
        commit=_commit(event),
        base_commit=pull_request.base_sha,
        secrets_withheld=withheld,
        explanation=f"Pull request {pull_request.number}{whose} is compared with {pull_request.base_ref}{note}.",
    )


def _merge_group(event: Event) -> Activity:
    base_ref = branch_of(text_at(event.payload, "merge_group", "base_ref"))
    if base_ref is None:
        explanation = "The event merge_group comes without a base in its payload: gated without a comparison."
        return Activity(kind="gate", commit=event.sha, explanation=explanation)
    return Activity(
        kind="compare",
        base_ref=base_ref,
        commit=sha_at(event.payload, "merge_group", "head_sha") or event.sha,
        base_commit=sha_at(event.payload, "merge_group", "base_sha"),
        explanation=f"The merge group is compared with {base_ref}; it has no pull request to comment on.",
    )


def _is_base(event: Event, branch: str, base_branches: Sequence[str]) -> bool:
    return branch == event.default_branch or any(fnmatchcase(branch, pattern) for pattern in base_branches)


def _push(event: Event, base_branches: Sequence[str], withheld: bool) -> Activity:
    branch = branch_of(event.ref)
    if at(event.payload, "deleted") is True:
        return Activity(kind="gate", secrets_withheld=withheld, explanation="The push deleted its branch: gated only.")
    if branch is None:
        explanation = "A push of a tag records no baseline: gated, and that is all."
        return Activity(kind="gate", commit=event.sha, secrets_withheld=withheld, explanation=explanation)
    if _is_base(event, branch, base_branches):
        explanation = f"A push to {branch}: its results are what pull requests into it are compared with."
        return Activity(
            kind="record", base_ref=branch, commit=event.sha, secrets_withheld=withheld, explanation=explanation
        )
    default = event.default_branch or "the default branch (which the event does not name)"
    explanation = f"A push to {branch}, which is not {default}: gated, no baseline is recorded."
    return Activity(kind="gate", commit=event.sha, secrets_withheld=withheld, explanation=explanation)


def _on_branch(event: Event, base_branches: Sequence[str]) -> Activity:
    branch = branch_of(event.ref)
    # GitHub starts schedules on the default branch only.
    if branch is not None and (event.name == "schedule" or _is_base(event, branch, base_branches)):
        explanation = f"A {event.name} run on {branch}: its results are what pull requests into it are compared with."
        return Activity(kind="record", base_ref=branch, commit=event.sha, explanation=explanation)
    where = branch or event.ref or "no branch"
    explanation = f"A {event.name} run on {where}, which is not the default branch: gated, no baseline is recorded."
    return Activity(kind="gate", commit=event.sha, explanation=explanation)


def _publish(event: Event) -> Activity:
    if event.name != "workflow_run":
        explanation = (
            f"mode: publish posts what a finished run found, so it belongs into a workflow_run job; this event is "
            f"{event.name or 'none at all'}. See docs/recipes.md for the two workflows."
        )
        return Activity(kind="refuse", explanation=explanation)
    before = text_at(event.payload, "workflow_run", "event")
    if before != "pull_request":
        explanation = (
            f"There is nothing to publish: the run that ended was started by {before or 'an unknown event'}, not by a "
            "pull request. Add `if: github.event.workflow_run.event == 'pull_request'` to the job."
        )
        return Activity(kind="refuse", explanation=explanation)
    explanation = "The results of a finished pull request's run are checked and posted; nothing of it is run."
    return Activity(kind="publish", commit=sha_at(event.payload, "workflow_run", "head_sha"), explanation=explanation)
