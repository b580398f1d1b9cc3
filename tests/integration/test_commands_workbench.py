"""`agent-eval init`, `calibrate`, `compare` and `export otlp` as people start them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from base_repos import new_repo
from export_samples import stored
from fake_gemini import FakeGemini
from gate_runs import AGENT_EVAL, Repository, program
from golden_files import check
from judged_gate import BAD, KEY, WORDS, Judge
from pty_terminal import on_terminal
from report_samples import RESPONSE, case, metric, report
from upload_server import Received, Reply, upload_server

from agent_eval.cli import main
from agent_eval.net.retry import Retry
from agent_eval.report.renderers.results_json import results_json
from agent_eval.results.comparison import ComparisonReport
from agent_eval.results.report import CaseStatus, Origin
from agent_eval_workbench.setup import _ci

# `agent-eval init` in a dozen small repositories. What it writes is valid, and a second time nothing changes.


ROOT = Path(__file__).parents[2]
AGENT = "from google.adk.agents import Agent\nroot_agent = Agent(name='a', model='gemini-2.5-flash')\n"
EVALS = """{"eval_set_id": "a", "eval_cases": [{"eval_id": "one", "conversation": [
    {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "hello"}]}}]}]}"""
GITHUB = '[remote "origin"]\n\turl = git@github.com:o/r.git\n'
ZIZMOR = 'rules: {unpinned-uses: {config: {policies: {"*": ref-pin}}}}\n'


WORKFLOW = ".github/workflows/evals.yml"
SAMPLES: dict[str, dict[str, str]] = {
    "one agent on GitHub": {"agents/home/agent.py": AGENT, ".git/config": GITHUB},
    "a yaml agent without a remote": {"yaml/root_agent.yaml": "name: a\nmodel: gemini-2.5-flash\n"},
    "src layout and no model of Google's": {
        "src/bot/__init__.py": "from . import agent",
        "src/bot/agent.py": AGENT.replace("gemini-2.5-flash", "openai/gpt-4.1"),
        ".github/x": "",
    },
    "two agents": {"agents/a/agent.py": AGENT, "agents/b/agent.py": AGENT, ".github/x": ""},
    "two agents and settings": {"a/agent.py": AGENT, "b/agent.py": AGENT, "agent-eval.toml": "num-runs = 2"},
    "evals and a workflow": {
        "home/agent.py": AGENT,
        "home/evals/a.test.json": EVALS,
        "home/evals/test_config.json": '{"criteria": {"response_match_score": 0.1}}',
        ".github/workflows/ci.yml": "jobs: {e: {steps: [uses: org/agent-eval-action@v1]}}",
        ".gitignore": "/agent-eval-results\n.adk",
    },
    "evals with ADK's criteria": {"home/agent.py": AGENT, "home/a.test.json": EVALS, ".gitignore": "x\r\ny"},
    "variables that the source reads": {
        "home/agent.py": AGENT + "import os\nTOKEN = os.environ['CRM_TOKEN']\nos.environ['SET_HERE'] = ''\n",
        "home/tools.py": "from os import environ, getenv\nprint(\n    getenv('PLACES_KEY', ''),\n"
        "    environ.get('OPENAI_API_KEY'), environ['HOME'], getenv('GOOGLE_CLOUD_PROJECT'))\n"
        "TOKEN = environ.get('CRM_TOKEN'), environ.get('GITHUB_TOKEN')\n",
        "home/old.py": "print getenv('PYTHON_2')\n",
        ".github/x": "",
    },
    "variables that the workflow passes": {
        "home/agent.py": AGENT + "import os\nTOKEN = os.environ['CRM_TOKEN']\n",
        WORKFLOW: "jobs: {e: {steps: [{uses: org/agent-eval-action@v1, with: {agent-env: +CRM_TOKEN}}]}}",
    },
    "misnamed config and GitLab's address": {
        "home/agent.py": AGENT,
        "evals/test-config.json": '{"criteria": {"response_match_score": 1}}',
        ".git/config": GITHUB.replace("github", "gitlab"),
    },
    "GitLab": {"home/agent.py": AGENT, ".gitlab-ci.yml": "stages: [test]\n"},
    "Jenkins, and the root is the agent": {"agent.py": AGENT, "Jenkinsfile": "pipeline {}\n"},
}
"""The files of repositories. What `init` prints and changes in each is in tests/data/golden_init."""


def write(root: Path, files: Mapping[str, str]) -> Repository:
    new_repo(root)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(text)
    return Repository(root=root)


def contents(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", SAMPLES)
def test_init__writes_what_is_missing_once(name: str, tmp_path: Path) -> None:
    repository = write(tmp_path / "repo", SAMPLES[name])
    before = contents(repository.root)
    planned = repository.gate("init", "--dry-run")
    assert (planned.code, contents(repository.root)) == (0, before), planned.out + planned.err
    done = repository.gate("init", code=0)
    after = contents(repository.root)
    changed = sorted(path for path, text in after.items() if before.get(path) != text)
    file = re.sub(r"\W+", "-", name).lower()
    check(f"golden_init/{file}.txt", f"{done.out}\nChanged: {', '.join(changed) or 'nothing'}\n")
    assert all(after[path].startswith(text) for path, text in before.items())
    again = repository.gate("init", "--yes")
    assert (again.code, contents(repository.root)) == (0, after)
    assert not re.search(r"^(created|changed) ", again.out, re.MULTILINE)

    if not any(path.endswith(".test.json") for path in before):
        name = sorted(re.findall(r"evals/\w+\.evalset\.json", done.out))[0]
        (repository.root / name).write_text(EVALS, "utf-8")
    checked = repository.gate("validate", "--plan", code=0)
    assert "[agent-ambiguous]" not in checked.err


@pytest.mark.parametrize(
    ("ci", "out"),
    [
        ("gitlab", r"to do +\.gitlab-ci\.yml +add the job below;(?s:.*)    evals:\n      image:"),
        ("jenkins", r"to do +Jenkinsfile +add the job below;(?s:.*)    pipeline {"),
        ("github", r"create +\.github/workflows/evals\.yml"),
        ("none", r"^(?!(?s:.*)(CI system|workflow|Jenkinsfile))"),
    ],
)
def test_init__can_be_told_the_ci_system(ci: str, out: str, tmp_path: Path) -> None:
    """In a repository that has signs of another one, or of none."""
    for name, files in (("bare", {}), ("on-github", {".github/x": ""})):
        repository = write(tmp_path / name, {"home/agent.py": AGENT, **files})
        planned = repository.gate("init", "--dry-run", "--ci", ci)
        assert planned.code == 0 and re.search(out, planned.out), planned.out + planned.err


def lint(tool: str, *arguments: str | Path) -> None:
    program(Path(sys.executable).with_name(tool), *arguments, timeout=120)


def test_init__the_workflow_is_the_readmes_and_passes_linters(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"```yaml\n{_ci.WORKFLOW}```" in readme
    recipes = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    assert f"```yaml\n{_ci.GITLAB}```" in recipes
    assert f"```groovy\n{_ci.JENKINS}```" in recipes
    assert _ci.jenkins(["OPENAI_API_KEY"]).count("OPENAI_API_KEY = credentials('openai-api-key')") == 1
    (tmp_path / "zizmor.yml").write_text(ZIZMOR, "utf-8")
    for number, variables in enumerate((["GOOGLE_API_KEY"], ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])):
        path = tmp_path / ".github" / "workflows" / f"evals{number}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_ci.workflow(variables, "main"), "utf-8")
        lint("actionlint", "-no-color", path)
        lint("zizmor", "--offline", "--quiet", "--config", tmp_path / "zizmor.yml", path)
    assert _ci.workflow(["GOOGLE_API_KEY"], "main") == _ci.WORKFLOW


def test_init__refuses(tmp_path: Path) -> None:
    repository = write(tmp_path / "repo", {"app/agent.py": "from google.adk.agents import Agent\nbot = Agent()\n"})
    before = contents(repository.root)
    nothing = repository.gate("init")
    assert (nothing.code, "[init-no-agent]" in nothing.out) == (2, True)
    assert "app/agent.py defines no `root_agent` (its agent is named `bot`)" in nothing.out
    assert "my_agent/root_agent.yaml" in nothing.out
    missing = repository.gate("init", "nowhere")
    assert (missing.code, "[init-directory]" in missing.out) == (2, True)
    (repository.root / "app" / "agent.py").write_text(AGENT, "utf-8")
    (repository.root / "evals").write_text("a file", "utf-8")
    unwritable = repository.gate("init")
    assert (unwritable.code, "[init-unwritable] evals/test_config.json" in unwritable.out) == (2, True)
    assert contents(repository.root).keys() == before.keys() | {"evals"}
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository.root / "evals").unlink()
    (repository.root / "evals").symlink_to(outside)
    linked = repository.gate("init")
    assert (linked.code, "[init-unwritable] evals/test_config.json" in linked.out) == (2, True)
    (repository.root / "evals").unlink()
    (repository.root / ".gitignore").write_bytes(b"caf\xe9\n")
    latin = repository.gate("init")
    assert (latin.code, "it can't be read; add agent-eval-results/ and .adk/" in latin.out) == (0, True), latin.err
    assert (repository.root / ".gitignore").read_bytes() == b"caf\xe9\n"
    assert not list(outside.iterdir())


def test_init__offers_a_recording_in_a_terminal(tmp_path: Path) -> None:
    repository = write(tmp_path / "repo", {"agents/a/agent.py": AGENT, "agents/b/agent.py": AGENT})
    command = [*AGENT_EVAL, "init"]
    with on_terminal(command, cwd=repository.root, environment=repository.environment(), columns=40) as terminal:
        terminal.expect(r"Talk to agents/a now, and keep the\s+conversation as its first case\? \[Y/n\] $")
        terminal.type("n", r"Talk to agents/b now")
        terminal.press("\x03", r"agent-eval record evals/a\.evalset\.json\n +agent-eval record evals/b\.evalset\.json")
        assert terminal.code() == 0
    assert not list((repository.root / "evals").glob("*.evalset.json"))


# `agent-eval calibrate` as people start it, with a Gemini on loopback as the judge.


MATCH = "final_response_match_v2"


@pytest.fixture
def judge() -> Iterator[FakeGemini]:
    with FakeGemini(Judge(), keep=1000) as server:
        yield server


def write_labels(path: Path, *rows: Mapping[str, Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def row(number: int, answer: str, label: Any, **more: Any) -> dict[str, Any]:
    return {"prompt": f"{number}: the capital?", "response": answer, "reference": "Paris.", "label": label, **more}


def twenty(wrong: int) -> list[dict[str, Any]]:
    """Ten answers that the judge passes and ten that it fails; people differ on so many of the latter."""
    fine = [row(number, "Paris.", "pass") for number in range(10)]
    return fine + [row(number, BAD, "pass" if number < 10 + wrong else "fail") for number in range(10, 20)]


@pytest.fixture
def calibrate(
    tmp_path: Path, judge: FakeGemini, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """In this process, which saves a second each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_JUDGE_API_KEY", KEY)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["calibrate", *arguments, "--judge-base-url", judge.url])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_calibrate__min_kappa(tmp_path: Path, judge: FakeGemini, calibrate: Any) -> None:
    write_labels(tmp_path / "labels.jsonl", *twenty(wrong=2))
    arguments = ("labels.jsonl", "--criterion", MATCH, "--min-kappa")

    passed = calibrate(*arguments, "0.8")
    assert passed[0] == 0, passed[2]
    assert judge.stats.requests == 60, "three votes of five settle each"
    assert "agent-eval: 20 responses; gemini-2.5-flash will be asked 60 to 100 times." in passed[2]
    check("golden_calibrate.txt", passed[1])
    assert "\n::error" not in passed[1]
    assert KEY not in passed[1] + passed[2]

    failed = calibrate(*arguments, "0.9", "--format", "json")
    assert failed[0] == 1
    calibration = json.loads(failed[1])
    assert (calibration["verdict"], calibration["kappa"]) == ("failed", pytest.approx(0.8))
    assert calibration["table"] == {"categories": [0.0, 1.0], "counts": [[8, 0], [2, 10]]}
    assert calibration["disagreements"][0]["rationale"] == [WORDS]
    assert [entry["calls"] for entry in calibration["usage"]] == [60]

    # As in a run, the policy's threshold counts, not that of the config.
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": {MATCH: 1.0}}), "utf-8")
    (tmp_path / "agent-eval.toml").write_text(f'[[policy]]\nmetric = "{MATCH}"\nthreshold = 0.5\n', "utf-8")
    policy = calibrate(*arguments[:3], "--config", "test_config.json", "--format", "json")
    assert json.loads(policy[1])["threshold"] == 0.5, policy[2]


def test_calibrate__too_few_verdicts(tmp_path: Path, calibrate: Any) -> None:
    write_labels(tmp_path / "labels.jsonl", *twenty(wrong=0))

    code, out, _ = calibrate(
        "labels.jsonl", "--criterion", MATCH, "--min-kappa", "0.8", "--max-judge-calls", "45", "--format", "json"
    )

    report = json.loads(out)
    assert (code, report["verdict"]) == (3, "inconclusive")
    assert 0 < report["judged"] < 20
    assert [entry["code"] for entry in report["unjudged"]] == ["budget"]
    assert report["kappa_if_unjudged_disagree"] < 0.8 < report["kappa_if_unjudged_agree"]


def test_calibrate__mistakes_cost_no_call(tmp_path: Path, judge: FakeGemini, calibrate: Any) -> None:
    write_labels(tmp_path / "labels.jsonl", row(1, "Paris.", "pass"), row(2, "Paris.", "perhaps"), {"label": "pass"})
    write_labels(tmp_path / "same.jsonl", row(1, "Paris.", "pass"), row(2, "Paris.", "pass"))

    code, out, err = calibrate("labels.jsonl", "--criterion", MATCH)
    assert (code, out) == (2, "")
    assert "2:85: error [label-unknown]" in err
    assert "3:1: error [label-without-response]" in err

    for arguments, problem in (
        (("same.jsonl", "--criterion", MATCH, "--min-kappa", "0.5"), "labels-one-sided"),
        (("same.jsonl", "--criterion", "safety"), "unknown-metric"),
        (("same.jsonl", "--criterion", MATCH, "--judge-model", "what/ever"), "judge-model-unknown"),
    ):
        code, out, err = calibrate(*arguments)
        assert (code, out) == (2, ""), arguments
        assert f"[{problem}]" in err
    assert judge.stats.requests == 0


# `agent-eval compare` as people start it.


SUMMARY = "4 cases compared: 1 newly failing, 1 newly passing, 1 passing as before, 1 without a result to compare;"


def results(path: Path, *scores: tuple[str, float | None]) -> Path:
    """Results of cases that need a score of 0.8; None: not evaluated."""
    cases = []
    for number, (name, score) in enumerate(scores, start=3):
        scored = metric(RESPONSE, score, threshold=0.8)
        scored.fingerprint = "one"
        status: CaseStatus = "errored" if score is None else "passed" if score >= 0.8 else "failed"
        cases.append(case(name, status, scored, file="evals/home.test.json", line=number))
        cases[-1].fingerprint = f"asks {name}"
    made = report("passed", cases)
    made.origin = Origin(commit="b" * 40)
    path.write_text(results_json(made), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    head = results(tmp_path / "head.json", ("lamp", 0.25), ("fan", 0.9), ("door", 1.0), ("away", None))
    base = results(tmp_path / "base.json", ("lamp", 0.9), ("fan", 0.6), ("door", 1.0), ("away", 1.0), ("gone", 1.0))
    return str(head), str(base)


@pytest.mark.usefixtures("files")
def test_compare__as_a_process_anywhere(tmp_path: Path) -> None:
    environment = Repository(root=tmp_path).environment()
    done = program(
        sys.executable, "-P", "-m", "agent_eval", "compare", "head.json", "base.json", cwd=tmp_path, env=environment
    )
    assert done.stderr == ""
    check("golden_compare/console.txt", done.stdout)


@pytest.mark.usefixtures("files")
def test_compare__markdown_is_that_of_the_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "https://gitlab.example/group/project/-/blob/main"
    assert main(["compare", "head.json", "base.json", "--format", "markdown", "--source-url", source]) == 0
    check("golden_compare/markdown.md", capsys.readouterr().out)


def test_compare__the_newer_run_is_that_of_the_output_directory(
    files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", files[1]]) == 2
    assert "agent-eval-results does not exist. Run `agent-eval run` first" in capsys.readouterr().err
    for file, folder in zip(files, ("agent-eval-results", "base"), strict=True):
        (tmp_path / folder).mkdir()
        Path(file).rename(tmp_path / folder / "results.json")
    assert main(["compare", "base"]) == 0
    assert SUMMARY in capsys.readouterr().out
    assert main(["compare", *files, files[1]]) == 2
    assert "compare takes two results" in capsys.readouterr().err


def test_compare__json_is_the_comparison(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *files, "--format", "json"]) == 0
    loaded = json.loads(capsys.readouterr().out)
    assert [(case["eval_id"], case["change"]) for case in loaded["cases"]] == [
        ("lamp", "newly_failing"),
        ("fan", "fixed"),
        ("away", "unjudged"),
        ("gone", "removed"),
    ]
    assert ComparisonReport.model_validate(loaded).compared == 4


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "can't be read: No such file or directory. Name the results.json of a run"),
        (b"{", "it is not JSON"),
    ],
)
def test_compare__what_is_no_results_file_is_exit_2(
    files: tuple[str, str], tmp_path: Path, content: bytes | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_bytes(content)
    for pair in ((files[0], str(bad)), (str(bad), files[1])):
        assert main(["compare", *pair]) == 2
        result = capsys.readouterr()
        assert (result.out, sentence in result.err, "bad.json" in result.err) == ("", True, True)


def test_compare__a_source_url_is_a_web_address(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *files, "--source-url", "javascript:alert(1)"])
    assert ended.value.code == 2
    assert "is not a web address" in capsys.readouterr().err


# `agent-eval export otlp` and a collector on loopback.


SECRET = "token-0123456789"


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory of a run, and an environment without OpenTelemetry's and GitHub's variables."""
    for name in os.environ:
        if name.startswith(("OTEL_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr("agent_eval_workbench.exports.client._RETRY", Retry(attempts=3, first=0.01))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "agent-eval-results"
    folder.mkdir()
    (folder / "results.json").write_text(results_json(stored().report), "utf-8")


@pytest.mark.usefixtures("exported")
def test_export_otlp__sends_traces_and_logs_with_headers_and_writes_the_same_bodies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer%20{SECRET}, x-team = evals")
    with upload_server() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{server.url}/otlp/")
        assert main(["export", "otlp"]) == 0

    traces, logs = server.received
    assert (traces.path, logs.path) == ("/otlp/v1/traces", "/otlp/v1/logs")
    assert traces.headers["content-type"] == "application/json"
    assert (traces.headers["authorization"], traces.headers["x-team"]) == (f"Bearer {SECRET}", "evals")
    assert traces.json["resourceSpans"]
    assert logs.json["resourceLogs"]
    output = capsys.readouterr()
    assert output.out == f"Sent 6 spans and 7 scores to {server.url}/otlp/v1/traces\n"
    assert SECRET not in output.err

    assert main(["export", "otlp", "--output", "run.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("run.jsonl").read_text("utf-8").splitlines()]
    assert lines == [traces.json, logs.json]


@pytest.mark.usefixtures("exported")
def test_export_otlp__services_for_traces_only(capsys: pytest.CaptureFixture[str]) -> None:
    def respond(request: Received) -> Reply:
        return Reply() if request.path.endswith("/traces") else Reply(404, b"no such signal")

    with upload_server(respond) as server:
        assert main(["export", "otlp", "--endpoint", server.url]) == 1
        assert "HTTP 404: no such signal. If the service takes traces only, use --scores events." in (
            capsys.readouterr().err
        )
        assert main(["export", "otlp", "--endpoint", server.url, "--scores", "events"]) == 0


@pytest.mark.usefixtures("exported")
@pytest.mark.parametrize(
    ("reply", "message", "requests"),
    [
        (Reply(401, f"bad token {SECRET}".encode()), "HTTP 401: bad token ***.", 1),
        (Reply(503), "HTTP 503: {}.", 3),
        (None, "the connection failed", 3),
        (Reply(302, headers={"Location": "http://evil.example/x"}), "redirects to evil.example", 1),
        (Reply(200, b"<html>"), "but not with a JSON object", 1),
        (
            Reply(200, {"partialSuccess": {"rejectedSpans": "4", "errorMessage": "too old"}}),
            "rejected 4 items: too old.",
            1,
        ),
        (Reply(400, b"::error::1\x1b[2J"), "HTTP 400: :\u200b:error::1\ufffd[2J.", 1),
    ],
)
def test_export_otlp__what_is_not_accepted_is_an_error(
    reply: Reply | None,
    message: str,
    requests: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={SECRET}")
    with upload_server(lambda request: reply) as server:
        assert main(["export", "otlp", "--endpoint", server.url]) == 1

    output = capsys.readouterr()
    assert message in output.err
    assert SECRET not in output.err
    assert "Sent before: 0 spans and 0 scores. The verdict is not affected." in output.err
    assert len(server.received) == requests


@pytest.mark.usefixtures("exported")
def test_export_otlp__an_outage_that_passes_is_not_an_error() -> None:
    replies = iter([Reply(429, headers={"Retry-After": "0"}), None, Reply()])
    with upload_server(lambda request: next(replies, Reply())) as server:
        assert main(["export", "otlp", "--endpoint", server.url, "--scores", "none"]) == 0
    assert len({request.body for request in server.received}) == 1


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "There is no endpoint. Set --endpoint or OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL of a service"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://u:{SECRET}@h"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_HEADERS": SECRET}, "must be `name=value"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_HEADERS": f"a={SECRET}%0A"}, "can't be sent"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_TIMEOUT": "1s"}, "must be a number of milli"),
    ],
)
@pytest.mark.usefixtures("exported")
def test_export_otlp__invalid_settings_end_with_2(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert main(["export", "otlp"]) == 2

    output = capsys.readouterr()
    assert message in output.err
    assert SECRET not in output.err
