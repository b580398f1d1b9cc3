"""The tools that report_peers.py compares: how each stores the suite, and how it makes its page."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import environment
from report import make_results

from agent_eval_results import BASELINE_RECORDINGS, FILES, Recording
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.files import read_lines
from agent_eval_scoring.core.invocation import Invocation, tool_calls, tool_responses

INSPECT = "inspect-ai==0.3.285"
NODE_PACKAGES = ("@playwright/test@1.65.1", "allure@3.18.0")
SPEC = """const { test, expect } = require('@playwright/test');
for (const entry of require('../suite.json'))
  test(entry.name, async ({}, info) => {
    await info.attach('conversation', { body: entry.text, contentType: 'text/plain' });
    expect(entry.actual).toBe(entry.expected);
  });
"""
CONFIG = """module.exports = {
  testDir: '.', workers: 2, fullyParallel: true, reporter: [['blob', { outputDir: 'blob' }]],
};
"""


class Unavailable(Exception):
    """A peer that can't be installed or run here."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that makes a page."""

    name: str
    prepare: Callable[[Path], None]
    """Stores the suite as the tool stores results, in a folder."""
    command: Sequence[str]
    """Makes the page from there, in the folder."""
    page: str
    """The page's folder or file."""
    start: str
    """What to open in it."""
    row: str
    """Selector of a case in the list, which can be clicked."""
    shown: str
    """Selector of the open case."""
    environment: Mapping[str, str]
    folded: str = ""
    """Selector of what has to be clicked once before there are rows."""


def run(argv: Sequence[str], cwd: Path, extra: Mapping[str, str], *, codes: Sequence[int] = (0,)) -> None:
    """Runs a command.

    Raises:
        Unavailable: It failed; with the end of its output.
    """
    try:
        done = subprocess.run(
            argv, cwd=cwd, env={**os.environ, **extra}, capture_output=True, text=True, check=False, timeout=1_800
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{error}"[:300]) from error
    if done.returncode not in codes:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Unavailable(f"`{' '.join(argv[:4])}` exits {done.returncode}: {' | '.join(lines[-2:])[:300]}")


def messages(turns: Sequence[Invocation]) -> list[dict[str, Any]]:
    """Turns as inspect_ai's messages."""
    made: list[dict[str, Any]] = []
    for turn in turns:
        made.append({"role": "user", "content": text_of(turn.user_content)})
        calls, replies = tool_calls(turn.intermediate_data), tool_responses(turn.intermediate_data)
        for call, reply in zip(calls, replies, strict=True):
            asked = {"id": call.id, "function": call.name, "arguments": call.args, "type": "function"}
            made.append({"role": "assistant", "content": "", "tool_calls": [asked]})
            answer = json.dumps(reply.response)
            made.append({"role": "tool", "content": answer, "tool_call_id": call.id, "function": call.name})
        made.append({"role": "assistant", "content": text_of(turn.final_response)})
    return made


def conversation(turns: Sequence[Invocation]) -> str:
    """Turns as text, for tools that know none."""
    lines = []
    for message in messages(turns):
        calls = [f"{call['function']}({json.dumps(call['arguments'])})" for call in message.get("tool_calls", ())]
        lines.append(f"{message['role']}: {' '.join([*calls, message['content']])}")
    return "\n".join(lines)


def recordings(folder: Path) -> Iterator[Recording]:
    """The recordings of the suite."""
    for line in read_lines(folder / FILES["recordings-file"]):
        yield Recording.model_validate_json(line)


def make_suite(folder: Path, count: int) -> None:
    """The suite as an output directory without a base side, which no peer has, and as `suite.json` for Playwright."""
    report = make_results(folder, count)
    (folder / BASELINE_RECORDINGS).unlink()
    (folder / FILES["results-file"]).write_text(report.model_dump_json(), "utf-8")
    failed = {case.case_id for case in report.cases if case.status == "failed"}
    suite = []
    for recording in recordings(folder):
        answers = [text_of(turn.final_response) for turn in recording.invocations]
        expected = "\n".join(["another answer"] * (recording.case_id in failed) + answers)
        text = conversation(recording.invocations)
        suite.append({"name": recording.eval_id, "text": text, "actual": "\n".join(answers), "expected": expected})
    (folder / "suite.json").write_text(json.dumps(suite), "utf-8")


def prepare_inspect(binary: Path, suite: Path, folder: Path) -> None:
    """An .eval log."""
    samples = []
    for recording, entry in zip(recordings(suite), json.loads((suite / "suite.json").read_bytes()), strict=True):
        talk = messages(recording.invocations)
        score = {"value": 1.0 if entry["actual"] == entry["expected"] else 0.4, "answer": entry["actual"]}
        samples.append(
            {"id": entry["name"], "epoch": 1, "input": talk[0]["content"], "target": entry["expected"]}
            | {"messages": talk, "scores": {"response_match": score}}
        )
    when = "2026-01-01T00:00:00+00:00"
    dataset = {"name": "shop", "samples": len(samples), "sample_ids": [sample["id"] for sample in samples]}
    log = {
        "version": 2,
        "status": "success",
        "eval": {"created": when, "task": "shop", "dataset": dataset, "model": "none/none", "config": {}},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": [{"name": "response_match", "scorer": "response_match", "metrics": {}}],
        },
        "stats": {"started_at": when, "completed_at": when},
        "samples": samples,
    }
    (folder / "shop.json").write_text(json.dumps(log), "utf-8")
    run([str(binary), "log", "convert", "shop.json", "--to", "eval", "--output-dir", "logs"], folder, {})


def prepare_playwright(modules: Path, suite: Path, folder: Path) -> None:
    """A blob report of real tests."""
    (folder / "suite.spec.js").write_text(SPEC, "utf-8")
    (folder / "playwright.config.js").write_text(CONFIG, "utf-8")
    (folder / "node_modules").symlink_to(modules)
    shutil.copy(suite / "suite.json", folder.parent / "suite.json")
    run([str(modules / ".bin" / "playwright"), "test"], folder, {}, codes=(0, 1))  # 1: the failing cases


def prepare_allure(suite: Path, folder: Path) -> None:
    """The files that Allure's adapters write."""
    results = folder / "allure-results"
    results.mkdir()
    for number, entry in enumerate(json.loads((suite / "suite.json").read_bytes())):
        (results / f"{number}-attachment.txt").write_text(entry["text"], "utf-8")
        failed = entry["actual"] != entry["expected"]
        details = {"message": "the answer differs", "actual": entry["actual"], "expected": entry["expected"]}
        result = {
            "uuid": str(number),
            "historyId": str(number),
            "name": entry["name"],
            "fullName": f"shop#{entry['name']}",
            "status": "failed" if failed else "passed",
            "statusDetails": details if failed else {},
            "stage": "finished",
            "start": number,
            "stop": number + 1,
            "labels": [{"name": "suite", "value": "shop"}],
            "attachments": [{"name": "conversation", "source": f"{number}-attachment.txt", "type": "text/plain"}],
        }
        (results / f"{number}-result.json").write_text(json.dumps(result), "utf-8")


def ours(suite: Path) -> Tool:
    """This project."""

    def prepare(folder: Path) -> None:
        shutil.copytree(suite, folder / "results")

    return Tool(
        name="agent-eval",
        prepare=prepare,
        command=[sys.executable, "-m", "agent_eval", "view", "results", "--output", "page/report.html", "--no-open"],
        page="page",
        start="report.html",
        row="tr.row .case-link",
        shown=".case h2",
        environment={},
    )


def inspect(cache: Path, suite: Path) -> Tool:
    """inspect_ai's bundle of its viewer and a log. It needs a web server."""
    try:
        binary = environment(cache / "inspect", INSPECT) / "bin" / "inspect"
    except SystemExit as error:
        raise Unavailable(str(error)[-300:]) from error
    return Tool(
        name=INSPECT.replace("==", " "),
        prepare=functools.partial(prepare_inspect, binary, suite),
        command=[str(binary), "view", "bundle", "--log-dir", "logs", "--output-dir", "page"],
        page="page",
        start="index.html",
        row="a[class*=_row_]",
        shown="[class*=_chat_] [class*=_message_]",
        environment={},
    )


def node_modules(cache: Path) -> Path:
    """The installed npm packages.

    Raises:
        Unavailable: npm is missing, or its registry.
    """
    if shutil.which("npm") is None:
        raise Unavailable("npm is not installed")
    folder = cache / "node"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    run(["npm", "install", "--no-save", "--no-audit", "--no-fund", *NODE_PACKAGES], folder, {})
    return folder / "node_modules"


def playwright(cache: Path, suite: Path) -> Tool:
    """Playwright's HTML report."""
    modules = node_modules(cache)
    return Tool(
        name=NODE_PACKAGES[0].replace("@1", " 1"),
        prepare=functools.partial(prepare_playwright, modules, suite),
        command=[str(modules / ".bin" / "playwright"), "merge-reports", "--reporter", "html", "blob"],
        page="page",
        start="index.html",
        row=".test-file-test a",
        shown=".test-case-column",
        folded=".chip-header[aria-expanded=false]",
        environment={"PLAYWRIGHT_HTML_OPEN": "never", "PLAYWRIGHT_HTML_OUTPUT_DIR": "page"},
    )


def allure(cache: Path, suite: Path) -> Tool:
    """Allure's report as a single file."""
    command = [str(node_modules(cache) / ".bin" / "allure"), "awesome", "--single-file", "--output", "page"]
    return Tool(
        name=NODE_PACKAGES[1].replace("@", " "),
        prepare=functools.partial(prepare_allure, suite),
        command=[*command, "allure-results"],
        page="page",
        start="index.html",
        row="[data-testid=tree-leaf]",
        shown="[data-testid=test-result-info-title]",
        environment={},
    )


PEERS: Mapping[str, Callable[[Path, Path], Tool]] = {"inspect": inspect, "playwright": playwright, "allure": allure}
"""What installs a peer in a folder, for a suite."""
