"""The turns of an eval case as JSON: as models they take ten times the memory, 80 MB of 10,000 cases of two turns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from agent_eval_scoring.core.content import Part
from agent_eval_scoring.core.invocation import Invocation

_Case = TypeVar("_Case", bound=BaseModel)
_KEPT = 256
"""Cases whose turns are kept as models: a run is done with a case before it gets to as many others."""
_BEFORE = b'{"eval_id":"","conversation":'


class PackedTurns(Sequence[Invocation]):
    """Turns that are read when they are looked at. They can't be changed."""

    __slots__ = ("_count", "_model", "_text", "content")

    def __init__(self, case: BaseModel, content: str = "") -> None:
        """Packs the turns of an `EvalCase`, of whose content a hash may be known."""
        self.content = content
        text = case.model_dump_json(include={"conversation"}, exclude_unset=True, exclude_none=True)
        self._count = len(vars(case)["conversation"])
        self._model = type(case)
        self._text = b'{"eval_id":"",' + text[1:].encode()  # The model builds faster than one of the turns alone.

    @property
    def text(self) -> bytes:
        """The turns as in cases.jsonl.gz."""
        return self._text[len(_BEFORE) : -1]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Invocation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Invocation]: ...
    def __getitem__(self, index: int | slice) -> Invocation | Sequence[Invocation]:
        return _turns(self._model, self._text)[index]

    def __iter__(self) -> Iterator[Invocation]:
        return iter(_turns(self._model, self._text))

    def __eq__(self, other: object) -> bool:
        return [*self] == ([*other] if isinstance(other, PackedTurns) else other)

    __hash__ = None  # type: ignore[assignment]


@functools.lru_cache(maxsize=_KEPT)
def _turns(model: type[BaseModel], text: bytes) -> Sequence[Invocation]:
    turns: Sequence[Invocation] = vars(model.model_validate_json(text))["conversation"]
    return turns


def messages_of(case: BaseModel) -> list[bytes]:
    """The user's messages of an `EvalCase` as `model_dump_json` writes them. Of packed texts no models are made."""
    turns = vars(case)["conversation"] or ()
    if isinstance(turns, PackedTurns):
        written = [_message(turn["user_content"]) for turn in from_json(turns.text)]
        if None not in written:
            return [message for message in written if message is not None]
    return [turn.user_content.model_dump_json().encode() for turn in turns]


def _message(content: dict[str, Any]) -> bytes | None:
    parts = content.get("parts")
    if not parts or not content.keys() <= {"role", "parts"} or not all(part.keys() == {"text"} for part in parts):
        return None
    texts = b",".join(b'{"text":%b%b' % (to_json(part["text"]), _other_fields()) for part in parts)
    return b'{"role":%b,"parts":[%b]}' % (to_json(content.get("role")), texts)


@functools.cache
def _other_fields() -> bytes:
    return Part(text="").model_dump_json().encode().removeprefix(b'{"text":""')


def pack(cases: Sequence[_Case], content_of: Callable[[_Case], str]) -> None:
    """Packs the turns of each `EvalCase`, which are only read from then on. `content_of` returns its `content`."""
    for case in cases:
        if vars(case)["conversation"]:
            # Not as a field that is set: the model would check it.
            vars(case)["conversation"] = PackedTurns(case, content_of(case))


def packed_turns(case: BaseModel) -> PackedTurns | None:
    """The turns of an `EvalCase`; None if they are not packed."""
    turns = vars(case)["conversation"]
    return turns if isinstance(turns, PackedTurns) else None


def unpacked(value: Any) -> Any:
    """Turns as a list."""
    return [*value] if isinstance(value, PackedTurns) else value
