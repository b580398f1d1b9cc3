"""Mutates the stored conversations of cases, scores the mutants, and looks for what would kill the survivors."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import tool_calls, tool_responses
from agent_eval_scoring.evalset.models import LoadedFile, Suite
from agent_eval_workbench.mutation.advice import Change, find_changes, read_config_text
from agent_eval_workbench.mutation.mutants import KINDS, OF_CALLS, OF_STATE, Mutant, expects_answer, mutants
from agent_eval_workbench.mutation.report import LeftOut, MutantReport, MutationReport, Tally, counted
from agent_eval_workbench.mutation.subjects import Aspect, Outcome, Rules, Scene, Subject, is_judged, looks_at

_MOST = 2
"""Mutants of a kind and a case."""
_OTHERS = 4
"""Cases of whose answers one is chosen."""
_WORDS: Mapping[Outcome, str] = {"passed": "survived", "failed": "killed", "unknown": "undecided"}

_FAILED = "no stored run passes: correct the agent or the case, run it again, then `agent-eval mutate`"


@dataclass(frozen=True, kw_only=True)
class _Trial:
    scene: Scene
    report: MutantReport
    marks: Mapping[str, tuple[Outcome, float | None]]


async def survey(
    subjects: Sequence[Subject], suite: Suite, rules: Rules, root: Path, seed: int, left_out: list[LeftOut]
) -> tuple[MutationReport, list[Change]]:
    """Measures what the criteria of these cases notice.

    Args:
        subjects: The cases.
        suite: All eval files: a config may hold for more than these cases.
        rules: How cases are scored.
        root: The repository.
        seed: Chooses the mutants.
        left_out: Cases without mutants; gets others.

    Returns:
        What was measured, and what could be changed.
    """
    good: list[Scene] = []
    trials: list[_Trial] = []
    texts = {each.case_id: [text_of(turn.final_response) for turn in each.runs[0].invocations] for each in subjects}
    for subject in subjects:
        scenes = [Scene(subject=subject, run=run, turns=run.invocations) for run in subject.runs]
        green = [scene for scene in scenes if await _passes(scene)]
        if not green:
            left_out.append(LeftOut(name=subject.case_id, why=_FAILED))
            continue
        good += green
        rng = Random(f"{seed} {subject.case_id}")  # noqa: S311 - the same mutants every time
        cases = [case_id for case_id in texts if case_id != subject.case_id]
        others = [text for each in rng.sample(cases, min(_OTHERS, len(cases))) for text in texts[each] if text.strip()]
        made = mutants(
            green[0].turns,
            subject.case.conversation,
            subject.case.expected_state,
            answers=_looks(subject, "answers"),
            calls=_looks(subject, "calls"),
            others=others,
            rng=rng,
            most=_MOST,
        )
        made = [mutant for mutant in made if green[0].run.calls_visible or mutant.kind not in OF_CALLS]
        left_out += [LeftOut(name=subject.case_id, why=why) for why in _not_mutated(green[0], made)]
        trials += await asyncio.gather(*(_trial(green[0], mutant) for mutant in made))
    reports = [trial.report for trial in trials]
    marks = ((name, outcome) for trial in trials for name, (outcome, _) in trial.marks.items())
    mutated = {report.case_id for report in reports}
    by_kind, by_case = (counted((getattr(each, key), each.outcome) for each in reports) for key in ("kind", "case_id"))
    report = MutationReport(
        seed=seed,
        runs=sum(scene.subject.case_id in mutated for scene in good),
        total=(counted(("all", each.outcome) for each in reports) or [Tally(name="all")])[0],
        by_kind=sorted(by_kind, key=lambda each: [*KINDS].index(each.name)),
        by_case=sorted(by_case, key=lambda each: 1.0 if each.score is None else each.score),
        by_criterion=counted((name, _WORDS[outcome]) for name, outcome in marks if outcome in _WORDS),
        mutants=reports,
        not_scored=dict(Counter(name for subject in subjects for name in subject.others)),
    )
    changes: list[Change] = []
    for key in dict.fromkeys(_config_of(scene.subject.file) for scene in good):
        files = [file for file in suite.files if _config_of(file) == key]
        alive = [each.scene for each in trials if each.report.outcome == "survived"]
        own, survivors = ([scene for scene in side if _config_of(scene.subject.file) == key] for side in (good, alive))
        config = read_config_text(root, own[0].subject.file.config, key[1], files)
        changes += await find_changes(config, rules, own, survivors, left_out)
    report.left_out = left_out
    if changes:
        report.advice = [change.report for change in changes]
        kills = sum(change.report.kills for change in changes)
        counts = {"killed": report.total.killed + kills, "survived": report.total.survived - kills}
        report.after = report.total.model_copy(update=counts)
    return report, changes


def _config_of(file: LoadedFile) -> tuple[str | None, str]:
    """The config of a file, or the folder where it would be."""
    return file.config.source, "" if file.config.source is not None else file.path.rpartition("/")[0]


async def _passes(scene: Scene) -> bool:
    marks = [(await scene.outcome(each))[0] for each in scene.subject.criteria]
    return "failed" not in marks and "passed" in marks


def _looks(subject: Subject, aspect: Aspect) -> bool:
    """Whether a criterion looks at calls, or answers, without references."""
    return any(looks_at(each, aspect, without_references=True) for each in subject.criteria)


def _not_mutated(scene: Scene, made: Sequence[Mutant]) -> Iterator[str]:
    subject, expected = scene.subject, scene.subject.case.conversation or ()
    called, asked = (any(tool_calls(turn.intermediate_data) for turn in side) for side in (scene.turns, expected))
    if not made:
        yield "expects neither an answer nor calls"
        return
    if subject.case.expected_state and scene.turns[-1].session_state is None:
        yield "was stored without its state, so this was not changed"
    if not any(map(expects_answer, expected)) and not _looks(subject, "answers"):
        yield "expects no answer, so its answers were not changed"
    if not scene.run.calls_visible:
        yield "does not show its calls, so these were not changed"
    elif called and not asked and not _looks(subject, "calls"):
        yield "expects no calls, so its calls were not changed"
    if called and not any(tool_responses(turn.intermediate_data) for turn in scene.turns):
        yield "was stored without what tools answered, so no tool fails"


async def _trial(original: Scene, mutant: Mutant) -> _Trial:
    """Judges are asked only about what passes the other criteria."""
    subject = original.subject
    aspect: Aspect = "calls" if mutant.kind in OF_CALLS else "state" if mutant.kind in OF_STATE else "answers"
    scene = Scene(subject=subject, run=original.run, turns=mutant.turns)
    looking = [each for each in subject.criteria if mutant.kind == "turn-missing" or looks_at(each, aspect)]
    marks: dict[str, tuple[Outcome, float | None]] = {}
    killed_by: list[str] = []
    for criterion in sorted(looking, key=is_judged):
        if not (killed_by and is_judged(criterion)):
            mark = marks[criterion.name] = await scene.outcome(criterion)
            killed_by += [criterion.name] if mark[0] == "failed" else []
    unknown = bool(subject.others) or any(outcome == "unknown" for outcome, _ in marks.values())
    report = MutantReport(
        case_id=subject.case_id,
        run=scene.run.run,
        turn=mutant.turn,
        kind=mutant.kind,
        old=mutant.old,
        new=mutant.new,
        outcome="killed" if killed_by else "undecided" if unknown else "survived",
        killed_by=killed_by,
        scores={name: score for name, (_, score) in marks.items() if score is not None},
    )
    return _Trial(scene=scene, report=report, marks=marks)
