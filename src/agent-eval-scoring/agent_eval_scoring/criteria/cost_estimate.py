"""Estimates the calls, tokens and cost of a run before it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.criteria import Conversation, Criterion, build, judge_of
from agent_eval_scoring.criteria.judged import CUTTING_SCHEMA, Judge, Options, judge_calls
from agent_eval_scoring.evalset.models import CriterionConfig, EvalCase, LoadedFile
from agent_eval_scoring.models import ModelFailure, ModelReply, ModelRequest, ModelUsage, Price, parse_model
from agent_eval_scoring.simulation import PURPOSE, simulator_options

_CHARACTERS_PER_TOKEN = 4
_OUTPUT_TOKENS = 500
"""Of a reply including its thoughts; a budget reserves the same before the reply is known."""
_SAMPLED = 20
"""Cases per file whose prompts are measured; the others are assumed to be similar."""


class Range(WireModel):
    """A lower and an upper bound."""

    least: int = 0
    most: int | None = 0
    """None: unbounded."""

    def __add__(self, other: Range) -> Range:
        """The sum of both."""
        most = None if self.most is None or other.most is None else self.most + other.most
        return Range(least=self.least + other.least, most=most)

    def times(self, factor: int) -> Range:
        """The range multiplied by a factor."""
        return Range(least=self.least * factor, most=None if self.most is None else self.most * factor)


class CriterionEstimate(WireModel):
    """Calls of one criterion, or of the simulated user, in all runs of a file."""

    metric: str
    """Its name in reports, or `user-simulator`."""
    cases: int
    model: str | None = None
    """The model that it calls; None if it calls none."""
    samples: int | None = None
    """Maximum votes per question."""
    calls: Range = Field(default_factory=Range)
    """Calls, if every run gets an answer and no call is retried."""
    tokens: Range | None = None
    """Estimated input and output tokens of those calls; None if there are no calls or no estimate is possible."""
    cost: tuple[float, float | None] | None = None
    """US dollars for these tokens; None if tokens or price are unknown."""


class FileEstimate(WireModel):
    """The estimate of one eval file."""

    file: str
    cases: int
    runs: int
    """Runs per case."""
    turns: Range
    """Turns of all runs: messages to the agent."""
    criteria: list[CriterionEstimate]


class Estimate(WireModel):
    """The estimate of the whole run."""

    files: list[FileEstimate]

    def with_model(self) -> list[CriterionEstimate]:
        """The criteria that call a model."""
        return [criterion for file in self.files for criterion in file.criteria if criterion.model is not None]

    @property
    def cases(self) -> int:
        """Number of cases in all files."""
        return sum(file.cases for file in self.files)

    @property
    def turns(self) -> Range:
        """Turns of all runs."""
        return sum((file.turns for file in self.files), Range())

    @property
    def calls(self) -> Range:
        """Calls to judges and simulated users."""
        return sum((criterion.calls for criterion in self.with_model()), Range())

    @property
    def tokens(self) -> Range:
        """Tokens of those calls; unbounded if some have no estimate."""
        return sum((criterion.tokens or Range(most=None) for criterion in self.with_model()), Range())

    @property
    def cost(self) -> tuple[float, float | None] | None:
        """US dollars for these tokens, unbounded if some have no estimate; None if none has one."""
        costs = [criterion.cost for criterion in self.with_model()]
        estimated = [cost for cost in costs if cost is not None]
        if costs and not estimated:
            return None
        most = [None if cost is None else cost[1] for cost in costs]
        return sum(cost[0] for cost in estimated), None if None in most else sum(cost or 0.0 for cost in most)

    @property
    def models(self) -> list[str]:
        """The models that are called, sorted."""
        return sorted({criterion.model for criterion in self.with_model() if criterion.model is not None})


def estimate(
    files: Sequence[LoadedFile],
    *,
    num_runs: int,
    default_model: str,
    prices: Mapping[str, Price] | None = None,
    once: Collection[str] = (),
) -> Estimate:
    """Estimates a run. Calls no model.

    Args:
        files: Files without errors whose criteria this version can score.
        num_runs: Runs per case.
        default_model: The judge of criteria that name no model.
        prices: Prices by price key. None omits tokens and cost, for which the prompts must be built.
        once: The paths of the files whose cases run once.
    """
    runs = {file.path: 1 if file.path in once else num_runs for file in files}
    return Estimate(files=[_file(file, runs[file.path], default_model, prices) for file in files])


def _file(file: LoadedFile, runs: int, default_model: str, prices: Mapping[str, Price] | None) -> FileEstimate:
    user = simulator_options(file.config.user_simulator_config)
    cases = file.cases
    turns = [_turns(case, user.max_turns) for case in cases]
    rows = []
    for config in file.config.criteria:
        options = judge_of(config, default_model)
        if options is None:
            rows.append(CriterionEstimate(metric=config.name, cases=len(cases)))
            continue
        calls_per_case = [_calls(config, options, count) for count in turns]
        tokens = None if prices is None else _tokens(config, cases, calls_per_case)
        tokens = None if tokens is None else tokens.times(runs)
        calls = sum(calls_per_case, Range()).times(runs)
        rows.append(
            CriterionEstimate(
                metric=config.name,
                cases=len(cases),
                model=options.model,
                samples=1 if config.metric == "hallucinations_v1" else options.samples,
                calls=calls,
                tokens=tokens,
                cost=None if tokens is None else _cost(options.model, calls, tokens, prices or {}),
            )
        )
    scenarios = [case for case in cases if case.conversation_scenario is not None]
    if scenarios:
        most = None if user.max_turns is None else max(user.max_turns - 1, 0)
        each = Range(least=1 if most is None else min(1, most), most=most)
        calls = each.times(len(scenarios) * runs)
        rows.append(CriterionEstimate(metric=PURPOSE, cases=len(scenarios), model=user.model, calls=calls))
    return FileEstimate(
        file=file.path, cases=len(cases), runs=runs, turns=sum(turns, Range()).times(runs), criteria=rows
    )


def _turns(case: EvalCase, most: int | None) -> Range:
    if case.conversation_scenario is None:
        count = len(case.conversation or ())
        return Range(least=count, most=count)
    return Range(least=1 if most is None else min(1, most), most=most)


def _calls(config: CriterionConfig, options: Options, turns: Range) -> Range:
    """Calls of one run of a case."""
    least = judge_calls(config.metric, options.samples, turns=turns.least, texts=turns.least).least
    # The number of intermediate texts is not known in advance.
    open_ended = config.options.get("evaluate_intermediate_nl_responses", False)
    if turns.most is None:
        once = [judge_calls(config.metric, options.samples, turns=count, texts=count).most for count in (1, 2)]
        return Range(least=least, most=once[0] if once[0] == once[1] else None)
    most = judge_calls(config.metric, options.samples, turns=turns.most, texts=turns.most).most
    return Range(least=least, most=None if open_ended else most)


@dataclass(kw_only=True)
class PromptMeter:
    """A model that measures prompts and never replies."""

    characters: list[int] = field(default_factory=list)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Records the length of a prompt."""
        self.characters.append(len(request.prompt))
        if request.purpose == "hallucinations_v1" and request.schema == CUTTING_SCHEMA:
            # Without a reply the second prompt, which contains the context, would not be built.
            value: dict[str, list[str]] = {"sentences": []}
            return ModelReply(text="", value=value, usage=ModelUsage(), model_version="", calls=0, cached=True)
        raise ModelFailure("unavailable", "no model is called for an estimate")

    async def close(self) -> None:
        """Does nothing."""


def _tokens(config: CriterionConfig, cases: Sequence[EvalCase], calls: Sequence[Range]) -> Range | None:
    """Tokens of one run of all cases, measured with the expected answers as the agent's answers."""
    fixed = [case for case in cases if case.conversation]
    if len(fixed) < len(cases) or not cases:
        return None
    meter = PromptMeter()
    criterion = build(config, judge=Judge(model=meter))
    asyncio.run(_measure(criterion, fixed[:: max(1, len(fixed) // _SAMPLED)]))
    if not meter.characters:
        return None
    each = sum(meter.characters) // len(meter.characters) // _CHARACTERS_PER_TOKEN + _OUTPUT_TOKENS
    return sum(calls, Range()).times(each)


async def _measure(criterion: Criterion, cases: Sequence[EvalCase]) -> None:
    for case in cases:
        turns = case.conversation or []
        await criterion.score(Conversation(case=case, actual=turns, expected=turns))


def _cost(model: str, calls: Range, tokens: Range, prices: Mapping[str, Price]) -> tuple[float, float | None] | None:
    try:
        price = prices.get(parse_model(model).price_key)
    except ValueError:
        return None
    if price is None:
        return None

    def dollars(count: int, all_tokens: int) -> float:
        output = count * _OUTPUT_TOKENS
        return round(price.of(ModelUsage(input_tokens=all_tokens - output, output_tokens=output)), 6)

    if calls.most is None or tokens.most is None:
        return dollars(calls.least, tokens.least), None
    return dollars(calls.least, tokens.least), dollars(calls.most, tokens.most)
