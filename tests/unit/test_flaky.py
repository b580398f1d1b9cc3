"""`agent-eval flaky`: proposals from stored results, as JSON and as TOML."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path

import pytest
from history_samples import FILE, case, report
from policy_texts import policy_of

from agent_eval.baseline.reader import UnreadableError
from agent_eval.cli import main
from agent_eval.gate.history.records import extend
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import RunReport
from agent_eval_workbench.commands.flaky import FlakyReport, find_flaky, read_results, render_toml

OUTCOMES = {"steady": "11111111111", "flaky": "11110101010", "once": "11111111110", "broken": "00000000000"}


def days(count: int = 11) -> list[RunReport]:
    """Daily runs on the base branch, each with the history of the earlier ones."""
    reports = []
    history: HistoryReport | None = None
    for day in range(count):
        run = report(*[case(name, outcomes[day]) for name, outcomes in OUTCOMES.items()], day=day)
        history = run.history = extend(history, run, 10)
        reports.append(run)
    return reports


def write(directory: Path, *reports: RunReport) -> list[Path]:
    paths = []
    for number, run in enumerate(reports):
        path = directory / str(number) / "results.json"
        path.parent.mkdir(parents=True)
        path.write_text(run.model_dump_json(), encoding="utf-8")
        paths.append(path)
    return paths


def flaky_cases(*paths: Path) -> FlakyReport:
    return find_flaky(read_results(paths))


def test_find_flaky__history_of_one_result(tmp_path: Path) -> None:
    flaky_report = flaky_cases(*write(tmp_path, days()[-1]))

    assert (flaky_report.records, flaky_report.cases, flaky_report.failing) == (10, 4, [f"{FILE}:broken"])
    [flaky] = flaky_report.proposals
    assert flaky.case_id == f"{FILE}:flaky"
    assert (flaky.failures, flaky.runs, flaky.newest_failed) == (4, 10, True)
    assert (flaky.rate, flaky.low, flaky.high) == (0.4, 0.1682, 0.6873)  # statsmodels' proportion_confint, wilson
    assert flaky.since == "00000004" + "0" * 32
    assert flaky.metrics == {"response_match_score": 4}


def test_find_flaky__several_results_count_each_run_once(tmp_path: Path) -> None:
    reports = days()
    whole = flaky_cases(*write(tmp_path, *reports))

    assert [(proposal.case_id, proposal.runs) for proposal in whole.proposals] == [(f"{FILE}:flaky", 11)]
    assert whole.records == 11
    assert flaky_cases(*write(tmp_path / "some", reports[-1], reports[5], reports[0])) == whole
    errors = [report(case("a", outcome), day=day) for day, outcome in enumerate("1x1x1")]
    [proposal] = flaky_cases(*write(tmp_path / "errors", *errors)).proposals
    assert (proposal.failures, proposal.agent_errors, proposal.metrics) == (2, 2, {}), "of the agent"


def test_find_flaky__skips_pull_requests_and_incomplete_runs(tmp_path: Path) -> None:
    theirs = report(case("flaky", "0"), day=20, pull_request=7)
    killed = report(case("flaky", "0"), case("b", "-"), day=21)
    paths = write(tmp_path, days()[-1], theirs, killed)

    flaky_report = flaky_cases(*paths)
    assert flaky_report.proposals[0].runs == 10
    assert flaky_report.skipped == [f"{paths[1]}: it is a pull request's", f"{paths[2]}: 1 case did not run to the end"]
    assert flaky_cases(paths[1]) == FlakyReport(
        records=0, cases=0, proposals=[], failing=[], skipped=flaky_report.skipped[:1]
    )


TODAY = date(2026, 11, 21)


def test_render_toml__entries(tmp_path: Path) -> None:
    flaky_report = flaky_cases(*write(tmp_path, days()[-1]))

    assert render_toml(flaky_report, today=TODAY, owner="@alice") == (
        "# From 10 runs of 4 cases on the base branch.\n"
        "# Not flaky but broken, never passed: evals/home.test.json:broken\n"
        "# More than 10% of the cases: fix some of them, or raise max-quarantined.\n"
        "\n"
        "# 4 of 10 runs failed (17% to 69% at 95%) since 00000004; response_match_score missed its threshold 4 times\n"
        "[[quarantine]]\n"
        'case = "evals/home.test.json:flaky"\n'
        'reason = "flaky: 4 of 10 runs failed since 00000004"\n'
        'owner = "@alice"\n'
        "expires = 2026-12-21\n"
    )
    assert [problem.message for problem in policy_of(render_toml(flaky_report, today=TODAY))[1]] == [
        '`owner` of [[quarantine]] must be a non-empty text, not "".'
    ]
    policy, problems = policy_of(render_toml(flaky_report, today=TODAY, owner="@alice", days=3))
    assert (problems, policy.quarantine[0].expires) == ([], date(2026, 11, 24))


def test_render_toml__no_proposals(tmp_path: Path) -> None:
    flaky_report = flaky_cases(*write(tmp_path / "two", report(case("a", "1"), day=1), report(case("a", "1"), day=2)))
    assert (
        render_toml(flaky_report, today=TODAY)
        == "# From 2 runs of 1 case on the base branch.\n# No case is flaky in these runs.\n"
    )
    alone = render_toml(flaky_cases(*write(tmp_path / "one", report(case("a", "1")))), today=TODAY)
    assert "Too few runs to find flaky cases" in alone and "No case is flaky" not in alone


def test_render_toml__escapes_hostile_names(tmp_path: Path) -> None:
    evil = 'x"\n[[quarantine]] # \\ \x1b[31m \u202e 卧室 \x7f \U000e0001'
    reports = [report(case(evil, outcome), day=day) for day, outcome in enumerate("10101")]

    text = render_toml(flaky_cases(*write(tmp_path, *reports)), today=TODAY, owner='"\n')

    [entry] = tomllib.loads(text)["quarantine"]
    assert entry["case"] == f"{FILE}:{evil}"
    assert entry["owner"] == '"\n'
    assert "卧室" in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_read_results__unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"results\.json can't be read: No such file"):
        read_results([tmp_path])
    with pytest.raises(UnreadableError, match="can't be read: No such file"):
        read_results([tmp_path / "missing.json"])
    bad = tmp_path / "results.json"
    bad.write_text('{"schema_version": "9"}', encoding="utf-8")
    with pytest.raises(UnreadableError, match=r"in version 9 of the results' schema.* Score its recordings again"):
        read_results([tmp_path])
    twice = days(1)[0]
    write(tmp_path / "twice", twice.model_copy(update={"cases": [*twice.cases, twice.cases[0]]}))
    with pytest.raises(UnreadableError, match=r"has the case \S+ 2 times or more\. Name the results\.json of a run"):
        read_results([tmp_path / "twice"])


def test_command__formats_and_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["flaky"]) == 2
    assert "agent-eval-results does not exist. Run `agent-eval run` first" in capsys.readouterr().err
    write(tmp_path / "agent-eval-results", days()[-1])
    for folder in ([], ["agent-eval-results"]):
        assert main(["flaky", *folder, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["proposals"][0]["case_id"] == f"{FILE}:flaky"
    assert main(["flaky", "--owner", "@bob", "--days", "7"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["quarantine"][0]["owner"] == "@bob"
    assert main(["flaky", str(tmp_path / "missing")]) == 2
    assert "missing can't be read" in capsys.readouterr().err
