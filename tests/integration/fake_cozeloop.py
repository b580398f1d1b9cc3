"""CozeLoop's open API on loopback, as far as an upload needs it, written after the contract of the open-source server.

It checks what the server checks (the token, 1 to 100 items, known columns), keeps items by key, and answers business
errors with HTTP 200 and a code, as the server does.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from upload_server import Received, Reply, UploadServer, upload_server

SETS = "/v1/loop/evaluation/evaluation_sets"
KEY, WORKSPACE = "pat_0123456789abcdef", "7001"
NO_PERMISSION, INVALID_PARAMETER, NOT_FOUND, INTERNAL = 601200101, 601200202, 601203004, 601200702
MISMATCH = 1


@dataclass
class FakeCozeLoop:
    """State: evaluation sets with their columns and items."""

    columns: dict[str, list[str]] = field(default_factory=lambda: {"9001": ["input", "output"]})
    items: dict[str, dict[str, Any]] = field(default_factory=lambda: {"9001": {}})
    fault: Callable[[int], Reply | None] | None = None
    """Answers instead of the service, by the number of the request from 1; an answer with status 0 is none."""
    server: UploadServer = field(init=False)
    count: int = 0

    def respond(self, request: Received) -> Reply | None:
        self.count += 1
        if self.fault is not None:
            reply = self.fault(self.count)
            if reply is None or reply.status:
                return reply
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return failure(INTERNAL, "internal error")
        body = request.json
        if body.get("workspace_id") != WORKSPACE:
            return failure(NO_PERMISSION, "no permission")
        if request.path == SETS:
            return self._create(body)
        match = re.fullmatch(rf"{SETS}/(\d+)/items", request.path)
        if match is None or match[1] not in self.columns:
            return failure(NOT_FOUND, "resource not found")
        return self._add(match[1], body)

    def _create(self, body: dict[str, Any]) -> Reply:
        schemas = body["evaluation_set_schema"]["field_schemas"]
        allowed = {"plain_text", "markdown", "json", "yaml", "code"}
        if not 1 <= len(body["name"]) <= 255 or any(item["default_display_format"] not in allowed for item in schemas):
            return failure(INVALID_PARAMETER, "invalid parameter")
        created = str(9001 + len(self.columns))
        self.columns[created], self.items[created] = [item["name"] for item in schemas], {}
        return success({"evaluation_set_id": created})

    def _add(self, eval_set: str, body: dict[str, Any]) -> Reply:
        if not 1 <= len(body["items"]) <= 100:
            return failure(INVALID_PARAMETER, "items is required" if not body["items"] else "too many items")
        outputs, mismatches = [], []
        for index, item in enumerate(body["items"]):
            columns = {data["name"]: data["content"] for data in item["turns"][0]["field_datas"]}
            if not set(columns) <= set(self.columns[eval_set]):
                mismatches.append({"message": "unknown column", "index": index})
                continue
            is_new = item["item_key"] not in self.items[eval_set]
            self.items[eval_set].setdefault(item["item_key"], {name: value["text"] for name, value in columns.items()})
            outputs.append({"item_index": index, "item_key": item["item_key"], "item_id": "1", "is_new_item": is_new})
        errors = [
            {
                "error_code": MISMATCH,
                "error_message": "MismatchSchema",
                "error_count": len(mismatches),
                "details": mismatches[:5],
            }
        ]
        return success({"itemOutputs": outputs, "errors": errors if mismatches else []})


def success(data: dict[str, Any]) -> Reply:
    return Reply(body={"code": 0, "msg": "", "data": data})


def failure(code: int, message: str) -> Reply:
    return Reply(body={"code": code, "msg": message})


PASS_ON = Reply(0)


@contextlib.contextmanager
def fake_cozeloop() -> Iterator[FakeCozeLoop]:
    """Serves until the block ends."""
    fake = FakeCozeLoop()
    with upload_server(fake.respond) as server:
        fake.server = server
        yield fake


def size_of(request: Received) -> int:
    """Number of items in a request."""
    return len(json.loads(request.body)["items"])
