"""benchmarks/gate_end_to_end.py: its model errs as often as it says, always alike; and what RESULTS.md quotes of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import city_guide
import draw_statistics
import gate_end_to_end as bench
import pytest
from fake_gemini import Answer, GenerateRequest

ROWS = draw_statistics.rows((Path(__file__).parents[2] / "benchmarks" / "RESULTS.md").read_text("utf-8"), "end to end")
QUESTIONS = [
    (subject, city, subject.question.format(city=city), rate)
    for subject in city_guide.SUBJECTS
    for city, rate in subject.rates.items()
]


def ask(model: city_guide.ErringModel, question: str, tools: dict[str, Any]) -> tuple[list[str], str]:
    """Leads a conversation to its end: the tools that were called, and the answer."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": question}]}]
    called: list[str] = []
    while True:
        answer = model(GenerateRequest(model="any", stream=False, body={"contents": contents}, headers={}))
        assert isinstance(answer, Answer)
        [part] = answer.parts
        if "text" in part:
            return called, part["text"]
        call = part["functionCall"]
        called.append(call["name"])
        response = {"functionResponse": {"name": call["name"], "response": tools[call["name"]](**call["args"])}}
        contents += [{"role": role, "parts": [of]} for role, of in (("model", part), ("user", response))]


def loaded(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names


def expected() -> dict[str, str]:
    cases: Any = city_guide.eval_set()["eval_cases"]
    turns = [case["conversation"][0] for case in cases]
    return {turn["user_content"]["parts"][0]["text"]: turn["final_response"]["parts"][0]["text"] for turn in turns}


def test_bench_end_to_end__the_model_errs_as_often_as_it_says() -> None:
    model, tools, right = city_guide.ErringModel(1), loaded(city_guide.TOOLS), expected()
    passed: Counter[str] = Counter()
    jobs = 400
    for job in range(jobs):
        model.begin(str(job))
        passed.update(question for _, _, question, _ in QUESTIONS if ask(model, question, tools)[1] == right[question])

    for _, _, question, rate in QUESTIONS:
        spread = 4 * (rate * (1 - rate) / jobs) ** 0.5
        assert passed[question] / jobs == pytest.approx(rate, abs=spread), question


def test_the_same_job_sees_the_same_errors__in_any_order_and_whatever_else_is_asked() -> None:
    tools = loaded(city_guide.TOOLS)
    asked = [question for *_, question, _ in QUESTIONS for _ in range(5)]

    def answers(seed: int, job: str, order: list[str]) -> Counter[tuple[str, str]]:
        model = city_guide.ErringModel(seed)
        model.begin("another")
        ask(model, order[0], tools)
        model.begin(job)
        return Counter((question, ask(model, question, tools)[1]) for question in order)

    first = answers(1, "pull request 1", asked)
    assert first == answers(1, "pull request 1", asked[::-1])
    assert first != answers(2, "pull request 1", asked)
    assert first != answers(1, "pull request 2", asked)


@pytest.mark.parametrize("tool", [subject.tool for subject in city_guide.SUBJECTS])
def test_bench_end_to_end__a_broken_tool_breaks_its_cases_and_no_other(tool: str) -> None:
    class Steady(city_guide.ErringModel):
        def _errs(self, question: str, step: str, rate: float) -> bool:
            return False

    model, tools, right = Steady(1), loaded(city_guide.break_tool(tool)), expected()

    wrong = {
        city_guide.eval_id(subject, city)
        for subject, city, question, _ in QUESTIONS
        if ask(model, question, tools) != ([subject.tool], right[question])
    }

    assert wrong == city_guide.cases_of(tool)


def test_half_of_the_pull_requests_break_a_tool__each_as_often() -> None:
    order = bench.schedule(1, 40)
    broken: dict[str | None, int] = {subject.tool: 8 for subject in city_guide.SUBJECTS}
    assert Counter(order) == {None: 40, **broken}
    assert order == bench.schedule(1, 40) != bench.schedule(2, 40)


def trial(broken: str | None, verdict: str, *blamed: str) -> bench.Trial:
    return bench.Trial(
        seed=1, number=1, broken=broken, verdict=verdict, blamed=blamed, red=0, runs=16, base_depth=10, seconds=1.0
    )


def test_bench_end_to_end__what_keeps_the_promise_and_what_the_table_counts() -> None:
    for failed, caught, kept in ((4, 38, True), (5, 40, False), (0, 37, False), (0, 40, True), (4, 37, False)):
        same = ["failed"] * failed + ["passed"] * (40 - failed)
        broken = ["failed"] * caught + ["inconclusive"] * (40 - caught)
        result = [trial(None, item) for item in same] + [trial("get_fare", item) for item in broken]
        assert bench.kept(result) is kept
    trials = [trial(None, "passed"), trial(None, "failed", "time_tokyo"), trial("get_fare", "inconclusive")]
    trials += [trial("get_fare", "failed", *names) for names in (["fare_oslo"], ["fare_oslo", "time_tokyo"])]
    assert bench.table(trials).splitlines()[2] == "| 1 | 1 of 2 | 2 of 3 | 1 of 2 | 1.00 and 1.00 | 0 of 2 |"


def test_bench_end_to_end__the_page_quotes_three_seeds_that_keep_the_promise() -> None:
    assert [row[0] for row in ROWS] == [*map(str, bench.SEEDS), "all"]
    for row in ROWS[:-1]:
        counts = [re.fullmatch(r"(\d+) of 40", cell) for cell in row[1:3]]
        failed, caught = (int(count[1]) for count in counts if count)
        assert failed <= 4 and caught >= 38, row
