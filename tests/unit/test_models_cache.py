"""The reply cache: keys, damaged files, size limit."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from agent_eval.models.cache import CachedReply, ReplyCache, key_of
from agent_eval.models.protocol import ModelRequest

REQUEST = ModelRequest(
    model="gemini-2.5-flash",
    prompt="Is it?",
    system="Judge.",
    schema={"type": "object"},
    config={"temperature": 0.5},
    case_id="a:1",
    purpose="safety_v1",
)
REPLY = CachedReply(identity="gemini", text='{"a": 1}', model_version="v", input_tokens=3)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "gemini-2.5-pro"},
        {"prompt": "Is it not?"},
        {"system": None},
        {"schema": None},
        {"schema": {"type": "array"}},
        {"config": {"temperature": 0.6}},
        {"config": {}},
        {"sample": 1},
        {"run": 1},
    ],
)
def test_key_of__changes_with_fields_that_affect_the_reply(change: dict[str, Any]) -> None:
    assert key_of(dataclasses.replace(REQUEST, **change)) != key_of(REQUEST)


def test_key_of__ignores_case_and_purpose() -> None:
    assert key_of(dataclasses.replace(REQUEST, case_id="b", purpose="x")) == key_of(REQUEST)
    assert key_of(dataclasses.replace(REQUEST, schema=dict(REQUEST.schema or {}))) == key_of(REQUEST)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"null", b'{"version": 1}', b"\xff\xfe", b'{"version": 99, "identity": "gemini"}']
)
def test_cache__a_damaged_file_is_a_miss(tmp_path: Path, damage: bytes) -> None:
    cache = ReplyCache(tmp_path, max_bytes=10_000)
    key = key_of(REQUEST)
    cache.put(key, REPLY)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(damage)
    assert cache.get(key) is None
    cache.put(key, REPLY)
    assert cache.get(key) == REPLY


def test_cache__evicts_the_least_recently_used(tmp_path: Path) -> None:
    size = len(CachedReply(identity="i", text="x" * 1000, model_version="v").model_dump_json())
    cache = ReplyCache(tmp_path, max_bytes=size * 10)
    keys = [f"{number:064x}"[::-1] for number in range(10)]
    for age, key in enumerate(keys):
        cache.put(key, CachedReply(identity="i", text="x" * 1000, model_version="v"))
        (file,) = tmp_path.rglob(f"{key}.json")
        os.utime(file, (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # used now, so no longer the least recent
    for number in range(10, 14):
        cache.put(f"{number:064x}"[::-1], CachedReply(identity="i", text="y" * 1000, model_version="v"))
        assert sum(file.stat().st_size for file in tmp_path.rglob("*.json")) <= size * 10
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None and cache.get(keys[2]) is None


def test_cache__writes_atomically_and_never_fails(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path, max_bytes=10_000)
    cache.put("ab" + "0" * 62, CachedReply(identity="i", text="lone \ud800", model_version="v"))
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]
    blocked = tmp_path / "a-file"
    blocked.write_text("", encoding="utf-8")
    unusable = ReplyCache(blocked, max_bytes=10_000)
    unusable.put(key_of(REQUEST), REPLY)
    assert unusable.get(key_of(REQUEST)) is None
