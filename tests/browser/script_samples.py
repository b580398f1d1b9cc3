"""The same report in German, Arabic and Japanese: long words, text from right to left, text without spaces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from case_samples import agents_case, case, cause, errored_case, index_of, lamp_case, metric, run, trend_of, turn
from report_pages_of_data import page_of_data

_ENGLISH = (
    "Switch on the lamp in the living room, please.",
    "I could not find a lamp in the living room.",
    "The living room lamp is on.",
    "The lamp in the living room is on.",
    "The reference says that the lamp is on.",
    "living room",
    "Lamp on.",
)
"""Longer ones first: each is replaced wherever it stands."""

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_LETTERS: Mapping[str, dict[int, Any]] = {
    "german": str.maketrans({" ": "", "o": "ö", "s": "ß"}),
    "arabic": str.maketrans(_LATIN, "ابجدهوزحطيكلمنسعفصقرشتثخذض"),
    "japanese": str.maketrans(_LATIN, "アイウエオカキクケコサシスセソタチツテトナニヌネノハ", " _"),
}
"""What a script makes of Latin letters, so that words look as in it; in German, many words make one."""
SCRIPTS = tuple(_LETTERS)
PASSED = 30
"""Enough rows that the list scrolls at each width."""


def page_of_script(path: Path, script: str) -> str:
    """Writes a page in a script, with a failing case, a crash, sub-agents and `PASSED` short cases.

    Returns:
        The ID of the failing case.
    """
    name, politeness = (
        text.translate(_LETTERS[script])
        for text in ("switch_on_the_lights_of_the_living_room_again_after_a_power_cut", "politeness_of_the_answer")
    )
    failing, crashed, agents = lamp_case(), errored_case(), agents_case()
    failing["id"] = f"evals/home.test.json:{name}"
    crashed["id"] = f"evals/home.test.json:{name}_2"
    failing["metrics"].append(metric(politeness, "failed", 0.25, 0.5, base=0.75, delta=-0.5))
    failing["findings"].append({"summary": f"{politeness} 0.25, needs 0.50", "lines": [], "log": ""})
    short = [
        case(f"evals/home.test.json:{name}_{number}", [run("head:0", "passed", [turn("Hello.", [], "Hello.")])])
        for number in range(3, 3 + PASSED)
    ]
    cases = [_translated(item, script) for item in (failing, crashed, agents, *short)]
    trend = trend_of(9)
    trend["branch"] = f"main/{politeness}"
    trend["drift"].append(f"{politeness} fell by 0.05 in the newer half.")
    for row in (*trend["rows"], trend["head"]):
        row["means"][politeness] = 0.75
    index = index_of(cases, trend)
    index["metrics"].append(index["metrics"][0] | {"name": politeness})
    columns = index["cases"]
    columns["why"][0] = f"{politeness} 0.25, needs 0.50"
    columns["why"][1] = _translated("KeyError: I could not find a lamp in the living room. " * 3, script)
    columns["scores"] = [[0.5, 0.25], [None, None], *([1.0, 0.75] for _ in cases[2:])]
    columns["deltas"] = [[-0.5, -0.5], *([None, None] for _ in cases[1:])]
    columns["ok"] = [[0, 0], [None, None], *([1, 1] for _ in cases[2:])]
    index["header"]["counts"] |= {"passed": PASSED + 1, "failed": 1, "errored": 1, "blocking": 1, "newly_failing": 1}
    index["causes"] = [cause(1, failing["id"], title=columns["why"][0])]
    columns["group"] = [0, 1, 1, *(2 for _ in cases[3:])]
    index["header"]["warnings"] = [_translated("Lamp on. I could not find a lamp in the living room.", script)]
    page_of_data(path, index, [{"cases": cases}])
    return str(failing["id"])


def _translated(value: Any, script: str) -> Any:
    """The same data with each English text of an agent or a user replaced."""
    if isinstance(value, Mapping):
        return {key: _translated(item, script) for key, item in value.items()}
    if isinstance(value, list):
        return [_translated(item, script) for item in value]
    if isinstance(value, str):
        for text in _ENGLISH:
            value = value.replace(text, text.lower().translate(_LETTERS[script]))
    return value
