"""A push that the merge queue has tested: its record is the queue's run of the same files, and nothing runs again.

Facts: `taken_from`. Only runs that are equal in all that answers and scores depend on are taken over, and only all of
them: else everything runs, and a notice says why.

A merge queue tests what it then pushes to the branch, so a run of that push would measure the same once more. GitHub
pushes the tested commit itself, or one with the same tree if it squashes. The run must be one that GitHub has started
for the queue (`merge_group`), of the same workflow file, with exactly the pushed tree. A pull request can't forge it: a
run of its own has another event, and what the queue has run with a workflow of its choice counts only once these very
files, with that workflow, are on the branch, where it could record what it likes anyway. A run of a pull request never
counts, although it may have tested the same files: its author chooses the workflow before anybody has agreed to it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_eval.baseline import archive
from agent_eval.baseline.git import Git, GitError
from agent_eval.baseline.lookup import BaselineRequest
from agent_eval.baseline.reader import incomplete, read_report
from agent_eval.forge import Artifact, Forge, ForgeError, WorkflowRun, same_repository
from agent_eval.pipeline.features import Feature, Run, with_results_of
from agent_eval_results import Origin, RunReport
from agent_eval_scoring.core.text import harmless

if TYPE_CHECKING:
    from agent_eval.gate.policy import PolicyReader
    from agent_eval.pipeline._checkout import Checkout
    from agent_eval.runner import PlannedCase
    from agent_eval.settings import Settings
    from agent_eval_results import CaseReport, MetricReport, Recording
    from agent_eval_scoring.criteria import Criterion

QUEUE_EVENT = "merge_group"
_LIMITS = archive.ArchiveLimits()
_RUNS = 30
"""Maximum number of the queue's latest runs to look at."""
_HOURS = 24
"""Maximum age of results: a revert can bring an old tree back, and a record is of the day on which it is made."""
_ATTEMPTS = 5
"""Maximum number of artifacts to open; each attempt may have uploaded one."""
_SECONDS = 20.0
"""For all requests to the forge: less than most suites take."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Queued:
    """The results of a merge queue's run."""

    report: RunReport
    url: str
    """Of the run."""
    archive: bytes
    """The zip of the artifact, within the limits."""


class MergeQueue(Feature):
    """Takes the results of the merge queue's run over, if there is one that fits."""

    _taken: Queued | None = None

    def before(self, run: Run) -> None:
        """Notes in the results of a queue what a push must have, too."""
        if run.context.ci.event.name == QUEUE_EVENT:
            run.facts["conditions"] = _conditions(run.settings, run.context.environ)

    async def cases(self, run: Run, checkout: Checkout) -> Sequence[CaseReport] | None:
        """The cases of the queue's run."""
        ci, settings = run.context.ci, run.settings
        request, forge = ci.baseline_request, ci.forge
        if ci.activity.kind != "record" or ci.event.name != "push" or request is None or forge is None:
            return None
        if not isinstance(ci.git, Git):
            return None
        # Starting the job again means: measure again. A server's state, a file of answers, tapes: not of the commit.
        again = (ci.origin.run_attempt or 1) > 1 or settings.resume
        all_here = all(choice.runs_here for choice in run.choices.by_file.values())
        if again or not forge.has_token or settings.tape_mode != "live" or not all_here:
            return None
        from agent_eval_results.report.phrases import say

        try:
            tree = ci.git.tree(ci.origin.commit)
            # In a hurry: the runs wait for it. And the branch's history, which is read meanwhile, keeps its time.
            found = await asyncio.to_thread(queued_results, forge.limited(_SECONDS), ci.origin, tree, request)
        except (ForgeError, GitError) as error:
            run.remarks.append(say("queue-unread", message=getattr(error, "message", str(error))))
            return None
        if found is None:
            return None
        cases = found if isinstance(found, str) else _cases(found, run, checkout)
        if isinstance(cases, str):
            run.remarks.append(say("queue-not-taken", message=cases))
            return None
        assert isinstance(found, Queued)
        self._taken = found
        run.context.log(f"agent-eval: The merge queue has tested these files ({found.url}): nothing runs again")
        return cases

    def after(self, report: RunReport, checkout: Checkout) -> None:
        """Adds what the queue's run has beside its cases, and where it is."""
        if self._taken is None:
            return
        from agent_eval_results.report.phrases import say

        taken = self._taken.report
        with_results_of(report, taken)
        # What it spent on comparing with the base branch is not what these runs cost.
        report.case_usage += [each for each in taken.case_usage if each.purpose not in {"agent-again", "agent-base"}]
        report.model_usage += taken.model_usage
        report.taken_from = self._taken.url
        report.notices.append(say("queue-taken", message=self._taken.url))


def queued_results(forge: Forge, origin: Origin, tree: str, request: BaselineRequest) -> Queued | str | None:
    """Looks for the merge queue's results of what was pushed.

    Args:
        forge: The repository.
        origin: Of this run, which a push has started.
        tree: The hash of the pushed commit's files.
        request: Names the branch and the artifact.

    Returns:
        The results; a clause why those that exist are not used; None if the queue has not run it.

    Raises:
        ForgeError: A request failed.
    """
    if not forge.queue_branches:
        return None
    branches = f"{forge.queue_branches}{request.base_ref}/"
    runs = forge.list_runs(workflow=origin.workflow, event=QUEUE_EVENT, limit=_RUNS)
    fit = [
        run for run in runs if _is_queues(run, origin, branches) and run.head_commit and run.head_commit.tree_id == tree
    ]
    why: str | None = None
    for run in sorted(fit, key=lambda run: run.id, reverse=True):
        artifacts = forge.list_artifacts(run.id, request.artifact)
        why = why or (None if artifacts else "it has uploaded no results")
        for artifact in artifacts[:_ATTEMPTS]:
            found = _content(forge, artifact, run, origin)
            if isinstance(found, Queued):
                return found
            why = why or found
    return why


def _is_queues(run: WorkflowRun, origin: Origin, branches: str) -> bool:
    """Whether the queue for this branch has started it. A fork's branch of such a name has another repository."""
    repository = run.head_repository.full_name if run.head_repository is not None else None
    return (
        run.event == QUEUE_EVENT
        and run.workflow_path == origin.workflow
        and same_repository(repository, origin.repository)
        and (run.head_branch or "").startswith(branches)
    )


def _content(forge: Forge, artifact: Artifact, run: WorkflowRun, origin: Origin) -> Queued | str:
    if artifact.expired or artifact.size_in_bytes > _LIMITS.archive_bytes:
        return "its results have expired or are too large"
    data = forge.download_artifact(artifact.id, max_bytes=_LIMITS.archive_bytes)
    if not artifact.is_intact(data):
        return "the digest of its results differs from the uploaded file's"
    try:
        report = read_report(archive.read_results(data, _LIMITS), "Its artifact")
    except archive.NoResults:
        return "its artifact has no results.json"
    except archive.UnsafeArchive as error:
        return f"its artifact is not safe: {error}"
    if not isinstance(report, RunReport):
        return report.message.rstrip(".")
    own = report.origin or Origin()
    said = (own.event, own.commit, own.run_id, own.workflow)
    if said != (QUEUE_EVENT, run.head_sha, run.id, origin.workflow):
        return "its results are those of another run"
    if not same_repository(own.repository, origin.repository):
        return f"its results are those of the repository {harmless(own.repository) or 'unknown'}"
    if not 0 <= time.time() - report.started_at <= _HOURS * 3600:
        return f"its results are older than {_HOURS} hours, or of a clock that differs"
    if (reason := incomplete(report)) is not None:
        return reason
    return Queued(report=report, url=run.html_url, archive=data)


def _conditions(settings: Settings, environ: Mapping[str, str]) -> str:
    """A hash of the settings that results depend on, and that neither their recordings nor their metrics name."""
    facts = (
        environ.get("PYTHONPATH"),  # Of two modules of a name the first one counts.
        settings.turn_timeout,
        settings.case_timeout,
        settings.agent_setup,
        settings.agent_env,
        settings.judge_base_url,
        settings.without_keys,
        # The old names of cases are known to the queue only, which compares. Each metric is held to its policy below.
        str(dataclasses.replace(settings.policy, renamed={})),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _cases(found: Queued, run: Run, checkout: Checkout) -> list[CaseReport] | str:
    """The cases of the queue's run, whose recordings are copied; a clause why it can't be taken over."""
    from agent_eval.gate.policy import PolicyReader
    from agent_eval_results import merge

    report, plan, rate = found.report, run.plan, run.settings.min_pass_rate
    if report.scoring_version != run.report.scoring_version or report.tool_version != run.report.tool_version:
        return f"another version of agent-eval made it ({harmless(report.tool_version)[:40]})"
    if report.conditions != _conditions(run.settings, run.context.environ):
        return "settings differ: timeouts, agent-setup, agent-env, the judge's address, keys, or the policy"
    if (report.origin.uncommitted if report.origin is not None else []) != run.context.ci.origin.uncommitted:
        return "it tested files that are not those of the commit, and others than this run"
    by_id = {case.case_id: case for case in report.cases}
    if by_id.keys() != {planned.case_id for planned in plan.cases} or report.num_runs != plan.num_runs:
        return "it has run other cases, or has run them more or less often"
    reader = PolicyReader(run.settings.policy)
    for planned in plan.cases:
        if (why := _difference(planned, by_id[planned.case_id], plan.num_runs, reader)) is not None:
            return f"{planned.case_id}: {why}"
    checkout.note_replayed(())
    lines = dict(_lines(found))
    for planned, number in plan.runs():
        stored = lines.get(planned.run_id(number))
        if stored is None or stored[1].fingerprint != planned.fingerprint + checkout.around:
            return "files, variables or packages differ that its answers depend on"
    for planned, number in plan.runs():
        line, recording = lines[planned.run_id(number)]
        checkout.run_ids.append(recording.run_id)
        checkout.journal.adopt(line, recording)
    # What a file says of a case is never believed without its runs.
    return [merge((_placed(by_id[planned.case_id], planned),), min_pass_rate=rate)[0] for planned in plan.cases]


def _placed(case: CaseReport, planned: PlannedCase) -> CaseReport:
    """A case with the names and the place that it has here: those of an artifact could lead anywhere."""
    return case.changed(
        file=planned.file, line=planned.line, eval_set_id=planned.eval_set_id, eval_id=planned.case.eval_id
    )


def _lines(found: Queued) -> Iterator[tuple[str, tuple[bytes, Recording]]]:
    """The recordings by run id, each with its line."""
    from agent_eval_results import Recording

    for line in archive.recorded_lines(archive.recordings_in(found.archive, _LIMITS)):
        try:
            recording = Recording.model_validate_json(line)
        except ValueError:
            continue  # Its run is missed below.
        yield recording.run_id, (line, recording)


def _difference(planned: PlannedCase, case: CaseReport, num_runs: int, reader: PolicyReader) -> str | None:
    """What keeps the results of a case from being those that its runs would have now, as a clause."""
    if case.fingerprint != planned.content:
        return "the case differs"
    if [run.run for run in case.runs] != list(range(num_runs)) or not all(run.is_judged for run in case.runs):
        return "not all of its runs were judged"
    metrics = {metric.name: metric for metric in case.metrics}
    if metrics.keys() != {criterion.name for criterion in planned.criteria} or len(metrics) != len(case.metrics):
        return "its criteria differ"
    here = _placed(case, planned)
    for criterion in planned.criteria:
        if not _is_measured_alike(criterion, planned, here, metrics[criterion.name], reader):
            return f"{criterion.name} is measured or judged otherwise (the base branch's rules, a key)"
    return None


def _is_measured_alike(
    criterion: Criterion, planned: PlannedCase, case: CaseReport, metric: MetricReport, reader: PolicyReader
) -> bool:
    """Whether a metric has the scores that it would have here, and the threshold, as the policy has it."""
    from agent_eval.gate.regression.rescoring import by_policy
    from agent_eval_agents.fingerprints import versioned

    identity = planned.identities.get(criterion.name)
    expected = identity.fingerprint if identity is not None else ""
    versions = {version for run in metric.runs if isinstance(version := run.details.get("version"), str)}
    measures = {expected, *(versioned(expected, version) for version in versions)}
    direction = identity.direction if identity is not None else "higher"
    here = by_policy(
        metric.changed(
            threshold=criterion.threshold,
            blocking=direction != "none",
            direction="lower" if direction == "lower" else "higher",
        ),
        case,
        reader,
    )
    alike = metric.fingerprint in measures and metric.threshold == here.threshold
    return alike and metric.blocking == here.blocking and not any(run.may_be_scored for run in metric.runs)
