"""A case in full, for a terminal: its runs, its scores, one run turn by turn, and what the judges said.

Nothing is omitted and nothing is cut, unlike in the reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_eval_results import CaseReport, ConversationReport, MetricReport, RunError, RunResult, RunScore
from agent_eval_results.data.conversation import JudgeVerdict
from agent_eval_results.report import views
from agent_eval_results.report.phrases import STATUSES, say
from agent_eval_results.report.renderers._styling import indented, mark, plain, printed, styled
from agent_eval_scoring.core.text import plural

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_ALL = 1_000_000_000


_ROW_STYLE: Mapping[views.RowKind, str] = {
    "user": "italic",
    "expected said": "green",
    "expected call": "green",
    "expected answer": "green",
    "said": "dim",
    "detail": "dim",
}


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A case, and the run of it to show."""

    case: CaseReport
    runs: Sequence[RunResult]
    """Every run, also those that were added to distinguish a change from noise."""
    shown: RunResult | None
    """The run that is shown turn by turn; None if there is none."""
    conversation: ConversationReport | None
    """Its conversation; None if it was not recorded."""
    is_whole: bool
    """Whether the conversation is from the recordings; the one in results.json is cut to size."""
    added: Sequence[CaseReport] = ()
    """The scores of the added runs."""
    remarks: Sequence[str] = ()
    """Lines on what the case says otherwise than on the base branch."""


def case_text(view: RunView, *, width: int = 100, color: bool = False) -> str:
    """The case as text, safe to print.

    Args:
        view: What to show.
        width: Columns, at least 40.
        color: Whether to write ANSI colours.
    """
    return printed(_blocks(view), width=width, color=color)


def _blocks(view: RunView) -> Iterator[RenderableType]:
    from rich.rule import Rule

    case = view.case
    sign, style = mark(case)
    title = styled((f"{sign}{case.status.replace('_', ' ')} ", style), (case.eval_id, "bold"))
    yield Rule(title, align="left", style=style.split()[-1], characters="─")
    yield styled("  ", (views.location(case.file, case.line), "cyan"))
    yield from (styled("  ", (note, "")) for note in views.answered_notes(case))
    if case.reason is not None:
        yield styled("  ", (case.reason.message, ""))
    yield ""
    for metric in case.metrics:
        yield _metric_line(metric)
    yield from (styled("  ", (line, "")) for line in view.remarks)
    yield from _runs(view)
    if view.shown is None:
        return
    yield ""
    yield from _run(view, view.shown)


def _metric_line(metric: MetricReport) -> RenderableType:
    if metric.only_measures:
        return styled("  · ", (f"{metric.name} {views.measurement_text(metric.name, metric.score)}", "dim"))
    sign, style = {"passed": ("✓", "green"), "failed": ("✗", "red")}.get(metric.status, ("!", "yellow"))
    needs = views.threshold_text(metric.threshold, at_most=metric.lower_is_better)
    runs = ", ".join(views.score_text(run.score, metric.threshold) for run in metric.runs)
    several = f" (runs: {runs})" if len(metric.runs) > 1 else ""
    informs = "" if metric.blocking else ", it only informs"
    reason = f": {metric.reason.message}" if metric.reason is not None else ""
    return styled(
        f"  {sign} ",
        (f"{metric.name} {views.score_text(metric.score, metric.threshold)}", style),
        (f", needs {needs}{informs}{several}{reason}", ""),
    )


def _runs(view: RunView) -> Iterator[RenderableType]:
    if len(view.runs) < 2:
        return
    yield ""
    for run in view.runs:
        look = STATUSES[run.status]
        added = ", added to distinguish a change from noise" if run not in view.case.runs else ""
        error = f": {run.error.kind}" if run.error is not None else ""
        shown = "  (shown below)" if run is view.shown else ""
        yield styled(
            f"  {look.sign} ",
            (f"run {run.run + 1} {run.status.replace('_', ' ')}", look.style),
            (f"{error}, {views.duration_text(run.duration)}{added}", ""),
            (shown, "dim"),
        )
    yield styled(("  --run N shows another", "dim"))


def _run(view: RunView, run: RunResult) -> Iterator[RenderableType]:
    scores = [
        (metric, score)
        for part in (view.case, *view.added)
        for metric in part.metrics
        for score in metric.runs
        if score.run == run.run
    ]
    errors = [run.error, *(score.error for _, score in scores)]
    for error in errors:
        if error is not None:
            yield from _error(error)
    for lost in run.lost_toolsets:
        # Before the calls, which are missing for this reason.
        error_line = lost.error.strip().split("\n")[0]
        text = say("toolset-lost", owner=lost.agent, subject=lost.toolset, message=error_line)
        yield styled("  ", (text, "yellow"))
    if view.conversation is None:
        yield styled(("  Nothing is recorded of what the agent did in this run.", "dim"))
    else:
        yield from _turns(view, view.conversation, scores)
    for metric, score in scores:
        yield from _votes(metric, score)


def _error(error: RunError) -> Iterator[RenderableType]:
    where = "" if error.turn is None else f" in turn {error.turn + 1}"
    yield styled("  ", (f"{error.kind}{where}", "bold red"))
    yield indented(plain(error.message), 4)
    if error.hint:
        yield indented(plain(error.hint, "dim"), 4)
    for text in (error.traceback, error.log_tail):
        if text and text.strip():
            yield indented(_log(text), 2)


def _turns(
    view: RunView, conversation: ConversationReport, scores: Sequence[tuple[MetricReport, RunScore]]
) -> Iterator[RenderableType]:
    only = [metric.model_copy(update={"runs": [score], "status": score.status}) for metric, score in scores]
    runs = [] if view.shown is None else [view.shown]
    case = view.case.model_copy(update={"conversation": conversation, "metrics": only, "runs": runs})
    shown = views.case_view(case, turns=_ALL)
    if shown is None:
        return
    if not view.is_whole:
        yield styled(("  Cut to size: recordings.jsonl.gz, which has everything, is not beside the results.", "yellow"))
    of_run = f" of run {shown.run + 1}" if len(view.runs) > 1 else ""
    for turn in shown.turns:
        yield styled("  ", (f"turn {turn.number}{of_run}", "bold"))
        yield indented(_turn_table(turn), 4)
    if shown.turns_left_out:
        yield styled((f"    and {plural(shown.turns_left_out, 'more turn')}", "dim"))


def _turn_table(turn: views.TurnView) -> Table:
    """A turn as a table of labels and texts, which wrap in their column."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for row in views.rows(turn, text=_ALL, code=_ALL, steps=_ALL, details=_ALL):
        style = "red" if row.wrong else _ROW_STYLE.get(row.kind, "")
        grid.add_row(views.LABELS[row.kind], plain(row.text, style))
    return grid


def _log(log: str) -> Table:
    """A traceback or a log, in a frame."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.ROUNDED, expand=True, border_style="dim", show_header=False)
    table.add_column(overflow="fold")
    table.add_row(plain(views.visible(log).strip("\n"), "dim"))
    return table


def _votes(metric: MetricReport, score: RunScore) -> Iterator[RenderableType]:
    """The judges' votes on a run, passed or not: a close one is worth a look either way."""
    verdicts = score.verdicts
    if not verdicts:
        return
    yield ""
    judge = f" by {metric.judge}" if metric.judge else ""
    needs = views.threshold_text(metric.threshold, at_most=metric.lower_is_better)
    reached = f"{metric.name} {views.score_text(score.score, metric.threshold)}"
    yield styled("  ", (reached, "bold"), (f", needs {needs}, judged{judge}", ""))
    for said in verdicts:
        yield indented(styled((_verdict(said), "")), 4)
        for vote in said.votes:
            number = (f"{'·' if vote.sample is None else vote.sample + 1} ", "dim")
            word = (f"{vote.verdict or 'no verdict'}: ", "bold")
            yield indented(styled(number, word, (vote.rationale or "no reason given", "")), 6)
    if score.verdicts_left_out > 0:
        yield indented(styled((f"and {score.verdicts_left_out:,} more", "dim")), 4)


def _verdict(said: JudgeVerdict) -> str:
    about = "conversation" if said.turn is None else f"turn {said.turn + 1}"
    subject = f" · {said.subject}" if said.subject else ""
    agreeing = sum(map(said.agrees, said.votes))
    tally = f" ({agreeing}:{len(said.votes) - agreeing}{', close' * said.close})" if len(said.votes) > 1 else ""
    return f"{about}{subject}: {said.verdict or 'no verdict'}{tally}"
