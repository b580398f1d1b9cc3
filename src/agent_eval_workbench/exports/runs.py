"""The runs of a report, each with what is known of its turns: the input of every export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent_eval.core.invocation import Invocation
from agent_eval.evalset.models import EvalCase
from agent_eval.results import CaseReport, MetricReport, Recording, RunReport, RunResult, RunScore, TurnReport, reaches

Side = Literal["head", "base"]


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run's results with the files beside them. Only the report is required."""

    report: RunReport
    recording_of: Callable[[str], Recording | None] = lambda run_id: None
    """The recording of a run id; None if there is none."""
    cases: Mapping[str, EvalCase] = field(default_factory=dict)
    """The eval cases by case id, as far as they have not changed since the run."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn of a run, from the recording or from the excerpt in results.json."""

    number: int
    """0-based."""
    actual: Invocation | None = None
    """None without a recording."""
    expected: Invocation | None = None
    """None for a scenario, or if the eval file has changed since."""
    excerpt: TurnReport | None = None
    """Only without a recording."""


@dataclass(frozen=True, kw_only=True)
class ExportedRun:
    """One run of one case."""

    case: CaseReport
    result: RunResult
    side: Side
    """`base`: a run of the base branch's agent that was made for the comparison."""
    recording: Recording | None
    turns: list[Turn]
    """Empty if nothing is known of the conversation."""

    def scores(self) -> Iterator[tuple[MetricReport, RunScore]]:
        """The scores of this run, in the order of the metrics."""
        for metric in self.case.metrics:
            for score in metric.runs:
                if score.run == self.result.run:
                    yield metric, score


def runs_of(stored: StoredRun) -> Iterator[ExportedRun]:
    """All runs of a report in its order: the cases, the extra runs of the comparison, then the base branch's."""
    sides: tuple[tuple[Side, list[CaseReport]], ...] = (
        ("head", [*stored.report.cases, *stored.report.confirmations]),
        ("base", stored.report.base_runs),
    )
    for side, cases in sides:
        for case in cases:
            for result in case.runs:
                # Recordings of the base branch's agent are not stored; a head run may have the same id.
                recording = stored.recording_of(result.run_id) if side == "head" else None
                turns = list(_turns(case, result, recording, stored.cases.get(case.case_id)))
                yield ExportedRun(case=case, result=result, side=side, recording=recording, turns=turns)


def _turns(
    case: CaseReport, result: RunResult, recording: Recording | None, eval_case: EvalCase | None
) -> Iterator[Turn]:
    expected = (eval_case.conversation if eval_case is not None else None) or []
    expectations = dict(enumerate(expected))
    if recording is not None:
        for number, actual in enumerate(recording.invocations):
            yield Turn(number=number, actual=actual, expected=expectations.get(number))
        return
    excerpts = {}
    if case.conversation is not None and case.conversation.run == result.run:
        excerpts = {turn.turn: turn for turn in case.conversation.turns}
    for number in range(result.turns):
        yield Turn(number=number, expected=expectations.get(number), excerpt=excerpts.get(number))


@dataclass(frozen=True, kw_only=True)
class TurnScore:
    """The score of a metric for one turn, or for the whole conversation."""

    metric: MetricReport
    run_score: RunScore
    turn: int | None
    """None: the metric scores the conversation as a whole, or was not evaluated."""
    score: float | None
    status: Literal["passed", "failed", "not_evaluated", "informational"]
    explanation: str
    """Why the score is low or missing, one reason per line; "" otherwise."""


def turn_scores(run: ExportedRun) -> Iterator[TurnScore]:
    """The scores of a run, turn by turn where the metric has a score for each turn."""
    for metric, score in run.scores():
        evidence = {item.turn: "\n".join(item.why) for item in score.evidence}
        reason = score.reason.message if score.reason is not None else ""
        by_turn: list[float | None] = score.turn_scores
        if not by_turn and run.result.turns == 1:
            by_turn = [score.score]
        if score.status == "not_evaluated" or not by_turn:
            text = reason or "\n".join(f"turn {turn + 1}: {why}" for turn, why in evidence.items() if why)
            yield TurnScore(
                metric=metric, run_score=score, turn=None, score=score.score, status=score.status, explanation=text
            )
            continue
        single = len(by_turn) == 1
        for turn, value in enumerate(by_turn):
            yield TurnScore(
                metric=metric,
                run_score=score,
                turn=turn,
                score=value,
                # The decision of a custom metric is its own.
                status=score.status if single else _status(value, metric),
                explanation=evidence.get(turn, "") or (reason if single else ""),
            )


def _status(score: float | None, metric: MetricReport) -> Literal["passed", "failed", "not_evaluated", "informational"]:
    if metric.threshold is None:
        return "informational"
    if score is None:
        return "not_evaluated"
    return "passed" if reaches(score, metric) else "failed"
