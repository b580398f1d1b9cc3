"""The REST client against sockets that do what GitHub and the network do to it, and the stand-in itself."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import requests
from fake_github import FakeGitHub, Fault, primary_limit, secondary_limit
from fake_github.shapes import Shapes
from github_clock import Clock, client

from agent_eval.github.errors import GitHubError
from agent_eval.github.forge import GitHub

# The REST client against sockets that do what GitHub and the network do to it.


@pytest.fixture
def fake(github: FakeGitHub) -> FakeGitHub:
    github.state.pull(7)
    return github


def failure(github: GitHub, path: str = "/repos/octo/shop/pulls/7") -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        github.get(path)
    return caught.value


def test_client__requests_is_imported_when_it_is_needed() -> None:
    code = "import sys; import agent_eval.github.comments, agent_eval.github.forge; sys.exit('requests' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_client__what_each_request_says_of_itself(fake: FakeGitHub) -> None:
    client(fake).get("/repos/octo/shop/pulls/7")

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
        assert [request.query for request in fake.requests[:3]] == [
            "per_page=100",
            "per_page=100&page=2",
            "per_page=5",
        ]


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        (Fault(status=500, times=2), [1.0, 2.0]),
        (Fault(status=503, times=4), [1.0, 2.0, 4.0, 8.0]),
        (Fault(drop="before"), [1.0]),
        (Fault(drop="after"), [1.0]),
        (Fault(drop="middle"), [1.0]),
        (secondary_limit(retry_after=9), [9.0]),
        (secondary_limit(retry_after=9, times=3), [9.0, 9.0, 9.0]),
        (secondary_limit(status=429), [60.0]),
        (primary_limit(reset=2_000_000_020, now=2_000_000_000), [21.0]),
        (primary_limit(reset=2_000_000_020, now=2_000_000_000, status=429), [21.0]),
    ],
    ids=["500", "503", "before", "after", "middle", "retry-after", "named", "secondary", "primary", "primary-429"],
)
def test_client__reads_are_repeated(fake: FakeGitHub, fault: Fault, waits: list[float]) -> None:
    fake.faults.append(Fault(**vars(fault)))
    clock = Clock()

    assert client(fake, clock).get("/repos/octo/shop/pulls/7")["number"] == 7
    assert clock.slept == waits


@pytest.mark.parametrize("fault", [Fault(status=502, times=100), Fault(drop="before", times=100)])
def test_client__but_not_for_ever(fake: FakeGitHub, fault: Fault) -> None:
    fake.faults.append(fault)

    assert failure(client(fake)).kind == "unavailable"
    assert len(fake.requests) == 5


def test_client__nor_beyond_the_budget(fake: FakeGitHub) -> None:
    fake.faults.append(secondary_limit(times=100))
    clock = Clock()

    error = failure(client(fake, clock, budget=200.0))

    assert error.kind == "rate-limited"
    assert clock.slept == [60.0, 120.0]
    assert "only 20 s are left" in str(error)


def test_client__jitter_keeps_jobs_apart_and_long_waits_are_reported(fake: FakeGitHub) -> None:
    fake.faults += [Fault(status=502), secondary_limit()]
    clock = Clock()
    lines: list[str] = []
    client(fake, clock, jitter=1.0, log=lines.append).get("/repos/octo/shop/pulls/7")

    assert clock.slept == [1.25, 150.0]
    assert len(lines) == 1
    assert lines[0].endswith("Waiting 150 s.")


def test_client__writes_are_sent_once(fake: FakeGitHub) -> None:
    fake.faults.append(Fault(method="POST", status=502, times=9))
    with pytest.raises(GitHubError) as caught:
        client(fake).post("/repos/octo/shop/issues/7/comments", {"body": "x"})

    assert caught.value.may_have_happened
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Fault(status=404, body=b'{"message": "Not Found"}'), "not-found", "has no access to it"),
        (Fault(status=400, body=b"<html>no</html>"), "rejected", "answered 400."),
        (Fault(status=200, body=b"<html>Sign in</html>"), "malformed", "/api/v3"),
        (Fault(status=200, body=b""), "malformed", "other than JSON"),
        (Fault(status=200, body=b"[" * 100_000), "malformed", "other than JSON"),
        (Fault(status=204, body=b""), "malformed", "other than JSON"),
        (Fault(status=200, body=b" " * 30_000_001), "too-large", "larger than"),
        (
            Fault(status=200, body=gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}),
            "too-large",
            "larger than",
        ),
    ],
)
def test_client__what_is_not_repeated(fake: FakeGitHub, fault: Fault, kind: str, words: str) -> None:
    fake.faults.append(Fault(**vars(fault)))

    error = failure(client(fake))

    assert (error.kind, words in str(error)) == (kind, True)
    assert "GET /repos/octo/shop/pulls/7" in str(error)
    assert len(fake.requests) == 1


# Sizes and times


def test_client__a_compressed_answer_is_read(fake: FakeGitHub) -> None:
    body = gzip.compress(b'{"number": 8}')
    fake.faults.append(Fault(status=200, body=body, headers={"Content-Encoding": "gzip"}))

    assert client(fake).get("/repos/octo/shop/pulls/7") == {"number": 8}


@pytest.mark.parametrize(
    "fault", [Fault(status=200, body=b"[" + b" " * 800, trickle=0.01), Fault(delay=6.0)], ids=["slow", "silent"]
)
def test_client__an_answer_that_does_not_come_ends_with_the_budget(fake: FakeGitHub, fault: Fault) -> None:
    fake.faults.append(Fault(**vars(fault)))
    begun = time.monotonic()

    github = GitHub(api_url=fake.api_url, repository="octo/shop", token=fake.token, budget=0.4)
    assert failure(github).kind == "unavailable"
    assert time.monotonic() - begun < 5


def test_client__after_that_nothing_is_sent(fake: FakeGitHub) -> None:
    fake.faults.append(secondary_limit(retry_after=9))
    github = client(fake, budget=9.5)
    github.get("/repos/octo/shop/pulls/7")
    fake.faults.append(secondary_limit(retry_after=1))
    assert failure(github).kind == "rate-limited"

    spent = client(fake, budget=0.0)
    before = len(fake.requests)
    assert failure(spent).kind == "unavailable"
    assert len(fake.requests) == before


def test_client__slow_answers_cost_budget(fake: FakeGitHub) -> None:
    clock = Clock()

    class Slow(Fault):
        def matches(self, method: str, path: str) -> bool:
            clock.now += 20.0
            return False

    fake.faults.append(Slow())
    github = client(fake, clock, budget=30.0)
    github.get("/repos/octo/shop/pulls/7")

    assert failure(github).kind == "unavailable"


def test_client__what_the_job_does_meanwhile_costs_no_budget(fake: FakeGitHub) -> None:
    clock = Clock()
    github = client(fake, clock, budget=10.0)
    github.get("/repos/octo/shop/pulls/7")
    clock.now += 3600.0

    assert github.get("/repos/octo/shop/pulls/7")["number"] == 7


def test_client__no_server_listens(fake: FakeGitHub) -> None:
    clock = Clock()

    error = failure(client(fake, clock, api_url="http://127.0.0.1:9"))

    assert (error.kind, len(clock.slept)) == ("unavailable", 4)


# Pages


@pytest.mark.parametrize("elsewhere", [True, False])
def test_client__pages_elsewhere_are_not_followed_and_those_in_a_circle_end(fake: FakeGitHub, elsewhere: bool) -> None:
    there = f"{fake.store_url}/pulls" if elsewhere else f"{fake.api_url}/repos/octo/shop/pulls"
    fake.faults.append(Fault(status=200, body=b"[]", headers={"Link": f'<{there}?page=2>; rel="next"'}, times=9))

    with pytest.raises(GitHubError, match="another server" if elsewhere else "form a loop") as caught:
        list(client(fake).paginate("/repos/octo/shop/pulls"))
    assert caught.value.kind == "malformed"
    assert fake.stored == []


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'{"items": []}', b"null"])
def test_client__a_page_that_is_no_list(fake: FakeGitHub, body: bytes) -> None:
    fake.faults.append(Fault(status=200, body=body))
    with pytest.raises(GitHubError, match="list of objects"):
        list(client(fake).paginate("/repos/octo/shop/pulls"))


# Redirects


def test_client__a_renamed_repository_is_followed(fake: FakeGitHub) -> None:
    there = f"{fake.api_url}/repos/octo/shop/pulls/7"
    fake.faults.append(Fault(path="/repos/octo/old/", status=301, headers={"Location": there}))
    github = client(fake, repository="octo/old")

    assert github.get(github.repo("pulls", 7))["number"] == 7


@pytest.mark.parametrize(
    "location", ["{store}/x", "http://[x", "https://[::1", "https:///x", "/repos/octo/shop/pulls/7"]
)
def test_client__a_redirect_elsewhere_to_nowhere_or_in_a_circle_is_not_followed(
    fake: FakeGitHub, location: str
) -> None:
    fake.faults.append(Fault(status=302, headers={"Location": location.format(store=fake.store_url)}, times=99))

    assert failure(client(fake)).kind == "malformed"
    assert fake.stored == []
    assert len(fake.requests) <= 4


def test_client__of_errors_and_redirects_little_is_read_and_waited_for(fake: FakeGitHub) -> None:
    there = {"Location": "/repos/octo/shop/pulls/7"}
    fake.faults.append(Fault(status=301, body=b" " * 30_000_000, headers=there))
    fake.faults.append(Fault(status=404, body=b" " * 30_000_000, path="/pulls/8"))
    fake.faults.append(Fault(status=404, body=b" " * 400_000, drop="middle", path="/pulls/9"))

    assert client(fake).get("/repos/octo/shop/pulls/7")["number"] == 7
    for path in ("/repos/octo/shop/pulls/8", "/repos/octo/shop/pulls/9"):
        assert failure(client(fake), path).kind == "not-found"


def test_client__a_write_is_only_redirected_as_a_write(fake: FakeGitHub) -> None:
    path = "/repos/octo/shop/issues/7/comments"
    fake.faults.append(Fault(method="POST", status=302, headers={"Location": path}))
    with pytest.raises(GitHubError, match="redirect of a write"):
        client(fake).post(path, {"body": "x"})

    fake.faults.append(Fault(method="POST", status=307, headers={"Location": path}))
    assert client(fake).post(path, {"body": "x"})["body"] == "x"


# The token


class TestToken:
    SECRET = "ghs_secretSecretSecretSecret1234"

    @pytest.mark.parametrize(
        "fault",
        [
            Fault(status=403, body=b'{"message": "token ghs_secretSecretSecretSecret1234 is bad"}', times=9),
            Fault(status=422, body=b'{"message": "x", "errors": ["ghs_secretSecretSecretSecret1234"]}', times=9),
            Fault(status=502, body=b"ghs_secretSecretSecretSecret1234", times=9),
            Fault(status=200, body=b"ghs_secretSecretSecretSecret1234", times=9),
            Fault(drop="before", times=9),
            Fault(drop="middle", times=9),
            Fault(status=302, headers={"Location": "http://[ghs_secretSecretSecretSecret1234"}, times=9),
            Fault(status=302, headers={"Location": "ftp://ghs_secretSecretSecretSecret1234/"}, times=9),
        ],
        ids=["403", "422", "502", "no-json", "before", "middle", "bad-address", "ftp"],
    )
    def test_is_in_no_message_and_no_address(self, fake: FakeGitHub, fault: Fault) -> None:
        fake.tokens[self.SECRET] = None
        fake.faults.append(Fault(**vars(fault)))
        lines: list[str] = []
        github = client(fake, token=self.SECRET, log=lines.append)
        error = failure(github)

        chain: list[BaseException] = []
        item: BaseException | None = error
        while item is not None and item not in chain:
            chain.append(item)
            item = item.__cause__ or item.__context__
        text = "".join(traceback.format_exception(error)) + "".join(map(repr, chain)) + "".join(lines)
        text += repr(vars(error)) + repr(github) + str(error.args)
        assert self.SECRET not in text
        assert len(chain) == 1, "an older exception may carry an address"
        assert all(self.SECRET not in request.path + request.query for request in fake.requests)

    @pytest.mark.parametrize("token", ["ghs_a b", "ghs_a\nb", "ghs_ü", "ghs_a\x00b"])
    def test_that_can_be_none_is_refused_without_showing_it(self, fake: FakeGitHub, token: str) -> None:
        with pytest.raises(GitHubError) as caught:
            client(fake, token=token)

        assert caught.value.kind == "unauthorized"
        assert "ghs_a" not in str(caught.value)

    def test_may_end_in_a_line_break_or_be_missing(self, fake: FakeGitHub) -> None:
        assert client(fake, token=fake.token + "\n").get("/repos/octo/shop/pulls/7")["number"] == 7
        assert client(fake, token="").get("/repos/octo/shop/pulls/7")["number"] == 7
        assert "authorization" not in fake.requests[1].headers

    def test_of_netrc_is_not_used(self, fake: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login mallory password hunter2hunter2\n")
        monkeypatch.setenv("NETRC", str(netrc))
        run = fake.state.run(fake.state.commit(branch="main"))
        artifact = fake.state.artifact(run, b"zip")
        github = client(fake)

        assert github.download(github.repo("actions", "artifacts", artifact.id, "zip"), max_bytes=10) == b"zip"
        assert fake.requests[0].headers["authorization"] == f"Bearer {fake.token}"
        assert "authorization" not in fake.stored[0].headers
        assert client(fake, token="").get("/repos/octo/shop/pulls/7")["number"] == 7
        assert "authorization" not in fake.requests[-1].headers


@pytest.mark.parametrize(
    "address", ["", "api.github.com", "ftp://x", "https://user:secretsecret@host", "https://", "http://["]
)
def test_client__an_address_that_is_none(address: str) -> None:
    with pytest.raises(GitHubError, match="GITHUB_API_URL") as caught:
        GitHub(api_url=address, repository="o/r", token="")
    assert "secretsecret" not in str(caught.value)


def test_client__parts_of_a_path_cannot_leave_it(fake: FakeGitHub) -> None:
    github = client(fake)

    assert github.repo("compare", "main...../../x?y=#") == "/repos/octo/shop/compare/main.....%2F..%2Fx%3Fy%3D%23"


# The store of artifacts


class TestDownload:
    @pytest.fixture
    def path(self, fake: FakeGitHub) -> str:
        run = fake.state.run(fake.state.commit(branch="main"))
        return f"/repos/octo/shop/actions/artifacts/{fake.state.artifact(run, b'zip' * 1000).id}/zip"

    @pytest.mark.parametrize("fault", [Fault(path="/store/", drop="before"), Fault(path="/store/", drop="middle")])
    def test_refreshes_the_download_url_when_the_store_fails(self, fake: FakeGitHub, path: str, fault: Fault) -> None:
        fake.faults.append(Fault(**vars(fault)))

        assert client(fake).download(path, max_bytes=3000) == b"zip" * 1000
        assert len(fake.requests) == 2

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            (Fault(path="/store/", status=403, body=b"<xml/>"), "forbidden"),
            (Fault(path="/store/", drop="before", times=9), "unavailable"),
            (Fault(path="/store/", drop="middle", times=9), "unavailable"),
        ],
        ids=["403", "before", "middle"],
    )
    def test_does_not_show_the_signed_address(self, fake: FakeGitHub, path: str, fault: Fault, kind: str) -> None:
        fake.faults.append(Fault(**vars(fault)))
        with pytest.raises(GitHubError) as caught:
            client(fake).download(path, max_bytes=3000)

        assert caught.value.kind == kind
        assert "at the file store" in str(caught.value)
        assert "sig=" not in "".join(traceback.format_exception(caught.value))

    def test_needs_a_token(self, fake: FakeGitHub, path: str) -> None:
        with pytest.raises(GitHubError) as caught:
            client(fake, token="").download(path, max_bytes=3000)
        assert caught.value.kind == "unauthorized"


# The stand-in itself: it notices what GitHub would not accept, and what GitHub would not say.


def call(fake: FakeGitHub, method: str, path: str, **more: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {fake.token}", "User-Agent": "test"}
    return requests.request(method, fake.api_url + path, headers=headers, timeout=10, **more)


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("GET", "/repos/octo/shop/issues/7/reactions", None, "not in GitHub's description"),
        ("DELETE", "/repos/octo/shop/issues/7/comments", None, "not in GitHub's description"),
        ("POST", "/repos/octo/shop/issues/7/comments", None, "body"),
        ("POST", "/repos/octo/shop/issues/7/comments", {"text": "hello"}, "'body' is a required property"),
        ("POST", "/repos/octo/shop/issues/7/comments", {"body": 7}, "7 is not of type 'string'"),
        ("GET", "/repos/octo/shop/pulls?state=merged", None, "'merged' is not one of"),
        ("GET", "/repos/octo/shop/pulls?author=me", None, "no parameter author"),
        ("GET", "/repos/octo/shop/pulls/seven", None, "invalid literal for int()"),
    ],
)
def test_fake__requests_that_github_does_not_know(
    method: str, path: str, body: dict[str, Any] | None, words: str
) -> None:
    with FakeGitHub(strict=False) as fake:
        fake.state.pull(7)
        call(fake, method, path, json=body)

        assert words in "\n".join(fake.violations)


def test_fake__answers_that_github_would_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Shapes.comment

    def without_url(self: Shapes, comment: Any) -> dict[str, Any]:
        return {key: value for key, value in whole(self, comment).items() if key != "html_url"}

    monkeypatch.setattr(Shapes, "comment", without_url)
    with FakeGitHub(strict=False) as fake:
        fake.state.pull(7)
        fake.state.comment(7, "hello")
        call(fake, "GET", "/repos/octo/shop/issues/7/comments")

        assert "'html_url' is a required property" in "\n".join(fake.violations)


def test_fake__a_violation_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="not in GitHub's description"), FakeGitHub() as fake:
        call(fake, "GET", "/nothing")


def test_fake__the_token_is_not_for_the_store() -> None:
    with FakeGitHub(strict=False) as fake:
        artifact = fake.state.artifact(fake.state.run(fake.state.commit(branch="main")), b"zip")
        url = f"{fake.store_url}/store/{artifact.id}?sig=1"
        requests.get(url, headers={"Authorization": "Bearer x"}, timeout=10)

        assert fake.violations == ["the token was sent to the store of artifacts"]
