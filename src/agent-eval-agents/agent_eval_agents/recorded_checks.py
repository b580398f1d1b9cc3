"""What is wrong with a recording for the cases that it answers, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_eval_agents.traces.matching import HINT, TracedRuns, ambiguities, trace_ids
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.json import read_document
from agent_eval_scoring.evalset.models import EvalCase, LoadedFile


def check_traces(
    recording: str, traces: TracedRuns, file: LoadedFile, files: Sequence[LoadedFile], runs: int | None
) -> Iterator[Problem]:
    """An error for each case that shares a conversation with another one, a warning about conversations without use."""
    every = {f"{one.path}:{case.eval_id}": (case.eval_id, case.user_texts) for one in files for case in one.cases}
    own = {case_id: case for case_id, case in every.items() if case_id.startswith(f"{file.path}:")}
    for case_id, reason in ambiguities(traces, every):
        if case_id in own:
            yield Problem(
                code="recording-ambiguous",
                message=f"The traces {recording} can't be matched with the case `{own[case_id][0]}`: {reason}.",
                hint=HINT,
                file=file.path,
            )
    for case_id, (eval_id, messages) in own.items():
        matched, _ = traces.of(case_id, eval_id, messages)
        if runs is not None and len(matched) > runs:
            yield Problem(
                severity=Severity.WARNING,
                code="recording-unused",
                message=f"The traces {recording} have {len(matched)} conversations of the case `{eval_id}`, of which "
                f"{plural(len(matched) - runs, 'is', 'are')} not evaluated: {trace_ids(matched[runs:])}.",
                hint=f"Set `num-runs` to {len(matched)}.",
                file=file.path,
            )


def silent_turns(recorded: Any, case: EvalCase | None) -> list[int]:
    """The numbers (from 0) of the turns of a recorded case that have no answer although one is expected."""
    turns = recorded.get("conversation") if isinstance(recorded, dict) and case is not None else None
    silent = [
        number
        for number, turn in enumerate(turns if isinstance(turns, list) else ())
        if isinstance(turn, dict) and not {"final_response", "finalResponse"} & turn.keys()
    ]
    expected = (case and case.conversation) or ()
    return [number for number in silent if number < len(expected) and text_of(expected[number].final_response).strip()]


def without_answers(
    recording: str, path: Path, silent: Sequence[tuple[int, str, int]], again: str
) -> Iterator[Problem]:
    """A warning for each of the turns that `silent_turns` found, with index and id of their cases."""
    document = read_document(path, recording)[0] if silent else None
    if document is None:
        return
    for index, eval_id, number in silent:
        yield document.warning(
            "recording-unusable",
            f"Turn {number + 1} of `{eval_id}` has no `final_response` in this recording, so it is scored as if the "
            "agent gave no answer.",
            path=("eval_cases", index, "conversation", number),
            hint=f"Add the answer. {again}",
        )
