"""The turns of an eval case as JSON: as models they take ten times the memory, 80 MB of 10,000 cases of two turns."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, overload

from pydantic import BaseModel

from agent_eval_scoring.core.invocation import Invocation

_KEPT = 256
"""Cases whose turns are kept as models: a run is done with a case before it gets to as many others."""
_BEFORE = b'{"eval_id":"","conversation":'


class PackedTurns(Sequence[Invocation]):
    """Turns that are read when they are looked at. They can't be changed."""

    __slots__ = ("_count", "_model", "_text")

    def __init__(self, case: BaseModel) -> None:
        """Packs the turns of an `EvalCase`."""
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


def pack(cases: Sequence[BaseModel]) -> None:
    """Packs the turns of each `EvalCase`, which from then on are only read."""
    for case in cases:
        if vars(case)["conversation"]:
            # Not as a field that is set: the model would check it.
            vars(case)["conversation"] = PackedTurns(case)


def packed_turns(case: BaseModel) -> bytes | None:
    """The turns as they are in cases.jsonl.gz; None if they are not packed."""
    turns = vars(case)["conversation"]
    return turns.text if isinstance(turns, PackedTurns) else None


def unpacked(value: Any) -> Any:
    """Turns as a list."""
    return [*value] if isinstance(value, PackedTurns) else value
