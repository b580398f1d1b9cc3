#!/usr/bin/env python3
"""Measures report.html: time, memory and size for 5, 50 and 5,000 cases of three turns with a base side.

    .venv/bin/python benchmarks/report.py [CASES ...] [--keep FOLDER]

The conversations are made of words, about 9 KB of JSON a case. Peak memory is that of the writing process above what it
has with the report in memory (VmHWM of /proc/self/status, reset before).
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from agent_eval_results import (
    BASELINE_RECORDINGS,
    FILES,
    CaseReport,
    MetricReport,
    Recording,
    RunReport,
    RunResult,
    RunScore,
    StoredCase,
    TurnEvidence,
    write_lines,
)
from agent_eval_results.report.html import folder_source, write_page
from agent_eval_results.report.views import Links
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval_scoring.core.invocation import Invocation, InvocationEvent, InvocationEvents
from agent_eval_scoring.evalset.models import EvalCase

WORDS = (Path(__file__).parent.parent / "docs" / "statistics.md").read_text("utf-8").split()


def text(random_: random.Random, words: int) -> str:
    """Words of prose in random order."""
    return " ".join(random_.choices(WORDS, k=words))


def turn(random_: random.Random) -> Invocation:
    """A turn with two tool calls: about 3 KB of JSON."""
    events = []
    for number in range(2):
        args = {"query": text(random_, 4), "limit": random_.randrange(100)}
        response = {"items": [{"id": random_.randrange(10**6), "title": text(random_, 20)} for _ in range(3)]}
        call = Part(
            function_call=FunctionCall(id=f"call-{random_.randrange(10**9)}", name=f"search_{number}", args=args)
        )
        reply = Part(function_response=FunctionResponse(id=None, name=f"search_{number}", response=response))
        events.append(InvocationEvent(author="shop", content=Content(role="model", parts=[call])))
        events.append(InvocationEvent(author="shop", content=Content(role="user", parts=[reply])))
    return Invocation(
        user_content=user_message(text(random_, 20)),
        final_response=model_message(text(random_, 60)),
        intermediate_data=InvocationEvents(invocation_events=events),
        duration=1.5,
    )


def case_report(number: int) -> CaseReport:
    """A case; every fifth fails."""
    failed = number % 5 == 0
    status, score = ("failed", 0.4) if failed else ("passed", 0.9)
    evidence = [TurnEvidence(turn=0, score=score, user="u", expected="e " * 100, actual="a " * 100, why=["few words"])]
    file = f"evals/shop_{number // 100}.evalset.json"
    metrics = [
        MetricReport(
            name=name,
            score=score,
            threshold=0.8,
            status=status,
            runs=[RunScore(run=0, score=score, status=status, evidence=evidence * failed)],
        )
        for name in ("tool_trajectory_avg_score", "response_match_score")
    ]
    run = RunResult(run_id=f"{file}:case_{number}#1", run=0, status=status, started_at=1.0, duration=4.5, turns=3)
    return CaseReport(
        case_id=f"{file}:case_{number}",
        file=file,
        line=number % 100 * 40,
        eval_set_id="shop",
        eval_id=f"case_{number}",
        status=status,
        fingerprint=str(number),
        metrics=metrics,
        runs=[run],
    )


def recording(case: CaseReport, seed: int) -> bytes:
    """A recorded run of a case."""
    random_ = random.Random(f"{case.case_id} {seed}")
    made = Recording(
        run_id=case.runs[0].run_id, case_id=case.case_id, file=case.file, eval_set_id=case.eval_set_id,
        eval_id=case.eval_id, run=0, fingerprint="f", invocations=[turn(random_) for _ in range(3)], started_at=1.0,
        duration=4.5,
    )  # fmt: skip
    return made.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"


def stored_case(case: CaseReport) -> bytes:
    """The eval case of a case."""
    random_ = random.Random(case.case_id)
    eval_case = EvalCase(eval_id=case.eval_id, conversation=[turn(random_) for _ in range(3)])
    made = StoredCase(
        case_id=case.case_id, file=case.file, eval_set_id=case.eval_set_id, fingerprint=case.fingerprint, case=eval_case
    )
    return made.model_dump_json(exclude_unset=True, exclude_none=True).encode() + b"\n"


def make_results(folder: Path, count: int) -> RunReport:
    """An output directory with recordings of both sides."""
    cases = [case_report(number) for number in range(count)]
    (folder / BASELINE_RECORDINGS).parent.mkdir(parents=True, exist_ok=True)
    write_lines(folder / FILES["recordings-file"], (recording(case, 1) for case in cases))
    write_lines(folder / FILES["cases-file"], map(stored_case, cases))
    write_lines(folder / BASELINE_RECORDINGS, (recording(case, 2) for case in cases if case.status == "failed"))
    return RunReport(
        tool_version="1", verdict="failed", started_at=1.0, duration=1.0, num_runs=1, min_pass_rate=1.0, cases=cases
    )


def memory(field: str) -> int:
    """Kilobytes of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure(count: int, keep: Path | None) -> Iterator[str]:
    """One row: cases, seconds, seconds of CPU, megabytes of memory, size and step of the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = make_results(folder, count)
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # Resets VmHWM.
        before, begin, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
        path = (keep or folder) / f"report-{count}.html"
        with folder_source(report, folder, links=Links()) as source:
            written = write_page(path, source)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        yield from (f"{count:,}", f"{seconds:.2f} s", f"{cpu:.2f} s", f"{(memory('VmHWM') - before) / 1024:.0f} MB")
        yield from (f"{written.size / 1e6:.2f} MB", str(written.level))


def main() -> int:
    """Prints a row for each number of cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", type=int, default=[5, 50, 5_000])
    parser.add_argument("--keep", type=Path, help="folder for the pages, to measure them in a browser")
    arguments = parser.parse_args()
    list(measure(1, None))  # Imports and compiles what all need.
    print("| cases | time | of it CPU | memory | file | step |\n|--:|--:|--:|--:|--:|--:|")
    for count in arguments.cases:
        print("|", " | ".join(measure(count, arguments.keep)), "|", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
