"""The runs of a case on both sides, each with its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_eval_results import CaseReport, Recording, RunError, RunResult, result_of_run
from agent_eval_results.report.html._packing import number, shown
from agent_eval_results.report.html._source import CaseDetail, Facts
from agent_eval_results.report.html._turns import excerpt_turns, turns_of
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, tool_calls

Side = Literal["head", "confirm", "base", "base-stored"]
_LINE = 4_000
_LOG = 20_000
_SHORTENED = "Shortened: the recordings are not beside the results."
_NOT_RECORDED = "What the agent did in this run was not recorded."


@dataclass(frozen=True, kw_only=True)
class PageRun:
    """A run to show."""

    side: Side
    result: RunResult
    recording: Recording | None
    scored: bool = True
    """False for a run of which only the recording is known."""

    @property
    def key(self) -> str:
        """E.g. `head:0`; unique in a case."""
        return f"{self.side}:{self.result.run}"


class CaseRuns:
    """The runs of a case, with the recordings that belong to them."""

    def __init__(self, facts: Facts, case: CaseReport, *, is_read: bool, is_base_read: bool) -> None:
        """Reads the recordings of the sides, or leaves them alone."""
        self.case = case
        self.ignored = 0
        """Recordings that belong to no run of the report."""
        self._branch = facts.view.branch
        head = {recording.run_id: recording for recording in (facts.source.recordings(case.case_id) if is_read else ())}
        sides: list[tuple[Side, Sequence[CaseReport]]] = [
            ("head", [case]),
            ("confirm", facts.confirmations.get(case.case_id, ())),
        ]
        self.head = [
            PageRun(side=side, result=run, recording=self._belonging(run, head.pop(run.run_id, None)))
            for side, parts in sides
            for part in parts
            for run in part.runs
        ]
        self.ignored += len(head)
        self.base = list(base_runs(facts, case.case_id)) if is_base_read else []

    def _belonging(self, run: RunResult, recording: Recording | None) -> Recording | None:
        if recording is None or (run.started_at is not None and recording.started_at != run.started_at):
            self.ignored += recording is not None
            return None
        return recording

    def turns(self) -> Iterator[Invocation]:
        """All recorded turns of the head."""
        for run in self.head:
            if run.recording is not None:
                yield from run.recording.all_turns

    def tools(self) -> set[str]:
        """The names of the tools that the head's runs called."""
        return {call.name for turn in self.turns() for call in tool_calls(turn.intermediate_data) if call.name}

    def user(self) -> str:
        """What the user said in the first recorded run; "" if none is recorded."""
        first = next((run.recording for run in self.head if run.recording is not None), None)
        return "" if first is None else "\n".join(text_of(turn.user_content) for turn in first.all_turns)

    def shown(self, expected: Sequence[Invocation] | None, detail: CaseDetail) -> Iterator[dict[str, Any]]:
        """The runs with their conversations, as far as the detail goes."""
        runs = [*self.head, *(self.base if detail.base else ())]
        for at, run in enumerate(runs):
            keep = detail.conversations and (detail.runs is None or at < detail.runs or run.side.startswith("base"))
            yield {**run_facts(run, self._branch, detail), **self._conversation(run, expected, detail, keep=keep)}

    def _conversation(
        self, run: PageRun, expected: Sequence[Invocation] | None, detail: CaseDetail, *, keep: bool
    ) -> Mapping[str, Any]:
        if not keep:
            return {"turns": [], "left_out": "The conversation is left out; recordings.jsonl.gz has it."}
        if run.recording is not None:
            turns = turns_of(run.recording.all_turns, expected, detail)
            left = len(run.recording.all_turns) - len(turns)
            return {"turns": turns, "left_out": f"{left:,} more turns are left out." if left else None}
        excerpt = self.case.conversation
        if excerpt is not None and run.side in {"head", "confirm"} and excerpt.run == run.result.run:
            return {"turns": excerpt_turns(excerpt), "left_out": _SHORTENED}
        return {"turns": [], "left_out": None if run.result.did_not_run else _NOT_RECORDED}


def base_runs(facts: Facts, case_id: str, *, is_read: bool = True, is_gone: bool = False) -> Iterator[PageRun]:
    """The base branch's runs of a case in the order of their numbers: those of today, then those of the baseline.

    Args:
        facts: The lookups.
        case_id: The case's id in this report; the base branch's of a case that only the base branch has.
        is_read: Whether recordings are read. Without them, the runs of the report are known.
        is_gone: Whether only the base branch has it.
    """
    base_id = case_id if is_gone else facts.base_id(case_id)
    reported = facts.base_runs.get(base_id, ())
    fresh = [*facts.source.base_recordings(case_id)] if is_read and not is_gone else []
    stored = [*facts.source.baseline_recordings(base_id)] if is_read else []
    if not (reported or fresh or stored):
        return
    today = {recording.run: recording for recording in fresh}
    runs = [
        PageRun(side="base", result=run, recording=today.pop(run.run, None)) for part in reported for run in part.runs
    ]
    sides: Sequence[tuple[Side, Iterable[Recording]]] = (("base", today.values()), ("base-stored", stored))
    for side, recordings in sides:
        recorded = sorted(recordings, key=lambda recording: recording.run)
        statuses = [] if is_gone else facts.base_statuses(case_id)
        if len(statuses) != len(recorded):  # The history keeps the last runs only.
            statuses = [None] * len(recorded)
        for recording, status in zip(recorded, statuses, strict=True):
            result = result_of_run(recording, status or ("passed" if recording.error is None else "errored"))
            runs.append(PageRun(side=side, result=result, recording=recording, scored=status is not None))
    yield from sorted(runs, key=lambda run: (run.side == "base-stored", run.result.run))


def run_facts(run: PageRun, branch: str, detail: CaseDetail) -> Mapping[str, Any]:
    """A run without its conversation.

    Args:
        run: The run.
        branch: The name of the base branch.
        detail: How much to keep.
    """
    result = run.result
    place = result.run + 1
    labels: Mapping[Side, str] = {
        "head": f"run {place}",
        "confirm": f"extra run {place}",
        "base": f"{branch}, run {place}",
        "base-stored": f"{branch}, stored run {place}",
    }
    return {
        "key": run.key,
        "side": "base" if run.side.startswith("base") else "head",
        "run": result.run,
        "label": labels[run.side],
        "status": result.status if run.scored or result.error is not None else None,
        "error": error_of(result.error, detail),
        "seconds": number(result.duration, 3),
        "usage": result.usage.model_dump(exclude_none=True),
        "attempts": result.attempts,
        "stop_reason": shown(result.stop_reason, 200) or None,
    }


def error_of(error: RunError | None, detail: CaseDetail) -> dict[str, Any] | None:
    """An error as the page shows it; without the words of `scores` only its kind and owner."""
    if error is None:
        return None
    words = detail.words
    return {
        "kind": shown(error.kind, 200),
        "owner": error.owner,
        "message": shown(error.message, _LINE) if words else "",
        "hint": shown(error.hint, _LINE) if words else "",
        "traceback": shown(error.traceback, _LOG) if words else "",
        "log_tail": shown(error.log_tail, _LOG) if words else "",
        "turn": error.turn,
    }
