"""Traces of other frameworks as the agent: which conversation answers which case, and what the gate makes of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gate_runs import Repository, eval_case, told
from golden_files import check
from trace_samples import chat, said, session, span, tool, traced, used

TRACES = Path(__file__).parents[1] / "data" / "traces"
COMPARE = eval_case(
    "compare",
    (
        "Compare the weather in Rome and Oslo",
        [("get_weather", {"city": city}) for city in ("Rome", "Oslo")],
        "Rome has 20 degrees, Oslo 20.",
    ),
    ("And in Atlantis?", [("get_weather", {"city": "Atlantis"})], "I know nothing of Atlantis."),
)
HELLO = eval_case("hello", ("Hello", [], "Hi, ask me about the weather."))
EXPERT = eval_case(
    "expert", ("Ask the expert about Rome", [("ask_expert", {"question": "Rome"})], "The expert says: Rome is old.")
)
CRITERIA = {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}


def of_weather(repo: Repository, *cases: dict[str, Any]) -> Repository:
    content = {"eval_set_id": "weather", "eval_cases": list(cases)}
    repo.write({"evals/weather.evalset.json": content, "evals/test_config.json": {"criteria": CRITERIA}})
    return repo


def test_run__traces_of_each_framework(repository: Repository) -> None:
    """The same agent in five frameworks, with session ids and (Pydantic AI) without: the same scores."""
    of_weather(repository, COMPARE, HELLO, EXPERT)
    for path in sorted(TRACES.glob("*.jsonl")):
        shutil.copy(path, repository.root)
        done = repository.gate("run", "--agent", f"recorded:{path.name}", code=0)
        scores = {metric.score for case in done.report.cases for metric in case.metrics if metric.name in CRITERIA}
        assert scores == {1.0}, path.name
    lines = (repository.root / "langgraph.jsonl").read_text("utf-8").splitlines()
    (repository.root / "split").mkdir()
    for number, part in enumerate((lines[:9], lines[9:])):
        (repository.root / "split" / f"{number}.jsonl").write_text("\n".join(part), "utf-8")
    repository.gate("run", "--agent", "recorded:split", code=0)


SECRET = "".join(("sk", "-live-", "0123456789abcdef"))
CITY = {"city": "Rome"}
ASK, ANSWER = said("user", "Rome?"), said("assistant", "Warm.")
ROME = eval_case("rome", ("Rome?", [("weather", CITY)], "Warm."))


def rome(trace: str, *, answer: str = "Warm.", start: int = 10, **attributes: str) -> list[dict[str, Any]]:
    """A trace in which the tool is called, as `ROME` expects."""
    spans = [*chat([ASK], [used("weather", CITY)], start=start), tool("weather", CITY, "20", start=start + 2)]
    spans += chat([ASK], [said("assistant", answer)], start=start + 4)
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return traced(trace, [{**one, "attributes": {**one["attributes"], **named}} for one in spans])


OTHER = {**ROME, "eval_id": "rome_2"}
TWO = [*rome("t1"), *rome("t2", start=90, answer="Cold.")]
FAILED = {**span("agent", gen_ai__operation__name="invoke_agent", session__id="rome"), "status": {"code": 2}}
WITHOUT_ID = [{**one, "status": {"code": 2, "message": "boom"}} for one in rome("t1")[:1]] + rome("t1")[1:2]
SITUATIONS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "matched by the first message": (rome("t1"), [ROME], []),
    "an exception, known by its first message": (WITHOUT_ID, [ROME], []),
    "a wrong answer": (rome("t1", answer="Cold."), [ROME], []),
    "matched by an attribute, whatever else was asked": (
        [*rome("t1", answer="No."), *rome("t2", start=90, agent_eval__case__id="rome")], [ROME], []),
    "by the id of a file's case": (rome("t1", agent_eval__case__id="evals/weather.evalset.json:rome"), [ROME], []),
    "by the session's id, with a number": (
        [*rome("t1", session__id="rome#1"), *rome("t2", start=90, session__id="rome#2")], [ROME], ["--num-runs", "2"]),
    "another case's id": (rome("t1", agent_eval__case__id="oslo"), [ROME], []),
    "several conversations are the runs": (TWO, [ROME], ["--num-runs", "2"]),
    "more conversations than runs": (TWO, [ROME], []),
    "more runs than conversations": (rome("t1"), [ROME], ["--num-runs", "2"]),
    "two cases with one message": (TWO, [ROME, OTHER], []),
    "the same, one of them with an id": (
        [*rome("t1"), *rome("t2", start=90, test__case__name="rome_2")], [ROME, OTHER], []),
    "no conversation of a case": (rome("t1"), [ROME, HELLO], []),
    "without contents": (chat(None, None), [ROME], []),
    "the agent's exception": ([{**FAILED, "events": [("exception", {"exception.type": "KeyError"})]}], [ROME], []),
    "its model's provider": ([{**FAILED, "events": [("exception", {
        "exception.type": "openai.RateLimitError", "exception.message": "429 Too Many Requests"})]}], [ROME], []),
    "without the turn that follows": (
        rome("t1", session__id="s"), [{**ROME, "conversation": ROME["conversation"] * 2}], []),
    "an agent whose calls can't be seen": ([span(
        "a", gen_ai__operation__name="invoke_agent", gen_ai__input__messages=json.dumps([ASK]),
        gen_ai__output__messages=json.dumps([ANSWER]))], [eval_case("rome", ("Rome?", [], "Warm."))], []),
    "a secret": (rome("t1", answer=f"Warm {SECRET}"), [ROME], []),
}  # fmt: skip


def test_run__which_conversation_answers_which_case(repository: Repository) -> None:
    texts = []
    for name, (spans, cases, arguments) in SITUATIONS.items():
        of_weather(repository, *cases).write({"traces.json": session("", spans, otlp=True)})
        done = repository.gate(
            "run", "--agent", "recorded:traces.json", *arguments, environment={"OPENAI_API_KEY": SECRET}
        )
        texts.append(
            f"{name}: exit 2\n  {' '.join(done.out.split()).partition(' Invalid: ')[0]}\n\n"
            if done.code == 2
            else told(name, done)
        )
        assert SECRET not in done.out + done.err + json.dumps(done.report.model_dump(mode="json"))
    check("golden_gate/traces.txt", "".join(texts))
