"""Adds recorded sessions to eval sets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_eval_scoring.core.errors import AgentEvalError


class SaveError(AgentEvalError, ValueError):
    """The session can't become a case, or the case can't be written. Nothing was written."""


def save_session(
    source: str | os.PathLike[str] | Mapping[str, Any] | Any,
    file: str | os.PathLike[str],
    *,
    eval_id: str = "",
    session: str | None = None,
    state: Mapping[str, Any] | None = None,
    replace: bool = False,
    root: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Adds a recorded session to an eval set, as `agent-eval record FILE --from SOURCE` does. No agent is started.

    Args:
        source: A `Session` object of google-adk, its JSON as a dict, or the path of something recorded: a session, a
            database, an agent's directory, a trace, a result of ADK, the output directory of a run.
        file: The eval set, which is made if it does not exist. Every other byte of it stays as it is.
        eval_id: The id of the case. Default: the words of the first message.
        session: If the source has several sessions: an id, `latest`, or `all`.
        state: The state at the beginning, instead of what is known of it.
        replace: Replace the case `eval_id`.
        root: The directory that relative paths are relative to, and that the eval set is below. Default: the current
            directory.

    Returns:
        The ids of the new cases. Sessions whose messages a case of the file has are skipped with `session="all"`.

    Raises:
        SaveError: The source can't be read, has several sessions, or the case can't be written.
        OSError: The file can't be written.
    """
    from agent_eval_agents.sandbox import secrets_in
    from agent_eval_scoring.core.masking import Masker
    from agent_eval_workbench.recording.new_cases import new_cases
    from agent_eval_workbench.recording.stored import (
        StoredRequest,
        choose_stored,
        masked,
        read_session_value,
        read_stored,
        with_state,
        without_known,
    )
    from agent_eval_workbench.recording.target import Refused, open_target, write_target
    from agent_eval_workbench.sources.cases import CaseForm

    try:
        json.dumps(dict(state or {}), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise SaveError(f"state can't be written as JSON: {problem}") from None
    folder = Path(root) if root is not None else Path.cwd()
    request = StoredRequest(session=session)
    try:
        target = open_target(folder, os.fspath(file), eval_id, replace=replace)
        if isinstance(source, str | os.PathLike):
            _, stored = read_stored(folder / source, os.fspath(source), request)
        else:
            stored = read_session_value(_value(source))
        chosen = choose_stored(stored, "the source", request, None)
        if session == "all":
            chosen, _ = without_known(chosen, target.cases)
        masker = Masker(secrets_in(os.environ))
        chosen = [masked(case, masker) for case in chosen]
        if state is not None:
            chosen = [with_state(case, state) for case in chosen]
        if not chosen:
            return []
        cases, text, _ = new_cases(target, chosen, CaseForm(form=target.form))
        write_target(target, text, cases)
    except Refused as refused:
        raise SaveError(refused.text) from None
    return [case.eval_id for case in cases]


def _value(source: Any) -> Any:
    """The JSON of a session."""
    if isinstance(source, Mapping):
        return dict(source)
    if hasattr(source, "model_dump"):
        return source.model_dump(mode="json", by_alias=True, exclude_none=True)
    raise TypeError(f"source must be a path, a session of google-adk, or its JSON, not {type(source).__name__}")
