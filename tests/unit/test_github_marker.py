"""The hidden line that tells our comment from others, and newer from older."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.forge import Comment, CommentMode, RunStamp
from agent_eval.github.comments import Marked, marked, read_marker, same_text

RUN = RunStamp(run_id=123, attempt=2, sha="ab" * 20)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"))


@given(key=KEYS, text=TEXTS, run_id=st.integers(0, 10**17), attempt=st.integers(1, 999))
def test_marker__what_is_written_is_read(key: str, text: str, run_id: int, attempt: int) -> None:
    run = RunStamp(run_id=run_id, attempt=attempt, sha="0f" * 32)

    assert read_marker(marked(key, run, text)) == Marked(key=key, run=run, text=text)
    browsers = marked(key, run, text).replace("\n", "\r\n")
    assert read_marker(browsers) == Marked(key=key, run=run, text=text), "their line ends do not matter"
    assert RunStamp(run_id=run_id, attempt=attempt + 1, sha="") > run < RunStamp(run_id=run_id + 1, attempt=0, sha="")


@given(KEYS)
@example("-->")
@example("a--b")
def test_marker__no_key_ends_the_comment_of_html(key: str) -> None:
    first, _, rest = marked(key, RUN, "text").partition("\n")

    assert rest == "text"
    assert first.count("-->") == first.count("<!--") == 1
    assert "--" not in first.removeprefix("<!--").removesuffix("-->")


@given(st.text())
def test_marker__any_text_can_be_looked_at(body: str) -> None:
    assert read_marker(body) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "text\n" + marked("k", RUN, "text"),
        "> " + marked("k", RUN, "quoted"),
        marked("k", RUN, "text").replace("run=123", "run=x"),
        marked("k", RUN, "text").replace("run=123", "run=" + "9" * 19),
        marked("k", RUN, "text").replace("agent-eval", "agent-eval-other"),
        marked("k", RUN, "text").replace(" -->", ""),
    ],
)
def test_marker__what_is_no_marker(body: str) -> None:
    assert read_marker(body) is None


@pytest.mark.parametrize(("key", "sha"), [("", "ab" * 20), ("k", ""), ("k", "ab"), ("k", "--> <script>" * 4)])
def test_marker__a_marker_that_would_not_be_found_is_not_written(key: str, sha: str) -> None:
    with pytest.raises(ValueError, match="full hash"):
        marked(key, RunStamp(run_id=1, attempt=1, sha=sha), "text")


def test_marker__texts_are_the_same_but_for_blanks_around_them() -> None:
    assert same_text("a\r\nb\n\n", "a\nb")
    assert not same_text("a\nb", "a b")


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("changed", [False, True])
def test_marker__never_and_always(failed: bool, changed: bool) -> None:
    def creates(mode: CommentMode) -> bool:
        run = RunStamp(run_id=1, attempt=1, sha="a" * 40)
        return Comment(number=7, key="k", body="", run=run, mode=mode, failed=failed, changed=changed).creates

    assert creates("always")
    assert not creates("never")
    assert creates("on-failure") == failed
    assert creates("on-change") == (failed or changed)
