"""The pytest plugin in sessions of its own, on recorded answers."""

from __future__ import annotations

import datetime
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from recorded_evals import AGENT, write_evals

from agent_eval.pytest_plugin import _outcomes, _session

pytest_plugins = ["pytester"]

PRELOADED = (_outcomes, _session)
"""A session in this process removes the modules that it imports, and pydantic can't be imported twice."""
EVALS = ("--adk-evals", f"--adk-evals-set=agent={AGENT}", "-p", "no:cacheprovider")


def test_outcomes__each_status_of_a_case_has_its_own(pytester: pytest.Pytester, root: Path) -> None:
    """Also: no agent package is imported, and an invalid file does not stop the others."""
    write_evals(root, "home/home.test.json", {"good": ["lamp"], "bad": ["heater"]}, missing=["unanswered"])
    write_evals(root, "home/set.evalset.json", {"flaky": ["heater"], "healed": ["lamp"], "a, b": ["lamp"]})
    (root / "home/__init__.py").write_text("raise SystemExit('imported')", "utf-8")
    (root / "home/broken.test.json").write_text('{"eval_set_id": "x",\n "eval_cases": 5}', "utf-8")
    until = datetime.date.today() + datetime.timedelta(days=9)
    entry = '[[quarantine]]\ncase = ":{}"\nowner = "ann"\nreason = "flaky"\nexpires = {}\n'
    policy = "max-quarantined = 1.0\n" + "".join(entry.format(name, until) for name in ("flaky", "healed"))
    (root / "agent-eval.toml").write_text(policy, "utf-8")

    result = pytester.runpytest_subprocess(*EVALS, "-v", "-rA", "--junitxml=junit.xml")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2, failed=3, xfailed=1, xpassed=1)
    out = result.stdout.str()
    for line in (
        "home/home.test.json::good PASSED",
        "home/home.test.json::bad FAILED",
        "home/home.test.json::unanswered FAILED",
        "home/set.evalset.json::flaky XFAIL",
        "home/set.evalset.json::healed XPASS",
        "home/set.evalset.json::a, b PASSED",
        "home/broken.test.json::invalid FAILED",
        "missing: lamp()",
        "home/broken.test.json:2:16: error [",
        f"pytest --adk-evals --adk-evals-set=agent={AGENT} home/home.test.json::bad",
        "6 cases: 2 passed, 2 failed, 2 quarantined; results in agent-eval-results",
        "verdict: failed, exit code 1",
    ):
        assert line in out
    cases = {test.attrib["name"]: test for test in ET.parse(root / "junit.xml").iter("testcase")}
    properties = {entry.attrib["name"]: entry.attrib["value"] for entry in cases["bad"].iter("property")}
    assert properties["metric:tool_trajectory_avg_score"] == "0.0"
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("tool_trajectory_avg_score 0.00, needs 1.00")
    assert all(float(test.attrib["time"]) < 1 for test in cases.values()), "a case has its own time, not the run's"
    assert (root / "agent-eval-results/results.json").exists()


def test_outcomes__without_a_judge_key_nothing_is_green(pytester: pytest.Pytester, root: Path) -> None:
    """A case that needs a judge is skipped, one that needs it besides other criteria is an error of the setup."""
    write_evals(root, "plain.test.json", {"plain": ["lamp"]})
    write_evals(root, "both/both.test.json", {"both": ["lamp"]})
    write_evals(root, "judged/judged.test.json", {"judged": ["lamp"]})
    judge = '"final_response_match_v2": {"threshold": 0.5}'
    (root / "both/test_config.json").write_text(
        f'{{"criteria": {{"tool_trajectory_avg_score": 1.0, {judge}}}}}', "utf-8"
    )
    (root / "judged/test_config.json").write_text(f'{{"criteria": {{{judge}}}}}', "utf-8")

    alone = pytester.runpytest_inprocess(*EVALS, "-rs", "judged")

    assert alone.ret == pytest.ExitCode.TESTS_FAILED, "every item was skipped, and nothing was evaluated"
    alone.assert_outcomes(skipped=1)
    alone.stdout.fnmatch_lines(
        ["verdict: inconclusive, exit code 3", "SKIPPED [[]1[]] judged/judged.test.json:4: *key*"]
    )

    result = pytester.runpytest_inprocess(*EVALS)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of both*", "*final_response_match_v2*", "*exit code 3"])

    allowed = pytester.runpytest_inprocess(*EVALS, "--adk-evals-set=on-inconclusive=pass", "both", "plain.test.json")

    assert allowed.ret == pytest.ExitCode.OK
    allowed.assert_outcomes(passed=1, skipped=1)
    allowed.stdout.fnmatch_lines(["verdict: inconclusive, exit code 0"])
    write_evals(root, "plain.test.json", {"plain": ["lamp"], "bad": ["heater"]})

    advisory = pytester.runpytest_inprocess(*EVALS, "--adk-evals-set=gate=advisory", "-rx", "plain.test.json")

    assert advisory.ret == pytest.ExitCode.OK
    advisory.assert_outcomes(passed=1, xfailed=1)
    advisory.stdout.fnmatch_lines(
        ["verdict: passed, exit code 0", "XFAIL *does not block: tool_trajectory_avg_score 0.00*"]
    )


def test_selection__only_selected_cases_are_run(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"good": ["lamp"], "bad": ["heater"], "worse": ["heater"]})
    (root / "test_python.py").write_text("def test_python(): pass\n", "utf-8")
    evals = ("--adk-evals", f"--adk-evals-set=agent={AGENT}")

    result = pytester.runpytest_inprocess(*evals, "-k", "bad or python")

    result.assert_outcomes(passed=1, failed=1, deselected=2)
    assert "1 case: 1 failed" in result.stdout.str(), "the engine ran the selected case only"

    result = pytester.runpytest_inprocess(*evals, "--lf", "-x")

    result.assert_outcomes(failed=1)
    write_evals(root, "home.test.json", {"good": ["lamp"], "bad": ["lamp"]})
    answers = (root / "answers.json").read_text("utf-8").replace("heater", "lamp")
    (root / "answers.json").write_text(answers, "utf-8")

    result = pytester.runpytest_inprocess(*evals, "--lf")

    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    assert "1 case: 1 passed" in result.stdout.str()


def test_collection__items_and_options(pytester: pytest.Pytester, root: Path) -> None:
    """In this process: nothing is run."""
    write_evals(root, "agents/home/home.test.json", {"good": ["lamp"], "v1.2 [x]": ["lamp"]})
    write_evals(root, "agents/car/car.evalset.json", {"drive": ["lamp"]})
    tagged = (root / "agents/car/car.evalset.json").read_text("utf-8")
    (root / "agents/car/car.evalset.json").write_text(
        tagged.replace('"eval_id"', '"tags": ["slow"], "eval_id"'), "utf-8"
    )
    (root / "ignored").mkdir()
    write_evals(root, "ignored/ignored.test.json", {"ignored": ["lamp"]})
    home = ["agents/home/home.test.json::good", "agents/home/home.test.json::v1.2 [x]"]
    car = ["agents/car/car.evalset.json::drive"]

    def collected(*arguments: str) -> list[str]:
        calls = pytester.inline_run("--collect-only", "-p", "no:cacheprovider", *arguments)
        return [item.nodeid for item in calls.getcalls("pytest_collection_finish")[0].session.items]

    (root / "agent-eval.toml").write_text('exclude = ["ignored/"]\n', "utf-8")
    assert collected() == [], "off by default"
    assert collected("--adk-evals") == [*car, *home]
    assert collected("--adk-evals", "-o", "adk_evals_paths=agents/car") == car
    assert collected("-o", "adk_evals=true", "agents/home") == home
    assert collected("--adk-evals", home[1]) == home[1:]
    assert collected("--adk-evals", "ignored/ignored.test.json") == ["ignored/ignored.test.json::ignored"]
    assert collected("--adk-evals", "-m", "not adk_eval") == []
    assert collected("--adk-evals", "-m", "adk_eval", "-k", "slow") == car
    assert collected("--adk-evals", "--deselect", home[0]) == [*car, home[1]]
    items, _ = pytester.inline_genitems("--adk-evals", home[1])
    assert items[0].location == ("agents/home/home.test.json", 34, "v1_2 [x]")
    assert isinstance(items[0].parent.parent if items[0].parent else None, pytest.Session), "no Package is in between"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--adk-evals-set=agent"], "'agent' must have the form KEY=VALUE"),
        (["--adk-evals-set=num_runs=0"], "--num-runs: '0' must be a whole number, at least 1"),
        (["--adk-evals-set=comment=never"], "comment has no effect here"),
        (["-o", "adk_evals_paths=home.test.json:god"], "No case of `home.test.json` matches `god`"),
    ],
)
def test_bad_options__end_the_session_before_anything_runs(
    pytester: pytest.Pytester, root: Path, arguments: list[str], message: str
) -> None:
    write_evals(root, "home.test.json", {"good": ["lamp"]})

    result = pytester.runpytest_inprocess("--adk-evals", *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str() + result.stdout.str()
    assert not (root / "agent-eval-results").exists()


def test_no_eval_file__is_not_green_if_evals_were_asked_for(pytester: pytest.Pytester, root: Path) -> None:
    (root / "test_python.py").write_text("def test_python(): pass\n", "utf-8")

    asked = pytester.runpytest_inprocess("--adk-evals")
    in_file = pytester.runpytest_inprocess("-o", "adk_evals=true")
    write_evals(root, "empty.test.json", {})
    empty = pytester.runpytest_subprocess("--adk-evals", "-n", "2")

    assert asked.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    asked.stdout.fnmatch_lines(["No eval case was collected, so nothing was evaluated.*"])
    assert in_file.ret == pytest.ExitCode.OK
    assert empty.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    empty.assert_outcomes(passed=1)


def test_items_that_the_project_skips__are_not_green_if_all_are(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"one": ["heater"], "two": ["lamp"]})
    pytester.makepyfile("def test_other(): pass")
    hook = "import pytest\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
    pytester.makeconftest(f"{hook}        if 'adk_eval' in item.keywords: item.add_marker(pytest.mark.skip)\n")
    sessions = {
        "alone": pytester.runpytest_inprocess(*EVALS),
        "always": pytester.runpytest_inprocess(*EVALS[1:], "-o", "adk_evals=true"),
        "workers": pytester.runpytest_subprocess(*EVALS, "-n", "2"),
    }
    pytester.makeconftest(f"{hook}        if 'one' in item.name: item.add_marker(pytest.mark.skip)\n")
    one = pytester.runpytest_inprocess(*EVALS, "-k", "two")
    listed = pytester.runpytest_inprocess(*EVALS, "--collect-only", "-q")
    planned = pytester.runpytest_inprocess(*EVALS, "--setup-plan")

    for name, session in sessions.items():
        assert session.ret == pytest.ExitCode.NO_TESTS_COLLECTED, name
        session.stdout.fnmatch_lines(["*ADK evals*", "None of 2 eval cases was run, so nothing was evaluated*"])
    assert [session.ret for session in (one, listed, planned)] == [pytest.ExitCode.OK] * 3


def test_last_failed__runs_a_case_with_any_id_alone(pytester: pytest.Pytester, root: Path) -> None:
    ids = ["a[b]", "a[b]c", "[x]", "a]b", "a b", "x[1]:y"]
    write_evals(root, "home.test.json", {**{name: ["heater"] for name in ids}, "good": ["lamp"]})
    stored = root / ".pytest_cache/v/cache/lastfailed"

    def collected() -> list[str]:
        listed = pytester.runpytest_inprocess(*EVALS[:2], "--lf", "--collect-only", "-q")
        return [line for line in listed.outlines if "::" in line]

    first = pytester.runpytest_inprocess(*EVALS[:2])

    assert first.ret == pytest.ExitCode.TESTS_FAILED
    names = [f"home.test.json::{name}" for name in ids]
    assert collected() == names
    for name in names:
        stored.write_text(json.dumps({name: True}), "utf-8")
        assert collected() == [name]


def test_agent_that_is_missing__is_an_error_of_every_item(pytester: pytest.Pytester, root: Path) -> None:
    write_evals(root, "home.test.json", {"good": ["lamp"], "bad": ["lamp"]})

    result = pytester.runpytest_inprocess("--adk-evals", "--adk-evals-set=agent=nowhere")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*agent-not-found*", "verdict: invalid, exit code 2"])
