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
    masker = Masker(["token-1", "token-1-and-its-tail"])
    assert masker.text("use token-1-and-its-tail now") == f"use {MASK} now"
    assert masker.data(b"use token-1-and-its-tail now") == f"use {MASK} now".encode()


def test_masker__secrets_that_overlap_go_as_a_whole() -> None:
    masker = Masker(["s3cret-of-the-job", "of-the-job-and-more"])
    assert masker.text("use s3cret-of-the-job-and-more now") == f"use {MASK} now"
    assert masker.data(b"use s3cret-of-the-job-and-more now") == f"use {MASK} now".encode()
    assert masker.text("s3cret-of-the-jobs3cret-of-the-job") == MASK * 2


@given(before=st.integers(0, 500), after=st.integers(0, 500), limit=st.integers(60, 400))
@example(before=66, after=200, limit=200)
def test_shorten__takes_masked_text_alone_and_leaves_no_part_of_a_secret(before: int, after: int, limit: int) -> None:
    secret = "S" * 3 + "".join(chr(ord("A") + number % 26) for number in range(61))
    masked = Masker([secret]).text("x" * before + secret + "y" * after)
    for text in (shorten(masked, limit), first_line(masked, limit)):
        assert not any(letter in text.replace("more characters", "") for letter in "ABCDEF")
    # mypy checks that this comment is needed: a text that nobody has masked can't be shortened here.
    assert shorten("no Masker has read this", 60)  # type: ignore[arg-type]


@pytest.mark.parametrize("secret", ["s3cret/with+signs?", "p\u00e4ssword-long"])
def test_masker__base64_with_and_without_padding(secret: str) -> None:
    encoded = base64.b64encode(secret.encode()).decode()
    masked = Masker([secret]).text(f"Authorization: Basic {encoded}; {encoded.rstrip('=')}")
    assert encoded.rstrip("=") not in masked
    assert masked.startswith(f"Authorization: Basic {MASK}")


@pytest.mark.parametrize("safe", ["", "/"])
def test_masker__percent_encoding_with_and_without_slashes(safe: str) -> None:
    secret = "key/with slash&more"
    assert Masker([secret]).text(f"?k={urllib.parse.quote(secret, safe=safe)}") == f"?k={MASK}"


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


def test_masker__base64__ordinary_text_stays() -> None:
    assert Masker(["abcdef"]).text("VGhpcyBpcyBub3QgYSBzZWNyZXQ=") == "VGhpcyBpcyBub3QgYSBzZWNyZXQ="


def test_masker__json_of_other_languages() -> None:
    assert (
        Masker(["key/with<&more"]).text(r'"key\/with<&more" and "key/with\u003c\u0026more"') == f'"{MASK}" and "{MASK}"'
    )


def test_masker__form_encoding() -> None:
    assert Masker(["pass word+1"]).text(f"p={urllib.parse.quote_plus('pass word+1')}") == f"p={MASK}"
