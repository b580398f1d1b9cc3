"""The recorded tool calls of a run: whether they can be used, and what they mean for its plan."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_eval.pipeline.ci_context import CIContext
from agent_eval_scoring.core.files import read_regular
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import Problem, Severity, docs_page
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.evalset.models import LoadedFile, Suite

if TYPE_CHECKING:
    from agent_eval.runner import Chosen, Plan, Tapes
    from agent_eval.runner.bill import Bill
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.tape_rules import Mode, ToolRule
    from agent_eval_agents.tapes import Tape
    from agent_eval_results import CaseReport, RunReport

_MOST_REASONS = 3
"""Of cases that ran live."""
_DAY = 86_400.0
_OLD = 30 * _DAY
"""Age in seconds from which tapes of models may no longer be what the models say."""


def decides_tools(mode: Mode, rules: Iterable[ToolRule]) -> bool:
    """Whether calls of tools are recorded, or answered by something else."""
    return mode != "live" or any(rule.answers for rule in rules)


def open_tapes(
    settings: Settings,
    untrusted: Mapping[tuple[str, str], str] | None = None,
    masker: Masker | None = None,
    choices: AgentChoices | None = None,
) -> Tapes | None:
    """The tapes of the repository's cases; None if all calls run.

    Args:
        settings: The run's settings.
        untrusted: The cases (file, eval id) whose models are not replayed, with the reason as a clause.
        masker: Of secrets that no tape must have.
        choices: The agents.
    """
    if not decides_tools(settings.tape_mode, settings.tool_rules) or (choices is not None and choices.only_recorded):
        return None
    from agent_eval.gate.policy import PolicyReader
    from agent_eval.runner import Tapes
    from agent_eval_agents.tapes import ToolRules

    reader = PolicyReader(settings.policy)

    def decides(file: str, eval_id: str, metric: str) -> bool:
        policy = reader.metric(metric, reader.of_case(file, eval_id))
        # With a threshold of the policy, what the call's criterion in test_config.json says does not decide.
        return policy.blocking and policy.threshold is None

    return Tapes(
        root=settings.root.absolute(),
        mode=settings.tape_mode,
        rules=ToolRules(rules=settings.tool_rules, volatile=settings.volatile_rules),
        decides=decides,
        skip=(settings.output,),
        untrusted=untrusted or {},
        may_be_live=settings.replay == "missing-live",
        recorded=choices.recorded if choices is not None else frozenset(),
        mask=(masker or Masker()).text,
    )


def tape_digests(tape_mode: Mode, root: Path, files: Iterable[LoadedFile]) -> dict[tuple[str, str], str]:
    """A hash of what each tape says by eval file and eval id; empty unless models are replayed.

    A tape that can't be read, or that is reached through a link, is equal to no other one.
    """
    if tape_mode != "all":
        return {}
    from agent_eval_agents.tapes import MAX_TAPE, tape_path

    digests = {}
    for case in ((file.path, case.eval_id) for file in files for case in file.cases):
        path = tape_path(root, *case)
        try:
            # A link may lead to another file in the base branch's checkout, or outside of it.
            is_link = path.is_symlink() or path.parent.is_symlink()
            digests[case] = f"link in {path}" if is_link else _digest(read_regular(path, MAX_TAPE))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            digests[case] = f"unreadable: {path}"
    return digests


def _digest(data: bytes) -> str:
    """A hash of a file's content as JSON, whatever its line ends are; of its bytes if it is none.

    A key that is there twice could be read in two ways.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(value := dict(pairs)) < len(pairs):
            raise ValueError("a key is there twice")
        return value

    with contextlib.suppress(ValueError, RecursionError):
        data = json.dumps(json.loads(data.decode("utf-8"), object_pairs_hook=members)).encode()
    return hashlib.sha256(data).hexdigest()


def tapes_unsupported(settings: Settings, choices: AgentChoices) -> list[Problem]:
    """Errors where `replay` or `record` can't be obeyed."""
    if not decides_tools(settings.tape_mode, settings.tool_rules):
        return []
    setting = "answers: case" if settings.tape_mode == "live" else _said(settings.record, settings.replay)
    unable = {choice.path for choice in choices.by_file.values() if not choice.driver.replays_tools}
    if setting in ("replay: all", "answers: case"):  # Their answers are recorded, and judges answer from the cache.
        unable -= choices.recorded
    problems = [
        Problem(
            code="tapes-unsupported",
            message=f"`{setting}` is set, but the agent `{path}` does not run under agent-eval's control.",
            hint="Only the tools and models of ADK agents that run here are recorded and replayed; for this agent, "
            + (f"set `{setting.partition(':')[0]}: off`" if settings.tape_mode != "live" else "remove `answers`")
            + f" ({docs_page('tools')}).",
        )
        for path in sorted(unable)
    ]
    if settings.resume and settings.record != "off":
        problems.append(
            Problem(
                code="tapes-unsupported",
                message=f"`--resume` can't be combined with `{setting}`: the calls of reused runs would be missing on "
                "the tapes.",
                hint="Run without --resume.",
            )
        )
    return problems


def is_missed(case: CaseReport) -> bool:
    """Whether a run of the case ended because its tape does not answer."""
    from agent_eval.runner import REPLAY_MISSES

    return any(run.ended_by(REPLAY_MISSES) for run in case.runs)


def chosen_runs(cases: Iterable[CaseReport]) -> dict[str, Chosen | None]:
    """The run of each case whose model calls become its tape; None if the runs have different results.

    Args:
        cases: The head's, with the policy applied.
    """
    from agent_eval.runner import Chosen

    chosen: dict[str, Chosen | None] = {}
    for case in cases:
        # Runs that disagree show that the case is noisy: any of them on a tape would hide that in each replay.
        judged = [run for run in case.runs if run.is_judged]
        # A judge that is down does not change what the agent did.
        judged = judged or [run for run in case.runs if run.errored and run.error is None]
        chosen[case.case_id] = None
        if judged and len({run.status for run in judged}) == 1:
            number = judged[0].run
            scores = {
                metric.name: (score.score, metric.measure)
                for metric in case.metrics
                for score in metric.runs
                if score.run == number and score.score is not None
            }
            chosen[case.case_id] = Chosen(
                run=number, status="" if judged[0].errored else judged[0].status, scores=scores
            )
    return chosen


def replay_notices(report: RunReport, ages: Mapping[str, float], live: Mapping[str, str], bill: Bill) -> list[str]:
    """What was replayed, what that saved, how old that is, and which cases ran live.

    Args:
        report: With its cases.
        ages: Seconds since the tapes were recorded, by case id.
        live: Why each case ran live that was to be replayed, by case id.
        bill: Knows what the replayed calls would have cost, and whose they were.
    """
    from agent_eval_results.report.phrases import say

    written = {case.case_id: count for case in report.cases if (count := case.by_hand)}
    by_hand = [say("answered-by-hand", count=sum(written.values()), cases=list(written))] if written else []
    uses = [run.tools for case in report.cases if case.replayed for run in case.runs if run.tools is not None]
    lines = by_hand if report.has_verdict else []
    if uses and report.has_verdict:  # A merge counts the cases of all parts.
        calls, total = sum(use.model_calls for use in uses), len(report.cases)
        lines.append(say("replayed", count=len(uses), total=total, calls=calls, cost=bill.saved))
    old = [case.case_id for case in report.cases if case.replayed and ages.get(case.case_id, 0.0) > _OLD]
    if old:
        # The oldest first: it is the one whose age is said.
        old.sort(key=lambda case_id: -ages[case_id])
        lines.append(say("tapes-old", cases=old, days=int(ages[old[0]] / _DAY)))
    for model in sorted(bill.unknown & bill.replayed.keys()):
        lines.append(say("tapes-of-unknown-model", models=[model], cases=sorted(bill.replayed[model])))
    together: dict[str, list[str]] = {}
    for case_id, message in live.items():
        together.setdefault(message, []).append(case_id)
    groups = sorted(together.items(), key=lambda group: -len(group[1]))
    others = [case_id for _, cases in groups[_MOST_REASONS:] for case_id in cases]
    for message, cases in [*groups[:_MOST_REASONS], *([("", others)] if others else [])]:
        lines.append(say("not-replayed", cases=cases, message=message))
    return lines


def _said(record: str, replay: str) -> str:
    """The one of `replay` and `record` that is set."""
    return f"replay: {replay}" if record == "off" else f"record: {record}"


def plan_tapes(plan: Plan, tapes: Tapes | None) -> Plan:
    """The plan with each case's tape in its fingerprints, and with the problems of the tapes."""
    if tapes is None:
        return plan
    plan, problems = tapes.in_plan(plan)
    return dataclasses.replace(plan, problems=(*plan.problems, *problems))


@dataclass(frozen=True, kw_only=True)
class StoredTape:
    """A tape beside an eval file."""

    path: Path
    name: str
    """Relative to the root."""
    case_id: str | None
    """None: it belongs to no case of its eval file."""


def stored_tapes(root: Path, suite: Suite) -> list[StoredTape]:
    """The tapes beside the eval files of a suite without errors."""
    from agent_eval_agents.tapes import tape_path, tapes_below
    from agent_eval_scoring.evalset.paths import absolute, name_of

    root = absolute(root)
    cases = {
        tape_path(root, file.path, case.eval_id): f"{file.path}:{case.eval_id}"
        for file in suite.files
        for case in file.eval_set.eval_cases
    }
    files = [file.path for file in suite.files]
    return [
        StoredTape(path=path, name=name_of(path, root), case_id=cases.get(path))
        for path in tapes_below(root, [*files, *_deleted(root, files)])
    ]


def _deleted(root: Path, files: Iterable[str]) -> list[str]:
    """The eval files that have left their tapes in the directories of other ones."""
    from agent_eval_agents.tapes import FOLDER

    left = [
        path.with_name(f"{path.name.removesuffix(FOLDER)}.json")
        for directory in dict.fromkeys((root / file).parent for file in files)
        for path in sorted(directory.glob(f"*{FOLDER}"))
    ]
    return [path.relative_to(root).as_posix() for path in left if not path.exists()]


def stale_tools_by(output: Path, root: Path, tool_rules: tuple[ToolRule, ...]) -> Callable[[Tape], dict[str, str]]:
    """Says which tools of a tape have changed since it was recorded, with what changed, as far as files show it."""
    from agent_eval_agents.tapes import ToolRules
    from agent_eval_agents.tool_files import ToolFiles, stale_tools

    files = ToolFiles(root.absolute(), [output])
    return functools.partial(stale_tools, rules=ToolRules(rules=tool_rules), files=files)


def tape_problems(root: Path, output: Path, tool_rules: tuple[ToolRule, ...], suite: Suite) -> list[Problem]:
    """What is wrong with the tapes beside the eval files and with `depends`, whether or not they are used."""
    from agent_eval_agents.tapes import InvalidTape, ToolRules, read_tape
    from agent_eval_agents.tool_files import ToolFiles, depends_problems
    from agent_eval_scoring.evalset.paths import absolute

    problems = depends_problems(ToolRules(rules=tool_rules), ToolFiles(root.absolute(), [output]))
    for stored in stored_tapes(root, suite):
        if stored.case_id is not None:
            try:
                read_tape(stored.path, absolute(root))
            except InvalidTape as invalid:
                problems += invalid.problems
        else:
            problems.append(
                Problem(
                    severity=Severity.WARNING,
                    code="tape-orphaned",
                    message="The tape belongs to no case of its eval file, or the file is gone.",
                    hint="`agent-eval tapes --prune` removes it. A renamed case is recorded again.",
                    file=stored.name,
                )
            )
    return problems


def unanswered(
    replay: str, tool_rules: tuple[ToolRule, ...], output: Path, root: Path, suite: Suite, choices: AgentChoices
) -> list[str]:
    """Lines about the selected cases whose tape is missing or stale, if it is replayed."""
    if replay == "off":
        return []
    from agent_eval_agents.tapes import ToolRules

    tapes = {stored.case_id: stored for stored in stored_tapes(root, suite)}
    # `recorded:FILE` has the answers itself.
    recorded = {path for path, choice in choices.by_file.items() if choice.driver.reads_file}
    files = [file for file in suite.files if file.path not in recorded]
    cases = [f"{file.path}:{case.eval_id}" for file in files for case in file.cases]
    readable = {case: tape for case in cases if case in tapes and (tape := _readable(root, tapes[case]))}
    live = replay == "missing-live"
    without_models = [case for case in cases if not (case in readable and readable[case].has_models(may_be_live=live))]
    without_tape = [case for case in cases if case not in tapes or (case in readable and readable[case].outdated)]
    missing = without_tape if replay == "tools" else without_models
    stale_tools, rules = stale_tools_by(output, root, tool_rules), ToolRules(rules=tool_rules)
    stale = [
        case
        for case, tape in readable.items()
        if case not in missing and any(rules.of(tool).stale == "error" for tool in stale_tools(tape))
    ]
    then = {"all": ", inconclusive", "missing-live": ", which will run live"}.get(replay, "")
    lines = []
    if missing:
        what = f"No recorded model calls: {plural(len(missing), 'case')}{then}"
        if replay == "tools":
            what = f"No tape: {plural(len(missing), 'case')}, which must not call a tool"
        lines.append(f"{what}: {listed(missing, 3)}")
        if not live:
            lines.append("Record them with `agent-eval run --record missing`, and commit the tapes.")
    if stale:
        number = plural(len(stale), "case")
        lines.append(f"Stale tapes, because tools have changed: {number}{then}: {listed(stale, 3)}")
    return lines


def _readable(root: Path, stored: StoredTape) -> Tape | None:
    from agent_eval_agents.tapes import InvalidTape, read_tape

    try:
        return read_tape(stored.path, root.absolute())
    except InvalidTape:  # reported by `tape_problems`
        return None


_RECORDING = frozenset({"schedule", "workflow_dispatch"})
"""Events of workflows that can be there to record: their code is no pull request's, and a push starts none of them."""


def recording_refused(record: str, replay: str, ci: CIContext, *, in_ci: bool) -> list[Problem]:
    """An error where recording would write tapes that are lost, or that a pull request made."""
    guarded = (in_ci or ci.activity.pull_request is not None) and ci.event.name not in _RECORDING
    if record == "off" or not guarded:
        return []
    return [
        Problem(
            code="record-in-ci",
            message=f"`{_said(record, replay)}` is set, and this is CI: it runs the tools and writes into the "
            "checkout.",
            hint="Record on your machine, or in a workflow that a schedule starts, and commit the tapes "
            f"({docs_page('tools')}). `--yes` records nevertheless.",
        )
    ]
