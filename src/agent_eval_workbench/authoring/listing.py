"""What may be accepted, as rows and as text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_eval.core.problem import Problem
from agent_eval.core.text import plural
from agent_eval_workbench.authoring.acceptance import Offer, Options, propose_for, varies
from agent_eval_workbench.authoring.prospects import Prospect
from agent_eval_workbench.authoring.refusals import CaseRefused
from agent_eval_workbench.authoring.review_text import safe


def entries(offer: Offer, options: Options) -> list[dict[str, Any]]:
    """A row for each case: what would be accepted, or why nothing is."""
    rows = [_row(item, options) for item in offer.prospects]
    return rows + [_refused_row(refusal) for refusal in offer.refusals]


def list_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows for a terminal."""
    if not rows:
        return "There is nothing to accept.\n"
    offered = [row for row in rows if row["refusal"] is None]
    lines = [f"{plural(len(offered), 'case')} may be accepted, {len(rows) - len(offered)} not.", ""]
    lines += [line for row in rows for line in _lines(row)]
    return "\n".join(lines) + "\n"


def _refused_row(refusal: CaseRefused) -> dict[str, Any]:
    case = refusal.case
    return {
        "case_id": case.case_id,
        "file": case.file,
        "eval_id": case.eval_id,
        "line": case.line,
        "status": case.status,
        "label": "",
        "fields": [],
        "runs": len(case.runs),
        "run": None,
        "alike": None,
        "passing": None,
        "scores": {},
        "refusal": _reason(refusal.problem),
    }


def _row(item: Prospect, options: Options) -> dict[str, Any]:
    try:
        proposal = asyncio.run(propose_for(item, options))
    except CaseRefused as refusal:
        return {**_refused_row(refusal), "label": item.label, "runs": len(item.runs)}
    case = item.report
    row: dict[str, Any] = {
        "case_id": case.case_id,
        "file": case.file,
        "eval_id": case.eval_id,
        "line": case.line,
        "status": case.status,
        "label": item.label,
        "fields": list(proposal.fields),
        "runs": len(item.runs),
        "run": proposal.run.run + 1,
        "alike": proposal.alike,
        "passing": None,
        "scores": {},
        "refusal": None,
    }
    if options.rescore:
        row["passing"] = proposal.passing
        row["scores"] = {
            new.name: {"before": old.mean, "after": new.mean, "threshold": new.threshold}
            for old, new in zip(proposal.before, proposal.after, strict=True)
        }
    if not proposal.holds and options.run is None:
        row["refusal"] = _reason(varies(proposal).problem)
    return row


def _reason(problem: Problem) -> dict[str, str | None]:
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    refusal = row["refusal"]
    if refusal is not None:
        yield f"- {safe(row['file'] or '')}: {safe(refusal['message'])} [{refusal['code']}]"
        yield f"    {safe(refusal['hint'] or '')}"
        return
    parts = [safe(row["case_id"]), *([row["label"]] if row["label"] else []), ", ".join(row["fields"])]
    if row["runs"] > 1:
        parts.append(f"run {row['run']}, {row['alike']} of {row['runs']} runs alike")
    yield "+ " + " · ".join(parts)
    for name, score in row["scores"].items():
        before, after = ("no score" if score[side] is None else f"{score[side]:.2f}" for side in ("before", "after"))
        passing = f", {row['passing']} of {row['runs']} runs pass" if row["runs"] > 1 else ""
        yield f"    {name} {before} → {after}{passing}"
