"""One cause is one block, whatever number of cases it befell."""

from __future__ import annotations

import pytest
from comparison_samples import NOT_IMPORTED, of_shop
from report_samples import RESPONSE, case, crash, good, metric, outage, report, wrong_room

from agent_eval.report.renderers.markdown import comment_markdown, summary_markdown
from agent_eval.report.views._causes import causes, has_cause
from agent_eval.results.conversation import ConversationReport, StepReport, TurnReport
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, Reason


def broke(name: str, message: str, *, kind: str = "agent-exception", hint: str = "", traceback: str = "") -> CaseReport:
    error = RunError(kind=kind, owner="agent", message=message, hint=hint, traceback=traceback or None)
    return case(name, "failed", errors={0: error})


def groups(*cases: CaseReport) -> list[list[str]]:
    return [[item.eval_id for item in cause.cases] for cause in causes(report("failed", list(cases)), cases)]


def test_causes__numbers_and_identifiers_make_no_other_cause() -> None:
    assert groups(
        broke("a", "429 after 4 attempts in 12.5 s (request 0f3c99aa71)"),
        broke("b", "429 after 5 attempts in 9.1 s (request bb01aa9912)"),
        broke("c", "the tool is missing"),
    ) == [["a", "b"], ["c"]]


def test_causes__another_kind_or_hint_or_line_is_another_cause() -> None:
    trace = 'Traceback (most recent call last):\n  File "home_automation/tools.py", line {}, in f\nKeyError: x\n'
    assert groups(
        broke("a", "KeyError: x", traceback=trace.format(3)),
        broke("b", "KeyError: x", traceback=trace.format(9)),
        broke("c", "KeyError: x", kind="agent-crash"),
        broke("d", "KeyError: x", hint="Look there."),
    ) == [["a"], ["b"], ["c"], ["d"]]


def test_causes__a_command_for_one_case_becomes_one_for_all() -> None:
    hint = "Record again: agent-eval run '{}' --record all."
    cases = [broke(name, "not on the tape") for name in "ab"]
    for each in cases:
        assert each.runs[0].error is not None
        each.runs[0].error.hint = hint.format(each.case_id)
    [both] = causes(report("failed", cases), cases)
    [alone] = causes(report("failed", cases), cases[:1])
    assert (len(both.cases), both.hint) == (2, "Record again: agent-eval run --record all.")
    assert alone.hint == hint.format(cases[0].case_id)


def test_causes__agents_are_kept_apart() -> None:
    files = [case(f"c{n}", "failed", file=f"evals/{n}.test.json", errors={0: NOT_IMPORTED}) for n in range(4)]
    sample = of_shop(report("failed", files))
    sample.files[0].agent = "bank"
    assert [(cause.agent, len(cause.cases)) for cause in causes(sample, sample.cases)] == [("shop", 3), ("bank", 1)]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/github/workspace/agents/shop/tools.py", "agents/shop/tools.py"),
        ("agents/shop/tools.py", "agents/shop/tools.py"),
        ("/usr/lib/python3/site-packages/agents/shop/x.py", None),
        ("/usr/lib/python3/json.py", None),
        ("<frozen importlib>", None),
        ("../agents/shop/tools.py", None),
    ],
)
def test_causes__a_line_of_the_agent_is_named_where_the_path_shows_it(path: str, place: str | None) -> None:
    run_report = report("failed", [broke("a", "x", traceback=f'  File "{path}", line 7, in f\n')])
    run_report.files[0].agent = "agents/shop"
    [cause] = causes(run_report, run_report.cases)
    assert cause.file == place


def unjudged(name: str, code: str, why: str, *, metrics: int = 1) -> CaseReport:
    reason = Reason(code=code, message=why)
    judged = [metric(f"m{at}", None, threshold=0.5, reason=reason) for at in range(metrics)]
    return case(name, "errored", *judged, metric(RESPONSE, 0.9, threshold=0.5))


def test_causes__a_judges_trouble_is_one_for_all_its_criteria_and_agents() -> None:
    actual = groups(
        unjudged("a", "judge-unavailable", "it is down (attempt 4)", metrics=2),
        unjudged("b", "judge-unavailable", "it is down (attempt 5)"),
        unjudged("c", "budget", "20 calls are used up"),
        unjudged("d", "no-verdict", "the reply is empty"),
        outage(),
    )
    assert actual == [["a", "b"], ["c"], ["d"], ["weather_question"]]


def test_has_cause__scores_that_are_too_low_are_no_error() -> None:
    assert has_cause(crash())
    assert has_cause(outage())
    assert not has_cause(wrong_room())
    assert not has_cause(good("x"))
    both = wrong_room()
    both.runs[0].error = NOT_IMPORTED
    assert not has_cause(both), "its scores say more: it is in the table"


def test_causes__what_the_agent_did_before_the_error_is_shown_for_one_of_its_cases() -> None:
    steps = [StepReport(call='open_door(name="garage")', responses=['{"doors": []}'])]
    cases = [
        broke(name, "KeyError: 'garage'", traceback="Traceback (most recent call last):\nKeyError") for name in "abc"
    ]
    for item in cases:
        item.conversation = ConversationReport(run=0, turns=[TurnReport(turn=0, user="Open it.", steps=steps)])
    for text in (comment_markdown(report("failed", cases)), summary_markdown(report("failed", cases))):
        assert text.count('returned `{"doors": []}`') == 1
        assert text.count("Traceback (most recent") == 1
