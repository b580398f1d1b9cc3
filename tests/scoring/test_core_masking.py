"""Secrets in every spelling: what a Masker finds, and what stays equal."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_samples import IN_BASE64, SECRETS, SPELLINGS

from agent_eval_agents.host.connection import decode
from agent_eval_scoring.core.masking import MASK, Masker

any_secret = st.one_of(
    st.sampled_from(SECRETS),
    st.text(st.sampled_from("ab1\"'\\\t\n<>&%+/= \u00e4\u65e5\U0001f600{}"), min_size=9, max_size=24).filter(
        lambda text: len(text.strip()) >= 9 and "***" not in text
    ),
)


OF_THE_PROTOCOL = " event content parts text args x y response result state error message traceback data "


def is_masked(text: str, secret: str, spelled: str) -> None:
    assert MASK in text, (secret, spelled)
    # Nothing is left that is longer than a coincidence.
    rest = text.replace("***KEY***", "\0")
    assert not any(part in rest for part in (secret.strip(), spelled.strip("\"'"))), (secret, spelled, text)


@given(secret=any_secret, spelling=st.sampled_from([*SPELLINGS]), around=st.sampled_from(["", " ", "x", '"']))
def test_masker__every_secret_in_every_spelling(secret: str, spelling: str, around: str) -> None:
    masker = Masker({secret: "KEY"})
    spelled = SPELLINGS[spelling](secret.strip())
    text = f"{around}{spelled}{around}"
    masked = masker.text(text)
    is_masked(masked, secret, spelled)
    assert masker.data(text.encode()).decode() == masked
    assert masker.text(masked) == masked
    assert len(spelled.encode()) <= masker.longest + 60, "a reader of chunks holds enough back"


@given(secret=any_secret, spelling=st.sampled_from([*IN_BASE64]))
def test_masker__every_secret_in_base64(secret: str, spelling: str) -> None:
    spelled = IN_BASE64[spelling](secret.strip()).decode()
    masked = Masker({secret: "KEY"}).text(f"Basic {spelled}")
    assert MASK in masked, (secret, spelled)
    assert len("".join(masked.split("***")[::2])) <= 40, "what is left belongs to its neighbours"


@given(secret=any_secret, spelling=st.sampled_from([*SPELLINGS]), place=st.integers(0, 6))
def test_decode__every_text_of_a_message(secret: str, spelling: str, place: int) -> None:
    """The line has the texts in another spelling than they have themselves."""
    spelled = SPELLINGS[spelling](secret.strip())
    places: tuple[Any, ...] = (
        {"event": {"content": {"parts": [{"text": spelled}]}}},
        {"args": {"x": [{"y": spelled}]}},
        {"args": {spelled: 1}},
        {"response": {"result": {"text": {spelled: None}}}},
        {"state": {spelled: spelled}},
        {"error": {"message": spelled, "traceback": f"E: {spelled}\n"}},
        {spelled: {"data": spelled}},
    )
    for to_ascii in (True, False):
        message = {"v": 1, "type": "notify", "method": "event", "params": places[place]}
        line = json.dumps(message, ensure_ascii=to_ascii).encode("utf-8", "replace")
        for text in texts_of(decode(line, Masker({secret: "KEY"}))["params"]):
            assert MASK in text or f" {text} " in OF_THE_PROTOCOL, (secret, text)


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *texts_of(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_decode__keys_of_the_agent_are_masked_and_those_of_the_protocol_are_not() -> None:
    call = {"function_call": {"name": "f", "args": {"function_call": 1, "response": {"function_call": 2}}}}
    line = json.dumps({"v": 1, "type": "notify", "params": {"turn": 123456, "event": call}}).encode()
    assert decode(line, Masker({"function_call": "KEY", "123456": "PIN"}))["params"] == {
        "turn": 123456,
        "event": {"function_call": {"name": "f", "args": {"***KEY***": 1, "response": {"***KEY***": 2}}}},
    }


def test_masker__hostile_texts_take_no_time() -> None:
    """A text that is almost a secret, many times, with as many backslashes as a spelling may have."""
    secret = "\u65e5\"'\\\n" * 8 + "Z"
    masker = Masker([secret])
    slash = "\\"
    almost = f"{slash * 8}u65e5{slash * 7}\"{slash * 7}'{slash * 15}n" * 8
    begun = time.process_time()
    for text in ("Z" + almost * 50, "Z" + "\\" * 20_000, "Z" + "%25" * 5_000, "Z" + "&amp;" * 5_000):
        masker.text(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("secrets", "text", "masked"),
    [
        ({"postgres": "A", "kitchen lamp": "B"}, "postgrespostgres, kitchen lamp", "***A******A***, ***B***"),
        ({"abcdef": "A", "abcdefgh": "B"}, "abcdef abcdefgh abcdefg", "***A*** ***B*** ***A***g"),
        ({"abcdef": "A", "defghi": "B"}, "abcdefghi", "***A******B***"),
        ({"abcabc": "A"}, "abcabcabc", "***A***"),
        ({"abcdef": "A", "three1": "B"}, "abcde three", "abcde three"),
        ({"API_KEY": "API_KEY", "postgres": "B"}, "API_KEY postgres", "***0*** ***B***"),
        ({"line one\nline two": "A"}, "line one\nline two, line two", "***A***, ***A:2***"),
        ({"secret": "", "postgres": "B"}, "secret postgres", "*** ***B***"),
        ({"postgres": "A B.2"}, "postgres ***B.2*** %2A%2A%2AB.2%2A%2A%2A ***B***", "***A*** ***A*** ***A*** ***B***"),
        ({"line one\nline two": "A", "line two": "B"}, "line two ***B*** ***A***", "***A:2*** ***A:2*** ***A***"),
    ],
)
def test_masker__different_secrets_have_different_placeholders(secrets: dict[str, str], text: str, masked: str) -> None:
    masker = Masker(secrets)
    assert masker.text(text) == masker.data(text.encode()).decode() == masked
    assert masker.text(masked) == masked, "and a placeholder has none of them"
