"""Decides what a run does, by its event. Pure.

The first matching rule applies:

1. `pull_request_target` of a fork is refused unless allowed explicitly. The job holds secrets and a token with write
   access, and either checkout is wrong: the default one would gate the base branch and report the result for the pull
   request, and the pull request's own one would run untrusted code next to the secrets.
2. `mode: gate` gates without comparing, recording or publishing.
3. `mode: publish`: `workflow_run` publishes the results of the finished run; every other event is refused.
4. `mode: auto`: pull requests and merge groups are compared with their base branch; a run on the default branch (or one
   of `base_branches`) records a baseline; `workflow_run` after a pull request's run publishes; all other events are
   gated only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from agent_eval.forge import Activity, Event, Mode, PullRequest
from agent_eval.github.events import GitHubEvent, at, branch_of, pull_request_at, sha_at, text_at
from agent_eval_scoring.core.problem import docs_page

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
"""Events whose runs get a read-only token and no secrets if Dependabot is their actor (docs.github.com,
"Troubleshooting Dependabot on GitHub Actions")."""


def activity(
    event: Event, *, mode: Mode, allow_unsafe_pull_request_target: bool = False, base_branches: Sequence[str] = ()
) -> Activity:
    """Decides what to do for an event, by the rules above.

    Args:
        event: The event that started the run.
        mode: The input of the same name.
        allow_unsafe_pull_request_target: Run on a fork's pull request although secrets are available.
        base_branches: Names or globs (`release/*`) of further branches that record baselines.
    """
    assert isinstance(event, GitHubEvent)
    about = _activity(event, mode, allow_unsafe_pull_request_target, base_branches)
    return replace(about, finished_run=_finished_run(event), started_by_label=_started_by_label(event))


def _activity(
    event: GitHubEvent, mode: Mode, allow_unsafe_pull_request_target: bool, base_branches: Sequence[str]
) -> Activity:
    in_payload = pull_request_at(event.payload, "pull_request")
    pull_request = in_payload if event.name in {"pull_request", "pull_request_target"} else None
    if event.name == "pull_request_target" and not allow_unsafe_pull_request_target:
        refusal = _unsafe(pull_request)
        if refusal is not None:
            return Activity(kind="refuse", pull_request=pull_request, explanation=refusal)
    if mode == "publish":
        return _publish(event)
    withheld = _secrets_withheld(event, in_payload)
    if mode == "gate":
        explanation = "With mode: gate nothing is compared, recorded or posted."
        return Activity(
            kind="gate",
            pull_request=pull_request,
            commit=_commit(event),
            secrets_withheld=withheld,
            explanation=explanation,
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
                f"The finished run was started by {before}, not by a pull request: gated only, nothing to publish."
            )
            return Activity(kind="gate", commit=event.sha, explanation=explanation)
        case "":
            return Activity(kind="gate", explanation="This is not a GitHub Actions run: gated only.")
        case other:
            explanation = f"The event {other} has no base branch to compare with and records no baseline: gated only."
            return Activity(kind="gate", commit=event.sha, secrets_withheld=withheld, explanation=explanation)


def _unsafe(pull_request: PullRequest | None) -> str | None:
    if pull_request is not None and not pull_request.is_fork:
        return None
    subject = "a fork's pull request" if pull_request else "a pull request that may come from a fork"
    return (
        f"pull_request_target on {subject} is refused: the job holds secrets, and the pull request's code would run "
        "next to them. Use pull_request, and mode: publish in a workflow_run job to comment "
        f"({docs_page('forks')}); or set "
        "allow-pull-request-target if only trusted people can start this workflow."
    )


def _secrets_withheld(event: GitHubEvent, pull_request: PullRequest | None) -> bool:
    """Applies GitHub's rules: for events of a fork's pull request, and of Dependabot (_FROM_DEPENDABOT)."""
    if pull_request is not None and pull_request.is_fork:
        return event.name != "pull_request_target"
    return event.actor == _DEPENDABOT and event.name in _FROM_DEPENDABOT


def _commit(event: GitHubEvent) -> str | None:
    """Returns the tested commit; for `pull_request_target` GITHUB_SHA is a commit of the base branch, so None."""
    return None if event.name == "pull_request_target" else event.sha


def _compare(event: GitHubEvent, pull_request: PullRequest | None, withheld: bool) -> Activity:
    if pull_request is None:
        explanation = f"The event {event.name} has no pull request in its payload: gated without a comparison."
        return Activity(kind="gate", commit=_commit(event), secrets_withheld=withheld, explanation=explanation)
    origin = " from a fork" if pull_request.is_fork else " by Dependabot" if withheld else ""
    note = "; secrets are withheld" if withheld else ""
    return Activity(
        kind="compare",
        pull_request=pull_request,
        base_ref=pull_request.base_ref,
        commit=_commit(event),
        base_commit=pull_request.base_sha,
        secrets_withheld=withheld,
        explanation=f"Pull request {pull_request.number}{origin} is compared with {pull_request.base_ref}{note}.",
    )


def _merge_group(event: GitHubEvent) -> Activity:
    base_ref = branch_of(text_at(event.payload, "merge_group", "base_ref"))
    if base_ref is None:
        explanation = "The event merge_group has no base branch in its payload: gated without a comparison."
        return Activity(kind="gate", commit=event.sha, explanation=explanation)
    return Activity(
        kind="compare",
        base_ref=base_ref,
        commit=sha_at(event.payload, "merge_group", "head_sha") or event.sha,
        base_commit=sha_at(event.payload, "merge_group", "base_sha"),
        explanation=f"The merge group is compared with {base_ref}; it has no pull request to comment on.",
    )


def _is_base(event: GitHubEvent, branch: str, base_branches: Sequence[str]) -> bool:
    return branch == event.default_branch or any(fnmatchcase(branch, pattern) for pattern in base_branches)


def _push(event: GitHubEvent, base_branches: Sequence[str], withheld: bool) -> Activity:
    branch = branch_of(event.ref)
    if at(event.payload, "deleted") is True:
        return Activity(kind="gate", secrets_withheld=withheld, explanation="The push deleted its branch: gated only.")
    if branch is None:
        explanation = "A push of a tag records no baseline: gated only."
        return Activity(kind="gate", commit=event.sha, secrets_withheld=withheld, explanation=explanation)
    if _is_base(event, branch, base_branches):
        explanation = f"A push to {branch}: records the baseline for pull requests into it."
        return Activity(
            kind="record", base_ref=branch, commit=event.sha, secrets_withheld=withheld, explanation=explanation
        )
    default = event.default_branch or "the default branch, which the event does not name"
    explanation = f"A push to {branch}, which is not {default}: gated only, records no baseline."
    return Activity(kind="gate", commit=event.sha, secrets_withheld=withheld, explanation=explanation)


def _on_branch(event: GitHubEvent, base_branches: Sequence[str]) -> Activity:
    branch = branch_of(event.ref)
    # GitHub starts schedules on the default branch only.
    if branch is not None and (event.name == "schedule" or _is_base(event, branch, base_branches)):
        explanation = f"A {event.name} run on {branch}: records the baseline for pull requests into it."
        return Activity(kind="record", base_ref=branch, commit=event.sha, explanation=explanation)
    where = branch or event.ref or "no branch"
    explanation = f"A {event.name} run on {where}, which is not the default branch: gated only, records no baseline."
    return Activity(kind="gate", commit=event.sha, explanation=explanation)


def _publish(event: GitHubEvent) -> Activity:
    if event.name != "workflow_run":
        explanation = (
            f"mode: publish posts the results of a finished run and needs a workflow_run job; this event is "
            f"{event.name or 'missing'}. Put the step into a workflow of its own that begins with `on: workflow_run` "
            f"({docs_page('forks')}), or remove `mode: publish` to run the cases here."
        )
        return Activity(kind="refuse", explanation=explanation)
    before = text_at(event.payload, "workflow_run", "event")
    if before != "pull_request":
        explanation = (
            f"Nothing to publish: the finished run was started by {before or 'an unknown event'}, not by a "
            "pull request. Add `if: github.event.workflow_run.event == 'pull_request'` to the job."
        )
        return Activity(kind="refuse", explanation=explanation)
    explanation = "Checks and posts the results of a finished run of a pull request; runs none of its code."
    return Activity(kind="publish", commit=sha_at(event.payload, "workflow_run", "head_sha"), explanation=explanation)


def _finished_run(event: GitHubEvent) -> int | None:
    run_id = at(event.payload, "workflow_run", "id") if event.name == "workflow_run" else None
    return run_id if isinstance(run_id, int) and not isinstance(run_id, bool) else None


def _started_by_label(event: GitHubEvent) -> bool:
    if text_at(event.payload, "action") != "labeled":
        return False
    from agent_eval_results import ACCEPT_RULES  # It brings pydantic, without which most runs start their agent.

    return (text_at(event.payload, "label", "name") or "").casefold() == ACCEPT_RULES.casefold()
