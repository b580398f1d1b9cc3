"""The result on a terminal or in a CI log: what failing cases share, an example of it, the verdict last."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_eval_results import CaseReport, CauseReport, ProblemReport, RunReport
from agent_eval_results.outcome import again_helps, can_accept
from agent_eval_results.report import phrases, views
from agent_eval_results.report.phrases import STATUSES, VERDICTS
from agent_eval_results.report.phrases.rule_changes import rule_sentences
from agent_eval_results.report.renderers._comparison_text import base_comparison_lines, delta_table, drop_lines
from agent_eval_results.report.renderers._styling import indented, mark, plain, printed, styled
from agent_eval_results.report.views import examples
from agent_eval_results.report.views.numbers import cost_text
from agent_eval_scoring.core.problem import alike
from agent_eval_scoring.core.text import listed, plural, short_name, shorten

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_MOST_FILES = 10
_MOST_FAILING_FILES = 5
_MOST_EXAMPLES = 3
"""Cases that nothing explains, shown beside their expectation; then a line each up to _MOST_LISTED."""
_MOST_LISTED = 10
_MOST_PROBLEMS = 60
_MOST_NAMES = 4
_MOST_LOG = 3
"""Lines from the end of an error's log."""
_LONGEST_NAME = 200
_LONGEST = 400
"""Characters of one text of an example."""


def console(
    of: RunReport | views.View,
    *,
    width: int = 100,
    color: bool = False,
    files: Mapping[str, str] | None = None,
    verbose: bool = False,
    attended: bool = True,
    kept: bool = True,
) -> str:
    """The result as text.

    Args:
        of: The report.
        width: Columns of the terminal, at least 40.
        color: Whether to write ANSI colours.
        files: Paths of written files by what they are (`report`, `results`, ...).
        verbose: Whether to show all numbers, notices and paths.
        attended: Whether a person is there to go on with commands that write files: not in CI.
        kept: Whether the files of the run stay, so that other commands can read them.

    Returns:
        Lines of at most `width` columns. No line starts with a workflow command, whatever an agent wrote.
    """
    width, view, paths = max(width, 40), views.view_of(of), files or {}
    report = view.report
    more = verbose or report.cases or len(report.problems) > _MOST_PROBLEMS  # The files hold what is not shown.
    blocks = _invalid(view, paths if more else {})
    if not report.is_invalid:
        blocks = _blocks(view, paths, width, verbose=verbose, attended=attended, kept=kept)
    return printed(_spaced(blocks), width=width, color=color)


def _spaced(blocks: Iterator[RenderableType]) -> Iterator[RenderableType]:
    """The same without two blank lines in a row."""
    last: RenderableType = ""
    for block in blocks:
        if block or last:
            yield block
        last = block


def _blocks(
    view: views.View, files: Mapping[str, str], width: int, *, verbose: bool, attended: bool, kept: bool
) -> Iterator[RenderableType]:
    report, groups = view.report, view.groups
    metrics = _metrics(view, width)
    failing = [*groups.worse, *groups.failed]
    if report.cases:
        yield _files(report)
    if not failing and not groups.errored:
        yield from metrics
    yield from _problems(_first(view))
    shared, left = examples.shared_causes(report, failing, view.branch)
    for cause, members, example in shared:
        yield from _cause(cause, members, example, view)
    for error in views.causes(report, [case for case in left if views.has_cause(case)]):
        yield from _error(error)
    yield from _alone([case for case in left if not views.has_cause(case)], view, several=bool(shared))
    for error in view.errors:
        yield from _error(error)
    yield from _not_run(report)
    if failing or groups.errored:
        yield ""
        yield from metrics
    yield from _remarks(view)
    coverage = phrases.coverage_lines(report)
    if verbose:
        yield ""
        yield from base_comparison_lines(view)
        yield from _all_metrics(view)
        yield from _statistics(view)
        yield from _notes([*report.notices, *coverage], files)
    else:
        shown = [notice for notice in report.notices if notice not in _only_verbose(report)]
        yield from (indented(styled((notice, "dim"))) for notice in (*shown, *coverage))
    yield ""
    yield from _ending(view, files, width, attended=attended, kept=kept)


def _invalid(view: views.View, files: Mapping[str, str]) -> Iterator[RenderableType]:
    report = view.report
    yield ""
    yield from _problems(report.problems)
    yield from _notes(report.notices, files)
    for reason in [*phrases.other_reasons(view), *report.warnings]:
        yield styled(" ", (reason, ""))
    yield styled((phrases.headline(view), VERDICTS[report.verdict].style), (f" ({views.run_note(report)})", "dim"))


def _only_verbose(report: RunReport) -> Container[str]:
    """Notices about numbers that decide nothing, and what the last line says."""
    numbers = [*phrases.pass_rates_notices(report.pass_rates), *map(views.usage_line, report.model_usage)]
    judges = [*phrases.backend_notes(report.cases), *views.close_vote_notes(report.cases)]
    return {*numbers, *judges, *(notice for notice in report.notices if "--resume" in notice)}


def _notes(notices: Sequence[str], files: Mapping[str, str]) -> Iterator[RenderableType]:
    for notice in notices:
        yield styled(" ", (notice, "dim"))
    for name, path in files.items():
        line = styled((f" {name:<{max(map(len, files))}}  ", "dim"), (path, ""))
        line.no_wrap, line.overflow = True, "ignore"  # A path on two lines can't be opened.
        yield line


def _not_run(report: RunReport) -> Iterator[RenderableType]:
    for reason, cases in views.not_run_groups(report):
        yield ""
        yield styled(("- ", "dim"), (f"{plural(len(cases), 'case')} not run: {reason}", ""), (_names(cases), "dim"))


def _files(report: RunReport) -> Table:
    """A line for each file, the worst first: how many cases of it have which result."""
    from rich.table import Table

    counts: dict[str, Counter[str]] = {}
    for case in report.cases:
        counts.setdefault(case.file, Counter())[case.status] += 1
    statuses = [status for status in STATUSES if any(count[status] for count in counts.values())]
    ordered = sorted(counts.items(), key=lambda item: (item[1]["passed"] - item[1].total(), -item[1].total()))
    bad = [item for item in ordered if item[1]["passed"] < item[1].total()]
    good = ordered[len(bad) :]
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(overflow="fold", ratio=1)
    for _ in statuses:
        table.add_column(justify="right", no_wrap=True)

    def add(name: str, count: Mapping[str, int]) -> None:
        cells = [f"{count[status]:,} {STATUSES[status].words}" if count[status] else "" for status in statuses]
        styles = [{"passed": ""}.get(status, STATUSES[status].style) for status in statuses]
        table.add_row(styled("  ", (name, "")), *(styled(cell) for cell in zip(cells, styles, strict=True)))

    most = len(bad) if len(bad) <= _MOST_FAILING_FILES + 1 else _MOST_FAILING_FILES
    shown = good if bad and len(good) == 1 else [] if bad else good[:_MOST_FILES]
    for name, count in [*bad[:most], *shown]:
        add(name, count)
    for left in (bad[most:], good[len(shown) :]):
        if left:
            add(f"and {plural(len(left), 'more file')}", sum((count for _, count in left), Counter[str]()))
    return table


def _metrics(view: views.View, width: int) -> list[RenderableType]:
    """The metrics that gate, those that fail first, in one line, or two if some fail; then the cost if it is known."""
    report = view.report
    rows = [row for row in view.metric_rows if row.gates and row.mean is not None]
    was = {row.name: row for row in phrases.diff.delta_rows(view)}
    lines = [""]
    most = 2 if any(row.failed for row in rows) else 1
    for number, row in enumerate(sorted(rows, key=lambda row: not row.failed)):
        before = was.get(row.name)
        score = f"{before.base} → {before.now}" if before is not None and before.moved else row.score
        # A mean may reach the threshold although a case does not.
        text = f"{short_name(row.name)} {'mean ' * bool(row.failed)}{score} ({row.needed})"
        # 16 columns are for `and N more`, unless it is the last one.
        if lines[-1] and len(f"  {lines[-1]}   {text}") + 16 * (number < len(rows) - 1) > width:
            if len(lines) == most:
                lines[-1] += f"   and {len(rows) - number:,} more"
                break
            lines.append("")
        lines[-1] += f"{'   ' * bool(lines[-1])}{text}"
    if "$" in (cost := views.bill(report)):
        old = report.comparison.cost.base if report.comparison is not None else None
        lines.append(f"cost {cost}{'' if old is None else f', on {view.branch} {cost_text(old)}'}")
    return [indented(styled((line, ""))) for line in lines if line]


def _all_metrics(view: views.View) -> Iterator[RenderableType]:
    report = view.report
    if report.comparison is not None:
        yield delta_table(phrases.diff.delta_rows(view), view.branch)
        return
    for row in view.metric_rows:
        counts = f" (needs {row.threshold}), {row.failed:,} failed, {row.not_evaluated:,} not evaluated" * row.gates
        yield styled("  ", (f"{short_name(row.name)} {row.score}{counts}", ""))


def _statistics(view: views.View) -> Iterator[RenderableType]:
    """What the statistics say about the suite and about cases: rates of the base branch, what chance can do."""
    for line in phrases.suite_lines(view):
        yield indented(styled((line, "")))
    for case, lines in phrases.case_details(view):
        for line in lines:
            yield indented(styled((f"{short_name(views.case_name(case))}: ", "bold"), (line, "")))


def _cause(
    cause: CauseReport, cases: Sequence[CaseReport], example: examples.Example, view: views.View
) -> Iterator[RenderableType]:
    sign, style = mark(cases[0])
    yield ""
    count = f"{plural(len(cases), 'case')}: "
    yield _marked((sign, style), styled((count, style), (phrases.cause_sentence(cause, view.branch), "bold")))
    yield indented(styled((phrases.cause_evidence(cause, view.branch), "")))
    if place := phrases.changed_here(cause):
        yield indented(styled((place, "cyan")))
    errors = [run.error for run in example.case.runs if run.error is not None]
    if errors and views.has_cause(example.case):
        yield indented(styled((errors[0].hint or "", "dim")))
    yield ""
    yield from _example(example)
    others = [case for case in cases if case is not example.case]
    if others:
        yield styled("  also: ", (listed([short_name(views.case_name(case)) for case in others], _MOST_NAMES), ""))


def _error(cause: views.Cause) -> Iterator[RenderableType]:
    """An error that kept cases from being scored, once."""
    sign, style = mark(cause.cases[0])
    where = f"  {views.location(cause.file, cause.line)}" if cause.file else ""
    yield ""
    if len(cause.cases) == 1:
        case = cause.cases[0]
        name, place = short_name(views.case_name(case)), views.location(case.file, case.line)
        yield styled((sign, style), (name, "bold"), (f"  {place}", "cyan"))
        yield indented(styled((cause.message, ""), (where, "cyan")))
    else:
        count = f"{plural(len(cause.cases), 'case')}: "
        yield _marked((sign, style), styled((count, style), (cause.message, "bold"), (where, "cyan")))
        yield indented(styled((listed([short_name(views.case_name(case)) for case in cause.cases], _MOST_NAMES), "")))
    if cause.advice:
        yield indented(styled((cause.advice, "dim")))
    if cause.never_ran and not cause.file:  # What its process said last is all that is known of the error.
        lines = [line for line in cause.log.splitlines() if line.strip()]
        for line in lines[-_MOST_LOG:]:
            yield indented(styled((shorten(views.one_line(line), _LONGEST), "dim")), 4)
    for case in examples.acted_before([cause]):
        yield from _example(examples.example_of(case))


def _alone(cases: Sequence[CaseReport], view: views.View, *, several: bool) -> Iterator[RenderableType]:
    """The cases that no cause explains."""
    if several and cases:
        yield ""
        yield styled((f"✗ {plural(len(cases), 'case')} with no shared cause", "bold red"))
    for case in cases[:_MOST_EXAMPLES]:
        label, evidence = phrases.change_label(case, view)
        yield ""
        yield from _example(
            examples.example_of(case), label=": ".join(filter(None, (label, evidence))), marked=not several
        )
    if len(cases) > _MOST_EXAMPLES:
        yield ""
    for case in cases[_MOST_EXAMPLES:_MOST_LISTED]:
        difference = f"  {shorten(views.first_difference(case), 200)}"
        yield indented(_marked(mark(case), styled((short_name(views.case_name(case)), "bold"), (difference, ""))))
    if len(cases) > _MOST_LISTED:
        yield styled(f"  and {plural(len(cases) - _MOST_LISTED, 'more case')}")


def _example(example: examples.Example, *, label: str = "", marked: bool = False) -> Iterator[RenderableType]:
    case = example.case
    sign = mark(case) if marked else ("  ", "")
    yield styled(sign, (short_name(views.case_name(case)), "bold"), "  ", (examples.example_place(example), "cyan"))
    if label:
        yield indented(styled((label, "")), 4)
    if example.user:
        yield indented(styled((shorten(views.one_line(example.user), _LONGEST), "italic")), 4)
    if example.sides:
        yield indented(_sides(example.sides), 4)
    if example.left_out:
        yield indented(styled((f"and {plural(example.left_out, 'more line')}", "dim")), 4)
    for line in example.remarks:
        yield indented(styled((line, "")), 4)


def _sides(sides: Sequence[examples.Side]) -> Table:
    from rich.table import Table

    table = Table.grid(expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(width=4, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_row(styled(("expected", "dim")), "", styled(("now", "dim")))
    for side in sides:
        expected, now = (
            plain(f"{lead} {shorten(text.strip(), _LONGEST)}".strip())
            for lead, text in ((side.lead, side.expected), (side.now_lead, side.now))
        )
        table.add_row(expected, styled(("  ✗ " if side.wrong else "", "red")), now)
    return table


def _first(view: views.View) -> list[ProblemReport]:
    """Warnings about the cases that failed: they may explain it."""
    failing = {case.case_id for case in (*view.groups.worse, *view.groups.failed, *view.groups.errored)}
    warnings = [problem for problem in view.report.problems if not problem.is_notice] if failing else []
    lines = sorted((case.file, case.line, case.case_id) for case in view.report.cases if case.line is not None)

    def case_of(problem: ProblemReport) -> str:
        before = [own for file, line, own in lines if file == problem.file and line <= (problem.line or 0)]
        return before[-1] if before else ""

    return [each for each in warnings if each.code.startswith("recording-") or case_of(each) in failing]


def _remarks(view: views.View) -> Iterator[RenderableType]:
    """What else a reader has to know before the verdict."""
    report, groups = view.report, view.groups
    for number, line in enumerate(phrases.changed_overview(view)):
        yield indented(styled((line, "" if number else "yellow")), 4 if number else 2)
    yield from (indented(styled((drop, "dim"))) for drop in drop_lines(view))
    if not report.passed and (changed := phrases.agent_changes(report, placed=True)):
        yield styled("  changed in the agent: ", (changed, ""))
    for cases, what in (
        (groups.still, f"on {view.branch} too"),
        (groups.flaky, f"in some runs, {phrases.as_often(view.branch)}"),
    ):
        if cases:
            yield indented(styled((f"{plural(len(cases), 'case')} failed {what}", ""), (_names(cases), "dim")))
    if low := [case for case, _ in views.cases_with_low_turns(report)]:
        what = f"{plural(len(low), 'case passes', 'cases pass')} with a turn below a threshold"
        yield indented(styled((what, ""), (_names(low), "dim")))
    if groups.better:
        yield styled(
            ("  better: ", "green"), (listed([views.case_name(case) for case in groups.better], _MOST_NAMES), "")
        )
    before = _first(view)
    severe = [problem for problem in report.problems if not problem.is_notice and problem not in before]
    if severe:
        yield ""
        yield from _problems(severe)
    baseline = report.baseline
    missing = [phrases.diff.no_baseline_reason(baseline)] if baseline is not None and not baseline.found else []
    notes = [note.message for note in report.comparison.notes[:_MOST_LISTED]] if report.comparison is not None else []
    for line in [*missing, *phrases.other_reasons(view), *notes]:
        yield indented(styled((line, "")))
    for line in [*rule_sentences(report), *report.warnings]:
        yield indented(styled((line, "yellow")))


def _names(cases: Sequence[CaseReport]) -> str:
    return f": {listed([short_name(views.case_name(case)) for case in cases], _MOST_NAMES)}"


def _problems(problems: Sequence[ProblemReport]) -> Iterator[RenderableType]:
    """Problems in files and settings, errors first."""
    styles = {"error": "bold red", "warning": "yellow", "notice": "dim"}
    order = list(styles)
    shown = alike(sorted(problems, key=lambda problem: order.index(problem.severity)))
    for problem, others in shown[:_MOST_PROBLEMS]:
        head = [
            (problem.location, "cyan"),
            ": " if problem.location else "",
            (problem.severity, styles[problem.severity]),
        ]
        yield indented(styled(*head, (f" [{problem.code}] ", "dim"), (problem.message + others, "")), 1)
        for line in (problem.hint or "").splitlines():
            yield indented(styled((line, "dim")), 5)
    if len(shown) > _MOST_PROBLEMS:
        yield styled(f" and {plural(len(shown) - _MOST_PROBLEMS, 'more problem')}")
    if problems:
        yield ""


def _ending(
    view: views.View, files: Mapping[str, str], width: int, *, attended: bool, kept: bool
) -> Iterator[RenderableType]:
    """The verdict, the page and what to do next."""
    report = view.report
    from rich.text import Text

    verdict = phrases.headline(view, brief=True)
    page = styled((f"Page: {files['report']}" if "report" in files else "", ""))
    line = styled((verdict, VERDICTS[report.verdict].style), (f" ({views.duration_text(report.duration)}).", ""))
    if page and line.cell_len + page.cell_len + 3 <= width:
        yield Text.assemble(line, "   ", page)
    else:
        yield line
        if page:
            # A path on two lines can't be opened.
            yield Text.assemble("  ", page, no_wrap=True, overflow="ignore")
    # Commands would read files that are gone.
    if report.failed and not kept:
        return
    steps, text = _commands(view, files, attended=attended), phrases.next_text(phrases.next_step(view))
    # At a desk the commands are the next step; on a pull request somebody else may have to act first.
    if (not steps or report.is_for_merge) and not text.startswith("nothing"):
        steps = [f"{phrases.next_label(view)}: {text}.", *steps]
    together = "     ".join(steps)
    for step in [together] if steps and len(together) + 2 <= width else steps:
        yield indented(styled((step, "")))


def _commands(view: views.View, files: Mapping[str, str], *, attended: bool) -> list[str]:
    """The commands to go on with."""
    report = view.report
    if report.is_inconclusive and again_helps(view) and any("--resume" in line for line in report.notices):
        left = report.totals.errored + report.totals.not_run
        what = f"Run only {'this one' if left == 1 else f'these {left:,}'} again" if left else "Continue"
        return [f"{what}: the same command with --resume"]
    groups = view.groups
    failing = [*groups.worse, *groups.failed, *groups.still]
    # The default folder is what the commands look for themselves.
    folder = files.get("results", "").rpartition("/")[0]
    if not report.failed or all(map(views.never_ran, failing)):
        return []
    ids = {case.case_id: case for case in failing}
    examples = [case for cause in report.causes if (case := ids.get(cause.example.case_id)) is not None]
    name = next(iter([*examples, *failing])).eval_id
    where = f" {shlex.quote(folder)}" if folder not in {"", "agent-eval-results"} else ""
    # A name that the terminal shows otherwise than it is can't be copied.
    shown = f" {shlex.quote(name)}" if name and views.one_line(name) == name and len(name) <= _LONGEST_NAME else ""
    # What a recording lacks is no new behaviour.
    lacks = any(problem.code == "recording-unusable" for problem in report.problems)
    accepts = attended and not report.is_for_merge and not lacks and can_accept(view)
    accept = [f"If the new behaviour is right: agent-eval accept{where}"] * accepts
    return [f"Look: agent-eval show{where}{shown}", *accept]


def _marked(sign: tuple[str, str], line: Text) -> Table:
    """A line behind a symbol, which wraps beside it."""
    from rich.table import Table

    table = Table.grid()
    table.add_column(width=2, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(styled(sign), line)
    return table
