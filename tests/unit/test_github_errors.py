"""What an answer of GitHub's means, and how long it asks us to stay away."""

from __future__ import annotations

import pytest

from agent_eval.github.errors import SECONDARY_WAIT, GitHubError, Wait, rate_limit_wait, response_error

NOW = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"  # the same moment
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 1."


def named(seconds: float) -> Wait:
    return Wait(seconds=seconds, is_exact=True)


@pytest.mark.parametrize(
    ("status", "headers", "message", "wait"),
    [
        (200, {"retry-after": "5"}, "", None),
        (500, {"retry-after": "5"}, SECONDARY, None),
        (403, {}, "Resource not accessible by integration", None),
        (403, {"x-ratelimit-remaining": "12"}, "Must have admin rights", None),
        (403, {"retry-after": "5"}, SECONDARY, named(5)),
        (429, {"retry-after": " 0 "}, "", named(1)),
        (429, {"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT", "date": DATE}, "", named(30)),
        (429, {"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT", "date": DATE}, "", named(1)),
        (429, {"retry-after": "soon"}, "", Wait(seconds=SECONDARY_WAIT, is_exact=False)),
        (429, {}, "", Wait(seconds=60, is_exact=False)),
        (403, {}, SECONDARY, Wait(seconds=60, is_exact=False)),
        (403, {}, "You have triggered an abuse detection mechanism.", Wait(seconds=60, is_exact=False)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000100", "date": DATE}, PRIMARY, named(101)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000100"}, PRIMARY, named(101)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1799999000", "date": DATE}, PRIMARY, named(1)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, PRIMARY, Wait(seconds=60, is_exact=False)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000100"}, "not accessible by integration", None),
        # A burst while the hour's budget still lasts: the header about the hour says nothing.
        (
            403,
            {"x-ratelimit-remaining": "900", "x-ratelimit-reset": "1800003600"},
            SECONDARY,
            Wait(seconds=60, is_exact=False),
        ),
    ],
)
def test_errors__seconds_to_wait(status: int, headers: dict[str, str], message: str, wait: Wait | None) -> None:
    assert rate_limit_wait(status, headers, message, now=NOW) == wait


def test_errors__the_servers_clock_counts() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000010", "date": DATE}

    assert rate_limit_wait(403, headers, PRIMARY, now=NOW - 5000) == named(11)


def error(status: int, message: object = "No", **more: object) -> GitHubError:
    return response_error(status, {}, {"message": message, **more}, operation="POST /x", write=True, now=NOW)


@pytest.mark.parametrize(
    ("status", "kind", "waits"),
    [
        (400, "rejected", False),
        (401, "unauthorized", False),
        (403, "forbidden", False),
        (404, "not-found", False),
        (408, "unavailable", True),
        (409, "rejected", False),
        (410, "not-found", False),
        (418, "rejected", False),
        (422, "rejected", False),
        (429, "rate-limited", True),
        (451, "rejected", False),
        (500, "unavailable", True),
        (504, "unavailable", True),
    ],
)
def test_errors__kinds(status: int, kind: str, waits: bool) -> None:
    result = error(status)

    assert (result.kind, result.wait is not None, result.status) == (kind, waits, status)
    assert result.may_have_happened == (kind == "unavailable")
    assert result.message == f"POST /x: GitHub answered {status} (No)."


def test_errors__a_message_is_one_line_and_not_endless() -> None:
    result = str(error(422, "a\n::error::b" + "x" * 10_000))

    assert "\n" not in result
    assert len(result) < 600


@pytest.mark.parametrize("message", [None, 7, [], {}])
def test_errors__an_empty_message_is_omitted(message: object) -> None:
    assert str(error(409, message)) == "POST /x: GitHub answered 409."


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (["Pull request review is locked"], "Pull request review is locked"),
        ([{"resource": "IssueComment", "field": "body", "code": "missing_field"}], "IssueComment body missing_field"),
        ([7, None, {"x": 1}], "(No)."),
        ("?", "(No)."),
    ],
)
def test_errors__details_of_a_refusal(errors: object, words: str) -> None:
    assert str(error(422, "No", errors=errors)).endswith(words)
