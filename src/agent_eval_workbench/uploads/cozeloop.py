"""Uploads evaluation sets to CozeLoop by its open API.

The contract is that of the open-source server (github.com/coze-dev/coze-loop, August 2026). The hosted service was not
tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval_workbench.uploads._client import Client, InvalidTarget, UploadError, checked_url

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
