"""The REST client against sockets that do what GitHub and the network do to it, and the stand-in itself."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from fake_github import FakeGitHub, Fault, primary_limit, secondary_limit
from fake_github.shapes import Shapes
from github_clock import Clock, client
from golden_files import check

from agent_eval.forge.rest import RestError
from agent_eval.github.forge import GitHub

# The REST client against sockets that do what GitHub and the network do to it.


PULL = "/repos/octo/shop/pulls/7"
COMMENTS = "/repos/octo/shop/issues/7/comments"


@pytest.fixture
def fake(github: FakeGitHub) -> FakeGitHub:
    github.state.pull(7)
    return github


def failure(github: GitHub, path: str = PULL) -> RestError:
    with pytest.raises(RestError) as caught:
        github.get(path)
    return caught.value


def told(ask: Callable[[], Any]) -> str:
    """What was answered, or the failure."""
    try:
        value = ask()
    except RestError as error:
        return f"{error.kind}: {error}{' It may have happened.' if error.may_have_happened else ''}"
    if isinstance(value, dict):
        return f"answered: {value.get('number') or value}"
    return f"answered: {len(value)} {type(value).__name__}"


def test_client__what_each_request_says_of_itself(fake: FakeGitHub) -> None:
    client(fake).get(PULL)

    headers = fake.requests[0].headers
    assert headers["accept"] == "application/vnd.github+json"
    assert headers["x-github-api-version"] == "2022-11-28"
    assert headers["user-agent"] == "agent-eval-action"
    assert headers["authorization"] == f"Bearer {fake.token}"


def test_client__ghes_has_its_api_below_a_path_and_no_more_pages_are_read_than_are_wanted() -> None:
    with FakeGitHub(base_path="/api/v3") as fake:
        fake.state.pull(7)
        for number in range(250):
            fake.state.comment(7, f"{number}")
        github = client(fake)
        path = github.repo("issues", 7, "comments")

        assert [len(list(github.paginate(path, limit=limit))) for limit in (150, 5, None)] == [150, 5, 250]
        assert [request.query for request in fake.requests[:3]] == ["per_page=100", "per_page=100&page=2", "per_page=5"]


GZIP = {"Content-Encoding": "gzip"}
TROUBLE: dict[str, list[Fault]] = {
    "500 twice": [Fault(status=500, times=2)],
    "503 four times": [Fault(status=503, times=4)],
    "502 for ever": [Fault(status=502, times=100)],
    "lost request": [Fault(drop="before")],
    "lost answer": [Fault(drop="after")],
    "answer that breaks off": [Fault(drop="middle")],
    "no answer for ever": [Fault(drop="before", times=100)],
    "secondary limit": [secondary_limit(status=429)],
    "secondary limit with a time": [secondary_limit(retry_after=9, times=3)],
    "secondary limit for longer than the budget": [secondary_limit(times=100)],
    "primary limit": [primary_limit(reset=2_000_000_020, now=2_000_000_000)],
    "primary limit as 429": [primary_limit(reset=2_000_000_020, now=2_000_000_000, status=429)],
    "not found": [Fault(status=404, body=b'{"message": "Not Found"}')],
    "400 with a page": [Fault(status=400, body=b"<html>no</html>")],
    "page of a proxy": [Fault(status=200, body=b"<html>Sign in</html>")],
    "nothing": [Fault(status=200, body=b"")],
    "204": [Fault(status=204, body=b"")],
    "deep JSON": [Fault(status=200, body=b"[" * 100_000)],
    "30 MB": [Fault(status=200, body=b" " * 30_000_001)],
    "50 MB, compressed": [Fault(status=200, body=gzip.compress(b" " * 50_000_000), headers=GZIP)],
    "compressed": [Fault(status=200, body=gzip.compress(b'{"number": 8}'), headers=GZIP)],
    "redirect": [Fault(status=301, headers={"Location": PULL}, body=b" " * 30_000_000)],
    "long error": [Fault(status=404, body=b" " * 30_000_000)],
    "long error that breaks off": [Fault(status=404, body=b" " * 400_000, drop="middle")],
    **{
        f"redirect to {there}": [Fault(status=302, headers={"Location": there}, times=99)]
        for there in ("http://localhost:9/x", "http://[x", "https://[::1", "https:///x", PULL)
    },
}


def test_client__what_is_repeated_and_what_is_a_failure(fake: FakeGitHub) -> None:
    said = []
    for name, faults in TROUBLE.items():
        fake.faults[:] = [dataclasses.replace(fault) for fault in faults]
        fake.requests.clear()
        clock = Clock()
        github = client(fake, clock, budget=200.0)
        result = told(functools.partial(github.get, PULL))
        said.append(f"{name}: {len(fake.requests)} requests, waits of {clock.slept}\n    {result}\n")
    fake.faults[:] = [Fault(path="/repos/octo/old/", status=301, headers={"Location": f"{fake.api_url}{PULL}"})]
    renamed = client(fake, repository="octo/old")
    said.append(f"a renamed repository: {told(functools.partial(renamed.get, renamed.repo('pulls', 7)))}\n")
    nobody = client(fake, clock := Clock(), api_url="http://127.0.0.1:9")
    said.append(f"no server: {told(functools.partial(nobody.get, PULL))} Waits of {clock.slept}\n")
    fake.faults[:] = [Fault(method="POST", status=502, times=9)]
    said.append(f"write: {told(lambda: client(fake).post(COMMENTS, {'body': 'x'}))}\n")
    assert len(fake.writes()) == 1, "it is sent once"
    for location in (COMMENTS, f"{fake.api_url}{COMMENTS}"):
        fake.faults[:] = [
            Fault(method="POST", status=302 if location == COMMENTS else 307, headers={"Location": location})
        ]
        said.append(f"redirected write: {told(lambda: client(fake).post(COMMENTS, {'body': 'x'})['body'])}\n")
    for body in (b"{}", b"[1]", b'{"items": []}', b"null"):
        fake.faults[:] = [Fault(status=200, body=body)]
        said.append(f"page {body.decode()}: {told(lambda: list(client(fake).paginate('/repos/octo/shop/pulls')))}\n")
    for there in (fake.store_url, fake.api_url):
        link = {"Link": f'<{there}/repos/octo/shop/pulls?page=2>; rel="next"'}
        fake.faults[:] = [Fault(status=200, body=b"[]", headers=link, times=9)]
        said.append(f"next page: {told(lambda: list(client(fake).paginate('/repos/octo/shop/pulls')))}\n")
    check(
        "golden_github_client.txt",
        "".join(said).replace(fake.api_url, "http://HERE").replace(fake.store_url, "http://STORE"),
    )
    assert fake.stored == []


def test_client__jitter_keeps_jobs_apart_and_long_waits_are_reported(fake: FakeGitHub) -> None:
    fake.faults += [Fault(status=502), secondary_limit()]
    clock = Clock()
    lines: list[str] = []
    client(fake, clock, jitter=1.0, log=lines.append).get(PULL)

    assert clock.slept == [1.25, 150.0]
    assert len(lines) == 1
    assert lines[0].endswith("Waiting 150 s.")


# Times


@pytest.mark.parametrize(
    "fault", [Fault(status=200, body=b"[" + b" " * 800, trickle=0.01), Fault(delay=6.0)], ids=["slow", "silent"]
)
def test_client__an_answer_that_does_not_come_ends_with_the_budget(fake: FakeGitHub, fault: Fault) -> None:
    fake.faults.append(dataclasses.replace(fault))
    begun = time.monotonic()

    github = GitHub(api_url=fake.api_url, repository="octo/shop", token=fake.token, budget=0.4)
    assert failure(github).kind == "unavailable"
    assert time.monotonic() - begun < 5


def test_client__waits_and_slow_answers_cost_budget_and_what_the_job_does_meanwhile_does_not(fake: FakeGitHub) -> None:
    clock = Clock()
    fake.faults.append(secondary_limit(retry_after=9))
    github = client(fake, clock, budget=9.5)
    github.get(PULL)
    clock.now += 3600.0
    assert github.get(PULL)["number"] == 7
    fake.faults.append(secondary_limit(retry_after=1))
    assert failure(github).kind == "rate-limited"

    class Slow(Fault):
        def matches(self, method: str, path: str) -> bool:
            clock.now += 20.0
            return False

    fake.faults.append(Slow())
    slow = client(fake, clock, budget=30.0)
    slow.get(PULL)
    assert failure(slow).kind == "unavailable"
    before = len(fake.requests)
    assert failure(client(fake, budget=0.0)).kind == "unavailable"
    assert len(fake.requests) == before, "nothing is sent"


# The token


SECRET = "ghs_secretSecretSecretSecret1234"


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault(drop=drop, times=9) for drop in ("before", "middle")),
        *(Fault(status=status, body=SECRET.encode(), times=9) for status in (200, 502)),
        Fault(status=403, body=f'{{"message": "token {SECRET} is bad"}}'.encode(), times=9),
        Fault(status=422, body=f'{{"message": "x", "errors": ["{SECRET}"]}}'.encode(), times=9),
        *(Fault(status=302, headers={"Location": f"{there}{SECRET}"}, times=9) for there in ("http://[", "ftp://")),
    ],
)
def test_token__is_in_no_message_and_no_address(fake: FakeGitHub, fault: Fault) -> None:
    fake.tokens[SECRET] = None
    fake.faults.append(dataclasses.replace(fault))
    lines: list[str] = []
    github = client(fake, token=SECRET, log=lines.append)
    error = failure(github)

    assert error.__cause__ is error.__context__ is None, "an older exception may carry an address"
    text = "".join(traceback.format_exception(error)) + repr(error) + "".join(lines)
    text += repr(vars(error)) + repr(github) + str(error.args)
    assert SECRET not in text
    assert all(SECRET not in request.path + request.query for request in fake.requests)


@pytest.mark.parametrize("token", ["ghs_a b", "ghs_a\nb", "ghs_ü", "ghs_a\x00b"])
def test_token__that_can_be_none_is_refused_without_showing_it(fake: FakeGitHub, token: str) -> None:
    with pytest.raises(RestError) as caught:
        client(fake, token=token)

    assert caught.value.kind == "unauthorized"
    assert "ghs_a" not in str(caught.value)


def test_token__may_end_in_a_line_break_and_is_not_that_of_netrc(
    fake: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login mallory password hunter2hunter2\n")
    monkeypatch.setenv("NETRC", str(netrc))
    artifact = fake.state.artifact(fake.state.run(fake.state.commit(branch="main")), b"zip")
    github = client(fake, token=fake.token + "\n")

    assert github.download(github.repo("actions", "artifacts", artifact.id, "zip"), max_bytes=10) == b"zip"
    assert fake.requests[0].headers["authorization"] == f"Bearer {fake.token}"
    assert "authorization" not in fake.stored[0].headers
    assert client(fake, token="").get(PULL)["number"] == 7
    assert "authorization" not in fake.requests[-1].headers


@pytest.mark.parametrize(
    "address", ["", "api.github.com", "ftp://x", "https://user:secretsecret@host", "https://", "http://["]
)
def test_client__an_address_that_is_none(address: str) -> None:
    with pytest.raises(RestError, match="GITHUB_API_URL") as caught:
        GitHub(api_url=address, repository="o/r", token="")
    assert "secretsecret" not in str(caught.value)


def test_client__parts_of_a_path_cannot_leave_it(fake: FakeGitHub) -> None:
    github = client(fake)

    assert github.repo("compare", "main...../../x?y=#") == "/repos/octo/shop/compare/main.....%2F..%2Fx%3Fy%3D%23"


# The store of artifacts


def test_download__a_store_that_fails_is_asked_by_a_new_address_that_nobody_sees(fake: FakeGitHub) -> None:
    run = fake.state.run(fake.state.commit(branch="main"))
    path = f"/repos/octo/shop/actions/artifacts/{fake.state.artifact(run, b'zip' * 1000).id}/zip"
    for drop in ("before", "middle"):
        fake.requests.clear()
        fake.faults[:] = [Fault(path="/store/", drop=drop)]
        assert client(fake).download(path, max_bytes=3000) == b"zip" * 1000
        assert len(fake.requests) == 2
    for fault, kind in (
        (Fault(path="/store/", status=403, body=b"<xml/>"), "forbidden"),
        (Fault(path="/store/", drop="before", times=9), "unavailable"),
        (Fault(path="/store/", drop="middle", times=9), "unavailable"),
    ):
        fake.faults[:] = [fault]
        with pytest.raises(RestError) as caught:
            client(fake).download(path, max_bytes=3000)
        assert (caught.value.kind, "at the file store" in str(caught.value)) == (kind, True)
        assert "sig=" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(RestError) as caught:
        client(fake, token="").download(path, max_bytes=3000)
    assert caught.value.kind == "unauthorized"


# The stand-in itself: it notices what GitHub would not accept, and what GitHub would not say.


def test_fake__what_github_does_not_know_or_would_not_answer_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shapes, "comment", lambda self, comment: {"id": comment.id})
    with pytest.raises(AssertionError) as caught, FakeGitHub() as fake:
        fake.state.pull(7)
        fake.state.comment(7, "hello")
        headers = {"Authorization": f"Bearer {fake.token}", "User-Agent": "test"}
        for method, path, body in (
            ("GET", COMMENTS, None),
            ("DELETE", COMMENTS, None),
            ("POST", COMMENTS, {"text": "hello"}),
            ("POST", COMMENTS, {"body": 7}),
            ("GET", "/repos/octo/shop/pulls?state=merged&author=me", None),
            ("GET", f"{fake.store_url}/store/1?sig=1", None),
        ):
            requests.request(
                method, path if "://" in path else fake.api_url + path, headers=headers, json=body, timeout=10
            )
    for violation in (
        "'html_url' is a required property",
        "not in GitHub's description",
        "'body' is a required property",
        "7 is not of type 'string'",
        "'merged' is not one of",
        "no parameter author",
        "the token was sent to the store of artifacts",
    ):
        assert violation in str(caught.value)
