"""A new expectation for a case: which run it is taken from, what changes, and what the scores become."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import ValidationError

from agent_eval_results import Recording
from agent_eval_results.data.merging import is_enough
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, intermediate_responses, tool_calls
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.criteria import Conversation, Criterion, NotEvaluated, build
from agent_eval_scoring.evalset.models import CriterionConfig, EvalCase, MatchType
from agent_eval_workbench.authoring.choosing import common_calls, most_typical, route
from agent_eval_workbench.authoring.expectation import Field, NewTurn, accept_turns, adds_masked, get, too_large
from agent_eval_workbench.authoring.prospects import Metric, Prospect, refuse

TRAJECTORY = "tool_trajectory_avg_score"
CallsFrom = Literal["run", "common"]
"""Which calls are expected: those of one run, or those that all runs made."""


@dataclass(frozen=True, kw_only=True)
class MetricScores:
    """The scores of a metric in all runs."""

    name: str
    threshold: float
    scores: tuple[float | None, ...]
    """By run; None if it could not be scored."""

    @property
    def mean(self) -> float | None:
        """The mean over the runs that have a score."""
        scores = [score for score in self.scores if score is not None]
        return sum(scores) / len(scores) if scores else None

    def passes(self, run: int) -> bool:
        """Whether the run at an index reaches the threshold."""
        score = self.scores[run]
        return score is not None and score >= self.threshold


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed change of a case."""

    prospect: Prospect
    run: Recording
    """The run that the expectation is taken from."""
    calls_from: CallsFrom
    fields: tuple[Field, ...]
    turns: Mapping[int, NewTurn]
    """The turns that change, by number, 0-based."""
    value: Mapping[str, Any]
    """The case as it would be in its file."""
    case: EvalCase
    alike: int
    """Runs with the same calls as the chosen one, including it."""
    edited: bool = False
    """The user has changed the value."""
    before: tuple[MetricScores, ...] = ()
    """Of the deterministic metrics that compare with an accepted field."""
    after: tuple[MetricScores, ...] = ()
    passing: int = 0
    """Runs that pass all of these metrics after the change."""
    holds: bool = True
    """Whether the case passes these metrics after the change."""
    under: Mapping[MatchType, int] = field(default_factory=dict)
    """Runs whose calls would pass, by match type; empty if there is one run, or if calls are not accepted."""

    @property
    def judged(self) -> tuple[str, ...]:
        """Failed metrics of the accepted fields that only a model can score again."""
        return tuple(
            metric.report.name
            for metric in self.prospect.metrics
            if metric.criterion is None and metric.field in self.fields and metric.report.failed
        )


async def propose(
    prospect: Prospect,
    *,
    fields: Collection[Field] = (),
    run: int | None = None,
    calls_from: CallsFrom | None = None,
    rescore: bool = True,
) -> Proposal:
    """Chooses a run and makes its turns the expectation of the case.

    Args:
        prospect: What may be accepted.
        fields: What of it is accepted; none for all.
        run: The number of the run to take, 1-based; None for the most typical one.
        calls_from: None for `common` if other calls may come between the expected ones and there are several runs, else
            `run`.
        rescore: Score the runs with the new expectation. Otherwise the proposal has no scores, and is taken to hold.

    Raises:
        CaseRefused: The run does not exist, nothing would change, or the new value must not be written.
    """
    accepted = tuple(name for name in prospect.fields if not fields or name in fields)
    metrics = [metric for metric in prospect.metrics if metric.field in accepted]
    chosen = await _chosen(prospect, metrics, accepted, run)
    calls_from = _calls_from(prospect, metrics, run, calls_from)
    turns = await _turns(prospect, metrics, accepted, chosen, calls_from)
    if not turns:
        message = f"would not change: run {chosen.run + 1}, the most typical one, does what is expected."
        hint = "Run the case more often, change the criterion, or name another run with --run."
        raise refuse("accept-nothing", prospect.report, message, hint)
    value = accept_turns(prospect.value, turns)
    case = _checked(prospect, value)
    calls = route(chosen.invocations)
    proposal = Proposal(
        prospect=prospect,
        run=chosen,
        calls_from=calls_from,
        fields=tuple(name for name in accepted if any(name in turn.fields for turn in turns.values())),
        turns=turns,
        value=value,
        case=case,
        alike=sum(route(other.invocations) == calls for other in prospect.runs),
    )
    return await rescored(proposal) if rescore else proposal


def with_value(proposal: Proposal, value: Mapping[str, Any]) -> Proposal:
    """The proposal with another new value of the case, which the user has edited. Its scores are the same until
    `rescored`.

    Raises:
        CaseRefused: It must not be written.
    """
    # Not scored here: the editor may be opened again at once.
    return replace(proposal, value=value, case=_checked(proposal.prospect, value), edited=True)


async def rescored(proposal: Proposal) -> Proposal:
    """The proposal with the scores of its value."""
    metrics = [metric for metric in proposal.prospect.metrics if metric.field in proposal.fields]
    runs = proposal.prospect.runs
    before = await _scores(proposal.prospect.case, runs, metrics)
    after = await _scores(proposal.case, runs, metrics)
    passing = sum(all(metric.passes(index) for metric in after) for index in range(len(runs)))
    holds = _holds(after, passing, proposal.prospect)
    under = await _under(proposal.case, runs, metrics)
    return replace(proposal, before=before, after=after, passing=passing, holds=holds, under=under)


async def _chosen(
    prospect: Prospect, metrics: Sequence[Metric], fields: Sequence[Field], number: int | None
) -> Recording:
    if number is not None:
        run = next((run for run in prospect.runs if run.run == number - 1), None)
        if run is None:
            numbers = listed([str(run.run + 1) for run in prospect.runs], 20)
            message = f"has no complete run {number}."
            raise refuse("accept-error", prospect.report, message, f"Its complete runs: {numbers}.")
        return run
    criteria = [metric.criterion for metric in metrics if metric.criterion is not None]
    if "final" in fields and not any(metric.field == "final" and metric.criterion for metric in metrics):
        # A judge says whether an answer is right. How alike two answers are has to be measured here.
        criteria.append(build(CriterionConfig(metric="response_match_score", threshold=1.0)))
    turns = [run.invocations for run in prospect.runs]
    visible = all(run.calls_visible for run in prospect.runs)
    return prospect.runs[await most_typical(prospect.case, turns, criteria, calls_visible=visible)]


def _calls_from(
    prospect: Prospect, metrics: Sequence[Metric], run: int | None, calls_from: CallsFrom | None
) -> CallsFrom:
    types = [
        metric.config.options.get("match_type", MatchType.EXACT)
        for metric in metrics
        if metric.config.metric == TRAJECTORY
    ]
    # The common calls are a part of what each run did, which EXACT never accepts.
    if calls_from == "common" and MatchType.EXACT in types:
        message = "can't expect the common calls: `match_type` is EXACT, and each run made other calls between them."
        hint = "Set `match_type` to IN_ORDER or ANY_ORDER in the config, or accept the calls of one run (--calls run)."
        raise refuse("accept-nothing", prospect.report, message, hint)
    if calls_from is not None:
        return calls_from
    # A run that the user names is meant with all its calls.
    several = len(prospect.runs) > 1 and run is None
    return "common" if several and types and MatchType.EXACT not in types else "run"


async def _turns(
    prospect: Prospect, metrics: Sequence[Metric], fields: Sequence[Field], chosen: Recording, calls_from: CallsFrom
) -> dict[int, NewTurn]:
    """The turns whose expectation does not hold, with what is accepted of them."""
    # For common calls every run has to be looked at: the chosen one may pass where another one fails.
    runs = prospect.runs if calls_from == "common" else (chosen,)
    ignore_args = any(metric.config.options.get("ignore_args") is True for metric in metrics)
    unordered = any(metric.config.options.get("match_type") is MatchType.ANY_ORDER for metric in metrics)
    changes: dict[int, set[Field]] = {}
    for name in fields:
        for number in await _failing_turns(prospect, metrics, name, runs if name == "calls" else (chosen,)):
            changes.setdefault(number, set()).add(name)
    turns = {}
    for number, changed in sorted(changes.items()):
        places = None
        if "calls" in changed and calls_from == "common":
            calls = [tool_calls(run.invocations[number].intermediate_data) for run in prospect.runs]
            reference = prospect.runs.index(chosen)
            places = tuple(common_calls(calls, reference, ordered=not unordered, ignore_args=ignore_args))
        turns[number] = NewTurn(
            actual=chosen.invocations[number], fields=frozenset(changed), calls=places, ignore_args=ignore_args
        )
    return turns


async def _failing_turns(
    prospect: Prospect, metrics: Sequence[Metric], name: Field, runs: Sequence[Recording]
) -> set[int]:
    """The turns in which one of the runs does not do what is expected."""
    expected = prospect.case.conversation or []
    concerned = [metric for metric in metrics if metric.field == name]
    differing = {
        number
        for run in runs
        for number, (actual, turn) in enumerate(zip(run.invocations, expected, strict=True))
        if _content(actual, name) != _content(turn, name)
    }
    if any(metric.criterion is None and metric.report.failed for metric in concerned):
        return differing  # A judge's score says nothing about single turns.
    failing: set[int] = set()
    for metric in concerned:
        for run in runs:
            scores = await _turn_scores(metric, prospect.case, run)
            # A score without its turns: each turn that differs may be the reason.
            if len(scores) != len(expected):
                failing |= differing
                continue
            # Of the report: a policy may have another one than the config.
            threshold = metric.report.threshold or 0.0
            low = {number for number, score in enumerate(scores) if score is None or score < threshold}
            # What is low and equal can't be accepted: the reason is in the criterion.
            failing |= low & differing
    return failing


async def _turn_scores(metric: Metric, case: EvalCase, run: Recording) -> Sequence[float | None]:
    """The score of each turn of a run, as stored in the report or else computed; empty if there is none."""
    # The stored one first: it is what the user has seen in the report.
    stored = next((score for score in metric.report.runs if score.run == run.run), None)
    if stored is not None and stored.turn_scores:
        return stored.turn_scores
    if stored is not None and len(run.invocations) == 1:
        return [stored.score]
    result = None if metric.criterion is None else await metric.criterion.score(_conversation(case, run))
    return () if result is None or isinstance(result, NotEvaluated) else result.turn_scores


def _content(turn: Invocation, name: Field) -> Any:
    if name == "calls":
        # Without ids and responses, which no criterion of calls compares.
        return [(call.name, call.args) for call in tool_calls(turn.intermediate_data)]
    return text_of(turn.final_response) if name == "final" else intermediate_responses(turn)


def _checked(prospect: Prospect, value: Mapping[str, Any]) -> EvalCase:
    """The case that the new value means.

    Raises:
        CaseRefused: It must not be written.
    """
    case = prospect.report
    # Recordings are masked. `***` would be the expectation, which no answer meets where the variable is not set.
    if adds_masked(prospect.value, value):
        message = "would expect a masked secret: the new text has `***` in it."
        raise refuse("accept-masked", case, message, "Write the expectation by hand: `agent-eval edit`.")
    pairs = zip(get(prospect.value, "conversation"), get(value, "conversation"), strict=False)
    if any(too_large(before, after) for before, after in pairs):
        message = "would expect a value of more than 1,000,000 characters."
        raise refuse("accept-large", case, message, "Write a shorter expectation by hand: `agent-eval edit`.")
    try:
        return EvalCase.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise refuse(
            "accept-patch", case, f"would be invalid: {where}: {first['msg']}.", "Please report this."
        ) from None


async def _scores(case: EvalCase, runs: Sequence[Recording], metrics: Sequence[Metric]) -> tuple[MetricScores, ...]:
    return tuple(
        [
            MetricScores(
                name=metric.report.name,
                threshold=metric.report.threshold or 0.0,
                scores=tuple([await _score(metric.criterion, case, run) for run in runs]),
            )
            for metric in metrics
            if metric.criterion is not None
        ]
    )


async def _score(criterion: Criterion, case: EvalCase, run: Recording) -> float | None:
    result = await criterion.score(_conversation(case, run))
    return None if isinstance(result, NotEvaluated) else result.score


def _conversation(case: EvalCase, run: Recording) -> Conversation:
    return Conversation(
        case=case, actual=run.invocations, expected=case.conversation, run=run.run, calls_visible=run.calls_visible
    )


def _holds(after: Sequence[MetricScores], passing: int, prospect: Prospect) -> bool:
    # Both rules of a run: min-pass-rate, and the mean of each metric.
    enough = is_enough(passing, len(prospect.runs), prospect.min_pass_rate)
    return enough and all(metric.mean is not None and metric.mean >= metric.threshold for metric in after)


async def _under(case: EvalCase, runs: Sequence[Recording], metrics: Sequence[Metric]) -> dict[MatchType, int]:
    trajectory = next((metric for metric in metrics if metric.config.metric == TRAJECTORY), None)
    # With one run every match type accepts it: it is the expectation.
    if trajectory is None or len(runs) < 2:
        return {}
    counts = {}
    for match_type in MatchType:
        options = {**trajectory.config.options, "match_type": match_type}
        threshold = trajectory.report.threshold or 0.0
        criterion = build(replace(trajectory.config, threshold=threshold, options=options))
        scores = [await _score(criterion, case, run) for run in runs]
        counts[match_type] = sum(score is not None and score >= threshold for score in scores)
    return counts


def what_would_hold(proposal: Proposal) -> str:
    """A sentence that says how a case with varying runs could hold."""
    runs = len(proposal.prospect.runs)
    better = [match_type.name for match_type, count in proposal.under.items() if count == runs]
    if better:
        return f"With `match_type` {' or '.join(better)} {plural(runs, 'run')} of {runs} would pass."
    return "Judge it by a model or by rubrics, lower the threshold or min-pass-rate, or quarantine it."
