"""Parts made without a check, and files whose size is not known before they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, Part, part_of
from agent_eval_scoring.core.files import read_regular


def test_part_of__is_the_part_that_a_check_makes() -> None:
    call, response = FunctionCall(name="look", args={"at": [1]}), FunctionResponse(name="look", response={"a": 1})
    for made, checked in (
        (part_of(call), Part(function_call=call)),
        (part_of(response=response), Part(function_response=response)),
    ):
        assert made == checked
        assert made.model_dump_json(exclude_unset=True) == checked.model_dump_json(exclude_unset=True)
        assert made.model_copy(update={"text": "a"}) == checked.model_copy(update={"text": "a"})


def test_read_regular__a_file_that_does_not_say_its_size(tmp_path: Path) -> None:
    own = Path("/proc/self/status")
    if own.exists():
        assert own.stat().st_size == 0
        assert read_regular(own, 100_000).splitlines()[0].startswith(b"Name:")
        with pytest.raises(OSError, match="larger than"):
            read_regular(own, 10)
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    assert read_regular(file, 10) == b"0123456789"
    with pytest.raises(OSError, match="larger than"):
        read_regular(file, 9)
