"""The plan: every selected case with its criteria and its agent, and what this version can't run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_eval_agents.fingerprints import (
    MetricIdentity,
    case_fingerprint,
    earlier_fingerprint,
    metric_identity,
    session_of,
    with_tape,
)
from agent_eval_results import RunError
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import Problem, docs_page, has_error
from agent_eval_scoring.criteria import (
    INFORMATIONAL,
    CodeMetric,
    Criterion,
    PackageFault,
    Relabelled,
    Withheld,
    build,
    judge_of,
    supported,
    unlabelled,
    why_not,
)
from agent_eval_scoring.evalset.checks import criteria_of
from agent_eval_scoring.evalset.models import (
    DEFAULT_JUDGE,
    JUDGED_METRICS,
    METRICS,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    LoadedFile,
)
from agent_eval_scoring.evalset.models.packed import messages_of, packed_turns
from agent_eval_scoring.simulation import simulator_options

if TYPE_CHECKING:
    from agent_eval_results import CaseHistory, CaseReport
    from agent_eval_scoring.criteria.judged import Judge

NO_JUDGE = "There is no key for any judge of its criteria"
"""Why a case is not run, or says nothing."""
_UNLIMITED = 20
"""Turns of a scenario without a limit: ADK's default limit (google-adk 2.13.0)."""


@dataclass(frozen=True, kw_only=True)
class PlannedCase:
    """One case to run."""

    case_id: str
    """`file:eval_id`, as on the command line."""
    file: str
    line: int | None
    eval_set_id: str
    case: EvalCase
    """With masked secrets, as its recordings."""
    original: EvalCase | None = None
    """As in its file; None for the same."""
    secrets: frozenset[str] = frozenset()
    """Placeholders of the secrets that the case itself spells out."""
    user_config: Mapping[str, Any] | None = None
    """`user_simulator_config`: options of the simulated user of a scenario."""
    criteria: tuple[Criterion, ...]
    """The gating criteria in the config's order, then the informational ones."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where custom metrics are configured, by their names: `file:line`."""
    agent: str
    """Key of the case's agent."""
    fingerprint: str
    """Hash of everything that the agent's answers depend on: the case's inputs and the agent's source."""
    content: str = ""
    """Hash of the case's content, see `fingerprints.case_fingerprint`."""
    tape: str = ""
    """Hash of the tape that is part of `content`."""
    identities: Mapping[str, MetricIdentity] = field(default_factory=dict)
    """How each metric is measured, by metric."""
    skip_reason: RunError | None = None
    """Why the case is not run."""
    skip_live: RunError | None = None
    """Why it is not run where its tape does not answer."""

    @property
    def given(self) -> EvalCase:
        """The case as the agent gets it."""
        return self.original or self.case

    @property
    def turns(self) -> int:
        """Turns of one run, at least 1; of a scenario their limit, since their number is not known in advance."""
        if self.case.conversation_scenario is None:
            return max(len(self.case.conversation or ()), 1)
        limit = simulator_options(self.user_config).max_turns
        return max(_UNLIMITED if limit is None else limit, 1)

    def answered_by(self, tape: str, fingerprint: str) -> PlannedCase:
        """The case with the tape whose answers head and base both get; "" for none."""
        return replace(self, fingerprint=fingerprint, content=with_tape(self.content, tape), tape=tape)

    def run_id(self, run: int) -> str:
        """Names one run, 0-based."""
        return f"{self.case_id}#{run + 1}"


@dataclass(frozen=True, kw_only=True)
class MissingModels:
    """Models without an API key, and the consequence for their criteria."""

    models: Collection[str]
    code: str
    """`results.WITHOUT_KEY`: their criteria do not gate. Any other code: their criteria are not evaluated."""
    taped: bool = False
    """Whether tapes may have their replies, so that no case is skipped before it is replayed."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All runs, in the order of the report."""

    cases: tuple[PlannedCase, ...]
    num_runs: int
    problems: tuple[Problem, ...] = ()
    first_run: int = 0
    """The number of each case's first run; greater than 0 in a plan for more runs."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Expected durations of one run, by case id, in any unit. The heaviest runs begin first."""
    masker: Masker = field(default_factory=Masker)
    """Of what the agents say, and of what is compared with it."""
    repeated: Collection[str] | None = None
    """The agents whose cases run `num_runs` times, those of others once; None for all."""

    def numbers(self, case: PlannedCase | None = None) -> range:
        """The numbers of a case's runs; without one, of the most that a case has."""
        once = case is not None and self.repeated is not None and case.agent not in self.repeated
        return range(self.first_run, self.first_run + (1 if once else self.num_runs))

    @cached_property
    def total(self) -> int:
        """Number of all runs."""
        return sum(len(self.numbers(case)) for case in self.cases)

    def runs(self) -> Iterable[tuple[PlannedCase, int]]:
        """Every run, case by case."""
        return ((case, run) for case in self.cases for run in self.numbers(case))

    def more(self, case_ids: Collection[str], num_runs: int, *, first_run: int) -> Plan:
        """A plan for more runs of some of the cases."""
        cases = tuple(case for case in self.cases if case.case_id in case_ids)
        # Its problems were reported with the first plan.
        return replace(self, cases=cases, num_runs=num_runs, first_run=first_run, problems=())

    def rename_contents(self, stored: Collection[CaseReport | CaseHistory]) -> None:
        """Gives cases that an older agent-eval has stored the fingerprints that equal contents have now."""
        contents = {case.content for case in self.cases}
        # Nearly always: the older hash of each case need not be computed.
        if all(old.fingerprint in contents for old in stored):
            return
        renamed = {
            with_tape(earlier_fingerprint(case.case, case.user_config), case.tape): case.content for case in self.cases
        }
        for old in stored:
            old.fingerprint = renamed.get(old.fingerprint, old.fingerprint)


def make_plan(
    files: Sequence[LoadedFile],
    agents: Mapping[str, str],
    fingerprints: Mapping[str, str],
    num_runs: int,
    judge: Judge | None = None,
    missing: MissingModels | None = None,
    *,
    without_code: Collection[str] = (),
    sources: Callable[[str, str], str] = lambda agent, function: "",
    masker: Masker | None = None,
) -> Plan:
    """Plans a validated suite.

    Args:
        files: Files that were loaded without an error.
        agents: The agent of each file, by the file's path.
        fingerprints: A hash of each agent's source, by agent.
        num_runs: Runs per case.
        judge: The judge of LLM-judged criteria. Without it they can't be planned.
        missing: Models that can't be called. Their criteria report that instead of a score. A case is not run if all
            of its criteria, or its simulated user, need such a model.
        without_code: Agents whose code does not run here, so that their custom metrics can't be called.
        sources: Returns a hash of the source of an agent's custom metric: agent, function.
        masker: Of what the agents say. Without it nothing is masked.

    Returns:
        The plan. It must not be run if its problems include an error.
    """
    problems: list[Problem] = []
    cases: list[PlannedCase] = []
    masker = masker or Masker()
    for file in files:
        agent = agents.get(file.path, "")
        file_problems = _cannot_run(file, judge, without_code=agent if agent in without_code else None)
        problems += file_problems
        if has_error(file_problems) or file.path not in agents:
            continue
        custom = file.config.custom_metrics
        criteria = {
            config.name: _criterion(_masked(config, custom, masker), judge, missing, custom)
            for config in file.config.criteria
        }
        # Part of the identity: scores of another default judge are another measurement, not a drop.
        default = judge.default_model if judge is not None else DEFAULT_JUDGE
        identities = {
            config.name: metric_identity(config, default, source=_source(custom.get(config.name), agent, sources))
            for config in file.config.criteria
        }
        for case in file.cases:
            turns = packed_turns(case)
            gating = [criteria[config.name] for config in criteria_of(file.config, case)]
            skipped, masked = _skip_reason(case, file.config, gating, missing), masker.values(case)
            cases.append(
                PlannedCase(
                    case_id=f"{file.path}:{case.eval_id}",
                    file=file.path,
                    line=file.lines.get(case.eval_id),
                    eval_set_id=file.eval_set.eval_set_id,
                    # A judge names the id, and so does `accept`.
                    case=case if masked is case else masked.model_copy(update={"eval_id": case.eval_id}),
                    original=case,
                    secrets=masker.placeholders(case),
                    user_config=masker.values(file.config.user_simulator_config),
                    criteria=(*gating, *INFORMATIONAL),
                    places=file.config.places,
                    agent=agent,
                    fingerprint=_fingerprint(case, file.config, agent, fingerprints.get(agent, "")),
                    content=(turns is not None and turns.content)
                    or case_fingerprint(
                        case, file.config.user_simulator_config, compares_state=file.config.compares_state
                    ),
                    identities=identities,
                    # A tape may have the judge's replies, which is known only when the case is replayed.
                    skip_reason=None if missing is not None and missing.taped else skipped,
                    skip_live=skipped,
                )
            )
    return Plan(
        cases=tuple(cases),
        num_runs=num_runs,
        problems=tuple(dict.fromkeys(problems)),  # Files that share a config share its problems.
        # The best guess without recorded durations: most of a run's time is that of its turns.
        weights={case.case_id: float(case.turns) for case in cases},
        masker=masker,
    )


def _masked(config: CriterionConfig, functions: Collection[str], masker: Masker) -> CriterionConfig:
    """The criterion with masked options, if a model or code of others gets them."""
    if config.metric not in JUDGED_METRICS and config.name not in functions:
        return config
    return replace(config, options=masker.values(dict(config.options)))


def _criterion(
    config: CriterionConfig, judge: Judge | None, missing: MissingModels | None, custom: Mapping[str, Any]
) -> Criterion:
    functions = {name: metric["code_config"]["name"] for name, metric in custom.items()}
    if config.name in custom and "code" in custom[config.name]:
        # agents-cli's functions: their source is sent, since their file is no module of the agent's environment.
        return CodeMetric(
            name=config.name,
            threshold=config.threshold,
            function=functions[config.name],
            code=custom[config.name]["code"],
            direction=config.direction,
        )
    criterion = _unlabelled_criterion(config, judge, missing, functions)
    if not config.label and config.threshold is not None:
        return criterion
    return Relabelled(name=config.name, threshold=config.threshold, criterion=criterion)


def _unlabelled_criterion(
    config: CriterionConfig, judge: Judge | None, missing: MissingModels | None, functions: Mapping[str, str]
) -> Criterion:
    if config.name in functions:
        return build(config, function=functions[config.name])
    options = judge.options(config) if judge is not None and judge_of(config) is not None else None
    if options is None or missing is None or options.model not in missing.models:
        return build(config, judge=judge)
    message = f"There is no key for its judge, {options.model}"
    return Withheld(
        name=config.metric,
        threshold=config.bound,
        code=missing.code,
        message=message,
        criterion=build(config, judge=judge),
    )


def _source(metric: Mapping[str, Any] | None, agent: str, sources: Callable[[str, str], str]) -> str | None:
    if metric is None:
        return None
    function: str = metric["code_config"]["name"]
    return f"{function} {metric.get('code') or sources(agent, function)}"


def _skip_reason(
    case: EvalCase, config: EvalConfig, gating: Sequence[Criterion], missing: MissingModels | None
) -> RunError | None:
    if missing is None:
        return None
    user = simulator_options(config.user_simulator_config).model
    if case.conversation_scenario is not None and user in missing.models:
        message = f"There is no key for the model of its simulated user, {user}"
    elif gating and all(isinstance(unlabelled(criterion), Withheld) for criterion in gating):
        # Asking the agent would cost money, and nothing would score what it says.
        message = NO_JUDGE
    else:
        return None
    return RunError(kind=missing.code, owner="gate", message=message)


def _cannot_run(file: LoadedFile, judge: Judge | None, *, without_code: str | None) -> list[Problem]:
    """What ADK accepts and this version does not support. It is refused, because it would gate nothing."""
    problems = []
    config = file.config.source or file.path
    for criterion in file.config.criteria:
        if criterion.name in file.config.custom_metrics:
            if without_code is not None and "code" not in file.config.custom_metrics[criterion.name]:
                problems.append(_metric_without_agent(criterion.metric, file.config, without_code))
            continue
        if criterion.metric not in METRICS:
            problems += _package_problem(criterion, config)
            continue
        reason = why_not(criterion)
        if reason or not supported(criterion.metric, judged=judge is not None):
            problems.append(
                Problem(
                    code="metric-unsupported",
                    message=f"{reason or f'This version has no scorer for `{criterion.metric}`'}.",
                    hint="Remove it from `criteria`, or move these cases to their own directory and exclude it "
                    f"({docs_page('criteria')} lists the supported metrics).",
                    file=config,
                )
            )
    return problems


def _metric_without_agent(metric: str, config: EvalConfig, agent: str) -> Problem:
    server = agent.startswith(("adk:", "a2a:"))
    why = "which is not here: the agent is a server" if server else "and a recording has none"
    return Problem(
        code="custom-metric-without-agent",
        message=f"The custom metric `{metric}` runs in the agent's environment, {why}.",
        hint="Run the agent itself (`agent: DIRECTORY`), or remove the metric from `criteria`.",
        file=config.source,
        line=int(config.places[metric].rpartition(":")[2]) if metric in config.places else None,
    )


def _package_problem(criterion: CriterionConfig, config: str) -> list[Problem]:
    try:
        build(criterion)
    except PackageFault as fault:
        message = str(fault)
        return [
            Problem(
                code="criterion-package-broken",
                message=f"{message[:1].upper()}{message[1:]}.",
                hint="Correct the criterion, or install, update or remove the package in agent-eval's environment.",
                file=config,
            )
        ]
    return []


def _fingerprint(case: EvalCase, config: EvalConfig, agent: str, source: str) -> str:
    digest = hashlib.sha256(f"{agent}\0{source}\0".encode())
    if case.session_input is not None:
        digest.update(case.session_input.model_dump_json().encode())
    if case.conversation_scenario is not None:
        digest.update(case.conversation_scenario.model_dump_json().encode())
        digest.update(repr(config.user_simulator_config).encode())
    # Of the turns only what the agent is given: a changed expectation scores the same recording again.
    for message in messages_of(case):
        digest.update(b"\0" + message)
    return digest.hexdigest()[:16]


def given_by(case: EvalCase) -> dict[str, str]:
    """Hashes of what a case gives its agent before anything is answered, by what it is."""
    session = session_of(case)
    messages = [turn.user_content.model_dump(mode="json", exclude_none=True) for turn in case.conversation or ()]
    parts = {"session": session, **{f"message {number}": message for number, message in enumerate(messages, 1)}}
    return {
        name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:32] for name, part in parts.items()
    }
