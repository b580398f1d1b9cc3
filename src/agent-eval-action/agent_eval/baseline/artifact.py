"""The source `artifact`: the baseline that a run of the base branch has uploaded.

A run is checked by its workflow's path (not name), its branch and repository (a fork may have a branch `main`), its
event, its commit, and the origin in its results. In doubt there is no baseline. The results of an earlier commit are
used only if the requested commit has none that could be used, and are reported as such.

The results of earlier runs of the same pull request can only speak against it: they make this run check more cases, or
fail (`gate.regression`). So a missing artifact is no error, and a forged one is at best as good as none. Artifacts of
forks are not read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent_eval.baseline import archive
from agent_eval.baseline.git import Git, GitError, short
from agent_eval.baseline.lookup import (
    Baseline,
    BaselineRequest,
    FetchFailed,
    Found,
    NoneYet,
    Provenance,
    forge_outage,
)
from agent_eval.baseline.reader import incomplete, read_report
from agent_eval.forge import Artifact, Forge, ForgeError, PullRequest, WorkflowRun, same_repository
from agent_eval_results import NO_ACCESS, UNREACHABLE, BaselineSource, Origin, Reason, RunReport
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.text import harmless, plural

DEPTH = 20
"""Maximum number of earlier commits to examine."""
_RECENT = 300
"""Maximum number of the branch's latest runs to examine, per event."""
_ATTEMPTS = 5
"""Maximum number of artifacts to open per run; each attempt may have uploaded one of the same name."""
_AGAIN = "Re-run the workflow on the base branch to record a baseline."


class _Refused(AgentEvalError):
    """Ends the search: an older run would hide a problem."""

    def __init__(self, baseline: Baseline) -> None:
        super().__init__(baseline.message)
        self.baseline = baseline


@dataclass(frozen=True, kw_only=True)
class _Results:
    """The usable content of an artifact."""

    report: RunReport
    recordings: archive.StoredRecordings


@dataclass(kw_only=True)
class _Notes:
    """Why the examined runs have no usable baseline."""

    passed_over: list[str]
    """Sentences, nearest commit first."""
    foreign: Counter[str]
    """Numbers of runs that only look like the base branch's, by description."""
    lost: bool = False
    """A baseline existed but has expired."""

    def summary(self) -> str:
        """Returns all notes, shortened."""
        shown = self.passed_over[:3]
        if len(self.passed_over) > len(shown):
            shown.append(f"{plural(len(self.passed_over) - len(shown), 'more run')} without a usable baseline.")
        shown += [
            f"Ignored: {plural(count, 'run')} {description}." for description, count in sorted(self.foreign.items())
        ]
        return " ".join(shown)


@dataclass(frozen=True, kw_only=True)
class ArtifactSource:
    """Reads the artifact through the forge's API."""

    forge: Forge | None
    """None outside of a forge's CI."""
    git: Git | GitError
    """The checkout, which knows first parents without requests."""
    depth: int = DEPTH
    limits: archive.ArchiveLimits = archive.ArchiveLimits()  # noqa: RUF009 - frozen

    source: ClassVar[BaselineSource] = "artifact"

    async def find(self, request: BaselineRequest) -> Baseline:
        """Looks for the newest complete results of the requested commit, else of its ancestors."""
        return await asyncio.to_thread(self._find, request)

    def _find(self, request: BaselineRequest) -> Baseline:
        if not request.workflow or not request.repository:
            return FetchFailed(
                message="Artifacts of earlier runs exist on GitHub Actions and GitLab CI only.",
                hint="Elsewhere, use `baseline: rerun`.",
            )
        if self.forge is None or not self.forge.has_token:
            hint = None if self.forge is None else self.forge.no_token
            return FetchFailed(message="Artifacts can't be read without a token.", hint=hint)
        notes = _Notes(passed_over=[], foreign=Counter())
        try:
            for distance, commit, listed in self._candidates(self.forge, request):
                for run in listed:
                    report = self._results(self.forge, run, request, notes)
                    if report is not None:
                        return _found(report, run, request, commit, distance, notes)
            # Two more requests, so only where there is no baseline and the reader wants to know why.
            notes.foreign = _foreign_runs(self.forge, request)
        except _Refused as refused:
            return refused.baseline
        except ForgeError as error:
            return _failed(error, request, self.forge)
        return self._nothing(request, notes)

    def _candidates(self, forge: Forge, request: BaselineRequest) -> Iterator[tuple[int, str, Sequence[WorkflowRun]]]:
        """Yields the requested commit and its ancestors, each with its possible runs, newest first."""
        # Asked for by its commit: however old it is, it may be far behind the latest runs.
        yield 0, request.commit, _runs_of_base(forge, request, head_sha=request.commit)
        if self.depth < 1:
            return
        by_commit: dict[str, list[WorkflowRun]] = {}
        for run in _runs_of_base(forge, request):
            by_commit.setdefault(run.head_sha, []).append(run)
        if not by_commit:
            return
        for distance, commit in enumerate(self._walk(forge, request), start=1):
            yield distance, commit, by_commit.get(commit, ())

    def _walk(self, forge: Forge, request: BaselineRequest) -> Iterator[str]:
        """Yields the ancestors along first parents; asks the forge for those that this clone lacks."""
        # First parents only: what a merge brought in was never the branch's own state.
        commits, is_complete = _local(self.git, request.commit, self.depth + 1)
        if not is_complete:
            start = commits[-1] if commits else request.commit
            try:
                count = self.depth + 2 - max(len(commits), 1)
                commits = commits[:-1] + forge.first_parents(start, limit=count)
            except ForgeError as error:
                if error.kind != "not-found":
                    raise
                message = (
                    f"{forge.service} does not know the commit {short(start)}, the tested base or one of its "
                    f"ancestors: {harmless(request.base_ref)} was rewritten."
                )
                raise _Refused(FetchFailed(message=message, hint=_AGAIN)) from None
        yield from commits[1:]

    def _results(self, forge: Forge, run: WorkflowRun, request: BaselineRequest, notes: _Notes) -> _Results | None:
        """Returns a run's results; None, with a note, if it has no usable ones.

        Raises:
            ForgeError: A request failed.
            _Refused: The results must not be used.
        """
        who = f"The {_outcome_of(run)} run of {short(run.head_sha)} ({run.html_url})"
        if run.status != "completed":
            notes.passed_over.append(f"The run of {short(run.head_sha)} ({run.html_url}) has not ended yet.")
            return None
        # Newest first: a job that was started again has one of each attempt, and the last one counts.
        artifacts = forge.list_artifacts(run.id, request.artifact)
        if not artifacts:
            notes.passed_over.append(f"{who} has no artifact {request.artifact}.")
        # An attempt that was cancelled has uploaded results, too: then those of the attempt before it count.
        for artifact in artifacts[:_ATTEMPTS]:
            report = self._content(forge, artifact, run, request, who, notes)
            if report is not None:
                return report
        return None

    def _content(
        self, forge: Forge, artifact: Artifact, run: WorkflowRun, request: BaselineRequest, who: str, notes: _Notes
    ) -> _Results | None:
        where = f"The artifact of {_lower(who)}"
        data = None if artifact.expired else self._download(forge, artifact, where)
        if data is None:
            # Not a first run: that a baseline was there and is gone has a remedy of its own.
            notes.lost = True
            notes.passed_over.append(f"{where} has expired or was deleted.")
            return None
        try:
            content = archive.read_results(data, self.limits)
        except archive.NoResults:
            notes.passed_over.append(f"{where} has no results.json.")
            return None
        except archive.UnsafeArchive as error:
            raise _Refused(FetchFailed(message=f"{where} is not used: {error}.", hint=_AGAIN)) from None
        report = read_report(content, where)
        if not isinstance(report, RunReport):
            raise _Refused(report)
        # Refused, and not passed over: it is forged, or a step of the workflow uploads somebody else's results.
        if (contradiction := _contradiction(report.origin, run, request)) is not None:
            raise _Refused(FetchFailed(message=f"{where} is not used: {contradiction}.", hint=_AGAIN))
        if (reason := incomplete(report)) is not None:
            notes.passed_over.append(f"{who} is not usable: {reason}.")
            return None
        return _Results(report=report, recordings=archive.recordings_in(data, self.limits))

    def _download(self, forge: Forge, artifact: Artifact, where: str) -> bytes | None:
        """Returns the zip; None if it no longer exists."""
        # Before the download, which would take minutes of the job.
        if artifact.size_in_bytes > self.limits.archive_bytes:
            raise _Refused(
                FetchFailed(message=f"{where} is not used: it is too large ({artifact.size_in_bytes:,} bytes).")
            )
        try:
            data = forge.download_artifact(artifact.id, max_bytes=self.limits.archive_bytes)
        except ForgeError as error:
            if error.kind == "not-found":
                return None
            message = f"{where} could not be downloaded: {error.message}"
            why = Reason(code=UNREACHABLE)
            outage = forge_outage(error)
            raise _Refused(FetchFailed(message=message, hint=error.hint or None, why=why, outage=outage)) from None
        if not artifact.is_intact(data):
            message = f"{where} is not used: its digest differs from the uploaded file's."
            raise _Refused(FetchFailed(message=message))
        return data

    def _nothing(self, request: BaselineRequest, notes: _Notes) -> Baseline:
        before = f" or the {plural(self.depth, 'commit')} before it" if self.depth else ""
        message = (
            f"No run of {harmless(request.workflow)} on {harmless(request.base_ref)} has results for "
            f"{short(request.commit)}{before}."
        )
        message = " ".join(part for part in (message, notes.summary()) if part)
        if notes.lost:
            return FetchFailed(message=message, hint=_AGAIN)
        if notes.passed_over:
            return NoneYet(message=message)
        hint = f"It exists once the workflow has run on a push to {harmless(request.base_ref)}."
        return NoneYet(message=message, hint=hint)


def _runs_of_base(forge: Forge, request: BaselineRequest, *, head_sha: str | None = None) -> list[WorkflowRun]:
    """Lists the base branch's own runs, newest first.

    GitHub lists only the latest runs, and anyone can start runs on a commit of the base branch, or on a branch of the
    same name, by a pull request from a fork. So each event is queried separately.
    """
    listed = [
        run
        for event in sorted(BASE_EVENTS)
        for run in forge.list_runs(
            workflow=request.workflow, branch=request.base_ref, event=event, head_sha=head_sha, limit=_RECENT
        )
    ]
    return sorted((run for run in listed if _foreign(run, request) is None), key=lambda run: run.id, reverse=True)


def _foreign_runs(forge: Forge, request: BaselineRequest) -> Counter[str]:
    """Counts the latest runs that only look like the base branch's, by description."""
    listed = [
        *forge.list_runs(workflow=request.workflow, head_sha=request.commit),
        *forge.list_runs(workflow=request.workflow, branch=request.base_ref),
    ]
    descriptions = (_foreign(run, request) for run in {run.id: run for run in listed}.values())
    return Counter(description for description in descriptions if description)


def _foreign(run: WorkflowRun, request: BaselineRequest) -> str | None:
    """Describes a run that is not the base branch's; None if it is, "" if it need not be reported."""
    # A run on the base branch continues a history, and must not find itself.
    if run.id == request.own_run:
        return ""
    if run.workflow_path != request.workflow:
        return f"of another workflow ({harmless(run.workflow_path)})"
    repository = run.head_repository.full_name if run.head_repository is not None else None
    if not same_repository(repository, request.repository):
        return f"of a fork's branch of the same name ({harmless(run.head_branch or '')})"
    if run.head_branch != request.base_ref:
        return f"of another branch ({harmless(run.head_branch or 'none')})"
    if run.event not in BASE_EVENTS:
        return f"on the event {harmless(run.event)}, which records no baseline"
    return None


def _contradiction(origin: Origin | None, run: WorkflowRun, request: BaselineRequest) -> str | None:
    """Returns a contradiction between the results and GitHub's data of the run that uploaded them."""
    if origin is None:
        return None
    if origin.repository and not same_repository(origin.repository, request.repository):
        return f"its results are those of the repository {harmless(origin.repository)}"
    if origin.commit and origin.commit != run.head_sha:
        return f"its results are those of another commit ({short(origin.commit)})"
    if origin.run_id is not None and origin.run_id != run.id:
        return f"its results are those of another run ({origin.run_id})"
    if origin.pull_request is not None:
        return f"its results are those of {origin.change} {origin.pull_request}"
    if origin.event and not (permission := may_record(origin, branches=[request.base_ref])).allowed:
        return f"its results are not those of the base branch ({permission.why.rstrip('.')})"
    return None


def _found(
    results: _Results, run: WorkflowRun, request: BaselineRequest, commit: str, distance: int, notes: _Notes
) -> Found:
    base = harmless(request.base_ref)
    message = f"The base branch's results come from {base} at {short(commit)}"
    # Results of an ancestor lack what was merged since: a reader has to know.
    if distance:
        message += f", {plural(distance, 'commit')} before the tested base {short(request.commit)}"
        if not notes.passed_over:
            message += ", which has no results"
    text = " ".join([f"{message}.", *notes.passed_over[:3]])
    return Found(
        report=results.report,
        recordings=results.recordings,
        provenance=Provenance(
            commit=commit, distance=distance, run_id=run.id, run_url=run.html_url, recorded_at=results.report.started_at
        ),
        message=text,
    )


def _failed(error: ForgeError, request: BaselineRequest, forge: Forge) -> FetchFailed:
    workflow = harmless(request.workflow)
    # GitHub answers 404 to a token without `actions: read`, as if a private repository had no workflow.
    why = Reason.of(NO_ACCESS, subject=forge.service)
    if error.kind == "forbidden":
        message = f"The token may not read the runs of {workflow}: {error.message}"
        return FetchFailed(message=message, hint=forge.reads_runs, why=why)
    if error.kind == "not-found":
        hint = f"It has not run yet, or the token may not read runs. {forge.reads_runs}"
        return FetchFailed(message=f"{forge.service} knows no runs of {workflow}: {error.message}", hint=hint, why=why)
    message = f"The base branch's results could not be fetched: {error.message}"
    why, outage = Reason(code=UNREACHABLE), forge_outage(error)
    return FetchFailed(message=message, hint=error.hint or None, why=why, outage=outage)


def _local(git: Git | GitError, commit: str, count: int) -> tuple[list[str], bool]:
    """Returns first parents as far as this clone has them, and whether they are complete: `count` or all history."""
    if isinstance(git, GitError):
        return [], False
    try:
        if git.commit(commit) is None:
            return [], False
        commits = git.first_parents(commit, count)
        return commits, len(commits) >= count or not git.parents(commits[-1])
    except GitError:  # The forge has them too.
        return [], False


def _outcome_of(run: WorkflowRun) -> str:
    """Describes a run's conclusion, e.g. "cancelled"."""
    return {"success": "green", "failure": "red"}.get(
        run.conclusion or "", harmless(run.conclusion or "").replace("_", " ")
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


BASE_EVENTS: frozenset[str] = frozenset({"push", "schedule", "workflow_dispatch"})
"""Events that run a branch of the repository itself, started by someone with write access or by a schedule.

Nightly runs suit evals that are too expensive for every push; a dispatch records a baseline again. `merge_group` is
missing: its commit is not on the branch yet, and may never be.
"""


@dataclass(frozen=True, kw_only=True)
class Permission:
    """Whether a run may record a baseline."""

    allowed: bool
    why: str
    """A sentence."""


def may_record(origin: Origin | None, *, branches: Collection[str]) -> Permission:
    """Decides whether a run's results may be the baseline of later runs.

    Args:
        origin: The origin of the run.
        branches: Names of the branches that record baselines, e.g. the default branch.
    """
    if origin is None or not origin.repository:
        return Permission(allowed=False, why="The tested branch is unknown, so no baseline is recorded.")
    if origin.event not in BASE_EVENTS or origin.pull_request is not None:
        event = harmless(origin.event) or "a run outside of CI"
        return Permission(
            allowed=False,
            why=f"Only a push, a schedule or a dispatch on the base branch records a baseline; this is {event}.",
        )
    branch = origin.ref.removeprefix("refs/heads/")
    if not origin.ref.startswith("refs/heads/") or branch not in branches:
        return Permission(
            allowed=False,
            why=f"Baselines are recorded on {' and '.join(sorted(branches)) or 'the base branch'} only; "
            f"this is {harmless(branch) or 'no branch'}.",
        )
    return Permission(allowed=True, why=f"A run of {branch} records the baseline for {origin.change}s to it.")


_MAX_RUNS = 5
"""Maximum number of earlier runs of the branch to examine."""
_MAX_ARTIFACTS = 2
"""Maximum number of artifacts to open per run; each attempt may have uploaded one."""
_LIMITS = archive.ArchiveLimits()


def earlier_attempts(forge: Forge, origin: Origin, pull_request: PullRequest, artifact: str) -> list[RunReport]:
    """Returns the results of earlier attempts to test the same commit; if there are none, those of the previous push.

    Args:
        forge: The repository.
        origin: The origin of this run.
        pull_request: The pull request; nothing is read for a fork.
        artifact: The name of the artifacts.

    Returns:
        Attempts, oldest first, or at most one push, which has a comparison.

    Raises:
        ForgeError: A request failed.
    """
    attempts: list[RunReport] = []
    # A fork's earlier results are its author's to write, and one that passed would make this attempt less careful.
    if pull_request.is_fork or not origin.workflow or origin.run_id is None:
        return attempts
    for run_id in _runs(forge, origin, pull_request):
        for item in forge.list_artifacts(run_id, artifact)[:_MAX_ARTIFACTS]:
            report = None if item.expired else _report(forge, item)
            own = report.origin if report is not None else None
            if report is None or own is None or own.pull_request != origin.pull_request:
                continue
            if not same_repository(own.repository, origin.repository):
                continue
            if own.commit == origin.commit:
                attempts.insert(0, report)
            elif report.decision is not None:
                return attempts or [report]
    return attempts


def _runs(forge: Forge, origin: Origin, pull_request: PullRequest) -> Iterator[int]:
    """Yields the ids of this run, if it was re-run, and of earlier runs of its branch; newest first."""
    assert origin.run_id is not None
    # `run_id` stays the same if a job is started again: its earlier attempts are in its own artifacts.
    if (origin.run_attempt or 1) > 1:
        yield origin.run_id
    # More than are used, since GitHub lists those of forks' branches of this name, too.
    listed = forge.list_runs(
        workflow=origin.workflow, event=origin.event, branch=pull_request.head_ref, limit=4 * _MAX_RUNS
    )
    fit = [
        run.id
        for run in listed
        if run.id < origin.run_id
        and run.status == "completed"
        and run.workflow_path == origin.workflow
        and run.head_repository is not None
        and same_repository(run.head_repository.full_name, origin.repository)
    ]
    yield from sorted(fit, reverse=True)[:_MAX_RUNS]


def _report(forge: Forge, artifact: Artifact) -> RunReport | None:
    """Returns the results in an artifact; None if they are missing or unreadable."""
    if artifact.size_in_bytes > _LIMITS.archive_bytes:
        return None
    try:
        data = forge.download_artifact(artifact.id, max_bytes=_LIMITS.archive_bytes)
        report = read_report(archive.read_results(data, _LIMITS), "The artifact of an earlier run")
    except archive.UnsafeArchive:
        return None
    except ForgeError as error:
        if error.kind != "not-found":  # Deleted since it was listed: the others count.
            raise
        return None
    return report if isinstance(report, RunReport) else None
