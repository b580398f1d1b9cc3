import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.evalset.models.criterion_options import parse_match_type
from agent_eval.evalset.models.schema import MatchType

VECTORS: list[list[Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "vectors" / "adk_2_13_0_match_type.json").read_text(encoding="utf-8")
)["match_type"]


@pytest.mark.parametrize(("spelling", "meaning"), VECTORS, ids=lambda value: repr(value))
def test_match_type__vectors_of_adk(spelling: Any, meaning: str) -> None:
    if meaning == "ERROR":
        with pytest.raises(ValueError, match="must be EXACT"):
            parse_match_type(spelling)
    else:
        assert parse_match_type(spelling) is MatchType[meaning]
