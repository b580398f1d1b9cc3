"""Eval cases as items of a CozeLoop evaluation set.

The format is the one that `veadk uploadevalset` of veadk-python 1.1.19 sends, with keys: an item for each turn with the
columns `input` and `output`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems
from agent_eval.core.content import text_of
from agent_eval.core.invocation import Invocation, tool_calls
from agent_eval.core.text import carriable, harmless, plural
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models import LoadedFile
from agent_eval_workbench.exports.client import Client, InvalidTarget, UploadError, checked_url

Json = dict[str, Any]
TRAJECTORY = "trajectory"


def cozeloop_items(files: Sequence[LoadedFile], *, trajectory: bool = False) -> list[Json]:
    """The items of all turns. A scenario has no turns, and therefore no items.

    Args:
        files: The eval files.
        trajectory: Whether to add a column with the expected tool calls as JSON.
    """
    return [
        {
            # The same for every upload, so that the service recognises the item.
            "item_key": hashlib.sha256(
                json.dumps([f"{file.path}:{selected.case.eval_id}", number]).encode()
            ).hexdigest(),
            "turns": [{"field_datas": _columns(turn, trajectory=trajectory)}],
        }
        for file in files
        for selected in file.cases
        for number, turn in enumerate(selected.case.conversation or ())
    ]


def _columns(turn: Invocation, *, trajectory: bool) -> list[Json]:
    columns = {"input": text_of(turn.user_content), "output": text_of(turn.final_response)}
    if trajectory:
        calls = [{"name": call.name, "args": call.args or {}} for call in tool_calls(turn.intermediate_data)]
        columns[TRAJECTORY] = json.dumps(calls, ensure_ascii=False)
    return [
        {"name": name, "content": {"content_type": "text", "text": carriable(text)}} for name, text in columns.items()
    ]


def cozeloop_schema(*, trajectory: bool = False) -> Json:
    """The columns of a new evaluation set."""
    columns = [("input", "plain_text"), ("output", "plain_text"), *([(TRAJECTORY, "json")] if trajectory else [])]
    return {
        "field_schemas": [
            {
                "name": name,
                "content_type": "text",
                "is_required": name == "input",
                "default_display_format": display,
                "schema_key": "string",
            }
            for name, display in columns
        ]
    }


BASE_URL = "https://api.coze.cn"
_SETS = "/v1/loop/evaluation/evaluation_sets"
_PER_REQUEST = 100
"""Items that the server accepts in one request."""
_VARIABLE = "OBSERVABILITY_OPENTELEMETRY_COZELOOP_"
WORKSPACE, EVAL_SET, API_KEY = (f"{_VARIABLE}{name}" for name in ("SERVICE_NAME", "EVALSET_ID", "API_KEY"))
"""VeADK's variables."""
_MOST_ERRORS = 10


@dataclass(frozen=True, kw_only=True)
class CozeLoopTarget:
    """A workspace, and the key for it."""

    base_url: str
    workspace_id: str
    eval_set_id: str
    """"" if it is yet to be created."""
    api_key: str = field(repr=False)


def cozeloop_target(
    environ: Mapping[str, str], workspace_id: str | None, eval_set_id: str | None, *, create: bool
) -> CozeLoopTarget:
    """The target of an upload.

    Args:
        environ: VeADK's variables, and COZELOOP_API_BASE_URL for another server.
        workspace_id: `--workspace-id`, which replaces the variable.
        eval_set_id: `--evalset-id`, likewise.
        create: Whether the evaluation set is yet to be created.

    Raises:
        InvalidTarget: A value is missing or invalid.
    """
    base_url = environ.get("COZELOOP_API_BASE_URL") or BASE_URL
    api_key = environ.get(API_KEY, "").strip()
    if not api_key:
        raise InvalidTarget(f"There is no key. Set {API_KEY}.")
    return CozeLoopTarget(
        base_url=checked_url(base_url, "COZELOOP_API_BASE_URL", encrypted=True),
        workspace_id=_id(workspace_id or environ.get(WORKSPACE), "--workspace-id", WORKSPACE),
        eval_set_id="" if create else _id(eval_set_id or environ.get(EVAL_SET), "--evalset-id", EVAL_SET),
        api_key=api_key,
    )


def _id(value: str | None, flag: str, variable: str) -> str:
    if not value:
        raise InvalidTarget(f"Set {flag} or {variable}.")
    if not (value.isascii() and value.isdecimal() and int(value) < 2**63):
        raise InvalidTarget(f"{flag} (or {variable}) must be the number of CozeLoop's address bar.")
    return value


def cozeloop_client(target: CozeLoopTarget) -> Client:
    """A client with the key."""
    return Client({"Authorization": f"Bearer {target.api_key}"})


def create_eval_set(client: Client, target: CozeLoopTarget, name: str, schema: Mapping[str, Any]) -> str:
    """Creates an evaluation set and returns its id.

    Raises:
        UploadError: It was not created.
    """
    body = {"workspace_id": target.workspace_id, "name": name, "evaluation_set_schema": schema}
    # Not repeated: a lost answer may mean that the set exists.
    data = _data(client, client.post(f"{target.base_url}{_SETS}", body, repeatable=False))
    created = str(data.get("evaluation_set_id", ""))
    if not created.isdecimal():
        raise UploadError("CozeLoop's answer has no evaluation_set_id.")
    return created


@dataclass(kw_only=True)
class Uploaded:
    """The outcome of an upload so far."""

    new: int = 0
    existing: int = 0
    """Items whose key the set has already. The service does not change them."""
    errors: list[str] = field(default_factory=list)
    """Items that were not accepted, safe to log. Empty: all were."""


def upload_items(
    client: Client, target: CozeLoopTarget, eval_set_id: str, items: Sequence[Mapping[str, Any]], uploaded: Uploaded
) -> None:
    """Uploads the items, 100 in a request, and counts them in `uploaded`.

    Raises:
        UploadError: A request was not accepted; the rest was not sent.
    """
    url = f"{target.base_url}{_SETS}/{eval_set_id}/items"
    for start in range(0, len(items), _PER_REQUEST):
        chunk = items[start : start + _PER_REQUEST]
        body = {
            "workspace_id": target.workspace_id,
            "is_allow_partial_add": True,
            "is_skip_invalid_items": True,
            "items": list(chunk),
        }
        data = _data(client, client.post(url, body))
        outputs = [output for output in _list(data.get("itemOutputs")) if isinstance(output, dict)]
        uploaded.new += sum(output.get("is_new_item") is not False for output in outputs)
        uploaded.existing += sum(output.get("is_new_item") is False for output in outputs)
        errors = [_error(client, error) for error in _list(data.get("errors")) if isinstance(error, dict)]
        if not errors and len(outputs) != len(chunk):
            errors = [f"{len(outputs)} of {len(chunk)} items were acknowledged"]
        uploaded.errors += errors[: _MOST_ERRORS - len(uploaded.errors)]


def _data(client: Client, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of an answer. The service reports its errors with HTTP 200 and a code."""
    code = answer.get("code")
    if code != 0:
        message = client.safe(str(answer.get("msg") or "no message"))
        raise UploadError(f"CozeLoop refuses with code {client.safe(str(code))}: {message}")
    data = answer.get("data")
    return data if isinstance(data, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _error(client: Client, error: Mapping[str, Any]) -> str:
    details = [detail for detail in _list(error.get("details")) if isinstance(detail, dict)]
    shown = "; ".join(client.safe(f"item {item.get('index')}: {item.get('message')}") for item in details[:3])
    text = f"{error.get('error_count', '?')} items, code {error.get('error_code')}: {error.get('error_message', '')}"
    return client.safe(text) + (f" ({shown})" if shown else "")


def upload_eval_files(arguments: argparse.Namespace, io: CliIO) -> int:
    """Uploads the cases of the named files and returns the exit code.

    Raises:
        InvalidTarget: A flag or a variable is missing or invalid.
    """
    target = cozeloop_target(
        io.environ, arguments.workspace_id, arguments.evalset_id, create=arguments.create is not None
    )
    suite = load_suite(Path.cwd(), arguments.paths)
    log_problems(suite.problems, io)
    if suite.errors:
        return 2
    items = cozeloop_items(suite.files, trajectory=arguments.trajectory)
    scenarios = sum(selected.case.conversation is None for file in suite.files for selected in file.cases)
    if scenarios:
        io.log(f"agent-eval: {plural(scenarios, 'scenario')} left out: only conversations with fixed turns have items")
    if not items:
        io.log("agent-eval: the eval files have no turns to upload.")
        return 2
    eval_set_id, uploaded, failure = target.eval_set_id, Uploaded(), None
    with contextlib.closing(cozeloop_client(target)) as client:
        try:
            if arguments.create is not None:
                schema = cozeloop_schema(trajectory=arguments.trajectory)
                eval_set_id = create_eval_set(client, target, arguments.create, schema)
                io.print_result(f"Created the evaluation set {eval_set_id} ({harmless(arguments.create)})")
            upload_items(client, target, eval_set_id, items, uploaded)
        except UploadError as error:
            failure = str(error)
    for line in (*uploaded.errors, *([failure] if failure is not None else [])):
        io.log(f"agent-eval: {line}")
    existing = f", {uploaded.existing:,} with the same key were there already and are unchanged"
    counts = f"{plural(uploaded.new, 'item')} of {len(items):,} added{existing if uploaded.existing else ''}"
    if failure is not None or uploaded.errors:
        io.log(f"agent-eval: not everything was accepted: {counts}")
        return 1
    io.print_result(f"{counts} (evaluation set {eval_set_id})")
    return 0
