"""What is wrong with a recording for the cases that it answers, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_eval_agents.traces.matching import HINT, TracedRuns, ambiguities, trace_ids
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.json import read_document
from agent_eval_scoring.evalset.models import LoadedFile


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


def without_answers(recording: str, path: Path, files: Sequence[LoadedFile], again: str) -> Iterator[Problem]:
    """A warning for each turn with an expected answer of which an eval set has none: it is not the agent's silence."""
    cases = {case.eval_id: case for file in files for case in file.cases}
    document, _ = read_document(path, recording)
    recorded = document.value.get("eval_cases") if document is not None and isinstance(document.value, dict) else None
    for index, own in enumerate(recorded if isinstance(recorded, list) else ()):
        turns, case = own.get("conversation"), cases.get(own.get("eval_id"))
        expected = (case and case.conversation) or ()
        for number, (turn, wanted) in enumerate(zip(turns if isinstance(turns, list) else (), expected, strict=False)):
            silent = isinstance(turn, dict) and not {"final_response", "finalResponse"} & turn.keys()
            if document is not None and silent and text_of(wanted.final_response).strip():
                yield document.warning(
                    "recording-unusable",
                    f"Turn {number + 1} of `{own['eval_id']}` has no `final_response` in this recording, so it is "
                    "scored as if the agent gave no answer.",
                    path=("eval_cases", index, "conversation", number),
                    hint=f"Add the answer. {again}",
                )
