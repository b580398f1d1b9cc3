"""What a gate publishes: on GitHub Actions, in comments, and of a fork's artifacts, which may be forged."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import re
import shutil
import time
import types
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from adk_envs import adk_python
from fake_github import FakeGitHub, Fault, Run
from gate_runs import Done, Repository, anywhere
from golden_files import check
from markdown_pages import nothing_of_theirs, rendered
from pull_requests import Lab, job_of
from pydantic import BaseModel
from runner_log import Command, commands_in, outputs_in

from agent_eval.commands.publish import Published, publish
from agent_eval.pipeline.ci_context import detect_ci_context
from agent_eval.settings import read_settings
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.report import RunReport
from agent_eval_scoring.core.problem import docs_page

# A gate failure always publishes, and nothing that goes wrong with publishing changes the verdict: whole commands.


CASES = ("door", "window")
TOML = "agent-eval.toml"


INVALID: Mapping[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "no TOML": ({TOML: "num-runs = \n"}, ()),
    "eval file": ({"evals/bot.evalset.json": "{]"}, ()),
    "input": ({}, ("--num-runs", "many")),
    # A broken file does not choose where it is reported.
    "value": ({TOML: 'comment = "never"\nnum-runs = 0\n'}, ()),
}


def test_publishing__what_is_invalid_is_reported_in_the_comment(lab: Lab) -> None:
    lab.commit({}, **{TOML: 'comment = "always"\n'})
    story = []
    for number, (name, (files, arguments)) in enumerate(INVALID.items(), 7):
        done = lab.pull_request(number, {}, *arguments, files=files)
        assert done.report.origin is not None and done.report.origin.pull_request == number
        story.append(lab.told(name, done, number, "## ", "- ", "⚠️"))
    check("golden_gate/invalid_comments.txt", "".join(story))


def test_publishing__what_is_in_the_place_of_results_is_refused_and_reported(lab: Lab, tmp_path: Path) -> None:
    """We may be root: what is written, and given to the workspace's owner, is not for the pull request to say."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept.txt").write_text("as it was", "utf-8")
    folder = "agent-eval-results"
    places = {folder: victim, f"{folder}/logs": victim, f"{folder}/journal.jsonl": victim / "kept.txt", "out": None}
    for number, (place, target) in enumerate(places.items(), 7):
        shutil.rmtree(lab.repository.root / folder, ignore_errors=True)
        there = lab.repository.root / place
        there.parent.mkdir(exist_ok=True)
        there.symlink_to(target) if target else there.write_text("mine", "utf-8")

        lab.pull_request(number, {}, *(() if target else ("--output-dir", "out/results")), code=2)

        words = "is a symbolic link" if target else "is a file: no results can be written there"
        assert words in lab.comment(number) and place in lab.comment(number)
        outputs = (lab.repository.root.parent / f"job-{lab.runs[-1].id}/output").read_text("utf-8")
        assert "results-file" in outputs and "invalid" in outputs
        lab.repo.git("checkout", "-q", "-f", "main")
    assert {path.name: path.read_text("utf-8") for path in victim.iterdir()} == {"kept.txt": "as it was"}


BROKEN = """
import sys
from pathlib import Path
if "agent_eval" in sys.modules:
    raise ZeroDivisionError("out of order")
sys.path.remove(str(Path(__file__).parent))
del sys.modules["requests"]
import requests
"""
"""A module that only we can't import; the agent, which has the same PYTHONPATH, gets the real one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "environment", "rates", "code"),
    [
        ({"requests.py": BROKEN}, {}, {}, 0),
        ({"requests.py": BROKEN}, {}, {"door": 0.0}, 1),
        ({}, {"GITHUB_TOKEN": "two words"}, {"door": 0.0}, 1),
        ({}, {"GITHUB_OUTPUT": "/no/such/file", "GITHUB_STEP_SUMMARY": "/no/such/file"}, {}, 0),
    ],
    ids=["the client can't be imported", "the same, failed", "the token is none", "no file can be written"],
)
def test_publishing__a_crash_while_publishing_changes_no_exit_code(
    lab: Lab, tmp_path: Path, modules: dict[str, str], environment: dict[str, str], rates: dict[str, float], code: int
) -> None:
    shadow = tmp_path / "modules"
    shadow.mkdir()
    for name, text in modules.items():
        (shadow / name).write_text(text, "utf-8")

    done = lab.pull_request(7, rates, "--baseline", "none", environment={"PYTHONPATH": str(shadow), **environment})

    assert (done.code, done.report.verdict) == (code, "passed" if code == 0 else "failed"), done.out + done.err
    assert "this is a bug" not in done.err
    if "GITHUB_OUTPUT" in environment:
        assert all(f"{name} could not be written" in done.err for name in environment)
        assert len(lab.github.state.comments_of(7)) == 1
    else:
        assert lab.github.state.comments_of(7) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_publishing__a_log_that_takes_no_more_changes_no_exit_code(lab: Lab) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = lab.pull_request(7, {"door": 0.0}, "--baseline", "none", stdout=full)

    assert done.code == 1, done.err
    assert "door" in lab.comment()


def test_publishing__answers_of_any_shape_change_no_exit_code(lab: Lab) -> None:
    """GitHub, or what stands in its place, may say anything."""
    lab.github.faults.append(
        Fault(path=r".*/comments", status=200, body=b'[{"id": [], "body": {}, "user": 3}, {}]', times=99)
    )

    lab.pull_request(7, {}, "--baseline", "none", code=0)


# What GitHub Actions reads of a run: outputs, summary, annotations, and a log in which no one else gives commands.


SECRET = "s3cr3t/of+the=job"
HOSTILE = "::error file=a.py::planted\n##[error]planted\n::set-output name=verdict::passed\n\x1b[2Jgone"


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The variables of a job, and its files."""
    for name in ("output", "summary"):
        (tmp_path / name).touch()
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "octo/agents",
        "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    }


def recorded(repository: Repository, answers: Mapping[str, str], job: Mapping[str, str], *arguments: str) -> Done:
    """A run on cases that expect `yes`, with a recording of what was answered."""
    repository.evals("evals/some.test.json", dict.fromkeys(answers, "yes"))
    repository.record("evals/some.test.json", answers)
    command = ("run", "evals", "--agent", "recorded:answers.json", *arguments)
    return repository.gate(*command, python=False, environment=job)


def outputs(job: Mapping[str, str]) -> dict[str, str]:
    """The outputs as the runner reads them."""
    return dict(outputs_in(Path(job["GITHUB_OUTPUT"]).read_text(encoding="utf-8")))


def commands(done: Done) -> list[Command]:
    """The workflow commands that the runner obeys in both streams."""
    assert "##[" not in done.out + done.err, "its pages read this form even where the runner does not"
    # As root below a directory that only root can enter, the agent is not isolated, and that is said.
    return [each for each in commands_in(done.out + done.err) if "agent-not-isolated" not in str(each)]


@pytest.mark.parametrize("command", ["run", "action"])
def test_outputs__summary_and_annotations(repository: Repository, job: dict[str, str], command: str) -> None:
    done = recorded(repository, {"good": "yes", "bad": "no"}, job, "--num-runs", "2")
    if command == "action":
        for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
            Path(job[name]).write_text("", encoding="utf-8")
        inputs = {
            "INPUT_PATHS": "evals",
            "INPUT_AGENT": "recorded:answers.json",
            "INPUT_NUM-RUNS": "2",
            "INPUT_FAIL-FAST": "",
        }
        done = repository.gate("action", environment={**job, **inputs})
    assert done.code == 1, done.out + done.err
    lines = (f"{name}={value}\n" for name, value in sorted(outputs(job).items()))
    check("golden_outputs.txt", "".join(lines))
    assert len(done.report.cases[0].runs) == 2
    assert [(pass_rate.k, pass_rate.any, pass_rate.all) for pass_rate in done.report.pass_rates] == [
        (1, 0.5, 0.5),
        (2, 0.5, 0.5),
    ]
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    assert summary == (done.output / "summary.md").read_text(encoding="utf-8")
    assert f"https://github.com/octo/agents/blob/{job['GITHUB_SHA']}/evals/some.test.json" in summary
    (annotation,) = commands(done)
    line = next(case.line for case in done.report.cases if case.eval_id == "bad")
    assert (annotation.name, annotation.properties["file"]) == ("error", "evals/some.test.json")
    assert annotation.properties["line"] == str(line)
    assert annotation.properties["title"] == "bad failed"


def test_outputs__a_turn_below_the_threshold_of_a_passing_case_is_marked(repository: Repository) -> None:
    repository.write({"evals/test_config.json": {"criteria": {"response_match_score": 0.5}}})
    repository.evals("evals/some.test.json", {"paris": ["Paris", "Rome"], "right": ["Oslo", "Bern"]})
    repository.record("evals/some.test.json", {"paris": ["Paris", "The database exploded."]})

    done = repository.gate("run", "evals", "--agent", "recorded:answers.json", python=False, code=0)

    low = "turn 2 of 2: response_match_score 0.00, below 0.50"
    assert "1 case passes with a turn below a threshold: paris" in done.out
    summary = (done.output / "summary.md").read_text(encoding="utf-8")
    assert "These cases pass on average, with a turn below a threshold:" in summary
    assert summary.replace("\\", "").count(low) == 1
    shown = repository.gate("show", "paris").out
    assert shown.split("turn 2")[1].count("✗") == 1 and "✗" not in shown.split("turn 2")[0]
    assert "✗" not in repository.gate("show", "right").out


def test_outputs__hostile_text_gives_no_order(repository: Repository, job: dict[str, str]) -> None:
    done = recorded(repository, {"bad": HOSTILE, "::error::x": HOSTILE}, {**job, "GITHUB_ACTIONS": ""})
    assert "::error" not in re.sub(r"[│·].*", "", done.out), "outside of GitHub's jobs there are no commands"
    assert not any(line.lstrip().startswith("::") for line in (done.out + done.err).splitlines())
    assert Path(job["GITHUB_OUTPUT"]).read_text(encoding="utf-8") == ""

    done = recorded(repository, {"bad": HOSTILE, "::error::x": HOSTILE}, job)
    result = commands(done)
    assert [(each.name, each.properties["file"]) for each in result] == [("error", "evals/some.test.json")] * 2
    assert outputs(job)["verdict"] == "failed"
    assert "\x1b" not in done.out + done.err + Path(job["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")


def test_outputs__wrong_inputs_have_outputs_and_annotations_too(repository: Repository, job: dict[str, str]) -> None:
    repository.write({"agent-eval.toml": "\nconcurency = 1\n"})
    done = repository.gate("action", environment={**job, "INPUT_NUM-RUNS": "many", "INPUT_OUTPUT-DIR": "out"}, code=2)
    result = outputs(job)
    assert (result["verdict"], result["total"], result["pass-rate"]) == ("invalid", "0", "")
    assert result["results-file"] == "out/results.json"
    assert (repository.root / "out" / "results.json").exists()
    of_file, of_input = commands(done)
    if "num-runs" not in of_input.data:
        of_file, of_input = of_input, of_file
    assert (of_file.properties["file"], of_file.properties["line"]) == ("agent-eval.toml", "2")
    assert "num-runs" in of_input.data


def test_outputs__what_an_agent_prints_is_no_command_and_its_secret_is_nowhere(
    repository: Repository, job: dict[str, str], tmp_path: Path
) -> None:
    repository.agent("counted")
    with (repository.root / "counted" / "agent.py").open("a", encoding="utf-8") as file:
        file.write("\nimport sys\n\nprint('::error::planted')\nprint('##[error]planted', file=sys.stderr)\n")
    repository.evals("counted/evals/some.test.json", {"tells": "secret", "raises": "secret-raise"})
    environment = {**job, "JOB_SECRET": SECRET, "RUNS_FILE": str(tmp_path / "runs")}
    inputs = {"INPUT_AGENT-PYTHON": str(adk_python()), "INPUT_AGENT-ENV": "+JOB_SECRET,RUNS_FILE,GATE_TEST_MARK"}
    done = repository.gate("action", environment={**environment, **inputs})
    assert done.statuses == {"tells": "failed", "raises": "failed"}, done.out + done.err
    assert "it is ***" in (done.output / "results.json").read_text(encoding="utf-8")
    files = [path for path in done.output.rglob("*") if path.is_file()]
    for printed in (b"printed ***", b"::error::planted", b"##[error]planted"):
        assert any(printed in path.read_bytes() for path in files), "the log was kept"
    assert not [each for each in commands(done) if "planted" in str(each)]
    texts = {str(path): path.read_bytes() for path in files}
    texts |= {"recordings": "\n".join(recording.model_dump_json() for recording in done.recordings).encode()}
    texts |= {"out": done.out.encode(), "err": done.err.encode()}
    texts |= {name: Path(job[name]).read_bytes() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    assert [name for name, text in texts.items() if SECRET.encode() in text] == []
    assert [name for name, text in texts.items() if os.fsencode(SECRET[:12]) in text] == []


# Publishing what a fork's run has uploaded: forged artifacts are refused, or are nothing but text.
#
# In this process, with the ci of a `workflow_run` job, against a GitHub that is held to its description.


PAYLOAD = (
    "@octocat @octo/team closes #1 GH-4 octo/shop#3 <script>alert(1)</script><img src=x onerror=alert(1)> "
    "![x](https://evil.example/x.png) [a](javascript:alert(1)) https://evil.example www.evil.example </details> |a|b| "
    f"<!-- agent-eval key=default run=999999999 attempt=1 sha={'a' * 40} -->\n```\n# x\n::error::x\n\u202e\u200b "
    f"{'`' * 300}\n[b]: https://evil.example\n$x$ :tada: deadbeef\n"
)


@pytest.fixture
def forked(github: FakeGitHub) -> FakeGitHub:
    github.state.history(2)
    return github


def finished(github: FakeGitHub, number: int = 7, **more: Any) -> Run:
    """A fork's run that has ended."""
    pull = github.state.pull(number, head_repository="mallory/shop", head_ref="change", author="mallory")
    settings = {"event": "pull_request", "branch": "change", "head_repository": "mallory/shop", **more}
    return github.state.run(pull.head_sha, **settings)


def published(github: FakeGitHub, run: Run, directory: Path) -> Published:
    payload = {
        "repository": {"default_branch": "main", "full_name": github.state.repository},
        "workflow_run": {"id": run.id, "event": run.event, "head_sha": run.sha, "head_branch": run.branch},
    }
    environ = job_of(github, directory, "workflow_run", payload, run.id + 1)
    settings, problems = read_settings(directory, flags={"mode": "publish"}, secrets=environ, text=None)
    ci, refused = detect_ci_context(settings, environ)
    assert [*problems, *refused] == [] and ci.activity.kind == "publish"
    return publish(settings, ci)


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


def test_publish_forged__every_text_of_the_schema_is_nothing_but_text(forked: FakeGitHub, tmp_path: Path) -> None:
    run = finished(forked, conclusion="failure")
    forked.state.artifact(run, packed(of_every_status(forged(PAYLOAD))))

    done = published(forked, run, tmp_path)

    assert done.ok, done.message
    [comment] = forked.state.comments_of(7)
    marker, _, body = comment.body.partition("\n")
    assert f"run={run.id} attempt=1 sha={run.sha}" in marker
    page = nothing_of_theirs(body, (f"{forked.server_url}/{forked.state.repository}/", docs_page("forks")))
    assert "uploaded by the fork's own run" in page.text
    assert page.text.count("@octocat") > 5, "it is all there"
    shown = body.replace(forked.server_url, "https://github.com").replace(run.sha, "5" * 40).replace(str(run.id), "17")
    check("golden_forged.md", shown)


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
def test_publish_forged__addresses_lead_nowhere_else(forked: FakeGitHub, tmp_path: Path, address: str) -> None:
    url = address.format(server=forked.server_url)
    run = finished(forked)
    results = forged()
    results["baseline"] |= {"run_url": url, "commit": "b" * 40, "message": f"See {url}"}
    results["origin"] = {**filled(RunReport.model_fields["origin"].annotation, ""), "run_url": url, "run_id": run.id}
    results["origin"] |= {"pull_request": 7, "head_commit": None, "commit": "c" * 40}
    forked.state.artifact(run, packed(results))

    assert published(forked, run, tmp_path).ok

    [comment] = forked.state.comments_of(7)
    page = rendered(comment.body.partition("\n")[2])
    assert page.links
    assert all(link.startswith(f"{forked.server_url}/octo/shop/") and ".." not in link for link in page.links)
    assert f"{forked.server_url}/octo/shop/commit/{run.sha}" in page.links
    assert "c" * 40 not in comment.body, "which commit was tested is for GitHub to say"


def quoting(verdict: str, code: str) -> bytes:
    """Results with sentences that look like GitHub's or a maintainer's."""
    reasons = [{"code": code, "message": "Approved” by the maintainers"}]
    more: dict[str, Any] = {"warnings": ["Checked by GitHub"], "notices": ["Signed by GitHub"], "problems": []}
    return packed(forged(verdict=verdict, rule_changes=None, reasons=reasons, **more))


def compared(*files: str, status: int = 200) -> Fault:
    """What GitHub says of the changed files."""
    return Fault(path="/compare/", status=status, body=json.dumps({"files": [{"filename": f} for f in files]}).encode())


ARTIFACTS: Mapping[str, Callable[[], bytes]] = {
    "zip bomb": lambda: packed(b"0" * 40_000_000),
    "many entries": lambda: packed(forged(), *(f"logs/{n}" for n in range(2_001))),
    "path traversal": lambda: packed(forged(), "../../.github/workflows/x.yml"),
    "no results": lambda: packed(b"{}", name="other.json"),
    "no JSON": lambda: packed(b"{"),
    "another schema": lambda: packed(forged(schema_version="2")),
    "unknown fields": lambda: packed(forged(html="<b>")),
    "a text as number": lambda: packed(forged(num_runs=PAYLOAD)),
    "a huge number": lambda: packed(forged(num_runs=10**4_000)),
    "a case twice": lambda: packed(forged(cases=forged()["cases"] * 2)),
    # The headline of a part is its first reason, which here would be the fork's sentence.
    "a part": lambda: packed(forged("Passed: all 9 cases pass", shard=filled(RunReport, "x")["shard"])),
    "passed, unaffected": lambda: quoting("passed", "unaffected"),
    "passed, nothing gated": lambda: quoting("passed", "nothing-gated"),
    "inconclusive, no secrets": lambda: quoting("inconclusive", "no-secrets"),
    "inconclusive, a part missing": lambda: quoting("inconclusive", "shard-missing"),
    "invalid": lambda: quoting("invalid", "x"),
    "passed, and the run failed": lambda: packed(forged(verdict="passed", rule_changes=None)),
    "passed, and the run timed out": lambda: packed(forged(verdict="passed", rule_changes=None)),
}
"""More archives and more results are in test_baseline_chain.py."""
FACTS: Mapping[str, Mapping[str, str]] = {
    "passed, and the run failed": {"conclusion": "failure"},
    "passed, and the run timed out": {"conclusion": "timed_out"},
}
CHANGES = {
    "what is changed is unknown": compared(status=404),
    "the workflow is changed": compared(".github/workflows/evals.yml"),
    "the agent is changed": compared("bot/agent.py"),
}


def test_publish_forged__what_is_refused__and_what_is_said_of_the_rest(forked: FakeGitHub, tmp_path: Path) -> None:
    story = []
    makers: dict[str, Callable[[], bytes]] = {**ARTIFACTS, **dict.fromkeys(CHANGES, lambda: packed(forged()))}
    for number, (name, make) in enumerate(makers.items(), 7):
        run = finished(forked, number, **FACTS.get(name, {}))
        forked.state.artifact(run, make())
        forked.faults[:] = [CHANGES[name]] if name in CHANGES else []
        before = forked.writes()

        done = published(forked, run, tmp_path)

        comments = [comment.body.partition("\n")[2] for comment in forked.state.comments_of(number)]
        assert len(done.message) < 600 and "\n" not in done.message and "::error" not in done.message
        assert done.ok == bool(comments) == (forked.writes() != before)
        lines = [f"{name}: {done.message}"]
        for body in comments:
            page = nothing_of_theirs(body, (f"{forked.server_url}/{forked.state.repository}/", docs_page("forks")))
            for sentence in ("Checked by GitHub", "Signed by GitHub"):
                assert body.count(sentence) == body.count(f"The run says “{sentence}”")
            lines += [line for line in body.splitlines() if line.startswith("## ")]
            lines += [line for line in page.open.splitlines() if "what is scored" in line]
        story += [f"{anywhere(line)}\n" for line in lines]
    check("golden_gate/artifacts_of_forks.txt", "".join(story))


@pytest.mark.nightly
def test_publish_forged__megabytes_of_text_become_a_comment_in_seconds(forked: FakeGitHub, tmp_path: Path) -> None:
    run = finished(forked)
    results = forged()
    text = "".join(random.Random(1).choices("@\u202e", k=2_000_000))
    results["cases"][0] |= {"eval_id": text, "file": text, "status": "failed"}
    forked.state.artifact(run, packed(results))
    begun = time.monotonic()

    assert published(forked, run, tmp_path).ok

    assert time.monotonic() - begun < 15
    [comment] = forked.state.comments_of(7)
    assert len(comment.body) <= 60_200


def test_publish_forged__the_whole_command_refuses_with_a_notice(forked: FakeGitHub, lab: Lab) -> None:
    run = finished(forked)
    forked.state.artifact(run, packed(forged(origin={"pull_request": 8, "repository": PAYLOAD})))

    done = lab.publish(run, code=1)

    [notice] = [line for line in done.out.splitlines() if line.startswith("::")]
    assert notice.startswith("::notice title=Nothing was published::") and "claim the repository" in notice
    assert not [line for line in done.err.splitlines() if line.startswith("::") or "##[" in line]
    assert forked.writes() == [] and not done.output.exists()
