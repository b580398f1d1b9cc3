"""`agent-eval validate --plan`: the agents, calls and estimated cost of a run, without a key and without a
call; and how `--parts` splits it over machines.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from agent_eval import pipeline
from agent_eval.baseline.reader import UnreadableError, read_file
from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems, log_start_directory, print_problems, settings_of
from agent_eval.pipeline.shards.split import RecordedSeconds, partition, recorded_seconds, units_of, weigh
from agent_eval.runner import Plan, make_plan
from agent_eval.settings import Settings
from agent_eval_agents.discovery import AgentChoices, render_choices
from agent_eval_agents.sandbox import allow_list, child_environment
from agent_eval_results import RunReport
from agent_eval_scoring.core.limiter import AUTO_START
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.text import harmless, listed, plural
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.criteria.cost_estimate import FileEstimate, PromptMeter, Range, estimate
from agent_eval_scoring.criteria.judged import Judge
from agent_eval_scoring.evalset.models import Suite
from agent_eval_scoring.models import VERTEX_EVAL, read_prices


class ModelPlan(WireModel):
    """A judge or simulator model that the run would call."""

    model: str
    service: str | None = None
    """The provider that would bill the calls; None for a replay, or if the provider is unknown."""
    address: str | None = None
    """The base URL, if it is not the provider's own."""
    credential: str | None = None
    """Where the key comes from, in words; None if there is no key."""
    missing: bool = False
    """Whether a key, a project or a package is missing."""
    priced: bool = False


class PlanReport(WireModel):
    """What `agent-eval validate --plan --format json` prints."""

    files: list[FileEstimate] = Field(default_factory=list)
    turns: Range = Field(default_factory=Range)
    calls: Range = Field(default_factory=Range)
    """Calls to judges and simulated users."""
    tokens: Range = Field(default_factory=Range)
    """Estimated tokens of these calls. Scenarios have no estimate and therefore no upper bound."""
    cost: tuple[float, float | None] | None = (0.0, 0.0)
    """Estimated US dollars; no upper bound if `unpriced` is not empty, None if no model has a price."""
    unpriced: list[str] = Field(default_factory=list)
    """The criteria that `cost` does not include, e.g. `hallucinations_v1 of evals/a.test.json`."""
    models: list[ModelPlan] = Field(default_factory=list)
    notices: list[str] = Field(default_factory=list)
    split: SplitPlan | None = Field(default=None, exclude_if=lambda value: value is None)
    """The parts of `--shards`."""


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        print_problems(problems)
        return 2
    suite, choices = pipeline.find(settings)
    if settings.replay == "all" and not choices.recorded:
        settings = replace(settings, num_runs=1)
    if arguments.format != "json" and choices.by_file:
        print(render_choices(choices))
    report, plan_problems = make_report(settings, io.environ, suite, choices)
    if not has_error(plan_problems) and (arguments.shards is not None or arguments.durations):
        try:
            report.split = _split(arguments, settings.num_runs, settings.concurrency, suite, choices)
        except UnreadableError as error:
            io.log(f"agent-eval: {error}")
            return 2
    plan_problems += pipeline.policy_problems(settings, suite)
    if pipeline.decides_tools(settings.tape_mode, settings.tool_rules):
        rules, output, root = settings.tool_rules, settings.output, settings.root
        plan_problems += pipeline.tapes_unsupported(settings, choices)
        plan_problems += pipeline.tape_problems(root, output, rules, suite)
        report.notices += pipeline.unanswered(settings.replay, rules, output, root, suite, choices)
    log_problems([*problems, *plan_problems], io)
    if has_error(plan_problems):
        return 2
    print(report.model_dump_json(indent=2) if arguments.format == "json" else render_text(report).rstrip())
    return 0


def _split(
    arguments: argparse.Namespace, num_runs: int, concurrency: int | None, suite: Suite, choices: AgentChoices
) -> SplitPlan:
    """The split that the arguments ask for.

    Raises:
        UnreadableError: The durations can't be read, or `auto` has none.
    """
    recorded = read_durations(arguments.durations)
    total = None if arguments.shards in {"auto", None} else int(arguments.shards)
    if total is None and not recorded.per_turn:
        raise UnreadableError("--shards auto needs to know how long the cases take.", "Name results: --durations PATH.")
    return split(
        _plan(suite, choices, num_runs),
        total,
        recorded=recorded,
        seconds=arguments.shard_seconds,
        # `auto` may reach 64, but only a run finds out what the provider allows.
        concurrency=concurrency or AUTO_START,
    )


def _plan(suite: Suite, choices: AgentChoices, num_runs: int) -> Plan:
    """The plan of a suite, with a judge that is never called."""
    agents = {path: choice.path for path, choice in choices.by_file.items()}
    without_code = {choice.path for choice in choices.by_file.values() if not choice.in_python}
    # No hash of the agents' sources: nothing runs, and reading a big checkout takes seconds.
    return make_plan(suite.files, agents, {}, num_runs, Judge(model=PromptMeter()), without_code=without_code)


def make_report(
    settings: Settings, environ: Mapping[str, str], suite: Suite, choices: AgentChoices
) -> tuple[PlanReport, list[Problem]]:
    """Plans a run without calling an agent or a model.

    Args:
        settings: As for a run.
        environ: The environment with the keys.
        suite: The eval files.
        choices: Their agents.

    Returns:
        The plan, and all problems. A missing key is only a warning, because a plan needs none.
    """
    from agent_eval_scoring.models.check import check_models, shared_keys

    problems = [*suite.problems, *choices.problems]
    problems += _plan(suite, choices, settings.num_runs).problems
    if has_error(problems):
        return PlanReport(), problems
    models = pipeline.model_settings(settings)
    uses = pipeline.model_uses(suite.files, settings.judge_model)
    checked = check_models(uses, models, environ)
    problems += [_without_key_errors(problem) for problem in pipeline.placed(checked.problems, settings.root)]
    # A replay is the same every time, so those run once; recordings may have several runs.
    tapes = [path for path, choice in choices.by_file.items() if not choice.driver.reads_file]
    cost = estimate(
        suite.files,
        num_runs=settings.num_runs,
        default_model=pipeline.default_model(settings.judge_model),
        prices=read_prices(settings.prices),
        once=tapes if settings.replay == "all" else (),
    )
    report = PlanReport(
        files=cost.files,
        turns=cost.turns,
        calls=cost.calls,
        tokens=cost.tokens,
        cost=cost.cost,
        unpriced=[
            f"{criterion.metric} of {file.file}"
            for file in cost.files
            for criterion in file.criteria
            if criterion.model and not criterion.cost
        ],
    )
    for model in cost.models:
        endpoint = checked.endpoints.get(model)
        if endpoint is None:
            report.models.append(ModelPlan(model=model, missing=not models.offline))
            continue
        report.models.append(
            ModelPlan(
                model=model,
                service=endpoint.provider.name,
                address=endpoint.base_url,
                credential=endpoint.credential,
                priced=endpoint.name.price_key in models.prices,
            )
        )
    if VERTEX_EVAL in cost.models and not models.offline:
        report.notices.append(f"`{VERTEX_EVAL}` is Vertex AI's evaluation service, which bills each call.")
    if models.offline and uses:
        report.notices.append("Every reply comes from tapes or `judge-cache`: no call is billed, and no key is needed.")
    if choices.runs_here:
        report.notices += shared_keys(checked.endpoints, child_environment(environ, allow_list(settings.agent_env)))
    return report, problems


def _without_key_errors(problem: Problem) -> Problem:
    from agent_eval_scoring.models.check import NO_KEY

    return replace(problem, severity=Severity.WARNING) if problem.code == NO_KEY else problem


def render_text(report: PlanReport) -> str:
    """The plan as text, safe to print to a CI log."""
    lines: list[str] = []
    for file in report.files:
        runs = f", {file.runs} runs each" if file.runs != 1 else ""
        lines.append(harmless(f"{file.file}: {plural(file.cases, 'case')}{runs}, {between(file.turns, 'agent turn')}"))
        rows = []
        for criterion in file.criteria:
            calls = between(criterion.calls, "call") if criterion.model else "no calls"
            details = [criterion.model or ""]
            if criterion.samples:
                details.append("one vote" if criterion.samples == 1 else f"up to {criterion.samples:,} votes")
            if criterion.tokens is not None:
                details.append(f"about {between(criterion.tokens, 'token')}")
            if criterion.cost is not None:
                details.append(dollars(criterion.cost))
            rows.append((criterion.metric, calls, ", ".join(detail for detail in details if detail)))
        lines += [*columns(rows), ""]
    lines.append(f"In all {between(report.turns, 'agent turn')}, {between(report.calls, 'call')}")
    if report.models:
        lines[-1] += " to judges and simulated users"
        lines[-1] += f", about {between(report.tokens, 'token')}" if report.tokens.least else ""
        lines[-1] += f", {dollars(report.cost)}" if report.cost is not None else ""
        lines += ["", "Models that would be called:", *columns([_row(model) for model in report.models])]
    if report.unpriced:
        lines.append(harmless(f"No estimate of the cost of {listed(report.unpriced, 3)}."))
    lines += [harmless(notice) for notice in report.notices]
    if report.models:
        lines.append(
            "Calls are counted without retries. Tokens are estimated from the eval files alone, 500 for each answer, "
            "without the agent's instructions and tools."
        )
    lines.append("The cost of the agent's own models is not included.")
    if report.split is not None:
        lines += ["", *split_lines(report.split)]
    return "\n".join(lines) + "\n"


def _row(model: ModelPlan) -> tuple[str, str, str]:
    if model.service is None:
        return model.model, "", "its key is missing" if model.missing else ""
    at = f" at {model.address}" if model.address else ""
    return model.model, f"{model.service}{at}", f"key: {model.credential}"


Row = tuple[str, str, str]


def between(count: Range, noun: str, many: str | None = None) -> str:
    """`1 call`, `6 to 10 calls`, `6 calls or more`."""
    if count.most is None:
        return f"{plural(count.least, noun, many)} or more"
    if count.most == count.least:
        return plural(count.least, noun, many)
    return f"{count.least:,} to {plural(count.most, noun, many)}"


def dollars(cost: tuple[float, float | None]) -> str:
    """`about $0.0012 to $0.0020`."""
    least, most = cost
    if most is None:
        return f"about ${least:.4f} or more"
    return f"about ${least:.4f}" if least == most else f"about ${least:.4f} to ${most:.4f}"


def columns(rows: Sequence[Row]) -> Iterator[str]:
    """Aligned rows, safe to print to a CI log."""
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    for row in rows:
        yield harmless(f"  {row[0]:<{first}}  {row[1]:<{second}}  {row[2]}".rstrip())


_MOST_PROPOSED = 20
"""Parts that `--shards auto` proposes: more jobs wait for machines longer than they save."""


class PartPlan(WireModel):
    """One part of the split."""

    index: int
    cases: int
    weight: float
    """Expected seconds of all runs one after another if durations were recorded, else turns of all runs."""


class SplitPlan(WireModel):
    """A split, for `--shard-plan` and for a matrix."""

    total: int
    matrix: list[str]
    """Values of `shard`, e.g. `["1/2", "2/2"]`."""
    unit: Literal["seconds", "turns"]
    """Of the weights."""
    parts: list[PartPlan]
    recorded: RecordedSeconds = Field(default_factory=RecordedSeconds)
    """The durations behind the split, which `--shard-plan` reads."""


def read_durations(paths: Sequence[Path]) -> RecordedSeconds:
    """Durations of the runs in results.json files, and in all of them below directories.

    Raises:
        UnreadableError: A file can't be read, a directory has none, or none has a completed run.
    """
    reports: list[RunReport] = []
    for path in paths:
        # As artifacts are downloaded: a directory for each run, with one for each part.
        files = sorted(path.rglob("results.json")) if path.is_dir() else [path]
        if not files:
            raise UnreadableError(f"There is no results.json in {harmless(str(path))}.", "Name the results of a run.")
        reports += map(read_file, files)
    recorded = recorded_seconds(reports)
    if paths and not recorded.per_turn:
        raise UnreadableError(
            "--durations: no completed run in these results has a duration.", "Name the results of a complete run."
        )
    return recorded


def split(plan: Plan, total: int | None, *, recorded: RecordedSeconds, seconds: float, concurrency: int) -> SplitPlan:
    """Splits a plan.

    Args:
        plan: All cases.
        total: Number of parts; None to choose it by `seconds`.
        recorded: Durations; empty to split by turns.
        seconds: How long a part should take, if `total` is None.
        concurrency: Runs at once in each part.
    """
    weights = {case_id: weight * plan.num_runs for case_id, weight in weigh(units_of(plan), recorded).items()}
    if total is None:
        total = min(max(math.ceil(sum(weights.values()) / (concurrency * seconds)), 1), _MOST_PROPOSED)
    assignment = partition(weights, total)
    parts = [PartPlan(index=index, cases=0, weight=0.0) for index in range(1, total + 1)]
    for case_id, index in assignment.items():
        parts[index - 1].cases += 1
        parts[index - 1].weight = round(parts[index - 1].weight + weights[case_id], 3)
    return SplitPlan(
        total=total,
        matrix=[f"{index}/{total}" for index in range(1, total + 1)],
        unit="seconds" if recorded.per_turn else "turns",
        parts=parts,
        recorded=recorded,
    )


def split_lines(plan: SplitPlan) -> list[str]:
    """The split as text."""
    unit = "second" if plan.unit == "seconds" else "turn"
    rows = [
        (f"{part.index}/{plan.total}", plural(part.cases, "case"), f"{part.weight:,.0f} {unit}s") for part in plan.parts
    ]
    by = "recorded seconds of their runs" if plan.unit == "seconds" else "turns of their runs"
    return [f"{plural(plan.total, 'part')}, balanced by the {by}:", *columns(rows)]
