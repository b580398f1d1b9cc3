"""`agent-eval export cozeloop`: eval cases as items of a CozeLoop evaluation set.

The format is the one that `veadk uploadevalset` of veadk-python 1.1.19 sends: an item for each turn, with the columns
`input` and `output`. Each item has a key besides, so that a second upload does not add it again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.text import carriable, plural
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import LoadedFile
from agent_eval_workbench.exports.client import Client, InvalidTarget, UploadError, checked_url

_PER_REQUEST = 100
"""Items that the service accepts in one request."""
_MOST_ERRORS = 10
_VARIABLE = "OBSERVABILITY_OPENTELEMETRY_COZELOOP_"
WORKSPACE, EVAL_SET, API_KEY = (f"{_VARIABLE}{name}" for name in ("SERVICE_NAME", "EVALSET_ID", "API_KEY"))
"""VeADK's variables."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what `veadk uploadevalset` takes; the key is read from its variable only."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="eval files, directories and globs, as for `run`")
    parser.add_argument("--workspace-id", metavar="ID", help=f"workspace. Default: {WORKSPACE}")
    parser.add_argument("--evalset-id", metavar="ID", help=f"existing evaluation set. Default: {EVAL_SET}")


def cozeloop_items(files: Sequence[LoadedFile]) -> list[dict[str, Any]]:
    """The items of all turns. A scenario has no turns, and therefore no items."""
    items = []
    for file in files:
        for case in file.cases:
            for number, turn in enumerate(case.conversation or ()):
                key = json.dumps([f"{file.path}:{case.eval_id}", number])
                columns = {"input": text_of(turn.user_content), "output": text_of(turn.final_response)}
                datas = [
                    {"name": name, "content": {"content_type": "text", "text": carriable(text)}}
                    for name, text in columns.items()
                ]
                # The same key in every upload, so that the service recognises the item.
                items.append({"item_key": hashlib.sha256(key.encode()).hexdigest(), "turns": [{"field_datas": datas}]})
    return items


def upload_eval_files(arguments: argparse.Namespace, io: CliIO) -> int:
    """Uploads the cases of the named files.

    Returns:
        0 if the service has all items, 1 if it did not accept some, 2 if there is nothing that can be sent.

    Raises:
        InvalidTarget: A flag or a variable is missing or invalid.
    """
    environ = io.environ
    key = environ.get(API_KEY, "").strip()
    workspace = arguments.workspace_id or environ.get(WORKSPACE, "")
    eval_set = arguments.evalset_id or environ.get(EVAL_SET, "")
    wanted = {API_KEY: key, f"--workspace-id or {WORKSPACE}": workspace, f"--evalset-id or {EVAL_SET}": eval_set}
    if missing := [name for name, value in wanted.items() if not value]:
        raise InvalidTarget(f"Nothing was sent. Set {'; '.join(missing)}.")
    base_url = environ.get("COZELOOP_API_BASE_URL") or "https://api.coze.cn"
    service = checked_url(base_url, "COZELOOP_API_BASE_URL", encrypted=True)
    workspace, eval_set = _id(workspace, "--workspace-id", WORKSPACE), _id(eval_set, "--evalset-id", EVAL_SET)
    suite = load_suite(Path.cwd(), arguments.paths)
    log_problems(suite.problems, io)
    if suite.errors:
        return 2
    scenarios = sum(case.conversation is None for file in suite.files for case in file.cases)
    if scenarios:
        io.log(f"agent-eval: {plural(scenarios, 'scenario')} left out: only conversations with fixed turns have items")
    items = cozeloop_items(suite.files)
    if not items:
        io.log("agent-eval: the eval files have no turns to upload.")
        return 2
    url = f"{service}/v1/loop/evaluation/evaluation_sets/{eval_set}/items"
    new, known, errors = 0, 0, list[str]()
    with contextlib.closing(Client({"Authorization": f"Bearer {key}"})) as client:
        try:
            for start in range(0, len(items), _PER_REQUEST):
                outputs, refused = _upload(client, url, workspace, items[start : start + _PER_REQUEST])
                new += sum(output.get("is_new_item") is not False for output in outputs)
                known += sum(output.get("is_new_item") is False for output in outputs)
                errors += refused
        except UploadError as error:  # The rest is not sent.
            errors = [*errors[: _MOST_ERRORS - 1], str(error)]
    for line in errors[:_MOST_ERRORS]:
        io.log(f"agent-eval: {line}")
    already = f", {known:,} with the same key were there already and are unchanged" if known else ""
    counts = f"{plural(new, 'item')} of {len(items):,} added{already}"
    if errors:
        io.log(f"agent-eval: not everything was accepted: {counts}")
        return 1
    io.print_result(f"{counts} (evaluation set {eval_set})")
    return 0


def _id(value: str, flag: str, variable: str) -> str:
    if not (value.isascii() and value.isdecimal() and int(value) < 2**63):
        raise InvalidTarget(f"{flag} (or {variable}) must be the number of CozeLoop's address bar.")
    return value


def _upload(
    client: Client, url: str, workspace: str, items: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Sends up to 100 items. Returns what the service says of each that it has, and the errors, safe to log.

    Raises:
        UploadError: The request was not accepted.
    """
    flags = {"is_allow_partial_add": True, "is_skip_invalid_items": True}
    answer = client.post(url, {"workspace_id": workspace, **flags, "items": items})
    if "code" not in answer:
        raise UploadError(f"{client.safe(url)} does not answer as CozeLoop does.")
    if answer["code"] != 0:  # The service reports errors with HTTP 200 and a code.
        code, message = (client.safe(str(answer.get(name))) for name in ("code", "msg"))
        raise UploadError(f"CozeLoop refuses with code {code}: {message}")
    data = answer.get("data")
    outputs, errors = (_objects(data, name) for name in ("itemOutputs", "errors"))
    texts = [_error(client, error) for error in errors]
    if not texts and len(outputs) != len(items):
        texts = [f"{len(outputs)} of {len(items)} items were acknowledged"]
    return outputs, texts


def _objects(value: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects of a list in an answer; [] if there is none."""
    listed = value.get(name) if isinstance(value, dict) else None
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _error(client: Client, error: Mapping[str, Any]) -> str:
    details = _objects(error, "details")[:3]
    shown = "; ".join(f"item {item.get('index')}: {item.get('message')}" for item in details)
    text = f"{error.get('error_count', '?')} items, code {error.get('error_code')}: {error.get('error_message', '')}"
    return client.safe(text + (f" ({shown})" if shown else ""))
