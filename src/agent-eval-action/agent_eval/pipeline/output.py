"""Writes the output files of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import agent_eval_results as results
from agent_eval.pipeline.ci_context import CIContext
from agent_eval.pipeline.context import RunContext
from agent_eval_scoring.core.process import collector_paused

if TYPE_CHECKING:
    from agent_eval.runner.plan import PlannedCase
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_results import CaseReport, RunReport
    from agent_eval_results.report.views import Links, View


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a run."""

    report: RunReport
    files: Mapping[str, Path]
    """Written files by their name in FILES, as absolute paths. An invalid run writes no recordings."""
    view: View
    """What texts look up in the report."""
    memory: str = ""
    """What the comment keeps for the next attempt at this commit."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a run leaves beside its report."""

    runs: Iterable[bytes]
    """Recordings as lines of JSON, in the order of the plan."""
    cases: Sequence[PlannedCase]
    """What was planned."""
    tapes_missing: bool = False
    """Whether a tape could not be written."""


def warm_up(report: str) -> None:
    """Imports and compiles what `write` needs, while the agents start. Can run in another thread; raises nothing."""
    with contextlib.suppress(Exception):  # `write` reports it.
        import junit_xml  # noqa: F401
        import rich.console  # noqa: F401
        import rich.table  # noqa: F401

        import agent_eval_results.causes.agent_sources  # noqa: F401
        import agent_eval_results.data.conversations  # noqa: F401
        from agent_eval_results import Origin, StoredCase, Totals
        from agent_eval_results.data.causes import AgentTree
        from agent_eval_results.data.coverage import CoverageReport
        from agent_eval_results.data.origin import FileReport, SelectionReport, TargetReport
        from agent_eval_results.data.outcome import RunOutcome
        from agent_eval_results.report.renderers import environment

        for model in (FileReport, Origin, SelectionReport, TargetReport, AgentTree, CoverageReport, Totals, RunOutcome):
            model.model_rebuild()  # builds its validator, as the first use would
        StoredCase.model_rebuild()

        templates = environment()
        for name in templates.list_templates():
            templates.get_template(name)
        if report != "off":
            from agent_eval_results.report.html import policy

            policy()  # joins the page's script and style


def write(settings: Settings, context: RunContext, report: RunReport, recorded: Recorded | None = None) -> Outcome:
    """Writes every file of the output directory and hands them to the workspace's owner.

    Args:
        settings: The run's settings.
        context: The run's context.
        report: The report; its exit code is set here.
        recorded: None if nothing ran.
    """
    from agent_eval.runner import case_lines
    from agent_eval_results import write_lines
    from agent_eval_results.report.renderers import junit_pieces, results_pieces, summary_markdown
    from agent_eval_scoring.evalset.json import write_text

    tapes_missing = recorded is not None and recorded.tapes_missing
    view = _finish(settings.on_inconclusive, report, tapes_missing=tapes_missing)
    output = settings.output
    output.mkdir(parents=True, exist_ok=True)
    (output / results.VIEW_PAGE).unlink(missing_ok=True)  # of the results that are replaced
    files = {name: output / file for name, file in results.FILES.items()}
    if recorded is None:
        del files["recordings-file"], files["cases-file"]  # Keep the recordings that an earlier run paid for.
    else:
        try:
            write_lines(files["recordings-file"], recorded.runs)
            write_lines(files["cases-file"], case_lines(recorded.cases))
        except OSError:
            for name in ("recordings-file", "cases-file"):  # The journal has the runs; half a file helps no one.
                files[name].unlink(missing_ok=True)
            raise
    page = files["report-file"]
    if settings.report == "off":
        page.unlink(missing_ok=True)  # That of an earlier run.
        del files["report-file"]
    with collector_paused():
        # Results first, because the page takes longest: a run that is killed leaves them.
        write_text(files["results-file"], results_pieces(report))
        write_text(files["junit-file"], junit_pieces(view))
        if "report-file" in files and not _write_page(
            page, settings.report, settings.artifact, settings.output, context, view, recorded
        ):
            del files["report-file"]
        shown = {name: results.relative(path, settings.root) for name, path in files.items()}
        links = links_of(context.ci, settings.artifact, context.source_url)
        summary = summary_markdown(view, files=shown, warnings=context.warnings, links=links)
        write_text(files["summary-file"], summary)
    results.give_to_owner(output, settings.root)
    if settings.judge_cache != "off":
        results.give_to_owner(settings.root / settings.judge_cache, settings.root)
    return Outcome(report=report, files=files, view=view)


def _finish(on_inconclusive: Literal["fail", "pass"], report: RunReport, *, tapes_missing: bool = False) -> View:
    """Sets the exit code, the reason of an invalid run, and what each case is to the gate; returns the final view."""
    from agent_eval.gate.verdict import NOT_EXCUSED, exit_code, unjudged_runs
    from agent_eval_results import NOT_COMPARED, SHARD_MISSING, Reason
    from agent_eval_results.report.phrases import outcome_in_words, put_into_words
    from agent_eval_results.report.views import view_of

    if report.is_invalid:
        errors = sum(problem.is_error for problem in report.problems)
        report.reasons = [Reason.of("invalid", count=errors)]
    put_into_words(report)
    if report.has_verdict:
        stopped = report.has_reason(NOT_COMPARED, SHARD_MISSING)
        # Scored, too low, and only the comparison is missing: an outage must not turn that green.
        failed = any(reason.data.get("phrase") in NOT_EXCUSED for reason in report.reasons)
        not_run = report.totals.not_run + _unusable(report) + stopped + failed
        report.exit_code = exit_code(report.verdict, on_inconclusive, not_run=not_run)
    else:
        report.exit_code = 3 if unjudged_runs(report.cases) else 0
    if tapes_missing:
        report.exit_code = 2
    view = view_of(report)
    report.outcome = outcome_in_words(view)
    for case in report.cases if report.has_verdict else ():
        case.outcome = view.outcomes[case.case_id]
    return view


def write_refusal(settings: Settings, context: RunContext, report: RunReport) -> Outcome:
    """The outcome of a run that was refused before anything ran.

    Its files replace those of an earlier run only if a program reads them: on a desk, a typo must not cost the
    results that `show` and `accept` read.
    """
    recordings = settings.output / results.FILES["recordings-file"]
    if context.files_are_read or not recordings.exists():
        results.remove_logs(settings.output)
        return write(settings, context, report)
    context.log(f"agent-eval: {results.relative(settings.output, settings.root)} keeps the results of the run before")
    return Outcome(report=report, files={}, view=_finish(settings.on_inconclusive, report))


def write_if_possible(settings: Settings, context: RunContext, report: RunReport) -> Outcome:
    """As `write`, for a disk that is full: the verdict is printed even if it can't be written."""
    try:
        return write(settings, context, report)
    except OSError as error:
        context.log(f"agent-eval: {error}")
        return Outcome(report=report, files={}, view=_finish(settings.on_inconclusive, report))


def _unusable(report: RunReport) -> int:
    """Cases that say nothing because of the evaluation itself, e.g. a tape that is missing: no outage excuses them."""

    def is_unusable(case: CaseReport) -> bool:
        codes = [run.reason.code for metric in case.metrics for run in metric.runs if run.reason is not None]
        errors = [run.error.owner for run in case.runs if run.error is not None]
        return case.errored and ("gate" in errors or "judge-replay-miss" in codes)

    return sum(map(is_unusable, report.cases))


def _write_page(
    path: Path,
    mode: Literal["full", "failing", "scores", "off"],
    artifact: str,
    output: Path,
    context: RunContext,
    view: View,
    recorded: Recorded | None,
) -> bool:
    """Writes report.html. An error is a line in the log and changes nothing else."""
    from agent_eval_results.report.html import folder_source, write_page

    assert mode != "off"
    cases = {planned.case_id: planned.case for planned in recorded.cases} if recorded is not None else {}
    links = links_of(context.ci, artifact, context.source_url)
    try:
        with folder_source(view, output, links=links, cases=cases) as source:
            write_page(path, source, mode)
    except Exception as error:  # The other results are complete without the page.
        context.log(f"agent-eval: {path.name} could not be written: {type(error).__name__}: {error}")
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # That of an earlier run.
        return False
    return True


def links_of(ci: CIContext, artifact: str, source_url: str | None) -> Links:
    """Link targets for the reports of this run.

    Args:
        ci: The run's CI context.
        artifact: The name of the one with the results.
        source_url: Where the tested files can be browsed.
    """
    from agent_eval_results.report.views import Links

    event = ci.event
    if not event.name:
        return Links(source_url=source_url)
    return Links(
        server_url=event.server_url,
        pages=event.pages,
        repository=event.repository or "",
        source_url=source_url,
        run_url=event.run_url,
        artifacts=(artifact,),
        pull_request=ci.activity.pull_request.number if ci.activity.pull_request is not None else None,
    )


def remove_results(output: Path, root: Path, choices: AgentChoices) -> None:
    """Deletes the files of an earlier run, except recordings that this run reads."""
    results.remove_logs(output)
    recordings = {(root / choice.source).resolve() for choice in choices.by_file.values() if choice.driver.reads_file}
    for name in (*results.FILES.values(), results.BASE_RECORDINGS, results.BASELINE_RECORDINGS):
        if recordings.isdisjoint({output.resolve(), (output / name).resolve()}):
            (output / name).unlink(missing_ok=True)
