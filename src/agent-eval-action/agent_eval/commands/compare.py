"""`agent-eval compare`: compares two results files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal

from agent_eval.baseline.reader import StoredResults, UnreadableError, check_ran, open_results
from agent_eval.commands import CliIO
from agent_eval.gate.diff import compare
from agent_eval_results import DEFAULT, FILES, BaselineReport, Reason, Recording, RunReport, stored_index
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.report.phrases import notes_of, text
from agent_eval_results.report.phrases.diff import comparison_summary
from agent_eval_results.report.views import Links
from agent_eval_scoring.core.text import harmless

Format = Literal["text", "markdown", "json"]


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    *heads, base = map(Path, arguments.words)
    if len(heads) > 1:
        io.log("agent-eval: compare takes two results: `agent-eval compare NEWER OLDER`")
        return 2
    head = heads[0] if heads else Path(DEFAULT)
    if head.resolve() == base.resolve():
        io.log(f"agent-eval: {harmless(str(base))} would be compared with itself: `agent-eval compare NEWER OLDER`")
        return 2
    try:
        report = compare_files(head, base)
    except UnreadableError as error:
        io.log(f"agent-eval: {error}")
        return 2
    if report.comparison is not None and not report.comparison.compared:
        io.log("agent-eval: no case has a result in both: compare two runs of the same eval files")
    if report.caution:
        io.log(f"agent-eval: {harmless(str(head))} is {report.caution}")
    io.print_result(render(report, arguments.format, source_url=arguments.source_url, width=io.width).rstrip())
    return 0


def compare_files(head: Path, base: Path) -> RunReport:
    """Reads two results and compares them.

    Args:
        head: `results.json` of the newer run, or its output directory.
        base: `results.json` of the older run, or its output directory.

    Returns:
        The head's report with this comparison instead of the one with its own base branch.

    Raises:
        UnreadableError: A file can't be read or contains no comparable results.
    """
    with open_results(head) as ours, open_results(base) as theirs:
        for stored in (ours, theirs):
            check_ran(stored.report, stored.path)
        report = with_base(ours.report, theirs.report, base)
        _add_changed(report, ours, theirs)
    return report


def _add_changed(report: RunReport, ours: StoredResults, theirs: StoredResults) -> None:
    """Adds the cases that answer otherwise in all runs. There is no code by which a difference could be explained."""
    from agent_eval_results.causes import CaseRuns
    from agent_eval_results.causes.agent_diff import Diff
    from agent_eval_results.causes.changed_answers import changed_answers

    paired = pair_up(ours.report.cases, theirs.report.cases).counterparts
    cases = [case for case in ours.report.cases if case.case_id in paired and case.is_judged]
    name, unknown = FILES["recordings-file"], Diff(is_known=False)
    with stored_index(ours.folder / name, Recording) as here, stored_index(theirs.folder / name, Recording) as there:

        def runs_of(case_id: str) -> CaseRuns:
            return CaseRuns(head=here.of(case_id), base=there.of(paired[case_id].case_id))

        changed = changed_answers(cases, runs_of, lambda file: file, lambda _: unknown)
        sides = ((ours, here), (theirs, there))
        unread = [harmless(str(side.path)) for side, index in sides if index.skipped or not index.strangers(())]
    assert report.comparison is not None
    report.comparison.changed_answers = changed
    notes = [Reason.of("answers-unrecorded", subject=", ".join(unread))] if unread and cases else []
    for note in [*notes, *([Reason.of("answers-unexplained")] if changed else [])]:
        note.message = text(note)
        report.comparison.notes.append(note)


def with_base(head: RunReport, base: RunReport, path: Path) -> RunReport:
    """The head's report with a comparison with another report instead of the one with its own base branch.

    Args:
        head: The newer run.
        base: The older run.
        path: Where the base comes from.
    """
    origin = base.origin
    part = f" It is {base.caution}." if base.caution else ""
    commit = origin.commit or None if origin is not None else None
    baseline = BaselineReport(
        status="found",
        source="file",
        commit=commit,
        run_url=origin.run_url if origin is not None else None,
        recorded_at=base.started_at,
        message=f"The base is {harmless(str(path))}.{part}",
    )
    comparison = compare(head, base, pair_up(head.cases, base.cases, head.selection, base.selection))
    for remark in notes_of(comparison):
        remark.message = text(remark)
    return head.model_copy(update={"comparison": comparison, "baseline": baseline, "decision": None})


def render(report: RunReport, format: Format, *, source_url: str | None = None, width: int = 100) -> str:
    """The comparison as text.

    Args:
        report: From `compare_files`.
        format: `text` for a terminal, `markdown` as in the comment on a pull request, but without a verdict, `json` for
            programs: the `comparison` of results.json.
        source_url: The address at which the head's files can be browsed.
        width: Columns of the terminal.

    Raises:
        ValueError: `source_url` is not a web address.
    """
    assert report.comparison is not None
    if format == "json":
        return report.comparison.model_dump_json(indent=1) + "\n"
    if format == "markdown":
        from agent_eval_results.report.renderers import comment_markdown

        title = comparison_summary(report.comparison)
        return comment_markdown(report, links=Links(source_url=source_url), title=title)
    from agent_eval_results.report.renderers import comparison_text

    return comparison_text(report, width=width)
