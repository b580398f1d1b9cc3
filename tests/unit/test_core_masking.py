"""Every spelling of a secret goes, as a whole."""

from __future__ import annotations

import base64
import urllib.parse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.core.masking import MASK, Masker, first_line, shorten


def test_masker__a_secret_that_contains_another_goes_as_a_whole() -> None:
    """Shortest first would leave the tail of the longer one."""
    for secrets, text in (
        (["token-1", "token-1-and-its-tail"], "use token-1-and-its-tail now"),
        (["s3cret-of-the-job", "of-the-job-and-more"], "use s3cret-of-the-job-and-more now"),  # they overlap
    ):
        assert Masker(secrets).text(text) == f"use {MASK} now"
        assert Masker(secrets).data(text.encode()) == f"use {MASK} now".encode()
    assert Masker(["s3cret-of-the-job"]).text("s3cret-of-the-jobs3cret-of-the-job") == MASK * 2


@given(before=st.integers(0, 500), after=st.integers(0, 500), limit=st.integers(60, 400))
@example(before=66, after=200, limit=200)
def test_shorten__takes_masked_text_alone_and_leaves_no_part_of_a_secret(before: int, after: int, limit: int) -> None:
    secret = "S" * 3 + "".join(chr(ord("A") + number % 26) for number in range(61))
    masked = Masker([secret]).text("x" * before + secret + "y" * after)
    for text in (shorten(masked, limit), first_line(masked, limit)):
        assert not any(letter in text.replace("more characters", "") for letter in "ABCDEF")
    # mypy checks that this comment is needed: a text that nobody has masked can't be shortened here.
    assert shorten("no Masker has read this", 60)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spelling",
    [
        urllib.parse.quote("key/with<&more 1", safe=""),
        urllib.parse.quote("key/with<&more 1"),
        urllib.parse.quote_plus("key/with<&more 1"),
        r"key\/with<&more 1",
        r"key/with\u003c\u0026more 1",
    ],
)
def test_masker__percent_encoding_form_encoding_and_json_of_other_languages(spelling: str) -> None:
    assert Masker(["key/with<&more 1"]).text(f"?k={spelling}") == f"?k={MASK}"
    ordinary = "VGhpcyBpcyBub3QgYSBzZWNyZXQ="
    assert Masker(["abcdef"]).text(ordinary) == ordinary


@pytest.mark.parametrize("secret", ["s3cret/with+signs?", "p\u00e4ssword-long"])
def test_masker__base64_with_and_without_padding(secret: str) -> None:
    encoded = base64.b64encode(secret.encode()).decode()
    masked = Masker([secret]).text(f"Authorization: Basic {encoded}; {encoded.rstrip('=')}")
    assert encoded.rstrip("=") not in masked
    assert masked.startswith(f"Authorization: Basic {MASK}")


def test_masker__what_was_cut_off_leaves_no_part_of_a_secret() -> None:
    masker = Masker(["s3cret-value-of-the-job"])
    assert masker.beginning(b"a s3cret-value-of-the-job" + b"." * 40 + b"s3cret-value").startswith(b"a ***....")
    assert b"s3cret" not in masker.beginning(b"a s3cret-value-of-the-job" + b"." * 40 + b"s3cret-value")
    assert b"the-job" not in masker.ending(b"value-of-the-job, then s3cret-value-of-the-job" + b"." * 40)
    assert Masker().beginning(b"abc") == Masker().ending(b"abc") == b"abc"


@pytest.mark.parametrize("before", ["", "u", "user", "me:", "a-long-name:"])
@pytest.mark.parametrize("after", ["", "!", "@host", "\n"])
def test_masker__base64_of_a_text_around_a_secret(before: str, after: str) -> None:
    secret = "s3cret-value-of-the-job"
    encoded = base64.b64encode(f"{before}{secret}{after}".encode()).decode()

    masked = Masker([secret]).text(f"Basic {encoded}.")

    assert MASK in masked
    longest = max(len(part) for part in masked.removeprefix("Basic ").split(MASK))
    assert longest <= len(base64.b64encode(f"{before}{after}".encode())) + 4, "what is left belongs to its neighbours"
