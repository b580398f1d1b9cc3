"""Runs the gate as a user does, as a process of its own, on a repository made for the test."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gate_server
import host_forks
from adk_envs import FIXTURES, adk_python

from agent_eval import __version__
from agent_eval_results.data.report import RunReport
from agent_eval_results.report.phrases import headline
from agent_eval_results.report.views import view_of
from agent_eval_scoring.core.recording import Recording

MARK = "GATE_TEST_MARK"
AGENT_EVAL = (sys.executable, "-m", "agent_eval")


@dataclass(frozen=True, kw_only=True)
class Done:
    """A run of the gate that has ended, with what it wrote: a later run into the same directory changes nothing."""

    code: int
    out: str
    err: str
    output: Path
    seconds: float
    written: dict[str, bytes] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for path in (self.output / "results.json", self.output / "recordings.jsonl.gz"):
            if path.exists():
                self.written[path.name] = path.read_bytes()

    @property
    def results(self) -> dict[str, Any]:
        results: dict[str, Any] = json.loads(self.written["results.json"])
        return results

    @property
    def report(self) -> RunReport:
        return RunReport.model_validate_json(self.written["results.json"])

    @property
    def statuses(self) -> dict[str, str]:
        return {case.eval_id: case.status for case in self.report.cases}

    @property
    def recordings(self) -> list[Recording]:
        lines = gzip.decompress(self.written.get("recordings.jsonl.gz", gzip.compress(b""))).splitlines()
        return [Recording.model_validate_json(line) for line in lines]

    def check_files(self) -> None:
        """Every file is there, is complete, and agrees with the others."""
        report = self.report
        junit = ET.parse(self.output / "junit.xml").getroot()
        assert int(junit.attrib["tests"]) >= len(report.cases)
        assert (self.output / "summary.md").read_text(encoding="utf-8").startswith("#")
        page = (self.output / "report.html").read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert page.endswith("</html>\n")
        assert "report.html could not be written" not in self.err
        if report.verdict != "invalid":  # Then nothing was run, and what an earlier run recorded stays.
            planned = {run.run_id for case in report.cases for run in case.runs}
            done = {run.run_id for case in report.cases for run in case.runs if run.status != "not_run"}
            # A run that was broken off while it was scored is not done, and its answers are kept: they were paid for.
            assert done <= {recording.run_id for recording in self.recordings} <= planned


_OF_THE_MACHINE = {"agent-not-isolated", "container-socket-open", "credentials-not-lent"}
_OF_THIS_RUN = {
    re.escape(__version__): "VERSION",
    r"(https?://)?127\.0\.0\.1(:|', )\d+": "SERVER",
    r"\$0\.\d{4}\b": "COST",
    re.escape(tempfile.gettempdir()) + r"/[^\s`':,;)]*": "PATH",
    r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b": "SHA",
    r"\b\d+(\.\d+)? m?s\b": "TIME",
    r"\b\d+\.\d+ kB\b": "SIZE",
}


def told(title: str, done: Done | RunReport, *more: str) -> str:
    """What a run came to, for a golden file: its verdict, what became of each case, problems, reasons and notices."""
    report, code = (done.report, done.code) if isinstance(done, Done) else (done, done.exit_code)
    lines = [f"{title}: exit {code}; {headline(view_of(report), brief=True)}"]
    for case in report.cases:
        errors = [f"{run.error.kind} ({run.error.owner}): {run.error.message}" for run in case.runs if run.error]
        runs = f"{len(case.runs)} runs" if len(case.runs) != 1 else "1 run"
        facts = [case.status, "replayed" if case.replayed else runs, *dict.fromkeys(errors)]
        lines.append(f"  {case.eval_id}: {', '.join(facts)}")
    lines += [f"  {reason.code}: {reason.message}" for reason in report.reasons]
    problems = [each for each in report.problems if each.code not in _OF_THE_MACHINE]
    lines += [f"  {each.severity} {each.code}: {each.message}" for each in problems]
    lines += [f"  {line}" for line in (*report.warnings, *report.notices, *more)]
    return anywhere("".join(" ".join(f"{line}".splitlines()) + "\n" for line in lines)) + "\n"


def anywhere(text: str) -> str:
    """A text without what differs between runs of a test: versions, addresses, paths, commits, times."""
    for pattern, word in _OF_THIS_RUN.items():
        text = re.sub(pattern, word, text)
    return text


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository with agents of agents_fixtures and eval files."""

    root: Path
    new_hosts: bool = False
    """Whether `gate` starts hosts in new interpreters. Necessary for what host_forks.py excepts."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def agent(self, *names: str) -> None:
        """Copies agents (and the model that they share) into it."""
        for name in names:
            shutil.copy(FIXTURES / "scripted_model.py", self.root)
            shutil.copytree(FIXTURES / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, files: Mapping[str, str | Mapping[str, Any]]) -> None:
        """Writes texts, or JSON, by path."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
            path.write_text(text, encoding="utf-8")

    def evals(
        self, path: str, cases: Mapping[str, str | Sequence[str]], *, expect: Mapping[str, str] | None = None
    ) -> None:
        """Writes an eval file: what the user says in each case, and the answer if it is not the same."""
        turns = {name: [said] if isinstance(said, str) else said for name, said in cases.items()}
        answers = {name: [(turn, (expect or {}).get(name, turn)) for turn in said] for name, said in turns.items()}
        self.write({path: eval_set(Path(path).name.split(".")[0], answers)})
        config = (self.root / path).with_name("test_config.json")
        if not config.exists():
            config.write_text('{"criteria": {"response_match_score": 1.0}}', encoding="utf-8")

    def record(
        self, path: str, answers: Mapping[str, str | Sequence[str]] | None = None, *, to: str = "answers.json"
    ) -> None:
        """Writes what a recorded agent says to the cases of an eval file: what is expected, or an answer per turn."""
        document = json.loads((self.root / path).read_text(encoding="utf-8"))
        for case in document["eval_cases"]:
            said = (answers or {}).get(case["eval_id"], ())
            for turn, text in zip(case["conversation"], [said] if isinstance(said, str) else said, strict=False):
                turn["final_response"]["parts"] = [{"text": text}]
        self.write({to: document})

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Ours without what makes a job of GitHub's."""
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "INPUT_", "RUNNER_"))}
        return {**ours, MARK: self.mark, **(more or {})}

    def start(
        self, *arguments: str, python: bool = True, environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Starts `agent-eval ARGUMENTS`; a run gets a ready interpreter unless `python` is false."""
        process = subprocess.Popen(
            [*AGENT_EVAL, *(self._with_interpreter(arguments, [str(adk_python())]) if python else arguments)],
            cwd=self.root,
            env=self.environment(environment),
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "text": True,
                "encoding": "utf-8",
                **options,
            },
        )
        self._started.append(process)
        return process

    @staticmethod
    def _with_interpreter(arguments: Sequence[str], python: Sequence[str]) -> list[str]:
        if arguments[0] not in {"run", "merge"}:
            return list(arguments)
        return [*arguments, "--agent-python", shlex.join(python), "--agent-env", f"+{MARK},JOB_SECRET,RUNS_FILE"]

    def end(self) -> None:
        """Kills what a test that failed has left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=10)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def finish(self, process: subprocess.Popen[str], *, timeout: float) -> Done:
        """Waits for the end of a gate that was started; the results are in the default place."""
        begun = time.monotonic()
        try:
            out, err = process.communicate(timeout=timeout * patience())
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        return self._done(process.returncode, out, err, begun)

    def _done(self, code: int, out: str, err: str, begun: float, output: Path | None = None) -> Done:
        output = output or self.root / "agent-eval-results"
        return Done(code=code, out=out, err=err, output=output, seconds=time.monotonic() - begun)

    def gate(
        self,
        *arguments: str,
        python: bool = True,
        environment: Mapping[str, str] | None = None,
        timeout: float = 90,
        output: Path | None = None,
        code: int | None = None,
        **options: Any,
    ) -> Done:
        """Runs `agent-eval ARGUMENTS` to its end, in a fork of a process that has imported it; checks its exit code.

        In a new interpreter if Python's start depends on the environment, or with options of Popen. The same holds for
        its hosts; with `new_hosts` they never are forks.
        """
        begun = time.monotonic()
        if output is not None:
            arguments = (*arguments, "--output-dir", str(output))
        elif "--output-dir" in arguments:
            output = self.root / arguments[arguments.index("--output-dir") + 1]
        read_at_start = any(name.startswith(("PYTHON", "LC_", "LANG")) for name in environment or {})
        if read_at_start or options:
            process = self.start(*arguments, python=python, environment=environment, **options)
            done = self.finish(process, timeout=timeout)
            done = replace(done, output=output or done.output)
            assert code in (None, done.code), done.out + done.err
            return done
        interpreter = [str(adk_python())] if self.new_hosts else host_forks.command(adk_python())
        ended = gate_server.run(
            self._with_interpreter(arguments, interpreter) if python else arguments,
            cwd=self.root,
            environment=self.environment(environment),
            timeout=timeout * patience(),
        )
        assert code in (None, ended.returncode), ended.stdout + ended.stderr
        return self._done(ended.returncode, ended.stdout, ended.stderr, begun, output)

    def wait_for_runs(self, number: int, *, seconds: float = 30) -> None:
        """Waits until the journal of a gate under way has so many runs."""
        journal = self.root / "agent-eval-results" / "journal.jsonl"
        wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == number, seconds=seconds)

    def left_behind(self) -> list[str]:
        """Processes that the gate or the agent started and that still run; some get a moment to go."""
        for _ in range(20):
            commands = [command for _, command in self._marked()]
            if not commands:
                return []
            time.sleep(0.1)
        return commands

    def hosts(self) -> list[int]:
        """The processes in which the agent runs."""
        return [pid for pid, command in self._marked() if "agent_eval_host" in command]

    def _marked(self) -> list[tuple[int, str]]:
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    found.append((int(entry.name), command))
            except OSError:
                continue
        return found


Call = tuple[str, Mapping[str, Any]]
"""The name of a tool, and its arguments."""


def eval_case(eval_id: str, *turns: tuple[str, Sequence[Call] | None, str], **more: Any) -> dict[str, Any]:
    """A case of an eval file: in each turn what the user says, the calls, if some are expected, and the answer."""

    def content(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"text": text}]}

    conversation: list[dict[str, Any]] = []
    for said, calls, answer in turns:
        conversation.append({"user_content": content("user", said), "final_response": content("model", answer)})
        if calls is not None:
            uses = [{"name": name, "args": dict(arguments)} for name, arguments in calls]
            conversation[-1]["intermediate_data"] = {"tool_uses": uses}
    return {"eval_id": eval_id, "conversation": conversation, **more}


def eval_set(name: str, cases: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, Any]:
    """An eval set: what the user says and what is expected, turn by turn, by eval id."""
    listed = [eval_case(eval_id, *((said, None, answer) for said, answer in turns)) for eval_id, turns in cases.items()]
    return {"eval_set_id": name, "eval_cases": listed}


@contextmanager
def repository_in(root: Path, *agents: str, new_hosts: bool = False) -> Iterator[Repository]:
    """A repository with agents, and no process of it left at the end."""
    made = Repository(root=root, new_hosts=new_hosts)
    root.mkdir(exist_ok=True)
    made.agent(*agents)
    try:
        yield made
    finally:
        made.end()


def program(
    *command: str | Path, code: int | None = 0, timeout: float = 90, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; its exit code is checked unless `code` is None. More options are those of Popen."""
    settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8", **options}
    if "input" in settings:
        del settings["stdin"]
    done = subprocess.run(list(map(str, command)), check=False, timeout=timeout * patience(), **settings)
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


def patience() -> float:
    """How many times longer than on an idle machine things may take: runnable processes per core, at most 5."""
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 5.0)


def wait_until(condition: Callable[[], Any], *, seconds: float = 30) -> Any:
    """The first true value of a condition."""
    end = time.monotonic() + seconds * patience()
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def is_gone(pid: int) -> bool:
    """Whether a process has ended; where nothing reaps orphans it may stay as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
