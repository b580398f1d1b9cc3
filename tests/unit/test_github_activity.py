"""What GitHub says of a job and of a failed request."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.forge import Activity, Comment, CommentMode, EventError, Kind, Mode, RunStamp
from agent_eval.github._activity import activity
from agent_eval.github.client import check_encrypted, checked_api_url, resolve_link, same_origin
from agent_eval.github.comments import Marked, marked, read_marker, same_text
from agent_eval.github.errors import SECONDARY_WAIT, GitHubError, Wait, rate_limit_wait, response_error
from agent_eval.github.events import GitHubEvent, pull_request_at, read_event, sha_at

# The event of a run as GitHub sets it, and what each mode does, with GitHub's own examples of payloads.

EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "github" / "events.json").read_text(encoding="utf-8")
)
SHA = "c" * 40


def payload(name: str, **changes: Any) -> dict[str, Any]:
    """An example of GitHub's, with some values exchanged: `{"a.b": value}`."""
    result = copy.deepcopy(EXAMPLES[name])
    for path, value in changes.items():
        *keys, last = path.split("__")
        inner = result
        for key in keys:
            inner = inner[key]
        inner[last] = value
    return result


def event(name: str, body: Mapping[str, Any] | None = None, **facts: Any) -> GitHubEvent:
    default = {"push": "push", "merge_group": "merge_group", "workflow_run": "workflow_run"}.get(name)
    if body is None:
        body = payload(default) if default else {}
    defaults: dict[str, Any] = {"sha": SHA, "ref": "refs/heads/main", "repository": "octo/shop", "actor": "mona"}
    return GitHubEvent(name=name, payload=body, **{**defaults, **facts})


OWN = payload("pull_request.opened")
FORK = payload("pull_request.opened", pull_request__head__repo__full_name="mallory/Hello-World")
DELETED_FORK = payload("pull_request.opened", pull_request__head__repo=None)


def do(one: GitHubEvent, mode: Mode = "auto", **more: Any) -> Activity:
    return activity(one, mode=mode, **more)


def test_activity__a_pull_request_is_compared_with_its_base() -> None:
    result = do(event("pull_request", OWN, ref="refs/pull/2/merge"))

    assert result.kind == "compare"
    assert result.pull_request is not None
    assert result.pull_request.number == 2
    assert result.pull_request.head_sha == OWN["pull_request"]["head"]["sha"]
    assert (result.base_ref, result.base_commit) == ("master", OWN["pull_request"]["base"]["sha"])
    assert result.commit == SHA
    assert not result.secrets_withheld


IN_A_FORK = payload("pull_request.opened", pull_request__head__repo__fork=True, pull_request__base__repo__fork=True)
UPPER = payload(
    "pull_request.opened", pull_request__head__repo__full_name=OWN["pull_request"]["base"]["repo"]["full_name"].upper()
)
BRANCH = payload("pull_request.opened", pull_request__head__ref="x`$(id)\n::error::")
BOT = "dependabot[bot]"


@pytest.mark.parametrize(
    ("name", "body", "actor", "withheld"),
    [
        ("pull_request", FORK, "mona", "from a fork"),
        ("pull_request", DELETED_FORK, "mona", "from a fork"),
        ("pull_request", OWN, BOT, "by Dependabot"),
        ("pull_request", IN_A_FORK, "mona", ""),  # `fork` only says that the repository itself was forked
        ("pull_request", UPPER, "mona", ""),
        ("pull_request", BRANCH, "mona", ""),
        ("pull_request", payload("pull_request.synchronize"), "mona", ""),
        ("pull_request", payload("pull_request.closed"), "mona", ""),
        ("pull_request_target", OWN, "mona", ""),
        ("pull_request_review", FORK, "mona", "from a fork"),
        ("pull_request_review", OWN, "mona", ""),
        ("pull_request_review_comment", OWN, BOT, "by Dependabot"),
        ("push", None, BOT, "by Dependabot"),
        ("workflow_dispatch", {}, BOT, ""),
        ("schedule", {}, BOT, ""),
    ],
)
def test_activity__where_secrets_are_withheld(
    name: str, body: dict[str, Any] | None, actor: str, withheld: str
) -> None:
    result = do(event(name, body, actor=actor))
    assert (result.kind == "compare") == (name in {"pull_request", "pull_request_target"})
    assert result.secrets_withheld == bool(withheld)
    assert result.kind == "gate" or withheld in result.explanation
    assert "::" not in result.explanation
    if result.pull_request is not None:
        assert result.pull_request.is_fork == (body in (FORK, DELETED_FORK))
    gated = do(event(name, body, actor=actor), "gate")
    assert (gated.kind, gated.secrets_withheld) == ("gate", bool(withheld))


@pytest.mark.parametrize("mode", ["auto", "gate", "publish"])
@pytest.mark.parametrize("body", [FORK, DELETED_FORK, {}, {"pull_request": "?"}], ids=["fork", "gone", "none", "text"])
def test_activity__pull_request_target_of_a_fork_is_refused(mode: Mode, body: dict[str, Any]) -> None:
    result = do(event("pull_request_target", body), mode)

    assert result.kind == "refuse"
    assert "allow-pull-request-target" in result.explanation
    assert "workflow_run" in result.explanation


def test_activity__a_pull_request_without_a_payload_is_gated() -> None:
    bodies: list[dict[str, Any]] = [{}, *({"pull_request": pull} for pull in ({}, {"number": True}, None))]
    for result in (do(event("pull_request", body)) for body in bodies):
        assert (result.kind, result.pull_request) == ("gate", None)
        assert "no pull request" in result.explanation


def test_activity__a_merge_group_is_compared_with_its_base() -> None:
    body = EXAMPLES["merge_group"]
    result = do(event("merge_group", body))

    assert (result.kind, result.pull_request) == ("compare", None)
    assert result.base_ref == body["merge_group"]["base_ref"].removeprefix("refs/heads/")
    assert (result.commit, result.base_commit) == (body["merge_group"]["head_sha"], body["merge_group"]["base_sha"])


def pushed(branch: str, *, deleted: bool = False) -> dict[str, Any]:
    return payload("push", repository__default_branch=branch, deleted=deleted)


def finished(event_before: str | None) -> dict[str, Any]:
    return payload("workflow_run", workflow_run__event=event_before)


MAIN = {"repository": {"default_branch": "main"}}


@pytest.mark.parametrize(
    ("name", "body", "ref", "kind"),
    [
        ("push", pushed("master"), "refs/heads/master", "record master"),
        ("push", pushed("master"), "refs/heads/feature", "gate"),
        ("push", pushed("master"), "refs/heads/release/1.x", "record release/1.x"),
        ("push", pushed("master"), "refs/tags/release/1.x", "gate"),
        ("push", pushed("main", deleted=True), "refs/heads/main", "gate"),
        ("push", {}, "refs/heads/main", "gate"),
        ("schedule", {}, "refs/heads/main", "record main"),
        ("schedule", {}, None, "gate"),
        ("workflow_dispatch", MAIN, "refs/heads/main", "record main"),
        ("workflow_dispatch", MAIN, "refs/heads/feature", "gate"),
        ("workflow_dispatch", MAIN, "refs/tags/v1", "gate"),
        ("merge_group", {}, "refs/heads/main", "gate"),
        ("issue_comment", {}, "refs/heads/main", "gate"),
        ("something_new", {}, "refs/heads/main", "gate"),
    ],
)
def test_activity__of_a_branch(name: str, body: dict[str, Any], ref: str | None, kind: str) -> None:
    result = do(event(name, body, ref=ref), base_branches=("release/*",))
    assert f"{result.kind} {result.base_ref or ''}".strip() == kind
    assert result.kind == "record" or name in {"push", "schedule", "workflow_dispatch"} or name in result.explanation
    assert result.commit == (None if body.get("deleted") else SHA)
    assert do(GitHubEvent()).kind == "gate"


@pytest.mark.parametrize(
    ("mode", "before", "kind"),
    [
        ("auto", "pull_request", "publish"),
        ("publish", "pull_request", "publish"),
        ("auto", "push", "gate"),
        ("publish", "push", "refuse"),
        ("publish", None, "refuse"),
        ("gate", "pull_request", "gate"),
    ],
)
def test_activity__a_run_after_a_run(mode: Mode, before: str | None, kind: Kind) -> None:
    result = do(event("workflow_run", finished(before)), mode)

    assert result.kind == kind
    assert result.pull_request is None, "which one it is only the API tells"
    if kind == "publish":
        assert result.commit == EXAMPLES["workflow_run"]["workflow_run"]["head_sha"]


@pytest.mark.parametrize("name", ["pull_request", "push", "schedule", "", "workflow_dispatch", "merge_group"])
def test_activity__publishing_needs_a_finished_run(name: str) -> None:
    result = do(event(name, OWN if name == "pull_request" else None), "publish")

    assert result.kind == "refuse"
    assert "workflow_run" in result.explanation


def test_activity__no_payload_breaks_it() -> None:
    """Whatever stands in the place of whatever: an answer, never an exception."""
    strange: list[Any] = [None, 7, "x", [], {}, {"repository": 7}, {"pull_request": {"head": [], "number": 1}}]
    names = ["pull_request", "pull_request_target", "push", "merge_group", "workflow_run", "workflow_dispatch"]
    for name, value in itertools.product(names, strange):
        body = dict.fromkeys(("pull_request", "merge_group", "workflow_run", "repository"), value)
        result = do(event(name, body))
        assert result.explanation.endswith(".")
        assert result.kind in {"gate", "refuse"}


def environ(path: Path, **more: str) -> dict[str, str]:
    return {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": "a" * 40,
        "GITHUB_REF": "refs/pull/2/merge",
        "GITHUB_REPOSITORY": "octo/shop",
        "GITHUB_RUN_ID": "123456789012",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_SERVER_URL": "https://github.example/",
        "GITHUB_API_URL": "https://github.example/api/v3/",
        "GITHUB_WORKFLOW_REF": "octo/shop/.github/workflows/evals.yml@refs/heads/main",
        "GITHUB_ACTOR": "mona",
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(EXAMPLES["pull_request.opened"]))
    return path


def test_events__everything_is_read(file: Path) -> None:
    event = read_event(environ(file))

    assert event.name == "pull_request"
    assert (event.run_id, event.run_attempt, event.actor) == (123456789012, 2, "mona")
    assert event.api_url == "https://github.example/api/v3"
    assert event.workflow_path == ".github/workflows/evals.yml"
    assert event.run_url == "https://github.example/octo/shop/actions/runs/123456789012/attempts/2"
    assert event.default_branch == "master"
    result = pull_request_at(event.payload, "pull_request")
    assert result is not None
    assert (result.number, result.open, result.is_fork) == (2, True, False)


def test_events__outside_of_github_there_is_none() -> None:
    assert read_event({"GITHUB_SHA": "a" * 40}) == GitHubEvent()
    assert read_event({"GITHUB_EVENT_NAME": "push"}).payload == {}, "an event may come without a payload"
    assert GitHubEvent().run_url is None
    assert GitHubEvent().workflow_path is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"null", b'{"a":' * 100_000, 25_000_001, None])
def test_events__an_invalid_payload_is_reported(tmp_path: Path, content: bytes | int | None) -> None:
    """A number is the size of a file that is above GitHub's limit."""
    path = tmp_path / "event.json"
    if content is not None:
        with path.open("wb") as file:
            file.truncate(content) if isinstance(content, int) else file.write(content)
    says = {int: "25 MB", type(None): "No such file"}.get(type(content), "GITHUB_EVENT_PATH")
    with pytest.raises(EventError, match=says):
        read_event(environ(path))


def test_events__what_is_a_commit() -> None:
    values: list[object] = ["a" * 40, "b" * 64, "0" * 40, "abc", "", None, 7, "g" * 40, "a" * 40 + "\n"]
    assert [sha_at({"after": value}, "after") for value in values] == [*values[:2], *[None] * 7]


@pytest.mark.parametrize(
    "variable",
    ["GITHUB_REPOSITORY=octo", "GITHUB_REPOSITORY=octo/shop/../other", "GITHUB_RUN_ID=12x", "GITHUB_RUN_ATTEMPT=-1"],
)
def test_events__a_variable_with_a_strange_value_is_reported(file: Path, variable: str) -> None:
    name, _, value = variable.partition("=")
    with pytest.raises(EventError, match=name):
        read_event(environ(file, **{name: value}))


# What an answer of GitHub's means, how long it asks us to stay away, whose an address is, and where a link leads.

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


def test_errors__a_message_is_one_line_and_not_endless_and_an_empty_one_is_omitted() -> None:
    long = str(error(422, "a\n::error::b" + "x" * 10_000))
    assert "\n" not in long and len(long) < 600
    nothing: list[object] = [None, 7, [], {}]
    assert {str(error(409, message)) for message in nothing} == {"POST /x: GitHub answered 409."}


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


def test_origin__encryption_is_not_left_but_a_store_may_be_as_open_as_the_api_itself() -> None:
    for address in ("http://store.example/1", "ftp://store.example/1", "file:///etc/passwd", "x"):
        with pytest.raises(GitHubError, match="without encryption"):
            check_encrypted(address, API, "GET /x")
    check_encrypted("https://store.example/1", API, "GET /x")
    for scheme in ("http", "https"):
        check_encrypted(f"{scheme}://store.example/1", "http://ghes.example/api/v3", "GET /x")


def test_origin__links() -> None:
    assert resolve_link(f"{API}/repos/a", "/repos/b?page=2", "GET /x") == f"{API}/repos/b?page=2"
    with pytest.raises(GitHubError, match="invalid link"):
        resolve_link(API, "http://[x", "GET /x")
    assert checked_api_url("https://ghes.example/api/v3/") == "https://ghes.example/api/v3"


# The hidden line that tells our comment from others, and newer from older.

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
    modes: dict[CommentMode, bool] = {"always": True, "never": False, "on-failure": failed}
    for mode, creates in (modes | {"on-change": failed or changed}).items():
        comment = Comment(number=7, key="k", body="", run=RUN, mode=mode, failed=failed, changed=changed)
        assert comment.creates == creates
