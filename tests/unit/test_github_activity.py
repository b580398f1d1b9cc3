"""What GitHub says of a job and of a failed request."""

from __future__ import annotations

import copy
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from golden_files import check
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.forge import Comment, CommentMode, EventError, Mode, RunStamp
from agent_eval.forge.comments import Marked, marked, read_marker, same_text
from agent_eval.forge.rest import RestError, check_encrypted, checked_api_url, resolve_link, same_origin
from agent_eval.github._activity import activity
from agent_eval.github.client import rate_limit_wait
from agent_eval.github.events import GitHubEvent, pull_request_at, read_event, sha_at
from agent_eval.github.forge import GitHub
from agent_eval_scoring.core.problem import docs_page

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
IN_A_FORK = payload("pull_request.opened", pull_request__head__repo__fork=True, pull_request__base__repo__fork=True)
UPPER = payload(
    "pull_request.opened", pull_request__head__repo__full_name=OWN["pull_request"]["base"]["repo"]["full_name"].upper()
)
BRANCH = payload("pull_request.opened", pull_request__head__ref="x`$(id)\n::error::")
BOT = "dependabot[bot]"
MAIN = {"repository": {"default_branch": "main"}}


def pushed(branch: str, *, deleted: bool = False) -> dict[str, Any]:
    return payload("push", repository__default_branch=branch, deleted=deleted)


def events() -> Iterator[tuple[str, GitHubEvent]]:
    """Every event with what decides about it, by name."""
    pulls: Mapping[str, dict[str, Any]] = {
        "own": OWN,
        "of a fork": FORK,
        "of a deleted fork": DELETED_FORK,
        "in a repository that is a fork itself": IN_A_FORK,
        "of a name in capitals": UPPER,
        "of a hostile branch": BRANCH,
        "pushed to": payload("pull_request.synchronize"),
        "closed": payload("pull_request.closed"),
        "without a payload": {},
        **{f"{pull!r}": {"pull_request": pull} for pull in ({}, {"number": True}, None, "?")},
    }
    for name in ("pull_request", "pull_request_target", "pull_request_review"):
        yield from ((f"{name} {what}", event(name, body, ref="refs/pull/2/merge")) for what, body in pulls.items())
    for name in ("pull_request", "pull_request_review_comment", "push", "workflow_dispatch", "schedule"):
        yield f"{name} by Dependabot", event(name, OWN if name.startswith("pull") else None, actor=BOT)
    yield "merge_group", event("merge_group")
    for what, name, body in (
        ("", "push", pushed("master")),
        (" of a deleted branch", "push", pushed("main", deleted=True)),
        (" without a payload", "push", {}),
        ("", "schedule", {}),
        ("", "workflow_dispatch", MAIN),
    ):
        refs = ("heads/master", "heads/main", "heads/feature", "heads/release/1.x", "tags/release/1.x")
        yield from ((f"{name}{what} on {ref}", event(name, body, ref=f"refs/{ref}")) for ref in refs)
    yield "schedule on no ref", event("schedule", {}, ref=None)
    for name in ("merge_group", "issue_comment", "something_new"):
        yield f"{name} without a payload", event(name, {})
    for before in ("pull_request", "push", None):
        yield f"workflow_run after {before}", event("workflow_run", payload("workflow_run", workflow_run__event=before))
    yield "no event", GitHubEvent()


def test_activity__of_each_event_and_mode() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = []
    for name, one in events():
        lines.append(f"{name}:\n")
        modes = [(mode, False) for mode in get_args(Mode)] + [("auto", True)] * (one.name == "pull_request_target")
        for mode, allowed in modes:
            result = activity(one, mode=mode, allow_unsafe_pull_request_target=allowed, base_branches=("release/*",))
            assert "::" not in result.explanation
            pull = result.pull_request
            facts = {key: value for key, value in vars(result).items() if value and key not in SHOWN}
            shown = f" #{pull.number}{' of a fork' * pull.is_fork}" if pull else ""
            lines.append(f"  {mode}{', allowed' * allowed}: {result.kind}{shown} {facts}: {result.explanation}\n")
    check("golden_activities.txt", "".join(lines).replace(docs_page("").removesuffix("/"), "DOCS/"))


SHOWN = {"kind", "pull_request", "explanation"}


def test_activity__no_payload_breaks_it() -> None:
    """Whatever stands in the place of whatever: an answer, never an exception."""
    strange: list[Any] = [None, 7, "x", [], {}, {"repository": 7}, {"pull_request": {"head": [], "number": 1}}]
    names = ["pull_request", "pull_request_target", "push", "merge_group", "workflow_run", "workflow_dispatch"]
    for name, value in itertools.product(names, strange):
        body = dict.fromkeys(("pull_request", "merge_group", "workflow_run", "repository"), value)
        result = activity(event(name, body), mode="auto")
        assert result.explanation.endswith(".")
        assert result.kind in {"gate", "refuse"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(EXAMPLES["pull_request.opened"]))
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
    }


def test_events__everything_is_read(environ: dict[str, str]) -> None:
    """UPDATE_GOLDEN=1 writes it. An event may come without a payload."""
    lines = []
    for one in (read_event(environ), read_event({"GITHUB_EVENT_NAME": "push"}), GitHubEvent()):
        derived = {name: getattr(one, name) for name in ("run_url", "workflow_path", "default_branch")}
        facts = {name: value for name, value in vars(one).items() if name != "payload"} | derived
        lines += [f"{name}: {value}\n" for name, value in facts.items()]
        lines.append(f"pull request: {pull_request_at(one.payload, 'pull_request')}\n")
    check("golden_github_event.txt", "".join(lines))
    assert read_event({"GITHUB_SHA": "a" * 40}) == GitHubEvent(), "outside of GitHub there is none"


def test_events__an_invalid_payload_is_reported(environ: dict[str, str]) -> None:
    path = Path(environ["GITHUB_EVENT_PATH"])
    for content in (b"", b"[]", b"{", b"\xff\xfe", b"null", b'{"a":' * 100_000):
        path.write_bytes(content)
        with pytest.raises(EventError, match="GITHUB_EVENT_PATH"):
            read_event(environ)
    os.truncate(path, 25_000_001)  # GitHub's limit
    with pytest.raises(EventError, match="25 MB"):
        read_event(environ)
    path.unlink()
    with pytest.raises(EventError, match="No such file"):
        read_event(environ)


def test_events__what_is_a_commit() -> None:
    values: list[object] = ["a" * 40, "b" * 64, "0" * 40, "abc", "", None, 7, "g" * 40, "a" * 40 + "\n"]
    assert [sha_at({"after": value}, "after") for value in values] == [*values[:2], *[None] * 7]


def test_events__a_variable_with_a_strange_value_is_reported(environ: dict[str, str]) -> None:
    strange = ("REPOSITORY=octo", "REPOSITORY=octo/shop/../other", "RUN_ID=12x", "RUN_ATTEMPT=-1")
    for name, _, value in (f"GITHUB_{each}".partition("=") for each in strange):
        with pytest.raises(EventError, match=name):
            read_event({**environ, name: value})


# What an answer of GitHub's means, how long it asks us to stay away, whose an address is, and where a link leads.

NOW = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"  # the same moment
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 1."


def used_up(reset: str, remaining: str = "0") -> dict[str, str]:
    return {"x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset}


WAITS: Sequence[tuple[int, dict[str, str], str]] = (
    (200, {"retry-after": "5"}, ""),
    (500, {"retry-after": "5"}, SECONDARY),
    (403, {}, "Resource not accessible by integration"),
    (403, {"x-ratelimit-remaining": "12"}, "Must have admin rights"),
    (403, {"retry-after": "5"}, SECONDARY),
    (429, {"retry-after": " 0 "}, ""),
    (429, {"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT", "date": DATE}, ""),
    (429, {"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT", "date": DATE}, ""),
    (429, {"retry-after": "soon"}, ""),
    (429, {}, ""),
    (403, {}, SECONDARY),
    (403, {}, "You have triggered an abuse detection mechanism."),
    *((403, {**used_up(reset), "date": DATE}, PRIMARY) for reset in ("1800000100", "1799999000")),
    *((403, used_up(reset), PRIMARY) for reset in ("1800000100", "soon")),
    (403, used_up("1800000100"), "not accessible by integration"),
    # A burst while the hour's budget still lasts: the header about the hour says nothing.
    (403, used_up("1800003600", "900"), SECONDARY),
    # The server's clock counts.
    (403, {**used_up("1800000010"), "date": "Fri, 15 Jan 2027 07:00:00 GMT"}, PRIMARY),
)


def error(status: int, message: object = "No", **more: object) -> RestError:
    github = GitHub(api_url="https://api.github.com", repository="octo/shop", token="")
    return github.refusal(status, {}, {"message": message, **more}, operation="POST /x", write=True)


def test_errors__how_long_to_wait_and_what_is_said() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = [
        f"{status} {headers} {message}: {rate_limit_wait(status, headers, message, now=NOW)}"
        for status, headers, message in WAITS
    ]
    failed = [error(status) for status in (400, 409, 418, 422, 451, 401, 403, 404, 410, 408, 500, 504, 429)]
    nothing: Sequence[object] = (None, 7, [], {})
    failed += [error(409, message) for message in nothing]
    missing = {"resource": "IssueComment", "field": "body", "code": "missing_field"}
    refusals: Sequence[object] = (["Pull request review is locked"], [missing], [7, None, {"x": 1}], "?")
    failed += [error(422, errors=errors) for errors in refusals]
    failed.append(error(422, "a\n::error::b" + "x" * 10_000))
    lines += [f"{each.kind}, wait {each.wait}, may have happened: {each.may_have_happened}: {each}" for each in failed]
    check("golden_github_errors.txt", "\n".join(lines) + "\n")


API = "https://api.github.com"


def test_origin__origins() -> None:
    for address in ("https://api.github.com/repos", "https://API.github.com/repos"):
        assert same_origin(address, API)
    for host in ("http://api.github.com", f"{API}:8443", f"{API}.example", f"{API}@example.test", "//api.github.com"):
        assert not same_origin(f"{host}/repos", API)


def test_origin__encryption_is_not_left_but_a_store_may_be_as_open_as_the_api_itself() -> None:
    for address in ("http://store.example/1", "ftp://store.example/1", "file:///etc/passwd", "x"):
        with pytest.raises(RestError, match="without encryption"):
            check_encrypted(address, API, "GET /x")
    check_encrypted("https://store.example/1", API, "GET /x")
    for scheme in ("http", "https"):
        check_encrypted(f"{scheme}://store.example/1", "http://ghes.example/api/v3", "GET /x")
    # Links lead to where they are on the server of the answer.
    assert resolve_link(f"{API}/repos/a", "/repos/b?page=2", "GET /x") == f"{API}/repos/b?page=2"
    with pytest.raises(RestError, match="invalid link"):
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
    later = [RunStamp(run_id=run_id + new, attempt=(attempt + 1) * (1 - new), sha="") for new in (0, 1)]
    assert all(each.order > run.order for each in later)


@given(KEYS)
@example("-->")
@example("a--b")
def test_marker__no_key_ends_the_comment_of_html(key: str) -> None:
    first, _, rest = marked(key, RUN, "text").partition("\n")

    assert rest == "text"
    assert first.count("-->") == first.count("<!--") == 1
    assert "--" not in first.removeprefix("<!--").removesuffix("-->")


MARKED = marked("k", RUN, "text")


@given(st.text())
@example("text\n" + MARKED)
@example("> " + MARKED)
@example(MARKED.replace("run=123", "run=x"))
@example(MARKED.replace("run=123", "run=" + "9" * 19))
@example(MARKED.replace("agent-eval", "agent-eval-other"))
@example(MARKED.replace(" -->", ""))
def test_marker__what_is_no_marker(body: str) -> None:
    assert read_marker(body) is None


def test_marker__a_marker_that_would_not_be_found_is_not_written() -> None:
    for key, sha in (("", "ab" * 20), ("k", ""), ("k", "ab"), ("k", "--> <script>" * 4)):
        with pytest.raises(ValueError, match="full hash"):
            marked(key, RunStamp(run_id=1, attempt=1, sha=sha), "text")


def test_marker__never_and_always() -> None:
    """Texts are the same but for blanks around them."""
    for failed, changed in itertools.product((False, True), repeat=2):
        modes: dict[CommentMode, bool] = {"always": True, "never": False, "on-failure": failed}
        for mode, creates in (modes | {"on-change": failed or changed}).items():
            comment = Comment(number=7, key="k", body="", run=RUN, mode=mode, failed=failed, changed=changed)
            assert comment.creates == creates
    assert same_text("a\r\nb\n\n", "a\nb")
    assert not same_text("a\nb", "a b")
