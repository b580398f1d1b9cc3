"""Cases as sections of a text show them: in full, in a line, or by name. Plain data; the renderers escape it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.core.text import shorten
from agent_eval.report.views import conversation, grouping
from agent_eval.report.views._causes import Cause, error_examples
from agent_eval.report.views._findings import Finding, base_note, findings, reason_lines
from agent_eval.report.views._visible import visible
from agent_eval.report.views.detail import Detail
from agent_eval.report.views.digest import case_name, failed_word
from agent_eval.report.views.grouping import BaseComparison
from agent_eval.report.views.links import file_reference
from agent_eval.results import CaseReport

_MOST_ERRORS = 3
_ARROWS: Mapping[str, str] = {"call": "→ ", "response": "← ", "expected call": ""}
_HEADINGS: Mapping[str, str] = {
    "user": "User",
    "said": "On the way",
    "expected said": "Expected on the way",
    "expected call": "Expected calls",
    "answer": "Answer",
    "expected answer": "Expected",
    "actual": "Actual",
}


def explained_cases(
    cases: Sequence[CaseReport], base: BaseComparison, detail: Detail, *, opened: int
) -> list[dict[str, Any]]:
    """Cases with the lines that say why they did not pass; the first `opened` ones also with their turns."""
    return [_explained(case, base, detail, opened=number < opened) for number, case in enumerate(cases)]


def _explained(case: CaseReport, base: BaseComparison, detail: Detail, *, opened: bool) -> dict[str, Any]:
    view = conversation.case_view(case, turns=detail.turns) if opened and detail.side else None
    details: Sequence[Finding] = ()
    if opened:
        details = findings(case) if view is None else view.findings
    has_more = view is not None or any(finding.log for finding in details)
    label, evidence = grouping.change_label(case, base)
    notes = grouping.metric_base_notes(base.changes.get(case.case_id), base.branch)
    return {
        "name": detail.shorten(case_name(case)),
        "case_id": case.case_id,
        "place": file_reference(case.file, case.line),
        "mark": case.status,
        "ended": word if (word := failed_word(case)) in {"crashed", "timed out"} and case.status == "failed" else "",
        "tag": label,
        "evidence": detail.shorten(evidence),
        "why": [shorten(line, detail.name) for line in reason_lines(case, base_notes=notes)],
        "findings": [_finding(finding, detail, notes) for finding in details] if has_more else [],
        "turns": [] if view is None else [_turn(view, turn, detail) for turn in view.turns],
        "more_turns": 0 if view is None else view.turns_left_out,
        "label": "Traceback and log" if view is None else "What the agent did, turn by turn",
    }


def _finding(finding: Finding, detail: Detail, notes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "summary": shorten(finding.summary, detail.name) + base_note(finding, notes),
        "lines": [detail.shorten(line) for line in finding.lines[:20]],
        "log": log_text(finding.log, detail),
    }


def _turn(view: conversation.CaseView, turn: conversation.TurnView, detail: Detail) -> dict[str, Any]:
    """A turn as blocks in reading order; consecutive calls and responses are one block of code."""
    blocks: list[dict[str, Any]] = []
    rows = conversation.rows(
        turn, text=detail.side, code=min(detail.side, 1_000), steps=20 if detail.turns > 2 else 6, details=5
    )
    for row in rows:
        text = _visible(row.text, max(detail.side, 60))
        heading = _HEADINGS.get(row.kind, "")
        if row.kind in conversation.CODE:
            if not blocks or blocks[-1]["kind"] != "code" or blocks[-1]["heading"] != heading:
                blocks.append({"kind": "code", "heading": heading, "text": [], "details": []})
            blocks[-1]["text"].append(_ARROWS[row.kind] + text)
        elif row.kind == "detail":
            blocks[-1]["details"].append(text)
        else:
            kind = "verdict" if row.kind == "verdict" else "prose"
            mark = "failed" if row.wrong else "errored"
            blocks.append({"kind": kind, "mark": mark, "heading": heading, "text": [text], "details": []})
    return {"title": view.title(turn), "blocks": blocks}


def _visible(value: str, limit: int) -> str:
    """The visible text. It is cut before it is made visible, which makes it longer, and again after that."""
    return shorten(visible(shorten(value, limit)), limit)


def log_text(log: str, detail: Detail) -> str:
    """The end of a traceback or a log, which says what happened."""
    shown = visible(log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return shown if len(shown) <= detail.log else "…" + shown[len(shown) - detail.log :]


def cases_before_errors(
    causes: Sequence[Cause], base: BaseComparison, detail: Detail, *, opened: int
) -> list[dict[str, Any]]:
    """What the agent did before an error, for one case of each cause. The cause itself has the traceback."""
    examples = error_examples(causes)[: max(min(opened, _MOST_ERRORS), 0)]
    return explained_cases(examples, base, dataclasses.replace(detail, log=0), opened=len(examples))


def listed_cases(cases: Sequence[CaseReport], base: BaseComparison, detail: Detail) -> dict[str, Any] | None:
    """Cases for a table with a line for each; None if there are none."""
    if not cases:
        return None
    return {
        "cases": explained_cases(cases[: detail.listed], base, detail, opened=0),
        "more": max(len(cases) - detail.listed, 0),
        "count": len(cases),
    }


def named_cases(cases: Sequence[CaseReport], detail: Detail) -> dict[str, Any] | None:
    """Cases of which only the names are shown; None if there are none."""
    if not cases:
        return None
    names = [detail.shorten(case_name(case)) for case in cases[: detail.listed]]
    return {"names": names, "more": len(cases) - len(names)}


def cases_by_reason(groups: Sequence[tuple[str, list[CaseReport]]], detail: Detail) -> list[tuple[str, int, list[str]]]:
    """Reasons with the number of their cases and the first names."""
    return [
        (detail.shorten(reason), len(cases), [detail.shorten(case_name(case)) for case in cases[:5]])
        for reason, cases in groups[: detail.listed]
    ]
