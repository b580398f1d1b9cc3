"""What an answer of GitHub's means, how long it asks us to stay away, whose an address is, and where a link leads."""

from __future__ import annotations

import pytest

from agent_eval.github.client import check_encrypted, checked_api_url, resolve_link, same_origin
from agent_eval.github.errors import SECONDARY_WAIT, GitHubError, Wait, rate_limit_wait, response_error

NOW = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"  # the same moment
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 1."


GUESS = Wait(seconds=60, is_exact=False)


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
        (429, {}, "", GUESS),
        (403, {}, SECONDARY, GUESS),
        (403, {}, "You have triggered an abuse detection mechanism.", GUESS),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000100", "date": DATE}, PRIMARY, named(101)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000100"}, PRIMARY, named(101)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1799999000", "date": DATE}, PRIMARY, named(1)),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, PRIMARY, GUESS),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000100"}, "not accessible by integration", None),
        # A burst while the hour's budget still lasts: the header about the hour says nothing.
        (403, {"x-ratelimit-remaining": "900", "x-ratelimit-reset": "1800003600"}, SECONDARY, GUESS),
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
    ("kind", "statuses"),
    [
        ("rejected", (400, 409, 418, 422, 451)),
        ("unauthorized", (401,)),
        ("forbidden", (403,)),
        ("not-found", (404, 410)),
        ("unavailable", (408, 500, 504)),
        ("rate-limited", (429,)),
    ],
)
def test_errors__kinds(kind: str, statuses: tuple[int, ...]) -> None:
    for status in statuses:
        result = error(status)
        assert (result.kind, result.status) == (kind, status)
        assert (result.wait is not None) == (kind in {"unavailable", "rate-limited"})
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


API = "https://api.github.com"


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("https://api.github.com/repos", True),
        ("https://API.github.com/repos", True),
        ("http://api.github.com/repos", False),
        ("https://api.github.com:8443/repos", False),
        ("https://api.github.com.example/repos", False),
        ("https://api.github.com@example.test/repos", False),
        ("//api.github.com/repos", False),
    ],
)
def test_origin__origins(address: str, same: bool) -> None:
    assert same_origin(address, API) == same


@pytest.mark.parametrize("address", ["http://store.example/1", "ftp://store.example/1", "file:///etc/passwd", "x"])
def test_origin__encryption_is_not_left(address: str) -> None:
    with pytest.raises(GitHubError, match="without encryption"):
        check_encrypted(address, API, "GET /x")


def test_origin__a_store_may_be_as_open_as_the_api_itself() -> None:
    check_encrypted("https://store.example/1", API, "GET /x")
    check_encrypted("https://store.example/1", "http://ghes.example/api/v3", "GET /x")
    check_encrypted("http://store.example/1", "http://ghes.example/api/v3", "GET /x")


def test_origin__links() -> None:
    assert resolve_link(f"{API}/repos/a", "/repos/b?page=2", "GET /x") == f"{API}/repos/b?page=2"
    with pytest.raises(GitHubError, match="invalid link"):
        resolve_link(API, "http://[x", "GET /x")


def test_origin__an_api_url_loses_its_last_slash() -> None:
    assert checked_api_url("https://ghes.example/api/v3/") == "https://ghes.example/api/v3"
