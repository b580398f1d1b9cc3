"""`agent-eval plan`: what a run would ask and need, told without a key and without a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import harmless, plural
from agent_eval.core.wire import WireModel
from agent_eval.pipeline import default_model, model_settings, model_uses
from agent_eval.runner import FileEstimate, PromptMeter, Range, estimate

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoices
    from agent_eval.evalset.models import Suite
    from agent_eval.settings import Settings


class ModelPlan(WireModel):
    """A model that would be asked."""

    model: str
    service: str | None = None
    """Who would be paid for it; None: nobody is asked (a replay), or it is not known yet whom."""
    address: str | None = None
    """If it isn't the service's own."""
    credential: str | None = None
    """Whose key it would be, in words; None: there is none."""
    missing: bool = False
    """Whether a key, a project or a package for it is not there."""
    priced: bool = False


class PlanReport(WireModel):
    """What `agent-eval plan --format json` prints."""

    files: list[FileEstimate] = Field(default_factory=list)
    turns: Range = Field(default_factory=Range)
    calls: Range = Field(default_factory=Range)
    """To judges and simulated users."""
    tokens: Range = Field(default_factory=Range)
    """Of these calls, an estimate; of scenarios there is none, so that nothing bounds it."""
    cost: tuple[float, float | None] | None = (0.0, 0.0)
    """US dollars, an estimate; without bound if `unpriced` names something, None if nothing has a price."""
    unpriced: list[str] = Field(default_factory=list)
    """What `cost` doesn't hold, e.g. `hallucinations_v1 of evals/a.test.json`."""
    models: list[ModelPlan] = Field(default_factory=list)
    notices: list[str] = Field(default_factory=list)


def make_report(
    settings: Settings, environ: Mapping[str, str], suite: Suite, choices: AgentChoices
) -> tuple[PlanReport, list[Problem]]:
    """Plans without asking anybody.

    Args:
        settings: As for a run.
        environ: Where keys are looked for.
        suite: The files.
        choices: Their agents.

    Returns:
        The plan, and everything that is wrong. A key that is missing is a warning here: nothing needs it yet.
    """
    from agent_eval.criteria.judged import Judge
    from agent_eval.models import VERTEX_EVAL, check_models, read_prices, shared_keys
    from agent_eval.runner import make_plan

    problems = [*suite.problems, *choices.problems]
    agents = {path: choice.path for path, choice in choices.by_file.items()}
    without_code = {choice.path for choice in choices.by_file.values() if not choice.runs_here}
    judge = Judge(model=PromptMeter())
    problems += make_plan(suite.files, agents, {}, settings.num_runs, judge, without_code=without_code).problems
    if any(problem.severity is Severity.ERROR for problem in problems):
        return PlanReport(), problems
    models = model_settings(settings)
    uses = model_uses(suite.files, settings)
    checked = check_models(uses, models, environ)
    problems += [_milder(problem) for problem in checked.problems]
    found = estimate(
        suite.files,
        num_runs=settings.num_runs,
        default_model=default_model(settings),
        prices=read_prices(settings.prices),
    )
    report = PlanReport(
        files=found.files,
        turns=found.turns,
        calls=found.calls,
        tokens=found.tokens,
        cost=found.cost,
        unpriced=[
            f"{one.metric} of {file.file}"
            for file in found.files
            for one in file.criteria
            if one.model and not one.cost
        ],
    )
    for model in found.models:
        endpoint = checked.endpoints.get(model)
        if endpoint is None:
            report.models.append(ModelPlan(model=model, missing=models.replay is None))
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
    if VERTEX_EVAL in found.models and models.replay is None:
        report.notices.append(f"`{VERTEX_EVAL}` is Vertex AI's evaluation service: each of its calls is paid for.")
    if models.replay is not None and uses:
        report.notices.append("Every reply is taken from the replay: nothing is paid for, and no key is needed.")
    if choices.runs_here:
        report.notices += shared_keys(checked.endpoints, _agents_environment(settings, environ))
    return report, problems


def _milder(problem: Problem) -> Problem:
    from agent_eval.models import NO_KEY

    return replace(problem, severity=Severity.WARNING) if problem.code == NO_KEY else problem


def _agents_environment(settings: Settings, environ: Mapping[str, str]) -> Mapping[str, str]:
    from agent_eval.agents.sandbox import allow_list, child_environment

    return child_environment(environ, allow_list(settings.agent_env))


def render_text(report: PlanReport) -> str:
    """The plan for people; safe to print into a log."""
    from agent_eval.commands.plan_text import between, columns, dollars

    lines: list[str] = []
    for file in report.files:
        runs = f", {file.runs} runs each" if file.runs != 1 else ""
        lines.append(harmless(f"{file.file}: {plural(file.cases, 'case')}{runs}, {between(file.turns, 'agent turn')}"))
        rows = []
        for one in file.criteria:
            calls = between(one.calls, "call") if one.model else "no calls"
            told = [one.model or ""]
            if one.samples:
                told.append("one vote" if one.samples == 1 else f"up to {one.samples:,} votes")
            if one.tokens is not None:
                told.append(f"about {between(one.tokens, 'token')}")
            if one.cost is not None:
                told.append(dollars(one.cost))
            rows.append((one.metric, calls, ", ".join(part for part in told if part)))
        lines += [*columns(rows), ""]
    lines.append(f"In all {between(report.turns, 'agent turn')}, {between(report.calls, 'call')}")
    if report.models:
        lines[-1] += " to judges and simulated users"
        lines[-1] += f", about {between(report.tokens, 'token')}" if report.tokens.least else ""
        lines[-1] += f", {dollars(report.cost)}" if report.cost is not None else ""
        lines += ["", "Models that would be asked:", *columns([_row(model) for model in report.models])]
    if report.unpriced:
        more = f" and {len(report.unpriced) - 3:,} more" if len(report.unpriced) > 3 else ""
        lines.append(harmless(f"No estimate of the cost of {', '.join(report.unpriced[:3])}{more}."))
    lines += [harmless(notice) for notice in report.notices]
    if report.models:
        lines.append(
            "Calls are counted without repeats. Tokens are estimated from the eval files alone, 500 for each answer: "
            "the agent's instructions and tools come on top."
        )
    lines.append("What the agent's own models cost is not in it.")
    return "\n".join(lines) + "\n"


def _row(model: ModelPlan) -> tuple[str, str, str]:
    if model.service is None:
        return model.model, "", "its key is missing" if model.missing else ""
    at = f" at {model.address}" if model.address else ""
    return model.model, f"{model.service}{at}", f"key: {model.credential}"
