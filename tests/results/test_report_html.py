"""report.html: its data, its static part, its policy and its size. The browser's side is tested in tests/browser."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import math
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import history_samples
import pytest
from comparison_samples import FIND_DEVICES, SITUATIONS, answers_otherwise, cause, changed, decided, word_of
from golden_files import check, plain
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import html as lxml_html
from page_samples import big, called, eval_case, page_of, recording, source_of, turn
from pydantic import BaseModel
from remark_samples import notes
from report_samples import EVIL, RESPONSE, SAMPLES, TRAJECTORY, case, failed, hostile, metric, passed, report

from agent_eval.gate.history import extend
from agent_eval_results.data.comparison import BaselineReport, CaseComparison, ComparisonReport
from agent_eval_results.data.conversation import ConversationReport, StepReport, TurnReport
from agent_eval_results.data.decision import CHANGED_FACTS, CaseRunsReport, DecisionReport
from agent_eval_results.data.history import CaseHistory, HistoryRecord, HistoryReport
from agent_eval_results.data.origin import CaseStatus
from agent_eval_results.data.report import (
    CaseReport,
    CaseUsageReport,
    ModelUsageReport,
    RunReport,
    RunResult,
    RunScore,
    TurnEvidence,
)
from agent_eval_results.data.trend import trend_row
from agent_eval_results.report.html import BUDGET, SCRIPTS, STYLES, PageSource, policy, script, style, write_page
from agent_eval_results.report.html._case import PageCase, RemovedCase
from agent_eval_results.report.html._index import COLUMNS, Index
from agent_eval_results.report.html._packing import bounded_value, dumped, json_value, number, packed, unpacked
from agent_eval_results.report.html._runs import base_runs
from agent_eval_results.report.html._source import Facts, plans
from agent_eval_results.report.html._turns import alignment
from agent_eval_results.report.phrases import say, without_words
from agent_eval_results.report.views import Links, visible
from agent_eval_scoring.core.content import Blob, Content, FileData, FunctionCall, Part
from agent_eval_scoring.core.invocation import (
    AgentDetails,
    AppDetails,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    tool_calls,
)
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.core.recording import Recording, RunError, Usage
from agent_eval_scoring.criteria import align
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_scoring.simulation import PURPOSE

# report.html: its data, its static part, its policy and its size. The browser's side is tested in tests/browser.


FOLDER = Path(__file__).parents[2] / "src/agent-eval-results/agent_eval_results/report/html"


def strings(value: Any) -> list[str]:
    """All texts of a JSON value, keys included."""
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in [key, *strings(item)]]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", SAMPLES)
def test_page__every_case_once_in_visible_texts_and_an_inert_static_part(name: str, tmp_path: Path) -> None:
    made = SAMPLES[name]()

    page = page_of(tmp_path, made)

    assert [case["id"] for block in page.blocks for case in block] == [visible(case.case_id) for case in made.cases]
    assert set(page.index["cases"]) == {*COLUMNS, "rank"}
    assert {len(column) for column in page.index["cases"].values()} == {len(made.cases)}
    assert sorted(page.column("rank")) == list(range(len(made.cases)))
    for at, block in enumerate(page.column("block")):
        assert page.column("id")[at] in {case["id"] for case in page.blocks[block]}
    assert all(len(block) <= 50 for block in page.blocks)
    texts = page.index["strings"]
    assert len(set(texts)) == len(texts)
    assert [texts[at] for at in page.column("file_s")] == [visible(case.file) for case in made.cases]
    assert page.index["level"] == 0
    assert len(page.html.encode()) == page.written.size == (tmp_path / "report.html").stat().st_size
    for text in strings([page.index, page.blocks]):
        assert visible(text) == text
    document = without_icon(page.html)
    elements = list(document.iter())
    assert {str(element.tag) for element in elements} <= {
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "p", "bdi", "ul", "li", "script", "template"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    }
    attributes = {str(name) for element in elements for name in element.attrib}
    assert attributes <= {*("lang", "charset", "http-equiv", "content", "name", "id", "dir", "scope")}
    assert [element.tag for element in elements].count("script") == 1
    # No other document's comments or markup declarations: a template holds base64 only.
    assert all(re.fullmatch(r"[A-Za-z0-9+/=]+", item.text or "") for item in document.iter("template"))


def without_icon(html: str) -> Any:
    """The document without its one link: an empty icon, so that no browser asks a server for /favicon.ico."""
    icon = '<link rel="icon" href="data:,">'
    assert html.count(icon) == 1
    return lxml_html.fromstring(html.replace(icon, ""))


def test_page__begins_with_the_charset_and_the_policy(tmp_path: Path) -> None:
    page = page_of(tmp_path, passed())

    head = page.html[: page.html.index("<title>")]
    assert head.index('<meta charset="utf-8">') < head.index("Content-Security-Policy") < 200
    document = lxml_html.fromstring(page.html)
    assert [item.get("content") for item in document.iter("meta") if item.get("http-equiv")] == [policy()]
    assert policy().startswith("default-src 'none'; ")
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy()
    for element, directive in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(f"<{element}>(.*?)</{element}>", page.html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy()
    assert "referrer" in head
    assert "noindex" in head


def test_assets__fit_the_budget_and_end_no_element() -> None:
    assert len(script().encode()) + len(style().encode()) <= BUDGET
    assert not re.search(r"</script|<!--|</style", script() + style(), re.IGNORECASE)
    assert {path.name for path in FOLDER.glob("*.js")} == set(SCRIPTS)
    assert {path.name for path in FOLDER.glob("*.css")} == set(STYLES)


def failing(name: str = "lamp", score: float = 0.0) -> CaseReport:
    return case(name, "failed" if score < 0.5 else "passed", metric(TRAJECTORY, score, threshold=0.5))


def beside_the_base() -> PageSource:
    """A case whose calls are aligned with the expected ones, and whose runs on the base are in their order.

    Of a stored run only the recording is known, but for the outcomes in the history and of runs of today.
    """
    lamp, coin = failing(), failing("coin", 1.0)
    run_report = report("failed", [lamp, coin])
    run_report.baseline = BaselineReport(status="found", branch="main", message="", recorded_at=2.0)
    records = [HistoryRecord(recorded_at=1.0), HistoryRecord(recorded_at=2.0)]
    outcomes = CaseHistory(case_id=coin.case_id, outcomes="110", records="0 1 1")
    run_report.base_history = HistoryReport(scoring_version=1, keep=20, records=records, metrics=[], cases=[outcomes])
    again = coin.runs[0].model_copy(update={"run": 2, "status": "passed"})
    run_report.base_runs = [coin.model_copy(update={"runs": [again]})]
    runs = CaseRunsReport(case_id=coin.case_id, head_passed=1, head_runs=1, base_passed=2, base_runs=3)
    run_report.decision = DecisionReport(outcome="passed", alpha=0.05, runs=[runs])
    expected = turn("Lamp on.", "It is on.", *called("find", {}, room="hall"), *called("switch", {}, on=True))
    actual = turn("Lamp on.", "No lamp.", *called("look", {}), *called("find", {"devices": []}, room="hall"))
    tossed = turn("Toss.", "Heads.")
    recordings = [recording(lamp, 0, actual), recording(coin, 0, tossed)]
    stored = [recording(lamp, 0, expected), recording(lamp, 1, expected)]
    base = [recording(coin, number, tossed) for number in (2, 1, 0)]
    source = source_of(run_report, recordings, {lamp.case_id: eval_case(lamp, expected)}, base=stored)
    return dataclasses.replace(source, base_recordings=lambda case_id: base if case_id == coin.case_id else ())


def test_base_runs__of_a_renamed_case_have_conversations_and_outcomes() -> None:
    """The base branch's agent answers the head's eval file, so what it says is recorded by the head's name."""
    lamp, old = failing(), failing("old_lamp", 1.0)
    change = CaseComparison(
        case_id=lamp.case_id, file=lamp.file, eval_id="lamp", change="renamed", renamed_from=old.case_id
    )
    run_report = report("failed", [lamp])
    run_report.comparison = ComparisonReport(cases=[change], compared=1, unchanged=0)
    run_report.base_runs = [old]
    # The history in a report has the head's names, too.
    run_report.baseline = BaselineReport(status="found", branch="main", message="", recorded_at=1.0)
    outcomes = CaseHistory(case_id=lamp.case_id, outcomes="0", records="0")
    records = [HistoryRecord(recorded_at=1.0)]
    run_report.base_history = HistoryReport(scoring_version=1, keep=20, records=records, cases=[outcomes])
    source = source_of(run_report, [], base=[recording(old, 1, turn("Off.", "It is off."))])
    today = [recording(lamp, 0, turn("On.", "It is on."))]
    source = dataclasses.replace(source, base_recordings=lambda case_id: today if case_id == lamp.case_id else ())
    runs = base_runs(Facts(source), lamp.case_id)
    said = [(run.key, run.recording is not None, run.result.status) for run in runs]
    assert said == [("base:0", True, "passed"), ("base-stored:1", True, "failed")]


def test_page__a_removed_case_whose_name_a_renamed_one_has() -> None:
    lamp, gone = failing(), failing()
    changes = [
        CaseComparison(case_id=lamp.case_id, file=lamp.file, eval_id="lamp", change="renamed", renamed_from="old_lamp"),
        CaseComparison(case_id=lamp.case_id, file=lamp.file, eval_id="lamp", change="removed", base="passed"),
    ]
    run_report = report("failed", [lamp])
    run_report.comparison = ComparisonReport(cases=changes, compared=1, unchanged=0)
    run_report.baseline = BaselineReport(status="found", branch="main", message="", recorded_at=1.0)
    source = source_of(run_report, [], base=[recording(gone, 0, turn("Off.", "It was off."))])
    facts, [plan, *_] = Facts(source), plans("full")
    assert (facts.base_id(lamp.case_id), list(base_runs(facts, lamp.case_id))) == ("old_lamp", [])
    index = Index(facts)
    index.add(PageCase(facts, lamp, plan.others), 0)
    removed = RemovedCase(facts, changes[1])
    index.add_removed(changes[1], 1)
    block = removed.block(plan.others)
    assert block is not None and len(block["runs"]) == 1
    cases = index.data(plan, 2)["cases"]
    assert cases["change"] == ["renamed", "removed"]
    assert cases["id"] == [lamp.case_id, block["id"]] == [lamp.case_id, f"{lamp.case_id} (main)"]


def parts(folder: Path) -> Iterator[tuple[str, object]]:
    """Parts of pages of few runs."""
    outcomes: Sequence[tuple[Literal["failed", "inconclusive"], bool]] = (
        ("failed", False),
        ("inconclusive", False),
        ("inconclusive", True),
    )
    for outcome, blocks in outcomes:
        of = case("lamp", "failed", metric(TRAJECTORY, 0.0, threshold=1.0))
        run_report = report("failed", [of])
        run_report.decision = decided(outcome, word_of(of, "suspicious", (0, 2), (10, 10), p_value=0.03))
        run_report.blocking = [of.case_id] * blocks
        page = page_of(folder, run_report)
        # In the list the word is that of the statistics alone.
        words = [page.column("word"), page.column("tags"), page.index["header"]["counts"]]
        yield f"{outcome}, blocks: {blocks}", [*words, page.cases[of.case_id]["decision"]]
    scores = (0.7, 0.7, 0.7, 0.9, 1.0)
    assert (0.7 + 0.7 + 0.7 + 0.9 + 1.0) / 5 < 0.8  # Python 3.12 and newer sum more exactly with sum()
    cases = [case(f"c{at}", "passed", metric(TRAJECTORY, score, threshold=0.8)) for at, score in enumerate(scores)]
    index = page_of(folder, report("passed", cases)).index
    yield "a mean that only rounding keeps from its threshold meets it", index["metrics"][0]["now"]
    made = history_samples.report(history_samples.case("a", "1"), day=0)
    assert page_of(folder, made).index["trend"] is None
    made.history = extend(None, made)
    yield "a recorded run is its last row", page_of(folder, made).index["trend"]
    made = SAMPLES["failed"]()
    said = {"failed": "1 of 2 cases", "budget": "The budget is used up"}
    made.reasons = [Reason(code=code, message=message) for code, message in said.items()]
    usages = [("agent", "a"), ("agent-again", "a"), (PURPOSE, "a"), (PURPOSE, "u"), ("safety_v1", "j")]
    made.case_usage = [CaseUsageReport(case_id="x", purpose=purpose, model=model, calls=1) for purpose, model in usages]
    made.model_usage = [ModelUsageReport(model=model, calls=1) for model in "auj"]
    index = page_of(folder, made).index
    yield "what headline and list do not say", [index["header"]["reasons"], index["about"]["usage"]]
    page = page_of(folder, big(4, size=10), detail="failing")
    turns = [bool(item["runs"][0]["turns"]) for item in page.cases.values()]
    yield "conversations of cases that need attention", [turns, page.index["left_out"]]
    page = page_of(folder, SITUATIONS["mixed"]().report)
    yield "tags of cases that changed", list(zip(page.column("eval_id"), page.column("tags"), strict=True))
    # Without words they have no value of a tool.
    yield "causes without words", page_of(folder, with_causes(), detail="scores").index["causes"]
    placed = 'Traceback (most recent call last):\n  File "home_automation/tools.py", line 15, in find\nOSError: no\n'
    raised = RunError(kind="agent-exception", owner="agent", message="OSError: no", traceback=placed)
    crashed = report("failed", [case(name, "failed", errors={0: raised}) for name in ("x", "y")])
    yield "one crash of two cases", page_of(folder, crashed).index["causes"]


def test_page__the_button_of_the_command_says_what_it_runs(tmp_path: Path) -> None:
    files = [case(f"x{n}", "failed", file=f"evals/{n}.test.json") for n in range(31)]
    many = [case(f"x{n}", "failed") for n in range(25)]
    unnamed = case("a,b", "failed", file="evals/0.test.json")
    good = case("good", "passed")
    for cases, what in (
        ([files[0], good], "it"),
        ([*files[:3], good], "these 3"),
        (files, "20 of these 31"),
        ([*many[:20], good], "these 20"),
        (many, "these 25"),
        ([*many, good], "these 25 and all other cases of 1 file"),
        ([unnamed, good.changed(file=unnamed.file)], "it and all other cases of 1 file"),
        ([*many, good, *files[:29]], "44 of these 54 and all other cases of 1 file"),
    ):
        labels = [label for label, _ in page_of(tmp_path, report("failed", cases)).index["header"]["commands"]]
        assert labels[0] == f"Copy the command that runs {what}"


def test_page__parts_of_few_runs(tmp_path: Path) -> None:
    """UPDATE_GOLDEN=1 writes them."""
    page = []
    for name, part in parts(tmp_path):
        items = part if isinstance(part, list) else [part]
        page += [f"# {name}", *(plain(json.loads(json.dumps(item))) for item in items), ""]
    check("golden_page_parts.txt", "\n".join(page))


def test_page__thoughts_are_part_of_the_output(tmp_path: Path) -> None:
    of = case("lamp", "passed")
    of.runs[0].usage = Usage(model_calls=1, input_tokens=100, output_tokens=50, thought_tokens=40)
    index = page_of(tmp_path, report("passed", [of])).index
    [agent] = index["about"]["usage"]
    assert (agent["output_tokens"], index["header"]["spent"]["tokens"], index["cases"]["tokens"]) == (50, 150, [150])
    assert trend_row(report("passed", [of]), HistoryRecord(commit="", recorded_at=0.0)).tokens == 150


def instructed(*instructions: str) -> Invocation:
    tools = [{"function_declarations": [{"name": "find"}, {"name": "switch"}]}]
    agents = {
        f"agent{number}": AgentDetails(name=f"agent{number}", instructions=text, tool_declarations=tools)
        for number, text in enumerate(instructions)
    }
    return turn("Go.", "Done.").model_copy(update={"app_details": AppDetails(agent_details=agents)})


def every_kind() -> PageSource:
    """One case for each thing that a case can have; what blocks is first, then what needs attention."""
    changed, ended, strange, pictured = map(failing, ("instructions", "ended", "strange", "pictures"))
    # System instructions are shown where they change.
    asked = (instructed(*texts) for texts in ("a", "ab", "ac"))
    recordings = [recording(changed, 0, *asked, turn("Bye.", "Bye."), instructed("a"))]
    # The turn that an error ended, on both sides; run 2 has no other one.
    cut = turn("Lamp on.", None, *called("find", {"devices": []}, room="hall"))
    hello = turn("Hi", "Ho")
    runs = [recording(ended, number, hello).model_copy(update={"unfinished": cut}) for number in (0, 1)]
    alone = recording(ended, 2).model_copy(update={"unfinished": cut})
    ended.runs = [RunResult(run_id=run.run_id, run=run.run, status="failed", turns=1) for run in (runs[0], alone)]
    recordings += [runs[0], alone]
    # Recordings of other runs are left out, and counted.
    recordings += [recording(strange, 0, hello).model_copy(update={"started_at": 1.0}), recording(strange, 7, hello)]
    # Pictures are kept if they are small, and no SVG.
    looked = turn("Look", "ok")
    small, large = (base64.b64encode(b"x" * size).decode() for size in (300, 300_000))
    kinds = [(kind, small) for kind in ("image/png", "image/svg+xml", "IMAGE/PNG ", "text/html")]
    pictures = [Blob(mime_type=kind, data=data) for kind, data in [*kinds, ("image/png", large)]]
    looked.user_content.parts = [Part(inline_data=blob) for blob in pictures]
    recordings.append(recording(pictured, 0, looked))
    # A weak turn of a passing case is in the list.
    evidence = TurnEvidence(turn=1, score=0.2, user="u", expected="e", actual="a", why=notes("few words"))
    score = RunScore(run=0, score=0.6, status="passed", turn_scores=[1.0, 0.2], evidence=[evidence])
    weak = case("weak", "passed", metric(TRAJECTORY, 0.6, threshold=0.5).model_copy(update={"runs": [score]}))
    statuses: Sequence[CaseStatus] = ("not_run", "quarantined", "errored", "failed")
    others = [case(status, status) for status in statuses]
    replayed = history_samples.replayed(failing("replayed", 1.0))
    made = report("failed", [weak, replayed, *others, changed, ended, strange, pictured])
    made.blocking = [others[-1].case_id]
    return source_of(made, recordings, base=[runs[1]])


def test_case__edge_values_are_shown(tmp_path: Path) -> None:
    of = case("odd", "failed", metric(TRAJECTORY, math.nan, threshold=1.0), runs=1)
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    value = {"deep": deep, "nan": math.nan, "big": 2**70, "text": "y" * 1_000_000, "many": list(range(5_000))}
    actual = turn(
        "\x00\ud800\ufffe" + "e\u0301" * 3 + "\u0301" * 300, None, *called("odd", value, **{"</template>": "<!--"})
    )

    page = page_of(tmp_path, source_of(report("failed", [of]), [recording(of, 0, actual)]))

    [only] = page.cases[of.case_id]["runs"][0]["turns"]
    assert only["answer"] is None
    assert only["steps"][0]["args"] == {"</template>": "<!--"}
    assert isinstance(only["steps"][1]["value"], str), "a response over the limit is text"
    assert "more characters" in only["steps"][1]["value"]
    assert len(only["steps"][1]["value"]) <= 200_000
    assert page.column("scores") == [["nan"]]
    assert "</template>" not in page.html.replace("</template>\n", "")


def test_detail__scores_has_no_text_of_agents_and_users(tmp_path: Path) -> None:
    secret = "the-users-secret"
    error = RunError(
        kind="agent-exception", owner="agent", message=secret, hint=secret, traceback=secret, log_tail=secret
    )
    of = case("secret", "failed", metric(TRAJECTORY, 0.0, threshold=1.0), errors={0: error})
    of.conversation = ConversationReport(
        run=0, turns=[TurnReport(turn=0, user=secret, steps=[StepReport(call=secret, text=secret)], answer=secret)]
    )
    made = hostile()
    made.cases.append(of)
    source = source_of(made, [recording(of, 0, turn(secret, secret, *called(secret, {secret: secret})))])

    page = page_of(tmp_path, source, detail="scores")

    assert [text for text in strings([page.index["cases"], page.index["strings"], page.blocks]) if secret in text] == []
    assert secret not in page.html
    assert page.index["level"] == 5
    assert page.column("scores")[-1] == [0.0, None]


def test_detail__scores_quotes_no_answer_in_what_is_next_and_in_decisions(tmp_path: Path) -> None:
    secret = "the-agents-secret"
    turns = [
        TurnEvidence(turn=0, score=0.0, user="u", expected=f"answer {number}", actual=secret) for number in range(3)
    ]
    scores = [metric(RESPONSE, 0.0, threshold=0.8, evidence={0: [each]}) for each in turns]
    made = report("failed", [case(f"c{number}", "failed", score) for number, score in enumerate(scores)])
    because = Reason(code="x", message=secret)
    why = say("quarantined", result="failed", until="2030-01-01", owner="o", note="n", because=because)
    made.cases.append(case("c3", "quarantined", reason=Reason(code="quarantined", message=why)))
    said, runs = word_of(made.cases[0], "broken", (0, 1), (1, 1))
    facts = said.model_copy(update={"metric": CHANGED_FACTS, "evidence": secret})
    made.decision = decided("failed", (facts, runs))
    made.warnings = [say("toolset-lost", owner="a", subject="b", message=secret, cases=["c0"])]
    made.notices = [say("not-replayed", cases=["c0"], message=f"The call find('{secret}') is not on the tape")]
    error = RunError(kind="agent-import", owner="agent", message="m", hint=secret)
    for quoting, each in ((5, made), (1, report("failed", [case("crash", "failed", errors={0: error})]))):
        full, page = (page_of(tmp_path, each, detail=detail) for detail in ("full", "scores"))
        texts = strings([full.index["header"], [[b["decision"], b["notes"]] for b in full.cases.values()]])
        assert sum(secret in text for text in texts) == quoting
        assert [text for text in strings([page.index, page.blocks]) if secret in text] == []
        assert page.index["header"]["next"]
    assert without_words(made.warnings[0]) == "a ran without the tools of b"
    assert without_words(made.notices[0]) == "1 case ran live (c0)"
    assert without_words("Fine: (a): b") == "Fine: (a): b"
    passing = report("passed", [case("c0", "passed")])
    otherwise = answers_otherwise(passing.cases[0], ("before", secret))
    passing.comparison = ComparisonReport(compared=1, unchanged=1, changed_answers=[otherwise])
    full, page = (page_of(tmp_path, passing, detail=detail) for detail in ("full", "scores"))
    assert secret in full.html and secret in full.index["header"]["sentence"]
    assert [text for text in [page.html, *strings([page.index, page.blocks])] if secret in text] == []


def test_size__leaves_out_passing_cases_first_and_says_so(tmp_path: Path) -> None:
    source = big(6, size=100_000)
    whole = page_of(tmp_path, source).written

    assert whole.level == 0
    levels = {}
    for share in (0.9, 0.4, 0.2, 0.01):
        size = int(whole.size * share)
        page = page_of(tmp_path, source, size=size)
        levels[share] = page.written.level
        assert page.written.size <= size or page.written.level == 5
        assert bool(page.index["left_out"]) is (page.written.level > 0)
        assert page.index["level"] == page.written.level
    assert levels == {0.9: 1, 0.4: 4, 0.2: 5, 0.01: 5}


def test_write_page__a_report_of_few_cases_is_as_rich_as_fits_whatever_a_sample_says(tmp_path: Path) -> None:
    source = big(161, size=3_000, statuses=("passed",))

    def every_other(case_id: str) -> Iterable[Recording]:
        return [] if int(case_id.rpartition("_")[2]) % 2 else source.recordings(case_id)

    half = dataclasses.replace(source, recordings=every_other)
    whole = write_page(tmp_path / "whole.html", half)
    assert write_page(tmp_path / "report.html", half, size=whole.size) == whole


@given(
    count=st.integers(0, 30), size=st.integers(0, 3_000), limit=st.integers(20_000, 200_000), detail=st.sampled_from(
        ["full", "failing", "scores"]
    )
)  # fmt: skip
def test_size__any_report_fits_or_is_at_the_last_step(
    count: int, size: int, limit: int, detail: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = page_of(tmp_path_factory.mktemp("page"), big(count, size=size), size=limit, detail=detail)

    assert page.written.size <= limit or page.written.level == 5
    assert len(page.cases) == count


ODD = st.sampled_from(["\x1b[1m", "\r", "\b", "\x7f", '"', "\\", "\\u", "\n", "\t", "é", "a" * 1_500, 'b"' * 600])
PLAIN = ODD | st.text("ab\n")


def json_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any JSON with these texts, and with numbers that JavaScript rounds."""
    near = st.integers(2**53 - 2, 2**53 + 2)
    return st.recursive(
        st.none() | st.booleans() | st.integers() | near | st.floats() | texts,
        lambda items: st.lists(items) | st.dictionaries(texts, items),
    )


@given(json_of(PLAIN | st.text(st.characters(codec=None))))
@example([math.nan, -math.inf])
def test_json_value__is_json_of_visible_texts(value: Any) -> None:
    shown = json_value(value, 200)

    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert all(visible(text) == text for text in strings(shown))
    assert unpacked(packed(dumped(shown))) == shown
    assert packed(dumped(shown)) == packed(dumped(shown))
    text = bounded_value(value, 60)
    assert len(json.dumps(text, ensure_ascii=False)) <= 200


@given(json_of(PLAIN), st.sampled_from([100, 1_200, 200_000]))
def test_json_value__is_the_same_for_a_plain_value_as_text_by_text(value: Any, limit: int) -> None:
    # Compared as texts: nan == nan, 1 != 1.0.
    assert json.dumps(json_value(value, limit)) == json.dumps(json_value(value, limit, depth=3))


def test_json_value__limits_hold_and_infinities_are_text() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]

    values = [1.0, 0.5, math.nan, math.inf, -math.inf, None, 3, 0.79999999999]
    assert [number(value) for value in values] == [1, 0.5, "nan", "inf", "-inf", None, 3, 0.79999999999]
    assert number(1.23456, 2) == 1.23
    assert "nested more deeply" in json.dumps(json_value(deep, 200))
    assert json_value([0] * 2_001, 200)[-1] == "… and 1 more"
    assert len(next(iter(json_value({"k" * 5_000: 1}, 200_000)))) == 1_000


CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1)), max_size=4)


@given(CALLS, CALLS)
def test_alignment__is_that_of_the_criteria(ours: list[tuple[str, int]], theirs: list[tuple[str, int]]) -> None:
    def calling(calls: list[tuple[str, int]]) -> Invocation:
        parts = [Part(function_call=FunctionCall(name=name, args={"x": x})) for name, x in calls]
        events = [InvocationEvent(author="a", content=Content(role="model", parts=parts))]
        return turn("u", "a").model_copy(update={"intermediate_data": InvocationEvents(invocation_events=events)})

    expected, actual = calling(ours), calling(theirs)
    aligned = align(tool_calls(expected.intermediate_data), tool_calls(actual.intermediate_data))

    pairs = alignment(expected, actual)

    assert pairs is not None
    both = {(i, j) for i, j in pairs if i is not None and j is not None}
    assert both == {*aligned.matched, *aligned.moved, *aligned.changed}
    assert sorted(i for i, _ in pairs if i is not None) == list(range(len(ours)))
    assert sorted(j for _, j in pairs if j is not None) == list(range(len(theirs)))


def test_write_page__a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    def broken(_: str) -> Any:
        raise OSError(28, "disk full")

    page = tmp_path / "report.html"
    for before in ([], [page]):
        for path in before:
            path.write_text("of yesterday", "utf-8")
        with pytest.raises(OSError, match="disk full"):
            write_page(page, PageSource(report=failed(), recordings=broken))
        assert list(tmp_path.iterdir()) == before
    assert page.read_text("utf-8") == "of yesterday"


def trend() -> PageSource:
    """Every recorded run of the base branch, what changed between them, and this run as the last point."""

    def day(number: int, *cases: CaseReport, adk: str = "2.12.0") -> RunReport:
        return history_samples.report(*cases, day=number).model_copy(update={"provenance": {"adk (a)": adk}})

    make = history_samples.case
    history = None
    for made in (
        day(0, make("a", "1"), make("b", "0")),
        day(1, make("a", "1"), make("b", "0")),
        day(2, make("a", "0"), make("b", "0"), make("c", "1"), adk="2.13.0"),
    ):
        history = extend(history, made)
    head = day(3, make("a", "1"), make("b", "1"))
    head.base_history = history
    head.baseline = BaselineReport(status="found", branch="main", source="artifact", message="The newest run of main.")
    return PageSource(report=head)


WORDS = {"verdict": "failed", "status": "found", "word": "broken", "change": "renamed", "outcomes": "1", "records": "0"}
"""Fields that have a word of ours, where any will not do."""


def poisoned(kind: Any, name: str = "") -> Any:
    """A value of a type, with the hostile text in every text that it can have."""
    origin, kinds = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return WORDS[name] if WORDS.get(name) in kinds else kinds[0]
    if origin in {Union, UnionType}:
        return poisoned([each for each in kinds if each is not NoneType][-1], name)
    if origin is Annotated:
        return poisoned(kinds[0], name)
    if origin is tuple:
        return tuple(map(poisoned, kinds))
    if origin in {list, Sequence}:
        return [poisoned(kinds[0], name)]
    if origin in {dict, Mapping}:
        return {EVIL: poisoned(kinds[1])}
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        fields = {name: poisoned(field.annotation, name) for name, field in origin.model_fields.items()}
        return origin.model_construct(**fields)
    return {str: WORDS.get(name, EVIL), int: 1, float: 1.0, bool: True}.get(kind, EVIL)


def test_hostile_text__in_every_field_is_visible_and_inert(tmp_path: Path) -> None:
    made = poisoned(RunReport)
    made.history, made.base_history.cases[0].scores = None, {}  # Places of metrics.
    judgement = {"turn": 0, "subject": EVIL, "verdict": EVIL, "score": 0.0, "agreement": 1.0, "close": True}
    score = made.cases[0].metrics[0].runs[0]
    score.details = {"model": EVIL, "judgements": [{**judgement, "votes": [{"verdict": EVIL, "rationale": EVIL}]}]}
    run = poisoned(Recording)
    declared = [{"function_declarations": [{"name": EVIL}, EVIL, {}]}, EVIL, {"function_declarations": EVIL}]
    run.invocations[0].app_details.agent_details[EVIL].tool_declarations = declared
    odd = ({"inline_data": Blob(mime_type=EVIL, data="eA==")}, {"file_data": FileData(file_uri=EVIL, mime_type=EVIL)})
    run.invocations[0].user_content.parts = [Part(**part) for part in ({"executable_code": {EVIL: EVIL}}, *odd)]
    links = Links(server_url="https://github.com", repository="o/r", source_url="https://github.com/o/r/blob/abc")
    source = source_of(made, [run], {EVIL: poisoned(EvalCase)}, base=[run])

    page = page_of(tmp_path, dataclasses.replace(source, links=links, base_note=EVIL))

    texts = strings([page.index, page.blocks])
    assert all(visible(text) == text for text in texts)
    assert sum("alert(1)" in text for text in texts) > 80
    assert page.index["header"]["source_url"] == "https://github.com/o/r/blob/abc/"
    assert page.index["header"]["baseline"]["url"] is None
    assert page.index["header"]["origin"]["run_url"] is None
    assert [row["run_url"] for row in page.index["trend"]["rows"]] == [None]
    document = without_icon(page.html)
    assert [element.tag for element in document.iter()].count("script") == 1
    assert not {"a", "img", "svg", "iframe", "link", "object"} & {str(element.tag) for element in document.iter()}


def with_causes() -> PageSource:
    """Causes in the agent, which show their call, and an outage: cases that got no score for one reason."""
    cases = [failing(name) for name in ("lamp", "fan", "song")]
    error = RunError(kind="provider-unavailable", owner="provider", message="503 UNAVAILABLE")
    away = [case(name, "errored", errors={0: error}) for name in ("a", "b")]
    made = report("failed", [*cases, *away, failing("other", 1.0)])
    values = {"tool": "find_devices", "actual": '{"devices": []}', "expected": '{"devices": ["lamp"]}'}
    made.causes = [cause("tool-empty", cases[:2], [FIND_DEVICES], call=0, failing=3, **values)]
    made.agent_changes = [changed("tool-source", FIND_DEVICES, tool="find_devices")]
    asked = turn("Which?", "None.", *called("find_devices", {"devices": []}, room="x"))
    return source_of(made, [recording(cases[0], 0, asked)])


PAGES: Mapping[str, Callable[[], PageSource]] = {
    "beside_the_base": beside_the_base,
    "every_kind": every_kind,
    "trend": trend,
    "causes": with_causes,
    **{
        name: functools.partial(lambda name: PageSource(report=SAMPLES[name]()), name) for name in ("failed", "invalid")
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_golden__static_part_and_data(name: str, tmp_path: Path) -> None:
    """UPDATE_GOLDEN=1 writes them. Longer reports differ in their number of cases only."""
    page = page_of(tmp_path, PAGES[name]())
    [static] = re.findall(r"<main.*?</main>\n", page.html, re.DOTALL)
    check(f"golden_page/{name}.html", static)
    data = json.dumps({"index": page.index, "blocks": page.blocks}, indent=1, ensure_ascii=False) + "\n"
    check(f"golden_page/{name}.json", data)


@pytest.mark.nightly
def test_write_page__is_a_stream(tmp_path: Path) -> None:
    source = big(100, size=100_000)  # 10 MB of JSON.
    write_page(tmp_path / "warm", big(1, size=10))
    tracemalloc.start()
    try:
        write_page(tmp_path / "report.html", source)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


# The report's script as one piece: its files share one scope.


_DECLARATION = re.compile(r"^(?:(?:async )?function|class|const|let) (\w+)", re.MULTILINE)


def test_script__declares_each_name_once_and_loses_only_what_documents_types() -> None:
    """A later function of the same name would replace the earlier one silently; tsc does not mind."""
    folder = resources.files("agent_eval_results.report.html")
    files = "".join(folder.joinpath(name).read_text("utf-8") for name in SCRIPTS)
    names = Counter(_DECLARATION.findall(files))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []
    assert _DECLARATION.findall(script()) == _DECLARATION.findall(files)
    code = [
        line.split("/**", 1)[0].rstrip() for line in files.splitlines() if not line.strip().startswith(("/**", "*"))
    ]
    left = "".join(re.sub(r"/[*][*].*?[*]/ ?", "", script()).split())
    assert all("".join(line.split()) in left for line in code)
    assert "/**" not in script()
    assert "// Creates every node of the page." in script()
