"""Indexes of reports with many cases, as `report/html` writes them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from report_pages_of_data import real_index

STATUSES = ("passed", "failed", "errored", "not_run")
CHANGES = (None, "newly_failing", "fixed", "still_failing", "changed", "added", "removed", "unjudged", "renamed")
WORDS = (None, "regression", "worse", "suspected regression", "flaky as before", "fixed", "better", "unchanged")
FILES = ("evals/home.evalset.json", "evals/Billing/refunds.evalset.json", "évals/ナ.json")
AGENTS = ("home_agent", "billing.Agent")
TOOLS = ("set_status", "list_devices", "Refund")
TAGS = ("blocking", "flaky", "quarantined", "new")
METRICS = ("response_match_score", "my metric<1")
NUMBERS = (None, 0, 0.5, 0.8, 1, 30, 5000, "nan", "inf", "-inf")
TEXTS = ("Lamp on", "the lamp: off", 'say "hello"', "ΣΊΣΥΦΟΣ", "温度を上げて", "flaky", "a-b", "")


def row(position: int, choice: random.Random) -> dict[str, Any]:
    """One case, by the names of the index's columns, with texts instead of places in `strings`."""
    pick = choice.choice
    return {
        "eval_id": f"{pick(('lamp', 'door', 'Σtart'))}_{position}",
        "file": pick(FILES),
        "line": pick((None, 7)),
        "agent": pick(AGENTS),
        "status": pick(STATUSES),
        "change": pick(CHANGES),
        "word": pick(WORDS),
        "tags": choice.sample(TAGS, choice.randrange(3)),
        "why": pick(TEXTS),
        "scores": [pick(NUMBERS) for _ in METRICS],
        "deltas": [pick((None, 0, 0.25, -0.5)) for _ in METRICS],
        "ok": [pick((None, 0, 1)) for _ in METRICS],
        "seconds": pick((0, 0.5, 30, 31.5)),
        "tokens": pick((None, 0, 5000, 5001)),
        "cost": pick((None, 0, 0.01, 0.25)),
        "runs_passed": 1,
        "runs": pick((0, 1, 3)),
        "base_passed": 4,
        "base_runs": 4,
        "base_seconds": 1.25 if position % 2 else None,
        "base_tokens": 4000 if position % 3 else None,
        "history": pick(("", "1101", "x?01")),
        "records": "0 1 2 3",
        "user": pick(TEXTS),
        "tools": choice.sample(TOOLS, choice.randrange(3)),
        "block": -1,
        "removed": 0,
    }


def index_of_rows(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str] = METRICS) -> dict[str, Any]:
    """An index with these cases, and the rest of a real one."""
    index, strings = real_index(), list[str]()

    def place(text: str) -> int:
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    columns: dict[str, list[Any]] = {name: [item[name] for item in rows] for name in rows[0]}
    columns["id"] = [f"{item['file']}:{item['eval_id']}" for item in rows]
    for name in ("file", "agent", "records"):
        columns[f"{name}_s"] = [place(text) for text in columns.pop(name)]
    columns["tools"] = [[place(text) for text in texts] for texts in columns["tools"]]
    columns.setdefault("group", [int(status == "passed") for status in columns["status"]])
    order = sorted(range(len(rows)), key=lambda i: (rows[i]["status"] == "passed", i))
    columns["rank"] = [order.index(i) for i in range(len(rows))]
    counts = {status: columns["status"].count(status) for status in STATUSES}
    counts |= {tag: sum(tag in item["tags"] for item in rows) for tag in ("blocking", "flaky", "quarantined")}
    counts |= {change: columns["change"].count(change) for change in ("newly_failing", "fixed")}
    counts["suspected"] = columns["word"].count("suspected regression")
    plain = index["metrics"][0] | {"passed": 1, "failed": 1, "not_evaluated": 0, "history": []}
    return index | {
        "header": index["header"] | {"counts": counts},
        "metrics": [plain | {"name": name} for name in metrics],
        "recorded": [1_795_000_000 + number * 86_400 for number in range(4)],
        "strings": strings,
        "cases": columns,
        "causes": [],
        "blocks": 0,
    }
