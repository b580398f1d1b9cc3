"""`agent-eval init`, `calibrate`, `compare` and `export` as people start them."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from base_repos import new_repo
from export_samples import bytes_as_base64, stored
from fake_gemini import FakeGemini
from gate_runs import AGENT_EVAL, Repository, program
from golden_files import check
from google.protobuf.json_format import ParseDict
from judged_gate import BAD, KEY, Judge
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from pty_terminal import on_terminal
from report_samples import RESPONSE, case, metric, report
from upload_server import Received, Reply, in_turn, upload_server

from agent_eval.cli import main
from agent_eval_results.data.comparison import ComparisonReport
from agent_eval_results.data.report import CaseStatus, Origin
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.net.retry import Retry
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
        "home/agent.py": AGENT
        + "import os\nfrom home.tools import TOKEN\nTOKEN = os.environ['CRM_TOKEN']\nos.environ['SET_HERE'] = ''\n",
        "home/tools.py": "from os import environ, getenv\nprint(\n    getenv('PLACES_KEY', ''),\n"
        "    environ.get('OPENAI_API_KEY'), environ['HOME'], getenv('GOOGLE_CLOUD_PROJECT'))\n"
        "TOKEN = environ.get('CRM_TOKEN'), environ.get('GITHUB_TOKEN')\n",
        "home/old.py": "print getenv('PYTHON_2')\n",
        ".github/x": "",
    },
    "variables of a server that the agent does not import": {
        "a/bot/agent.py": AGENT + "from bot.tools.web import search\nfrom . import config\nfrom ..shared import x\n",
        "a/bot/__init__.py": "from . import agent\n",
        "a/bot/config.py": "import os\nREGION = os.getenv('REGION'), os.getenv('GOOGLE_CLOUD_PROJECT')\n",
        "a/bot/tools/__init__.py": "import os\nTOOLS = os.environ['TOOLS_URL']\n",
        "a/bot/tools/web.py": "import os, importlib\nSEARCH = os.environ['SEARCH_KEY']\n",
        "a/bot/server.py": "import os\nfrom bot import agent\nPORT = os.getenv('PORT'), os.getenv('REGION')\n",
        ".github/x": "",
    },
    "an agent on Google Cloud": {
        "app/agent.py": "import os\nimport google.auth\n# google.auth.default()\n_, project = google.auth.default()\n"
        + 'os.environ["GOOGLE_GENAI_USE_VERTEXAI"] = "True"\nBUCKET = os.environ["BUCKET"]\n'
        + "from app import files\n"
        + AGENT,
        "app/files.py": "from google.cloud import storage\n\ndef read():\n    return storage.Client()\n",
        "app/server.py": "import google.auth\ngoogle.auth.default()\n",
        ".github/x": "",
    },
    "many agents and variables": {
        **{f"samples/s{number:02}/agent.py": AGENT for number in range(10)},
        "samples/s03/agent.py": AGENT
        + "".join(f"import os\nos.getenv('S_{number}')\nos.getenv('ADK_{number}')\n" for number in range(14)),
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
    "three agents of one name": {
        "a/app/agent.py": AGENT,
        "b/app/agent.py": AGENT,
        "b/backend/app/agent.py": AGENT,
        "a/tests/my_evals.json": EVALS,
        "a/tests/a.test.json": EVALS,
        ".github/x": "",
    },
    "eval files of another name": {"home/agent.py": AGENT, "tests/home_eval.json": EVALS, ".github/x": ""},
    "GitLab": {"home/agent.py": AGENT, ".gitlab-ci.yml": "stages: [test]\n"},
    "Jenkins, and the root is the agent": {"agent.py": AGENT, "Jenkinsfile": "pipeline {}\n"},
}
"""The files of repositories. What `init` prints and changes in each is in tests/data/golden_init."""


def write(root: Path, files: Mapping[str, str]) -> None:
    new_repo(root)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(text)


def contents(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


class Shell:
    """Commands in this process, which saves a second each time, and what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.text = ""

    def run(self, *arguments: str, code: int, note: str = "") -> str:
        self._capsys.readouterr()
        try:
            ended: object = main([*arguments])
        except SystemExit as end:
            ended = end.code
        out, err = self._capsys.readouterr()
        assert ended == code, out + err
        self.text += f"$ agent-eval {shlex.join(arguments)}  # {note or f'exit code {code}'}\n{out}"
        self.text += "".join(f"! {line}\n" for line in err.splitlines()) + "\n"
        return out

    def check(self, name: str, *urls: str) -> None:
        """Compares all with a file."""
        for url in urls:
            self.text = self.text.replace(url, "http://HERE")
        check(name, self.text.replace(docs_page("").removesuffix("/"), "DOCS/").replace(os.getcwd(), "FOLDER"))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in os.environ:
        if name.startswith(("OTEL_", "GITHUB_", "INPUT_", "RUNNER_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


def test_init__writes_what_is_missing_once(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, files in SAMPLES.items():
        file = re.sub(r"\W+", "-", name).lower()
        root = tmp_path / file / "repo"
        write(root, files)
        monkeypatch.chdir(root)
        before = contents(root)
        shell.run("init", "--dry-run", code=0)
        assert contents(root) == before
        done = shell.run("init", code=0)
        after = contents(root)
        changed = sorted(path for path, text in after.items() if before.get(path) != text)
        check(f"golden_init/{file}.txt", f"{done}\nChanged: {', '.join(changed) or 'nothing'}\n")
        assert all(after[path].startswith(text) for path, text in before.items())
        again = shell.run("init", "--yes", code=0)
        assert contents(root) == after
        assert not re.search(r"^(created|changed) ", again, re.MULTILINE)
        assert "  agent-eval init" not in shell.run("init", "--dry-run", code=0), "nothing is left to write"

        if not any(path.endswith(".test.json") for path in before):
            made = sorted(re.findall(r"evals/\w+\.evalset\.json", done))[0]
            (root / made).write_text(EVALS, "utf-8")
        shell.text = ""
        shell.run("validate", "--plan", code=0)
        assert "[agent-ambiguous]" not in shell.text


def test_init__lists_the_first_mistakes_of_a_file(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistakes = ['{"query": "a", "reference": 1}'] * 5 + ['{"query": 1}', '{"query": 2, "reference": 3}', "{}", "7"]
    write(tmp_path, {"home/agent.py": AGENT, "home/b.test.json": "[\n" + ",\n".join(mistakes) + "\n]"})
    monkeypatch.chdir(tmp_path)
    done = shell.run("init", "--dry-run", "--ci", "none", code=0)
    assert done.count("home/b.test.json:") == 3 and "The same holds for lines 3, 4, 5, 6" in done
    assert "`agent-eval validate` lists all their errors" in done


@pytest.mark.parametrize(
    ("files", "recorded"),
    [
        (("a/agent.py", "a/a.test.json", "b/agent.py", "c/agent.py"), ["evals/b.evalset.json", "evals/c.evalset.json"]),
        (("bot/agent.py", "tests/eval/a.test.json"), []),
    ],
)
def test_init__an_agent_whose_eval_files_have_mistakes_needs_no_new_one(
    files: tuple[str, ...], recorded: list[str], shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {file: AGENT if file.endswith(".py") else "{" for file in files})
    monkeypatch.chdir(tmp_path)
    done = shell.run("init", "--ci", "none", code=0)
    assert re.findall(r"^  agent-eval record (.+)", done, re.MULTILINE) == recorded
    assert (tmp_path / "evals").exists() == bool(recorded) and "ADK's defaults" not in done


def test_init__can_be_told_the_ci_system(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repository that has signs of another one, or of none."""
    for ci in ("github", "gitlab", "jenkins", "none"):
        write(tmp_path / ci, {"home/agent.py": AGENT, **({} if ci == "github" else {".github/x": ""})})
        monkeypatch.chdir(tmp_path / ci)
        shell.run("init", "--dry-run", "--ci", ci, code=0)
    shell.check("golden_init/ci.txt")


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


def test_init__refuses(shell: Shell, tmp_path: Path) -> None:
    write(tmp_path, {"app/agent.py": "from google.adk.agents import Agent\nbot = Agent()\n"})

    def init(*arguments: str, code: int = 2) -> None:
        before = contents(tmp_path)
        shell.run("init", *arguments, code=code)
        assert code == 0 or contents(tmp_path) == before

    init()
    init("nowhere")
    (tmp_path / "app" / "agent.py").write_text(AGENT, "utf-8")
    evals, ignore = tmp_path / "evals", tmp_path / ".gitignore"
    evals.write_text("a file", "utf-8")
    init()
    evals.unlink()
    evals.symlink_to(tmp_path.parent)
    init()
    assert not (tmp_path.parent / "test_config.json").exists()
    evals.unlink()
    ignore.write_bytes(b"caf\xe9\n")
    init(code=0)
    assert ignore.read_bytes() == b"caf\xe9\n"
    shell.check("golden_init/refused.txt")


def test_init__offers_a_recording_in_a_terminal(tmp_path: Path) -> None:
    write(tmp_path, {f"agents/{name}/agent.py": AGENT for name in "abc"})
    command = [*AGENT_EVAL, "init"]
    with on_terminal(
        command, cwd=tmp_path, environment=Repository(root=tmp_path).environment(), columns=40
    ) as terminal:
        terminal.expect(r"Talk to agents/a now, and keep the\s+conversation as its first case\? \[Y/n\] $")
        terminal.type("n", r"Talk to agents/b now")
        terminal.press("\x03", r"agent-eval record evals/a\.evalset\.json\n +agent-eval record evals/b\.evalset\.json")
        assert terminal.code() == 0
    assert not list((tmp_path / "evals").glob("*.evalset.json"))


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


def test_calibrate__what_it_prints(
    tmp_path: Path, judge: FakeGemini, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_EVAL_JUDGE_API_KEY", KEY)
    at = ("--judge-base-url", judge.url)
    write_labels(tmp_path / "labels.jsonl", *twenty(wrong=2))
    command = ("calibrate", "labels.jsonl", "--criterion", MATCH, *at)
    shell.run(*command, "--min-kappa", "0.8", code=0)
    assert judge.stats.requests == 60, "three votes of five settle each"
    failed = shell.run(*command, "--min-kappa", "0.9", "--format", "json", code=1)
    write_labels(tmp_path / "labels.jsonl", *twenty(wrong=0))
    too_few = shell.run(*command, "--min-kappa", "0.8", "--max-judge-calls", "45", "--format", "json", code=3)
    asked = judge.stats.requests

    # As in a run, the policy's threshold counts, not that of the config.
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": {MATCH: 1.0}}), "utf-8")
    (tmp_path / "agent-eval.toml").write_text(f'[[policy]]\nmetric = "{MATCH}"\nthreshold = 0.5\n', "utf-8")
    policy = shell.run(*command, "--config", "test_config.json", "--format", "json", code=0)
    assert json.loads(policy)["threshold"] == 0.5
    assert judge.stats.requests == asked + 60

    # Mistakes cost no call.
    write_labels(tmp_path / "wrong.jsonl", row(1, "Paris.", "pass"), row(2, "Paris.", "perhaps"), {"label": "pass"})
    write_labels(tmp_path / "same.jsonl", row(1, "Paris.", "pass"), row(2, "Paris.", "pass"))
    shell.run("calibrate", "wrong.jsonl", "--criterion", MATCH, *at, code=2)
    shell.run("calibrate", "same.jsonl", "--criterion", MATCH, "--min-kappa", "0.5", *at, code=2)
    shell.run("calibrate", "same.jsonl", "--criterion", "safety", *at, code=2)
    shell.run("calibrate", "same.jsonl", "--criterion", MATCH, "--judge-model", "what/ever", *at, code=2)
    assert judge.stats.requests == asked + 60
    assert KEY not in shell.text and "\n::error" not in shell.text
    report = json.loads(too_few)
    assert 0 < report["judged"] < 20 and report["kappa_if_unjudged_disagree"] < 0.8 < report["kappa_if_unjudged_agree"]
    for printed in (failed, policy):
        document = {
            name: item for name, item in json.loads(printed).items() if name not in {"tool_version", "opinions"}
        }
        shell.text = shell.text.replace(printed, json.dumps(document, indent=1) + "\n")
    shell.text = shell.text.replace(too_few, "(which depends on what is asked first)\n")
    shell.check("golden_calibrate.txt", judge.url)


# `agent-eval compare` as people start it.


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


def test_compare__what_it_prints(tmp_path: Path, shell: Shell) -> None:
    head = results(tmp_path / "head.json", ("lamp", 0.25), ("fan", 0.9), ("door", 1.0), ("away", None))
    base = results(tmp_path / "base.json", ("lamp", 0.9), ("fan", 0.6), ("door", 1.0), ("away", 1.0), ("gone", 1.0))
    environment = Repository(root=tmp_path).environment()
    command = ("-P", "-m", "agent_eval", "compare", "head.json", "base.json")
    done = program(sys.executable, *command, cwd=tmp_path, env=environment)
    assert (done.stdout, done.stderr) == (shell.run("compare", "head.json", "base.json", code=0), "")
    source = "https://gitlab.example/group/project/-/blob/main"
    shell.run("compare", "head.json", "base.json", "--format", "markdown", "--source-url", source, code=0)
    loaded = shell.run("compare", "head.json", "base.json", "--format", "json", code=0)
    assert ComparisonReport.model_validate_json(loaded).compared == 4
    shell.run("compare", "head.json", "base.json", "--source-url", "javascript:alert(1)", code=2)
    shell.run("compare", "head.json", "base.json", "base.json", code=2)
    (tmp_path / "bad.json").write_text("{", "utf-8")
    for pair in (("head.json", "bad.json"), ("bad.json", "base.json"), ("head.json", "none.json"), ("base.json",)):
        shell.run("compare", *pair, code=2)
    for file, folder in ((head, "agent-eval-results"), (base, "base")):
        (tmp_path / folder).mkdir()
        file.rename(tmp_path / folder / "results.json")
    shell.run("compare", "base", code=0)
    shell.text = shell.text.replace(loaded, json.dumps(json.loads(loaded), indent=1) + "\n")
    shell.text = re.sub(r"(?<=not JSON) \(.*?\)", "", shell.text)
    shell.check("golden_compare.txt")


# `agent-eval export otlp` and a collector on loopback.


SECRET = "token-0123456789"


@pytest.fixture
def exported(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory has a run."""
    monkeypatch.setattr("agent_eval_workbench.exports.client._RETRY", Retry(attempts=3, first=0.01))
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
def test_export_otlp__in_protobuf_says_the_same(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Any] = [ExportTraceServiceRequest, ExportLogsServiceRequest]
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans, answer.partial_success.error_message = 4, "too old"
    with upload_server() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        shell.run("export", "otlp", code=0)
        as_json = [request.json for request in server.received]
        server.received.clear()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        shell.run("export", "otlp", code=0)
        assert {request.headers["content-type"] for request in server.received} == {"application/x-protobuf"}
        read = [kind.FromString(request.body) for kind, request in zip(requests, server.received, strict=True)]
        assert read == [ParseDict(bytes_as_base64(body), kind()) for kind, body in zip(requests, as_json, strict=True)]
        for reply in (answer.SerializeToString(), b"<html>"):
            server.respond = in_turn(Reply(200, reply, {"Content-Type": "application/x-protobuf"}))
            shell.run("export", "otlp", code=1)
    assert "rejected 4 items: too old" in shell.text and "and the answer can't be read" in shell.text
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    shell.run("export", "otlp", code=2)
    assert "agent-eval-action[otel]" in shell.text


REPLIES: dict[str, Reply | None] = {
    "it refuses the token": Reply(401, f"bad token {SECRET}".encode()),
    "it is down": Reply(503),
    "it hangs up": None,
    "it redirects": Reply(302, headers={"Location": "http://evil.example/x"}),
    "it answers with a page": Reply(200, b"<html>"),
    "it rejects a part": Reply(200, {"partialSuccess": {"rejectedSpans": "4", "errorMessage": "too old"}}),
    "it takes no JSON": Reply(415, b"Unsupported content type: application/json"),
    "its text is hostile": Reply(400, b"::error::1\x1b[2J"),
}
INVALID = [
    {},
    {"ENDPOINT": "collector:4318"},
    {"ENDPOINT": f"http://u:{SECRET}@h"},
    {"ENDPOINT": "http://h", "HEADERS": SECRET},
    {"ENDPOINT": "http://h", "HEADERS": f"a={SECRET}%0A"},
    {"ENDPOINT": "http://h", "TIMEOUT": "1s"},
    {"ENDPOINT": "http://h", "PROTOCOL": "grpc"},
]


@pytest.mark.usefixtures("exported")
def test_export_otlp__what_is_not_accepted_or_invalid(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for variables in INVALID:
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
            note = " ".join(f"{name}={value}" for name, value in variables.items()).replace(SECRET, "***")
            shell.run("export", "otlp", code=2, note=note)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={SECRET}")
    with upload_server() as server:
        command = ("export", "otlp", "--endpoint", server.url)
        for note, reply in REPLIES.items():
            server.received.clear()
            server.respond = in_turn(reply)
            shell.run(*command, code=1, note=note)
            shell.text += f"{len(server.received)} requests\n\n"
        server.respond = lambda request: Reply() if request.path.endswith("/traces") else Reply(404, b"no such signal")
        shell.run(*command, code=1, note="it takes traces only")
        shell.run(*command, "--scores", "events", code=0)
        server.received.clear()
        server.respond = in_turn(Reply(429, headers={"Retry-After": "0"}), None, Reply())
        shell.run(*command, "--scores", "none", code=0, note="an outage that passes")
        assert len({request.body for request in server.received}) == 1
    assert SECRET not in shell.text
    shell.check("golden_export_otlp.txt", server.url)


# `agent-eval export cozeloop` and a server that answers as CozeLoop's (coze-dev/coze-loop at 4f550f38): business errors
# are HTTP 200 with a code.


COZELOOP = "OBSERVABILITY_OPENTELEMETRY_COZELOOP_"
COZELOOP_ANSWERS: dict[str, Reply | None] = {
    "the key is refused": Reply(401, b"bad token " + SECRET.encode()),
    "the workspace is refused": Reply(body={"code": 601200101, "msg": "no permission"}),
    "no answer of CozeLoop": Reply(body={}),
    "items are refused": Reply(
        body={
            "code": 0,
            "data": {
                "errors": [
                    {
                        "error_code": 1,
                        "error_message": "MismatchSchema",
                        "error_count": 3,
                        "details": [{"index": 0, "message": "unknown column"}],
                    }
                ]
            },
        }
    ),
    "items are not acknowledged": Reply(body={"code": 0, "data": {}}),
    "the connection is lost": None,
    "a redirect": Reply(307, headers={"Location": "https://elsewhere.example/"}),
    "no JSON": Reply(200, b"<html>"),
}


def cozeloop(keys: set[str]) -> Callable[[Received], Reply]:
    """Keeps items by their keys, as the service."""

    def respond(request: Received) -> Reply:
        items = request.json["items"]
        outputs = [{"item_key": item["item_key"], "is_new_item": item["item_key"] not in keys} for item in items]
        keys.update(item["item_key"] for item in items)
        return Reply(body={"code": 0, "msg": "", "data": {"itemOutputs": outputs}})

    return respond


@pytest.mark.usefixtures("exported")
def test_export_cozeloop__each_turn_is_an_item_once(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [
        {
            "user_content": {"parts": [{"text": "lamp"}, {"text": "on"}]},
            "final_response": {"parts": [{"text": "done"}]},
        },
        {"user_content": {"parts": [{"text": "thanks"}]}},
    ]
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Ask."}
    many = [{"eval_id": f"case{number}", "conversation": turns[:1]} for number in range(150)]
    for name, cases in {
        "home": [{"eval_id": "lamp", "conversation": turns}, {"eval_id": "fan", "conversation": turns[:1]}],
        "plan": [{"eval_id": "plan", "conversation_scenario": scenario}],
        "many": many,
        "bad": [{}],
    }.items():
        Path(name).mkdir()
        Path(name, "test_config.json").write_text('{"criteria": {"safety_v1": 0.5}}', "utf-8")
        Path(name, "a.evalset.json").write_text(json.dumps({"eval_set_id": name, "eval_cases": cases}), "utf-8")
    monkeypatch.setattr("agent_eval_workbench.exports.client._RETRY", Retry(attempts=3, first=0.01, jitter=0.0))
    monkeypatch.setenv("GOOGLE_API_KEY", "key")
    command = ("export", "cozeloop", "home")
    with upload_server() as server:
        values = {f"{COZELOOP}SERVICE_NAME": "7001", f"{COZELOOP}EVALSET_ID": "9001", f"{COZELOOP}API_KEY": SECRET}
        for name, value in {"COZELOOP_API_BASE_URL": server.url, **values}.items():
            monkeypatch.setenv(name, value)
        server.respond = cozeloop(set())
        shell.run(*command, code=0)
        shell.run(*command, code=0, note="again")
        [first, _] = server.received
        assert first.headers["authorization"] == f"Bearer {SECRET}"
        columns = [item["turns"][0]["field_datas"] for item in first.json["items"]]
        texts = [{data["name"]: data["content"]["text"] for data in item} for item in columns]
        assert texts == [
            {"input": "lamp\non", "output": "done"},
            {"input": "thanks", "output": ""},
            {"input": "lamp\non", "output": "done"},
        ]
        server.received.clear()
        shell.run("export", "cozeloop", "many", "--workspace-id", "1", "--evalset-id", "2", code=0)
        sent = [(request.path, request.json["workspace_id"], len(request.json["items"])) for request in server.received]
        path = "/v1/loop/evaluation/evaluation_sets/2/items"
        assert sent == [(path, "1", 100), (path, "1", 50)]
        for note, reply in COZELOOP_ANSWERS.items():
            server.respond = in_turn(reply)
            shell.run(*command, code=1, note=note)
        server.received.clear()
        for arguments in (("plan",), ("bad",), ("home", "--evalset-id", "../7")):
            shell.run("export", "cozeloop", *arguments, code=2)
        for name in values:
            with monkeypatch.context() as patched:
                patched.delenv(name)
                shell.run(*command, code=2, note=f"without {name}")
        monkeypatch.setenv("COZELOOP_API_BASE_URL", "http://loop.example")
        shell.run(*command, code=2, note="without encryption")
        assert not server.received
    assert SECRET not in shell.text
    shell.check("golden_export_cozeloop.txt", server.url)
