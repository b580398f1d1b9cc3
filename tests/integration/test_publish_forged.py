"""Publishing what a fork's run has uploaded: forged artifacts are refused, or are nothing but text.

In this process, with the ci of a `workflow_run` job, against a GitHub that is held to its description.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import sys
import time
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from fake_github import FakeGitHub, Fault, Run
from pull_requests import Lab, job_of
from pydantic import BaseModel

from agent_eval.commands.publish import Published, publish
from agent_eval.pipeline.ci_context import CIContext, detect_ci_context
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import RunReport
from agent_eval.settings import Settings, read_settings

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from markdown_pages import nothing_of_theirs, rendered

CASES = ("door",)
GOLDEN = Path(__file__).parents[1] / "data/golden_forged.md"
PAYLOAD = (
    "@octocat @octo/team closes #1 GH-4 octo/shop#3 <script>alert(1)</script><img src=x onerror=alert(1)> "
    "![x](https://evil.example/x.png) [a](javascript:alert(1)) https://evil.example www.evil.example </details> |a|b| "
    f"<!-- agent-eval key=default run=999999999 attempt=1 sha={'a' * 40} -->\n```\n# x\n::error::x\n\u202e\u200b "
    f"{'`' * 300}\n[b]: https://evil.example\n$x$ :tada: deadbeef\n"
)


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as fake:
        fake.state.history(2)
        yield fake


def finished(github: FakeGitHub, **more: Any) -> Run:
    """A fork's run that has ended."""
    pull = github.state.pull(7, head_repository="mallory/shop", head_ref="change", author="mallory")
    settings = {"event": "pull_request", "branch": "change", "head_repository": "mallory/shop", **more}
    return github.state.run(pull.head_sha, **settings)


def ci(github: FakeGitHub, run: Run, directory: Path) -> tuple[Settings, CIContext]:
    payload = {
        "repository": {"default_branch": "main", "full_name": github.state.repository},
        "workflow_run": {"id": run.id, "event": run.event, "head_sha": run.sha, "head_branch": run.branch},
    }
    environ = job_of(github, directory, "workflow_run", payload, run.id + 1)
    settings, problems = read_settings(directory, flags={"mode": "publish"}, secrets=environ, text=None)
    assert problems == []
    result, refused = detect_ci_context(settings, environ)
    assert refused == [] and result.activity.kind == "publish"
    return settings, result


def published(github: FakeGitHub, run: Run, directory: Path) -> Published:
    return publish(*ci(github, run, directory))


def packed(results: dict[str, Any] | bytes, *others: str, name: str = "results.json", level: int = 1) -> bytes:
    """An artifact with empty files besides."""
    data = io.BytesIO()
    content = results if isinstance(results, bytes) else json.dumps(results).encode()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        archive.writestr(name, content)
        for other in others:
            archive.writestr(other, b"")
    return data.getvalue()


def filled(kind: Any, text: str) -> Any:
    """A value of a wire type in which every text is `text`, every list has an item and nothing optional is missing."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return filled(arguments[0], text)
    if origin is Literal:
        return arguments[0]
    if origin in {Union, types.UnionType}:
        return filled(next(argument for argument in arguments if argument is not type(None)), text)
    if origin in {list, tuple}:
        return [filled(argument, text) for argument in arguments if argument is not Ellipsis]
    if origin is dict:
        return {filled(arguments[0], text): filled(arguments[1], text)}
    if kind is HistoryReport:
        return {"scoring_version": 1, "keep": 1}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: filled(field.annotation, text) for name, field in kind.model_fields.items()}
    return {Any: text, str: text, bool: True, int: 1, float: 1.0}[kind]


def forged(text: str = "x", **changes: Any) -> dict[str, Any]:
    """Results that fit the schema, with everything in them that there can be."""
    made: dict[str, Any] = filled(RunReport, text)
    return {
        **made,
        "schema_version": "1",
        "scoring_version": 1,
        "verdict": "failed",
        "origin": None,
        "shard": None,
        **changes,
    }


def of_every_status(results: dict[str, Any]) -> dict[str, Any]:
    """The same with a case of each status."""
    [case] = results["cases"]
    cases = []
    for status in ("failed", "errored", "not_run", "passed", "quarantined"):
        made = copy.deepcopy(case)
        made |= {"status": status, "case_id": f"{status} {case['case_id']}"}
        for metric in made["metrics"]:
            metric["status"] = metric["runs"][0]["status"] = "passed" if status == "passed" else "failed"
        cases.append(made)
    return {**results, "cases": cases}


def test_publish_forged__every_text_of_the_schema_is_nothing_but_text(github: FakeGitHub, tmp_path: Path) -> None:
    run = finished(github, conclusion="failure")
    github.state.artifact(run, packed(of_every_status(forged(PAYLOAD))))

    done = published(github, run, tmp_path)

    assert done.ok, done.message
    [comment] = github.state.comments_of(7)
    marker, _, body = comment.body.partition("\n")
    assert f"run={run.id} attempt=1 sha={run.sha}" in marker
    page = nothing_of_theirs(body, f"{github.server_url}/{github.state.repository}/")
    assert "uploaded by the fork's own run" in page.text
    assert page.text.count("@octocat") > 5, "it is all there"
    shown = body.replace(github.server_url, "https://github.com").replace(run.sha, "5" * 40).replace(str(run.id), "17")
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(shown, "utf-8", newline="\n")
    assert shown == GOLDEN.read_bytes().decode("utf-8")


ADDRESSES = [
    "javascript:alert(document.cookie)",
    "https://evil.example/login",
    "//evil.example",
    "{server}@evil.example/octo/shop/",
    "{server}/mallory/shop/releases/download/1/tool.exe",
    "{server}/octo/shop/../../mallory/shop",
    "data:text/html,<script>alert(1)</script>",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_publish_forged__addresses_lead_nowhere_else(github: FakeGitHub, tmp_path: Path, address: str) -> None:
    url = address.format(server=github.server_url)
    run = finished(github)
    results = forged()
    results["baseline"] |= {"run_url": url, "commit": "b" * 40, "message": f"See {url}"}
    results["origin"] = {**filled(RunReport.model_fields["origin"].annotation, ""), "run_url": url, "run_id": run.id}
    results["origin"] |= {"pull_request": 7, "head_commit": None, "commit": "c" * 40}
    github.state.artifact(run, packed(results))

    assert published(github, run, tmp_path).ok

    [comment] = github.state.comments_of(7)
    page = rendered(comment.body.partition("\n")[2])
    assert page.links
    assert all(link.startswith(f"{github.server_url}/octo/shop/") and ".." not in link for link in page.links)
    assert f"{github.server_url}/octo/shop/commit/{run.sha}" in page.links
    assert "c" * 40 not in comment.body, "which commit was tested is for GitHub to say"


def bomb() -> bytes:
    """Forty megabytes of zeros in forty kilobytes."""
    return packed(b"0" * 40_000_000)


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip bomb": (bomb, "larger than 16 MB"),
    "many entries": (lambda: packed(forged(), *(f"logs/{n}" for n in range(2_001))), "more than 2,000"),
    "path traversal": (lambda: packed(forged(), "../../.github/workflows/x.yml"), "is outside the archive"),
    "no results": (lambda: packed(b"{}", name="other.json"), "no results.json"),
    "no JSON": (lambda: packed(b"{"), "not JSON"),
    "another schema": (lambda: packed(forged(schema_version="2")), "version 2"),
    "unknown fields": (lambda: packed(forged(html="<b>")), "has a field that this version"),
    "a text as number": (lambda: packed(forged(num_runs=PAYLOAD)), "does not fit the schema"),
    "a huge number": (lambda: packed(forged(num_runs=10**4_000)), "a number out of range"),
    "a case twice": (lambda: packed(forged(cases=forged()["cases"] * 2)), "2 times"),
}
"""More archives and more results are in test_baseline_chain.py."""


@pytest.mark.parametrize("kind", REFUSED)
def test_publish_forged__what_is_no_result_of_ours_is_refused(github: FakeGitHub, tmp_path: Path, kind: str) -> None:
    make, words = REFUSED[kind]
    run = finished(github)
    github.state.artifact(run, make())
    begun = time.monotonic()

    done = published(github, run, tmp_path)

    assert time.monotonic() - begun < 10
    assert not done.ok and words in done.message, done.message
    assert len(done.message) < 600 and "\n" not in done.message and "::error" not in done.message
    assert github.writes() == []


def test_publish_forged__megabytes_of_text_become_a_comment_in_seconds(github: FakeGitHub, tmp_path: Path) -> None:
    run = finished(github)
    results = forged()
    text = "".join(random.Random(1).choices("@\u202e", k=2_000_000))
    results["cases"][0] |= {"eval_id": text, "file": text, "status": "failed"}
    github.state.artifact(run, packed(results))
    begun = time.monotonic()

    assert published(github, run, tmp_path).ok

    assert time.monotonic() - begun < 15
    [comment] = github.state.comments_of(7)
    assert len(comment.body) <= 60_200


def test_results_of_a_part__are_not_published(github: FakeGitHub, tmp_path: Path) -> None:
    # The headline of a part is its first reason, which here would be the fork's sentence.
    run = finished(github)
    results = forged("Passed: all 9 cases pass", shard=filled(RunReport, "x")["shard"])
    github.state.artifact(run, packed(results))

    done = published(github, run, tmp_path)

    assert not done.ok
    assert "is part 1 of 1 of a run (`shard`), without a verdict: `agent-eval merge` decides" in done.message
    assert github.state.comments_of(7) == []


@pytest.mark.parametrize(
    ("verdict", "code", "headline"),
    [
        ("passed", "unaffected", "Does not block: the run says “{}”"),
        ("passed", "nothing-gated", "Does not block: the run says “{}”"),
        ("inconclusive", "no-secrets", "Can't tell yet, blocks until it can: the run says “{}”"),
        ("inconclusive", "shard-missing", "Can't tell yet, blocks until it can: the run says “{}”"),
        ("invalid", "x", "Blocks the merge: The run says “{}”; nothing was run"),
    ],
)
def test_publish_forged__a_reason_is_a_quotation_in_the_headline(
    github: FakeGitHub, tmp_path: Path, verdict: str, code: str, headline: str
) -> None:
    run = finished(github)
    reasons = [{"code": code, "message": "Approved” by the maintainers"}]
    more: dict[str, Any] = {"warnings": ["Checked by GitHub"], "notices": ["Signed by GitHub"]}
    made = forged(verdict=verdict, rule_changes=None, reasons=reasons, problems=[], **more)
    github.state.artifact(run, packed(made))

    assert published(github, run, tmp_path).ok

    [comment] = github.state.comments_of(7)
    for sentence in ("Checked by GitHub", "Signed by GitHub"):
        assert comment.body.count(sentence) == comment.body.count(f"The run says “{sentence}”")
    assert "Checked by GitHub" in comment.body
    assert headline.format('Approved" by the maintainers') in comment.body.splitlines()[1]


@pytest.mark.parametrize(
    ("conclusion", "word"), [("failure", "Blocks the merge"), ("timed_out", "Can't tell yet, blocks until it can")]
)
def test_results_that_say_passed__of_a_run_that_ended_otherwise(
    github: FakeGitHub, tmp_path: Path, conclusion: str, word: str
) -> None:
    run = finished(github, conclusion=conclusion)
    github.state.artifact(run, packed(forged(verdict="passed", rule_changes=None)))

    assert published(github, run, tmp_path).ok

    [comment] = github.state.comments_of(7)
    headline = comment.body.splitlines()[1]
    assert f"{word}: the results say passed, but the run ended with {conclusion}" in headline
    assert "Passed" not in headline


@pytest.mark.parametrize(
    ("fault", "warning"),
    [
        (
            Fault(path="/compare/", status=404),
            "Whether this pull request changes what is scored is unknown.",
        ),
        (
            Fault(path="/compare/", status=200, body=b'{"files": [{"filename": ".github/workflows/evals.yml"}]}'),
            "This pull request changes what is scored: .github/workflows/evals.yml.",
        ),
        (Fault(path="/compare/", status=200, body=b'{"files": [{"filename": "bot/agent.py"}]}'), ""),
    ],
    ids=["unknown", "the workflow", "the agent"],
)
def test_publish_forged__changed_rules_are_reported_as_github_has_them(
    github: FakeGitHub, tmp_path: Path, fault: Fault, warning: str
) -> None:
    run = finished(github)
    github.state.artifact(run, packed(forged()))
    github.faults.append(fault)

    assert published(github, run, tmp_path).ok
    [comment] = github.state.comments_of(7)
    page = nothing_of_theirs(comment.body.partition("\n")[2], f"{github.server_url}/{github.state.repository}/")
    assert warning in page.open and ("what is scored" in page.open) == bool(warning)


def test_publish_forged__the_whole_command_refuses_with_a_notice(github: FakeGitHub, lab: Lab) -> None:
    run = finished(github)
    github.state.artifact(run, packed(forged(origin={"pull_request": 8, "repository": PAYLOAD})))

    done = lab.publish(run)

    assert done.code == 1, done.err
    [notice] = [line for line in done.out.splitlines() if line.startswith("::")]
    assert notice.startswith("::notice title=Nothing was published::") and "claim the repository" in notice
    assert not [line for line in done.err.splitlines() if line.startswith("::") or "##[" in line]
    assert github.writes() == [] and not done.output.exists()
