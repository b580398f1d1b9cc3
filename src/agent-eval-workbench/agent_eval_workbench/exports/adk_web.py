"""`agent-eval export adk`: results where `adk web` lists them (`.adk/eval_history` of an agent, google-adk 2.13.0)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.baseline.reader import UnreadableError
from agent_eval.commands import CliIO
from agent_eval_results import MetricReport
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval_scoring.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvents,
    tool_calls,
    tool_responses,
)
from agent_eval_scoring.core.text import harmless, plural
from agent_eval_scoring.evalset.adk_results import (
    AdkCaseResult,
    AdkMetricResult,
    AdkSetResult,
    AdkStatus,
    AdkTurnResult,
)
from agent_eval_scoring.evalset.json import write_text
from agent_eval_workbench.exports.runs import ExportedRun, StoredRun, Turn, runs_of, turn_scores

SUFFIX = ".evalset_result.json"
"""The end of the names of ADK's result files."""
_SESSION = "adk-eval-session-"
"""Begins the session ids of ADK's evals, which `adk web` leaves out of its list of sessions."""
_USER_ID = "user"
_STATUS = {"passed": AdkStatus.PASSED, "failed": AdkStatus.FAILED}
_SEGMENT = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, kw_only=True)
class AdkExport:
    """One file for `adk web`: one run of the cases of one eval set."""

    file: str
    """The eval file, which says which agent's history it belongs to."""
    result: AdkSetResult

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.result.eval_set_result_name}{SUFFIX}"


def adk_exports(stored: StoredRun, apps: Mapping[str, str]) -> Iterator[AdkExport]:
    """The results by eval file and run, since `adk web` shows a case once per result.

    Args:
        stored: The run. Only runs of the head's cases are exported.
        apps: The name of the agent's directory, by eval file. The results of other files are left out.
    """
    runs: dict[tuple[str, int], list[ExportedRun]] = {}
    for run in runs_of(stored):
        if run.side == "head" and run.case.file in apps:
            runs.setdefault((run.case.file, run.result.run), []).append(run)
    for number, ((file, _), group) in enumerate(runs.items()):
        # The page sorts by this number as text; each result needs its own.
        created = round(stored.report.started_at + number / 1000, 3)
        app, set_id = apps[file], group[0].case.eval_set_id
        # As ADK builds it; an id may have slashes, and this becomes the name of a file.
        name = _SEGMENT.sub("_", f"{app}_{set_id}_{created:.3f}")
        yield AdkExport(
            file=file,
            result=AdkSetResult(
                eval_set_result_id=name,
                eval_set_result_name=name,
                eval_set_id=set_id,
                eval_case_results=[_case(run, app) for run in group],
                creation_timestamp=created,
            ),
        )


def adk_json(result: AdkSetResult) -> dict[str, Any]:
    """A result as JSON with snake_case keys, as ADK writes it."""
    return result.model_dump(mode="json", by_alias=False, exclude_none=True)


def _case(run: ExportedRun, app: str) -> AdkCaseResult:
    # Derived, so that a second export replaces the first one instead of adding to the list.
    digest = hashlib.sha256(f"{run.result.run_id} {run.result.started_at}".encode()).hexdigest()
    session_id = f"{_SESSION}{digest[:32]}"
    turns = [turn for turn in run.turns if turn.actual is not None or turn.excerpt is not None]
    actual = [_actual(turn) for turn in turns]
    scores: dict[int, list[AdkMetricResult]] = {}
    for score in turn_scores(run):
        if score.turn is not None and not score.run_score.only_measures:
            scores.setdefault(score.turn, []).append(_metric(score.metric, score.score, score.status))
    return AdkCaseResult(
        eval_set_id=run.case.eval_set_id,
        eval_id=run.case.eval_id,
        final_eval_status=_STATUS.get(run.result.status, AdkStatus.NOT_EVALUATED),
        # Versions before the status "informational" existed could not read a result that has one (1.39.1).
        overall_eval_metric_results=[
            _metric(metric, score.score, score.status) for metric, score in run.scores() if not score.only_measures
        ],
        eval_metric_result_per_invocation=[
            AdkTurnResult(
                actual_invocation=invocation,
                expected_invocation=None if turn.expected is None else _flat(turn.expected),
                eval_metric_results=scores.get(turn.number, []),
            )
            for turn, invocation in zip(turns, actual, strict=True)
        ],
        session_id=session_id,
        session_details={
            "id": session_id,
            "app_name": app,
            "user_id": _USER_ID,
            "state": {},
            "events": _events(turns, actual, app),
            "last_update_time": (run.result.started_at or 0.0) + run.result.duration,
        },
        user_id=_USER_ID,
    )


def _metric(metric: MetricReport, score: float | None, status: str) -> AdkMetricResult:
    return AdkMetricResult(
        metric_name=metric.name,
        threshold=metric.threshold,
        criterion=None if metric.threshold is None else {"threshold": metric.threshold},
        score=score,
        eval_status=_STATUS.get(status, AdkStatus.NOT_EVALUATED),
        details={},
    )


def _actual(turn: Turn) -> Invocation:
    """The turn as it happened; its texts if only the excerpt of results.json is left."""
    if turn.actual is not None:
        return _flat(turn.actual)
    assert turn.excerpt is not None
    answer = turn.excerpt.answer
    return Invocation(
        user_content=user_message(turn.excerpt.user),
        final_response=None if answer is None else model_message(answer),
        intermediate_data=IntermediateData(),
    )


def _flat(turn: Invocation) -> Invocation:
    """The turn with flat lists, which is what the page compares, and nothing that older versions don't know."""
    data = turn.intermediate_data
    return Invocation(
        invocation_id=turn.invocation_id,
        user_content=turn.user_content,
        final_response=turn.final_response,
        intermediate_data=IntermediateData(
            # Only these fields: newer ones of google-genai are errors for an older ADK.
            tool_uses=[FunctionCall(id=call.id, name=call.name, args=call.args) for call in tool_calls(data)],
            tool_responses=[
                FunctionResponse(id=answer.id, name=answer.name, response=answer.response)
                for answer in tool_responses(data)
            ],
            intermediate_responses=_texts(data),
        ),
        creation_timestamp=turn.creation_timestamp,
    )


def _texts(data: IntermediateData | InvocationEvents | None) -> list[tuple[str, list[Part]]]:
    if not isinstance(data, InvocationEvents):
        return [] if data is None else list(data.intermediate_responses)
    listed = ((event.author, event.content) for event in data.invocation_events if event.content is not None)
    texts = (
        (author, [Part(text=part.text) for part in content.iter_parts() if part.text]) for author, content in listed
    )
    return [(author, parts) for author, parts in texts if parts]


def _events(turns: Sequence[Turn], invocations: Sequence[Invocation], app: str) -> list[dict[str, Any]]:
    """Events from which the page draws the conversation: the user's message begins a turn."""
    events: list[dict[str, Any]] = []
    for turn, flat in zip(turns, invocations, strict=True):
        data = turn.actual.intermediate_data if turn.actual is not None else flat.intermediate_data
        said: list[tuple[str, Content]] = [("user", flat.user_content)]
        if isinstance(data, InvocationEvents):
            said += [(event.author, event.content) for event in data.invocation_events if event.content is not None]
        elif data is not None:
            calls = [Part(function_call=call) for call in tool_calls(data)]
            answers = [Part(function_response=answer) for answer in tool_responses(data)]
            said += [(app, Content(role="model", parts=calls))] if calls else []
            # Responses have the role of the user in ADK's events, and the agent as their author.
            said += [(app, Content(role="user", parts=answers))] if answers else []
        said += [] if flat.final_response is None else [(app, flat.final_response)]
        invocation_id = flat.invocation_id or f"turn-{turn.number + 1}"
        for author, content in said:
            events.append(
                {
                    "id": f"{invocation_id}-{len(events)}",
                    "invocation_id": invocation_id,
                    "author": author,
                    "timestamp": flat.creation_timestamp,
                    "content": content.model_dump(mode="json", by_alias=False, exclude_none=True),
                }
            )
    return events


HISTORY = Path(".adk", "eval_history")
"""Where `adk web` keeps results, below the directory of an agent (google-adk 2.13.0)."""
_HINT = "Name the directory of the agent with `--agent DIR`."


def write_history(stored: StoredRun, agent: Path | None, io: CliIO) -> None:
    """Writes the results of a run to the histories of its agents.

    Args:
        stored: The run.
        agent: The directory of the agent; None for that of each agent that ran, below the current directory.
        io: Where to log.

    Raises:
        UnreadableError: No agent of the run has a directory here, or a link is in the way.
        OSError: A file can't be written.
    """
    root = Path.cwd()
    agents = stored.report.agents_by_file
    folders = {}
    for file in dict.fromkeys(case.file for case in stored.report.cases):
        folder = agent if agent is not None else _folder(agents.get(file, ""), root)
        if folder is not None:
            folders[file] = folder
        else:
            io.log(f"agent-eval: {harmless(file)} is left out: its agent has no directory here. {_HINT}")
    # Before the first file is written.
    _check(folders)
    written = 0
    for export in adk_exports(stored, {file: folder.resolve().name for file, folder in folders.items()}):
        path = folders[export.file] / HISTORY / export.name
        write_text(path, json.dumps(adk_json(export.result), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        io.log(f"Wrote {harmless(os.path.relpath(path, root))}")
        written += 1
    if not written:
        raise UnreadableError("No case of these results has run, so there is nothing to export.", "Run it again.")
    io.log(f"{plural(written, 'result')} for the Eval tab of `adk web`.")


def _folder(agent: str, root: Path) -> Path | None:
    """The directory of an agent by its name; None if it isn't one below the root."""
    path = root / agent
    # Names of agents come from results.json, which may be another's.
    inside = bool(agent) and path.resolve().is_relative_to(root.resolve()) and path.resolve() != root.resolve()
    return path if inside and path.is_dir() else None


def _check(folders: Mapping[str, Path]) -> None:
    if not folders:
        raise UnreadableError("None of the agents of these results is a directory here.", _HINT)
    for folder in set(folders.values()):
        if not folder.is_dir():
            raise UnreadableError(f"{harmless(str(folder))} is not a directory.", _HINT)
        history = folder / HISTORY
        # A link in a checkout could lead what we write to another place.
        link = next((path for path in (history.parent, history) if path.is_symlink()), None)
        if link is not None:
            raise UnreadableError(f"{harmless(str(link))} is a symbolic link.", "Remove the link.")
