"""What a run will ask of agents and models, before anything is asked: calls, tokens, and what they may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from agent_eval.core.wire import WireModel
from agent_eval.criteria import Conversation, Criterion, build, judge_of
from agent_eval.criteria.judged import SCHEMA as CUTTING_SCHEMA
from agent_eval.criteria.judged import Judge, Options, judge_calls
from agent_eval.evalset.models import CriterionConfig, EvalCase, LoadedFile
from agent_eval.models import ModelFailure, ModelReply, ModelRequest, ModelUsage, Price, parse_model
from agent_eval.simulation import PURPOSE, simulator_options

_CHARACTERS_PER_TOKEN = 4
_OUTPUT_TOKENS = 500
"""Of an answer with its thoughts: what a budget reserves too before any answer is known."""
_SAMPLED = 20
"""Cases of a file whose prompts are measured; the others are taken to be alike."""


class Range(WireModel):
    """From the least to the most."""

    least: int = 0
    most: int | None = 0
    """None: nothing bounds it."""

    def __add__(self, other: Range) -> Range:
        """Both together."""
        most = None if self.most is None or other.most is None else self.most + other.most
        return Range(least=self.least + other.least, most=most)

    def times(self, factor: int) -> Range:
        """So often."""
        return Range(least=self.least * factor, most=None if self.most is None else self.most * factor)


class CriterionEstimate(WireModel):
    """What one criterion, or the simulated user, asks in all runs of a file."""

    metric: str
    """ADK's name, or `user-simulator`."""
    cases: int
    model: str | None = None
    """Whom it asks; None: nobody."""
    samples: int | None = None
    """Votes on each question at most."""
    calls: Range = Field(default_factory=Range)
    """Questions, if every run answers and nothing has to be repeated."""
    tokens: Range | None = None
    """Input and output of those calls, estimated; None: nothing is asked, or what will be said is not known."""
    cost: tuple[float, float | None] | None = None
    """US dollars for these tokens; None: no tokens, or no price."""


class FileEstimate(WireModel):
    """One eval file."""

    file: str
    cases: int
    runs: int
    """Of each case."""
    turns: Range
    """Of all runs together: so often the agent is addressed."""
    criteria: list[CriterionEstimate]


class Estimate(WireModel):
    """The whole run."""

    files: list[FileEstimate]

    def asking(self) -> list[CriterionEstimate]:
        """What asks a model."""
        return [one for file in self.files for one in file.criteria if one.model is not None]

    @property
    def cases(self) -> int:
        """Cases of all files."""
        return sum(file.cases for file in self.files)

    @property
    def turns(self) -> Range:
        """Turns of all runs."""
        return sum((file.turns for file in self.files), Range())

    @property
    def calls(self) -> Range:
        """Calls to judges and simulated users."""
        return sum((one.calls for one in self.asking()), Range())

    @property
    def tokens(self) -> Range:
        """Tokens of those calls; without bound if some of them have no estimate."""
        return sum((one.tokens or Range(most=None) for one in self.asking()), Range())

    @property
    def cost(self) -> tuple[float, float | None] | None:
        """US dollars for these tokens, without bound if some have no estimate; None: none of them has one."""
        known = [one.cost for one in self.asking() if one.cost is not None]
        most = [one.cost and one.cost[1] for one in self.asking()]
        if not known and most:
            return None
        return sum(cost[0] for cost in known), None if None in most else sum(one or 0.0 for one in most)

    @property
    def models(self) -> list[str]:
        """Whom they go to, sorted."""
        return sorted({one.model for one in self.asking() if one.model is not None})


def estimate(
    files: Sequence[LoadedFile],
    *,
    num_runs: int,
    default_model: str,
    prices: Mapping[str, Price] | None = None,
) -> Estimate:
    """Estimates a run. Sends nothing.

    Args:
        files: Without an error, and with criteria that this version can score.
        num_runs: How often each case runs.
        default_model: Judges where a criterion names no model.
        prices: By price key; None leaves tokens and cost out, which need the prompts to be put together.
    """
    return Estimate(files=[_file(file, num_runs, default_model, prices) for file in files])


def _file(file: LoadedFile, runs: int, default_model: str, prices: Mapping[str, Price] | None) -> FileEstimate:
    user = simulator_options(file.config.user_simulator_config)
    cases = [selected.case for selected in file.cases]
    turns = [_turns(case, user.max_turns) for case in cases]
    rows = []
    for config in file.config.criteria:
        options = judge_of(config, default_model)
        if options is None:
            rows.append(CriterionEstimate(metric=config.metric, cases=len(cases)))
            continue
        asked = [_calls(config, options, one) for one in turns]
        tokens = None if prices is None else _tokens(config, cases, asked)
        tokens = None if tokens is None else tokens.times(runs)
        calls = sum(asked, Range()).times(runs)
        rows.append(
            CriterionEstimate(
                metric=config.metric,
                cases=len(cases),
                model=options.model,
                samples=1 if config.metric == "hallucinations_v1" else options.samples,
                calls=calls,
                tokens=tokens,
                cost=None if tokens is None else _cost(options.model, calls, tokens, prices or {}),
            )
        )
    led = [case for case in cases if case.conversation_scenario is not None]
    if led:
        most = None if user.max_turns is None else max(user.max_turns - 1, 0)
        each = Range(least=1 if most is None else min(1, most), most=most)
        calls = each.times(len(led) * runs)
        rows.append(CriterionEstimate(metric=PURPOSE, cases=len(led), model=user.model, calls=calls))
    return FileEstimate(
        file=file.path, cases=len(cases), runs=runs, turns=sum(turns, Range()).times(runs), criteria=rows
    )


def _turns(case: EvalCase, most: int | None) -> Range:
    if case.conversation_scenario is None:
        count = len(case.conversation or ())
        return Range(least=count, most=count)
    return Range(least=1 if most is None else min(1, most), most=most)


def _calls(config: CriterionConfig, options: Options, turns: Range) -> Range:
    """Of one run of a case."""
    least = judge_calls(config.metric, options.samples, turns=turns.least, texts=turns.least).least
    # How much an agent says on the way to its answer nobody knows before.
    open_ended = config.options.get("evaluate_intermediate_nl_responses", False)
    if turns.most is None:
        once = [judge_calls(config.metric, options.samples, turns=count, texts=count).most for count in (1, 2)]
        return Range(least=least, most=once[0] if once[0] == once[1] else None)
    most = judge_calls(config.metric, options.samples, turns=turns.most, texts=turns.most).most
    return Range(least=least, most=None if open_ended else most)


@dataclass(kw_only=True)
class Scales:
    """A model that weighs what it is asked. It votes on nothing."""

    characters: list[int] = field(default_factory=list)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Notes the size of a question."""
        self.characters.append(len(request.prompt))
        if request.purpose == "hallucinations_v1" and request.schema == CUTTING_SCHEMA:
            # Else the second question, whose prompt holds the context, would not be put.
            value: dict[str, list[str]] = {"sentences": []}
            return ModelReply(text="", value=value, usage=ModelUsage(), model_version="", calls=0, cached=True)
        raise ModelFailure("unavailable", "nobody is asked for an estimate")

    async def close(self) -> None:
        """Has nothing to give up."""


def _tokens(config: CriterionConfig, cases: Sequence[EvalCase], asked: Sequence[Range]) -> Range | None:
    """Of one run of all cases: the prompts as if the agent had answered what is expected."""
    fixed = [case for case in cases if case.conversation]
    if len(fixed) < len(cases) or not cases:
        return None
    scales = Scales()
    criterion = build(config, judge=Judge(model=scales))
    asyncio.run(_weigh(criterion, fixed[:: max(1, len(fixed) // _SAMPLED)]))
    if not scales.characters:
        return None
    each = sum(scales.characters) // len(scales.characters) // _CHARACTERS_PER_TOKEN + _OUTPUT_TOKENS
    return sum(asked, Range()).times(each)


async def _weigh(criterion: Criterion, cases: Sequence[EvalCase]) -> None:
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


def estimate_line(estimate: Estimate) -> str:
    """`Judges and simulated users will be asked 102 to 170 times (gemini-2.5-flash).`"""
    return f"Judges and simulated users will be asked {times(estimate.calls)} ({', '.join(estimate.models)})."


def times(calls: Range) -> str:
    """`6 times`, `6 to 10 times`, `6 times or more`."""
    if calls.most is None:
        return f"{calls.least:,} times or more"
    if calls.least == calls.most:
        return "once" if calls.least == 1 else f"{calls.least:,} times"
    return f"{calls.least:,} to {calls.most:,} times"
