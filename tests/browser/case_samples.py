"""Data of the report page, as `report/html` writes it: cases with every kind of content that the case view shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from list_samples import index_of_rows

SERVER = "https://github.example"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


def text(*lines: str) -> list[dict[str, Any]]:
    """The parts of a message."""
    return [{"text": line} for line in lines]


def call(name: str, args: Mapping[str, Any], *, key: str = "", agent: str = "home", branch: str = "") -> dict[str, Any]:
    """A step of a turn."""
    return {"kind": "call", "agent": agent, "branch": branch, "id": key, "name": name, "args": dict(args)}


def response(name: str, value: object, *, key: str = "", agent: str = "home", branch: str = "") -> dict[str, Any]:
    """A step of a turn."""
    return {"kind": "response", "agent": agent, "branch": branch, "id": key, "name": name, "value": value}


def said(words: str, *, agent: str = "home", branch: str = "") -> dict[str, Any]:
    """A step of a turn."""
    return {"kind": "text", "agent": agent, "branch": branch, "parts": text(words)}


def turn(
    user: str,
    steps: Sequence[Mapping[str, Any]] = (),
    answer: str | None = None,
    *,
    align: Sequence[tuple[int | None, int | None]] | None = None,
    spans: Sequence[Mapping[str, Any]] = (),
    seconds: float | None = None,
) -> dict[str, Any]:
    """A turn of a run, or an expected one."""
    return {
        "user": text(user),
        "steps": list(steps),
        "answer": None if answer is None else text(answer),
        "seconds": seconds,
        "spans": list(spans),
        "align": align and [list(pair) for pair in align],
    }


def span(kind: str, name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    """A span of a turn."""
    counts = dict.fromkeys(("input_tokens", "output_tokens", "contents"))
    return {"kind": kind, "name": name, "start": start, "end": end, "agent": "home", "call_id": "", "attempts": []} | {
        **counts,
        **more,
    }


def run(key: str, status: str, turns: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A run of a case, e.g. with the key `head:0`."""
    side, number = key.split(":")
    labels = {"head": "run", "confirm": "extra run", "base": "main, run", "base-stored": "main, stored run"}
    return {
        "key": key,
        "side": "base" if side.startswith("base") else "head",
        "run": int(number),
        "label": f"{labels[side]} {int(number) + 1}",
        "status": status,
        "error": None,
        "seconds": 1.5,
        "usage": {"model_calls": 2, "input_tokens": 1200, "output_tokens": 80},
        "attempts": 1,
        "stop_reason": None,
        "turns": list(turns),
        "left_out": None,
        **more,
    }


def metric(name: str, status: str, score: float | str | None, threshold: float | None, **more: Any) -> dict[str, Any]:
    """A metric of a case."""
    shown: dict[str, Any] = {
        "name": name,
        "score": score,
        "threshold": threshold,
        "status": status,
        "note": "",
        "runs": [],
    }
    unknown = dict.fromkeys(("judge", "reason", "base", "delta"))
    return {**shown, "direction": "higher", "blocking": True, **unknown, **more}


def run_score(key: str, status: str, score: float | str | None, **more: Any) -> dict[str, Any]:
    """The score of a metric in a run."""
    empty = {name: list[Any]() for name in ("turn_scores", "evidence", "votes", "rubrics")}
    rest: dict[str, Any] = {"reason": None, "agreement": None, "close": False, "details": {}}
    return {"key": key, "score": score, "status": status, **empty, **rest, **more}


def evidence(turn_index: int, score: float, *why: str, **texts: str) -> dict[str, Any]:
    """What lowered the score of a turn."""
    return {"turn": turn_index, "score": score, "user": "", "expected": "", "actual": "", "why": list(why), **texts}


def case(case_id: str, runs: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A case of a block."""
    return {
        "id": case_id,
        **dict.fromkeys(("reason", "expected", "base_note", "history")),
        **{name: [] for name in ("findings", "notes", "decision", "metrics", "changed")},
        "runs": list(runs),
        "command": "agent-eval run evals/home.test.json",
        **more,
    }


def cause(count: int, example: str, **more: Any) -> dict[str, Any]:
    """A cause of failing cases, as the index has it."""
    return {
        "title": 'find_devices returned {"devices": []}',
        "line": "find_devices returns nothing",
        "evidence": f"In {count} of {count} failing cases and 0 of 1 passing one; on main in none of 10 runs.",
        "hint": "",
        "count": count,
        "command": "agent-eval run evals/home.test.json:lamp",
        "places": [{"file": "home/tools.py", "first": 42, "last": 47, "symbol": "find_devices"}],
        "lead": "Changed here",
        "call": 'find_devices(room="Living Room")',
        "now": '{"devices": []}',
        "base": '{"devices": [{"id": "lamp"}]}',
        "base_name": "main",
        "example": {"case": example, "run": "head:0", "turn": 2},
        "agent": True,
        **more,
    }


def lamp_case() -> dict[str, Any]:
    """A failed case of three turns, the second one wrong, with a base run, votes, spans and a history."""
    expected = [
        turn("Hello.", [], "Hello! What can I do for you?"),
        turn(
            "Switch on the lamp in the living room, please.",
            [call("find_devices", {"room": "living room"}), call("set_device", {"id": "lamp", "on": True})],
            "The living room lamp is on.",
        ),
        turn("Thanks.", [], "You are welcome."),
    ]
    hello = turn("Hello.", [], "Hello! What can I do for you?", align=[])
    lookup = call("find_devices", {"room": "Living Room"}, key="c1")
    first = {"attempts": [429, None], "input_tokens": 600, "output_tokens": 30, "contents": 3}
    spans = [
        span("model", "gemini-2.5-flash", 0.0, 0.9, **first),
        span("tool", "find_devices", 0.9, 1.1, call_id="c1"),
        span("model", "gemini-2.5-flash", 1.1, 1.6, input_tokens=640, output_tokens=20),
    ]
    failed = turn(
        "Switch on the lamp in the living room, please.",
        [
            lookup,
            response("find_devices", {"devices": []}, key="c1"),
            call("notify", {"text": "nothing there"}, key="c2"),
            response("notify", {"error": "offline"}, key="c2"),
        ],
        "I could not find a lamp in the living room.",
        align=[(0, 0), (1, None), (None, 1)],
        spans=spans,
        seconds=1.7,
    )
    failed["requests"] = [
        {"agent": "home", "instructions": "Look a device up first.", "tools": ["find_devices", "notify"]}
    ]
    devices = {
        "devices": [
            {"id": "lamp", "room": "living room", "on": False, "level": None, "watts": 7.5},
            {"id": "fan", "room": "living room", "on": True, "level": 2, "watts": 30},
        ]
    }
    good = turn(
        "Switch on the lamp in the living room, please.",
        [
            call("find_devices", {"room": "living room"}, key="b1"),
            response("find_devices", devices, key="b1"),
            said("I switch it on."),
            call("set_device", {"id": "lamp", "on": True}, key="b2"),
            response("set_device", {"ok": True}, key="b2"),
        ],
        "The lamp in the living room is on.",
        align=[(0, 0), (1, 1)],
    )
    thanks = turn("Thanks.", [], "You are welcome.", align=[])
    said_no = "The reference says that the lamp is on."
    votes = [
        {"turn": 1, "verdict": "invalid", "score": 0.0, "text": said_no, "rubric": None},
        {"turn": 1, "verdict": "valid", "score": 1.0, "text": "Honest about what it found.", "rubric": None},
    ]
    rubric = {"id": "polite", "text": "yes", "score": 1.0, "turn": 1, "agreement": 0.67, "close": True}
    why = ("1 of 2 expected calls matched", 'missing: set_device(id="lamp", on=True) (expected as call 2)')
    lines = [f"turn 2: {line}" for line in why]
    trajectory = run_score("head:0", "failed", 0.5, turn_scores=[1, 0.0, 1], evidence=[evidence(1, 0.0, *why)])
    judged = run_score("head:0", "passed", 0.67, votes=votes, agreement=0.5, close=True, rubrics=[rubric])
    tokens = run_score("head:0", "informational", 1280.0)
    numbers = {"evidence": "0 of 5 now, 10 of 10 on main", "would_decide": None, "p_value": 0.0004}
    records = [
        {"commit": f"{n}f0c1d2e3a4b", "time": 1_795_000_000 + n * 86_400, "url": f"{SERVER}/o/r/actions/runs/{n}"}
        for n in range(6)
    ]
    return case(
        "evals/home.test.json:lamp",
        [
            run("head:0", "failed", [hello, failed, thanks]),
            run("head:1", "failed", [hello, failed, thanks]),
            run("confirm:2", "passed", [hello, good]),
            run("base:0", "passed", [hello, good, thanks]),
        ],
        expected=expected,
        findings=[{"summary": "tool_trajectory_avg_score 0.50, needs 1.00", "lines": lines, "log": ""}],
        notes=["quarantined until 2026-12-01: flaky since the model changed (owner: home team)"],
        decision=[{"metric": "pass", "word": "regression", **numbers}],
        metrics=[
            metric("tool_trajectory_avg_score", "failed", 0.5, 1.0, base=1.0, delta=-0.5, runs=[trajectory]),
            metric("final_response_match_v2", "passed", 0.67, 0.6, judge="gemini-2.5-flash", runs=[judged]),
            metric("token_usage_v1", "informational", 1280.0, None, direction="lower", runs=[tokens]),
        ],
        history={
            "outcomes": "110x?1",
            "records": records,
            "scores": {"tool_trajectory_avg_score": [1, 1, 0.5, None, None, 1]},
            "sentence": "failed 1 of 6 since 2f0c1d2e",
        },
    )


def agents_case() -> dict[str, Any]:
    """A passed case with sub-agents, a simulated user, attachments and a failed call; without expectations."""
    steps = [
        call("transfer_to_agent", {"agent_name": "search"}, key="t", agent="root", branch="root"),
        response("transfer_to_agent", None, key="t", agent="root", branch="root"),
        call("lookup", {"q": "灯"}, key="a", agent="search", branch="root.search"),
        call("lookup", {"q": "مصباح"}, key="b", agent="search", branch="root.search"),
        response("lookup", {"error": "timeout"}, key="b", agent="search", branch="root.search"),
        response("lookup", {"hits": list(range(40))}, key="a", agent="search", branch="root.search"),
        said("Two lookups.", agent="search", branch="root.search"),
    ]
    first = turn("灯を消してください。", steps, "照明を消しました。")
    first["answer"] += [
        {"thought": "The user speaks Japanese."},
        {"inline": {"mime": "image/png", "bytes": 70, "data": PIXEL}},
        {"inline": {"mime": "image/svg+xml", "bytes": 70, "data": None}},
        {"file": {"uri": "gs://bucket/light.pdf", "mime": "application/pdf"}},
        {"other": {"executable_code": {"code": "1 + 1"}}},
    ]
    base = turn("灯りを消して。", [], "照明をつけました。")
    return case("evals/agents.test.json:灯", [run("head:0", "passed", [first]), run("base:0", "passed", [base])])


def errored_case() -> dict[str, Any]:
    """A case whose agent raised in its second turn."""
    error = {
        "kind": "agent-exception",
        "owner": "agent",
        "message": "KeyError: 'lamp'",
        "hint": "See the traceback.",
        "traceback": "Traceback (most recent call last):\n  File \"agent.py\", line 3\nKeyError: 'lamp'",
        "log_tail": "2026-11-22 ERROR no lamp",
        "turn": 1,
    }
    turns = [turn("Hello.", [], "Hello."), turn("Lamp on.", [call("find", {}, key="x")])]
    finding = {"summary": "agent-exception in turn 2: KeyError: 'lamp'", "lines": ["See the traceback."], "log": ""}
    return case(
        "evals/home.test.json:error",
        [run("head:0", "errored", turns, error=error)],
        findings=[finding],
        base_note="The base branch has no recordings of this case.",
    )


def older_case() -> dict[str, Any]:
    """A case of results without recordings: only excerpts."""
    excerpt = evidence(0, 0.2, "missing words: lamp", user="Lamp on.", expected="The lamp is on.", actual="No.")
    score = run_score("head:0", "failed", "nan", evidence=[excerpt])
    left_out = run("head:0", "failed", [], left_out="These results hold no recordings.")
    return case(
        "evals/home.test.json:older",
        [left_out],
        metrics=[metric("response_match_score", "failed", "nan", 0.8, runs=[score])],
        reason={"code": "below-threshold", "message": "below the threshold"},
    )


def _row(item: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a case in the list."""
    statuses = [one["status"] for one in item["runs"]]
    head = [one["status"] for one in item["runs"] if one["side"] == "head"]
    decision, history = item["decision"], item["history"]
    compared = 10 if decision else 0
    return {
        "eval_id": item["id"].rpartition(":")[2],
        "file": "evals/home.test.json",
        "line": 6,
        "agent": "agents/home",
        "status": head[0] if head else "not_run",
        "change": item.get("change") or ("newly_failing" if decision else None),
        "word": decision[0]["word"] if decision else None,
        "tags": ["blocking", "regression"] if decision else [],
        "why": item["findings"][0]["summary"] if item["findings"] else "",
        **{"scores": [], "deltas": [], "ok": [], "tools": ["find_devices"]},
        **{"seconds": 1.5, "tokens": 1280, "cost": None, "user": "Switch on the lamp."},
        **{"runs_passed": statuses.count("passed"), "runs": len(statuses)},
        **{"base_passed": compared, "base_runs": compared, "block": 0, "removed": 0},
        **({"base_seconds": 1.2, "base_tokens": 1100} if decision else {"base_seconds": None, "base_tokens": None}),
        "group": int(all(status == "passed" for status in statuses)),
        "history": history["outcomes"] if history else "",
        "records": "0 1 2 3 4 5" if history else "",
    }


def index_of(cases: Sequence[Mapping[str, Any]], trend: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The index of a report with these cases, all in block 0."""
    index = index_of_rows([_row(item) for item in cases], ["tool_trajectory_avg_score"])
    index["cases"] |= {"id": [item["id"] for item in cases], "rank": list(range(len(cases)))}
    index["metrics"][0] |= {"now": 0.5, "base": 1.0, "delta": -0.5, "threshold": 1.0, "gates": True, "passed": 0}
    header = index["header"]
    header["counts"] = dict.fromkeys(header["counts"], 0)
    header["origin"] |= {"repository": "o/r", "run_url": f"{SERVER}/o/r/actions/runs/1", "started_at": 1_795_000_000}
    header |= {"exit_code": 1, "sentence": "1 regression vs. main", "problems": [], "notices": []}
    header["next"] = [
        {"text": "Look at ", "file": None, "line": None, "run": False},
        {"text": "home/tools.py:42-47", "file": "home/tools.py", "line": 42, "run": False},
        {"text": ", or run `agent-eval accept`", "file": None, "line": None, "run": False},
    ]
    header["commands"] = [["Copy agent-eval accept", "agent-eval accept"]]
    header["spent"] |= {"tokens": 1280, "runs": 1, "bill": "$0.42 (agent $0.40, judges $0.02)"}
    header["source_url"] = f"{SERVER}/o/r/blob/5f0c1d2e/"
    return index | {"blocks": 1, "trend": trend, "recorded": [1_795_000_000 + day * 86_400 for day in range(6)]}


def trend_row(number: int, **more: Any) -> dict[str, Any]:
    """A run of the base branch."""
    return {
        "commit": f"{number:02d}0c1d2e3a",
        "run_url": f"{SERVER}/o/r/actions/runs/{number}",
        "time": 1_795_000_000 + number * 86_400,
        **{"cases": 20, "passed": 18 - number % 3, "failed": 2 + number % 3},
        **{"broke": 0, "quarantined": 0, "unknown": 0},
        "means": {"tool_trajectory_avg_score": 0.9 - 0.01 * number},
        **{"p50": 1.2, "p95": 4.5, "tokens": 1250.0, "cost": 0.012},
        **{"suite": "a" if number < 6 else "b", "judges": ["flash"], "adk": "2.13.0"},
        **more,
    }


def trend_of(count: int, *, head: bool = True) -> dict[str, Any]:
    """A trend whose suite changed at the seventh run."""
    rows = [trend_row(number) for number in range(count)]
    drift = ["tool_trajectory_avg_score fell by 0.05 in the newer half."] if count > 3 else []
    return {
        "branch": "main",
        "rows": rows,
        "notes": [],
        "drift": drift,
        "head": trend_row(count, passed=10, failed=10) if head else None,
    }


def reviewed_cases() -> list[dict[str, Any]]:
    """Two failing cases with one cause, one that is flaky, and a judged one that passes with a weak turn."""
    calm = turn("Hello.", [], "Hello.", align=[])
    coin = case(
        "evals/home.test.json:coin",
        [run("head:0", "failed", [calm]), run("head:1", "passed", [calm])],
        history={"outcomes": "1011", "records": [{}] * 4, "scores": {}, "sentence": "failed 1 of 4 runs"},
    )
    vote = {"turn": 1, "verdict": "valid", "score": 1.0, "text": "It says what was found.", "rubric": None}
    score = run_score("head:0", "passed", 0.8, votes=[vote, vote], evidence=[evidence(1, 0.4, "few words")])
    judged = case(
        "evals/home.test.json:judged",
        [run("head:0", "passed", [calm, turn("Lamp on.", [], "No lamp.", align=[]), calm])],
        expected=[calm, turn("Lamp on.", [], "The lamp is on."), calm],
        metrics=[metric("final_response_match_v2", "passed", 0.8, 0.6, judge="flash", runs=[score])],
    )
    return [lamp_case(), lamp_case() | {"id": "evals/home.test.json:fan"}, coin, judged]


def reviewed_index(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The index of the report with these cases."""
    index = index_of(cases, trend_of(10))
    index["cases"] |= {"group": [0, 0, 1, 2], "tags": [["blocking", "regression"]] * 2 + [["flaky"], []]}
    index["cases"]["why"][3] = "turn 2 of 3: final_response_match_v2 0.40, below 0.60"
    index["header"]["next"].append({"text": "lamp", "file": "evals/home.test.json", "line": 6, "run": False})
    index["header"]["baseline"] = {"sentence": "", "url": None, "name": "main", "commit": "", "commit_url": None}
    return index | {"causes": [cause(2, cases[0]["id"])]}
