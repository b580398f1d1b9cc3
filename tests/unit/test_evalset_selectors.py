"""`file.json:case1,case2`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_eval.core.selectors import Selector, matches, nearby, parse_selector, select

VECTORS = json.loads(
    (Path(__file__).parents[1] / "data" / "evalset" / "adk_2_13_0_selectors.json").read_text(encoding="utf-8")
)["selector"]


WITH_COLONS = {
    "C:/x:c1,c2:zz": {"C:/x": ["c1", "c2:zz"]},
    "gs://b/x.json:c1": {"gs": ["//b/x.json:c1"]},
    "/abs/p:q/a.json:c1": {"/abs/p": ["q/a.json:c1"]},
}
"""ADK drops what follows a second colon; an id may hold one. (It keeps blanks around ids, too; we trim them.)"""


def nothing_exists(path: str) -> bool:
    return False


@pytest.mark.parametrize(("texts", "expected"), VECTORS, ids=lambda value: str(value))
def test_selectors__vectors_of_adk(texts: list[str], expected: dict[str, list[str]]) -> None:
    result: dict[str, list[str]] = {}
    for text in texts:
        selector = parse_selector(text, nothing_exists)
        result.setdefault(selector.path, []).extend(selector.ids)
    expected = WITH_COLONS.get(texts[0], expected)
    assert result == {path: [eval_id.strip() for eval_id in ids] for path, ids in expected.items()}


@pytest.mark.parametrize(
    ("text", "existing", "expected"),
    [
        ("a:b.json", {"a:b.json"}, Selector(path="a:b.json")),
        ("a:b.json:c", {"a:b.json"}, Selector(path="a:b.json", ids=("c",))),
        ("a:b.json:c:d", {"a:b.json", "a"}, Selector(path="a:b.json", ids=("c:d",))),
        ("d/:x", {"d/"}, Selector(path="d/", ids=("x",))),
        ("C:\\a:b.json:c", {"C:\\a:b.json"}, Selector(path="C:\\a:b.json", ids=("c",))),
        ("a.json: b ,, b,c ", set(), Selector(path="a.json", ids=("b", "c"))),
        ("a.json: , ", set(), Selector(path="a.json")),
        ("", set(), Selector(path="")),
    ],
)
def test_selectors__paths_with_colons(text: str, existing: set[str], expected: Selector) -> None:
    assert parse_selector(text, existing.__contains__) == expected


NAMES = st.text(st.characters(exclude_characters=":,", exclude_categories=["Cs"]), min_size=1)
IDS = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)


@given(path=NAMES, ids=st.lists(IDS, min_size=1, unique=True))
def test_selectors__what_is_joined_is_split_again(path: str, ids: list[str]) -> None:
    assume(not (len(path) == 1 and path.isascii() and path.isalpha() and ids[0].startswith(("/", "\\"))))  # A drive.
    selector = parse_selector(f"{path}:{','.join(ids)}", lambda candidate: candidate == path)
    assert selector == Selector(path=path, ids=tuple(ids))


def test_selectors__globs_and_ids_that_look_like_globs() -> None:
    ids = ["light_on", "light_off", "weird[1]", "weird1"]
    assert select(ids, ["light_*"]) == {"light_on", "light_off"}
    assert select(ids, ["weird[1]"]) == {"weird[1]", "weird1"}
    assert select(ids, ["LIGHT_*"]) == set()
    assert matches("a?c", "abc")
    assert not matches("b", "abc")


def test_selectors__nearby_names() -> None:
    assert nearby("lihgt_on", ["light_on", "light_off", "door"]) == ["light_on", "light_off"]
    assert nearby("novice", ["EXPERT", "NOVICE"], count=1) == ["NOVICE"]
    assert nearby("zzz", ["EXPERT"]) == []
