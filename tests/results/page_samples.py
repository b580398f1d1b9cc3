"""Recordings, eval cases and reports for the page, and a reader of what the page contains."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import recording_samples
from report_samples import TRAJECTORY, case, metric, report

from agent_eval_results import CaseReport, CaseStatus, Recording, RunReport
from agent_eval_results.report.html import PageSource, Written, unpacked, write_page
from agent_eval_scoring.core.content import Part
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.evalset.models import EvalCase


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page that was written, read as the browser reads it."""

    written: Written
    html: str
    index: Mapping[str, Any]
    blocks: Sequence[Sequence[Mapping[str, Any]]]

    @property
    def cases(self) -> Mapping[str, Mapping[str, Any]]:
        """The cases of all blocks by id."""
        return {case["id"]: case for block in self.blocks for case in block}

    def column(self, name: str) -> list[Any]:
        """A column of the index."""
        return list(self.index["cases"][name])


def page_of(folder: Path, source: PageSource | RunReport, **options: Any) -> Page:
    """Writes a page and reads it."""
    path = folder / "report.html"
    source = source if isinstance(source, PageSource) else PageSource(report=source)
    written = write_page(path, source, **options)
    html = path.read_text("utf-8")
    templates = dict(re.findall(r'<template id="([a-z0-9]+)">([A-Za-z0-9+/=]*)</template>', html))
    index = unpacked(templates["index"])
    blocks = [unpacked(templates[f"b{number}"])["cases"] for number in range(index["blocks"])]
    assert len(templates) == index["blocks"] + 1
    return Page(written=written, html=html, index=index, blocks=blocks)


def called(name: str, value: Mapping[str, Any], **args: Any) -> list[Part]:
    """A tool call with its response."""
    return recording_samples.called(name, value, id=f"id-{name}", **args)


def turn(user: str, answer: str | None, *parts: Part) -> Invocation:
    return recording_samples.actual(user, answer, *parts, duration=0.5)


def recording(of: CaseReport, run: int, *turns: Invocation) -> Recording:
    result = next((item for item in of.runs if item.run == run), None)
    started_at = (result.started_at or 0.0) if result is not None else 0.0
    facts = {"file": of.file, "case_id": of.case_id, "eval_set_id": of.eval_set_id}
    run_id = result.run_id if result is not None else f"{of.case_id}#{run + 1}"
    return recording_samples.recording(of.eval_id, *turns, run=run, run_id=run_id, started_at=started_at, **facts)


def eval_case(of: CaseReport, *turns: Invocation) -> EvalCase:
    return EvalCase(eval_id=of.eval_id, conversation=list(turns))


def source_of(
    made: RunReport,
    recordings: Iterable[Recording],
    cases: Mapping[str, EvalCase] | None = None,
    base: Iterable[Recording] = (),
) -> PageSource:
    head, stored = list(recordings), list(base)
    return PageSource(
        report=made,
        recordings=lambda case_id: [item for item in head if item.case_id == case_id],
        cases=(cases or {}).get,
        baseline_recordings=lambda case_id: [item for item in stored if item.case_id == case_id],
    )


def big(count: int, *, size: int, statuses: Sequence[CaseStatus] = ("passed", "failed")) -> PageSource:
    """A report of many cases whose tool responses have about `size` characters."""
    cases = [
        case(f"case_{n}", statuses[n % len(statuses)], metric(TRAJECTORY, 1.0, threshold=1.0)) for n in range(count)
    ]
    by_id = {item.case_id: item for item in cases}

    def recordings(case_id: str) -> Iterable[Recording]:
        text = base64.b64encode(Random(case_id).randbytes(size)).decode()[:size]  # Compresses badly.
        return [recording(by_id[case_id], 0, turn("Which?", "None.", *called("find", {"text": text}, room="x")))]

    return PageSource(report=report("failed", cases), recordings=recordings)
