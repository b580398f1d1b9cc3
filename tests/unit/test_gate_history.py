"""Earlier runs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from golden_files import as_lines, check, plain, rounded
from history_samples import FILE, SCORE, case, history_of, replayed, report
from hypothesis import given
from hypothesis import strategies as st
from policy_texts import policy_of
from pydantic import ValidationError

from agent_eval.baseline.reader import UnreadableError
from agent_eval.cli import main
from agent_eval.gate.history import KEEP_ROWS, excerpt, extend, join, unfit
from agent_eval_results.data.history import HistoryRecord, HistoryReport
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.data.report import CaseReport, ModelUsageReport, Origin, RunReport
from agent_eval_results.data.stored_runs import stored
from agent_eval_scoring.core.recording import Usage
from agent_eval_workbench.commands.flaky import FlakyReport, find_flaky, read_results, render_toml

# What of a run of the base becomes history, and what is dropped when something changes.

Column = tuple[str, list[int], dict[str, str]]
"""A case's outcomes, the days that they are from, and its scores by metric."""


def columns(history: HistoryReport) -> dict[str, Column]:
    return {
        stored_case.case_id.removeprefix(f"{FILE}:"): (
            stored_case.outcomes,
            [(history.records[int(number)].run_id or 0) - 1000 for number in stored_case.records.split()],
            {history.metrics[int(key)].name: text for key, text in stored_case.scores.items()},
        )
        for stored_case in history.cases
    }


def unscored(eval_id: str, runs: str) -> CaseReport:
    """As the gate writes a case of which every run ended with an error: without metrics."""
    unscored_case = case(eval_id, runs)
    unscored_case.metrics = []
    return unscored_case


def day(number: int, *cases: CaseReport, **changes: Any) -> RunReport:
    return report(*cases, day=number, num_runs=max(len(item.runs) for item in cases)).model_copy(update=changes)


def measured(number: int, *cases: CaseReport) -> RunReport:
    made = day(number, *cases, provenance={"adk (a)": "2.13.0", "python (a)": "3"})
    for at, case_report in enumerate(made.cases):
        case_report.runs[0].duration = float(at + 1)
        case_report.runs[0].usage = Usage(input_tokens=100 * (at + 1), output_tokens=None)
        case_report.metrics[0].judge = "some-judge"
    made.model_usage = [ModelUsageReport(model="some-judge", calls=3, cost=0.25)]
    return made


def with_quarantined() -> RunReport:
    made = report(case("a", "1"), case("b", "0"), case("c", "0"), day=0)
    made.cases[2].status = "quarantined"
    return made


def daily(*days: Sequence[CaseReport]) -> list[RunReport]:
    return [day(number, *cases) for number, cases in enumerate(days)]


A, B, FAILED = case("a", "1"), case("b", "1"), case("a", "0")
EACH = [case("a", "1"), case("b", "0"), case("c", "x"), case("d", "?")]
AS_A, REPLAYED = case("z", "0", fingerprint="content of a"), replayed(case("a", "1"))
COSTLY, OTHER_JUDGE = case("a", "1", tokens=[900.0]), case("a", "0", tokens=[800.0], measures="m2")
C, D = ([case(name, "1", fingerprint="same") for name in names] for names in ("ab", "cd"))
COLUMNS: dict[str, list[RunReport]] = {
    "runs accumulate with the records that they are from": daily(*([case("a", outcome)] for outcome in "101x1")),
    "a run that errored is no failure and no run": daily([case("a", "1p0"), case("b", "p")]),
    "a run that a metric could not judge keeps its other scores": daily([case("a", "?1", tokens=[900.0, 800.0])]),
    "runs that were made to confirm are no fair sample": [report(case("a", "01111"), num_runs=1)],
    "another content restarts that case only": daily([A, B], [case("a", "0", fingerprint="other"), B]),
    "a renamed case keeps its runs": daily([A], [AS_A]),
    "two cases of the same content are not mixed up": daily(C, D),
    # The old run's verdict was the old judge's: nobody knows what the new one would say.
    "another judge drops that metric alone": daily([COSTLY], [OTHER_JUDGE]),
    "another threshold judges again": daily([case("a", scores=[0.6])], [case("a", scores=[0.9], threshold=0.7)]),
    "scores of another scoring version are not kept": [day(0, A, scoring_version=0), day(1, FAILED)],
    "another attempt is another run": [day(0, A), day(0, FAILED, origin=Origin(run_id=1000, run_attempt=2))],
    "the agent answered in no case": daily([A], [unscored("a", "i"), unscored("b", "i")], [A]),
    "the only case of an agent may be flaky": daily([A], [unscored("a", "x")]),
    "but not where it can't start": daily([A], [unscored("a", "i")]),
    "a case without scores keeps those before": daily([case("a", "10"), B], [unscored("a", "x"), B]),
    "a replayed case that fails adds no run": daily([A, B], [replayed(case("a", "0")), B]),
    "a replayed case without a verdict": daily([A, B], [replayed(case("a", "?", tokens=[5.0])), B]),
    "records of each case are kept, not runs": daily(*[[case("a", "110")]] * 13),
    "each case has records of its own": daily(*([A, B] if number in {2, 12} else [B] for number in range(14))),
    "a replayed case is remembered": daily([A, B], *[[REPLAYED, B]] * 11),
    "a case that is left out is remembered for ten runs": daily([A, B], *[[B]] * 9),
    "and no longer": daily([A, B], *[[B]] * 11),
    "what was measured": [measured(0, *EACH), measured(1, *EACH), measured(2, case("a", "1", threshold=0.9))],
    "seconds of live runs": [measured(0, case("a", "1"), replayed(case("b", "1")))],
    "a quarantined case is no part of the pass rate": [with_quarantined()],
}


def without_provenance(record: HistoryRecord) -> str:
    """What is not as by default, on one line, without what all records of these samples have."""
    same = {"tool_version", "scoring_version", "recorded_at", "run_attempt", "run_id"}
    facts = rounded(record.model_dump_json(exclude_defaults=True, exclude=same))
    return plain({**facts, "commit": record.commit[:8]})


def test_history__columns_and_trend() -> None:
    page = []
    for name, reports in COLUMNS.items():
        history = history_of(*reports, keep=10)
        page += [f"# {name}", f"{len(history.records)} records, the last: {without_provenance(history.records[-1])}"]
        page += [f"{of}: {row}" for of, row in columns(history).items()]
        page += [f"trend: {without_provenance(row)}" for row in history.trend[-2:]]
        assert all(stored_case.rules is not None for stored_case in history.cases), "how they were judged is kept"
        assert extend(history, reports[-1], 10) == history, "a run that is there is not added twice"
    check("golden_columns.txt", "\n".join(page) + "\n")


def test_history__nothing_of_a_run_that_was_broken_off_enters() -> None:
    before = history_of(report(case("a", "1")))
    for broken_off in (
        report(case("a", "1"), case("b", "-"), day=1),
        report(case("a", "1-", min_pass_rate=0), day=1, num_runs=2),
        report(day=1),
        report(case("a", "0"), day=1, pull_request=7),
        report(case("a", "0"), day=1).model_copy(update={"verdict": "invalid"}),
        report(replayed(case("a", "0")), day=1),
    ):
        assert unfit(broken_off)
        assert extend(before, broken_off) == before
        assert extend(None, broken_off).cases == []


def test_history__join_takes_each_run_once_in_any_order() -> None:
    reports = [day(number, case("a", outcome), case("b", outcome)) for number, outcome in enumerate("10110")]
    whole = history_of(*reports)
    parts = [history_of(*reports[:3]), history_of(*reports[2:4]), history_of(*reports[3:])]

    assert columns(join(join(parts[0], parts[1]), parts[2])) == columns(whole)
    assert [row.run_id for row in join(parts[2], parts[0]).trend] == [1000, 1001, 1002, 1003, 1004]
    assert set(columns(join(history_of(report(case("z", "1"))), parts[2]))) == {"a", "b", "z"}


@given(st.floats(0, 1))
def test_history__a_stored_score_never_rises(score: float) -> None:
    assert score - 0.0001 - 1e-9 <= stored(score) <= score + 1e-10
    assert stored(stored(score)) == stored(score)
    assert [stored(digits) for digits in (0.29, 0.57, 0.8, 1, 0.0001, 0.3333)] == [0.29, 0.57, 0.8, 1, 0.0001, 0.3333]


@given(st.lists(st.floats(0, 1) | st.floats(1, 1e6), min_size=1, max_size=8))
def test_history__what_is_written_is_read_as_it_was_stored(scores: Sequence[float]) -> None:
    history = history_of(day(0, case("a", scores=scores, threshold=0.5)))
    assert [float(text) for text in columns(history)["a"][2][SCORE].split()] == [stored(score) for score in scores]


DAMAGES: list[dict[str, Any]] = [
    {"outcomes": "1"},
    {"outcomes": "1!"},
    {"records": "0 7"},
    {"records": "0"},
    {"records": "0 -1"},
    {"scores": {"0": "1"}},
    {"scores": {"0": "1 nan"}},
    {"scores": {"0": "1 one"}},
    {"scores": {"9": "1 1"}},
    {"scores": {"x": "1 1"}},
    {"rules": 5},
    {"rules": -1},
]


def test_history__a_history_whose_columns_do_not_fit_is_refused() -> None:
    data = history_of(report(case("a", "1")), report(case("a", "1"), day=1)).model_dump()
    HistoryReport.model_validate(data)
    for damage in DAMAGES:
        with pytest.raises(ValidationError):
            HistoryReport.model_validate({**data, "cases": [data["cases"][0] | damage]})


# -- trend


def test_trend__it_outlives_the_columns_and_other_scoring_versions() -> None:
    days = [report(case("a", "1"), day=day) for day in range(KEEP_ROWS + 5)]
    history = history_of(*days, keep=1)
    assert [row.run_id for row in history.trend] == [1000 + day for day in range(5, KEEP_ROWS + 5)]
    assert len(history.records) == 1
    assert extend(history, days[7], 1) == history, "an old run that comes again is not new"
    assert extend(history, report(case("a", "0"), day=999, pull_request=3), 1).trend == history.trend

    rescored = report(case("a", "0"), day=500).model_copy(update={"scoring_version": history.scoring_version + 1})
    later = extend(history, rescored, 1)
    assert [row.scoring_version - history.scoring_version for row in later.trend[-2:]] == [0, 1]
    assert len(later.records) == 1 and len(later.trend) == KEEP_ROWS
    assert [row.run_id for row in join(history, later).trend] == [row.run_id for row in later.trend]


def test_excerpt__outcomes_of_the_cases_that_were_run_by_their_present_ids() -> None:
    history = history_of(report(case("a", "1"), case("b", "0"), case("c", "1"), case("gone", "1")))
    renamed = case("new_b", "1", fingerprint="content of b")
    head = [case("a", "1"), renamed, case("c", "1", fingerprint="edited")]
    kept = excerpt(history, pair_up(head, (), history=history.cases).stored, with_scores={f"{FILE}:a"})
    assert [(item.case_id, item.outcomes, bool(item.scores)) for item in kept.cases] == [
        (f"{FILE}:a", "1", True),
        (f"{FILE}:new_b", "0", False),
    ]
    assert HistoryReport.model_validate_json(kept.model_dump_json()) == kept
    assert kept.trend == history.trend


# `agent-eval flaky`: proposals from stored results, as JSON and as TOML.

OUTCOMES = {"steady": "11111111111", "flaky": "11110101010", "once": "11111111110", "broken": "00000000000"}


def days(count: int = 11) -> list[RunReport]:
    """Daily runs on the base branch, each with the history of the earlier ones."""
    reports = [report(*(case(name, of[day]) for name, of in OUTCOMES.items()), day=day) for day in range(count)]
    history: HistoryReport | None = None
    for run in reports:
        history = run.history = extend(history, run, 10)
    return reports


def write(directory: Path, *reports: RunReport) -> list[Path]:
    paths = [directory / str(number) / "results.json" for number, _ in enumerate(reports)]
    for path, run in zip(paths, reports, strict=True):
        path.parent.mkdir(parents=True)
        path.write_text(run.model_dump_json(), encoding="utf-8")
    return paths


def flaky_cases(*paths: Path) -> FlakyReport:
    return find_flaky(read_results(paths))


TODAY = date(2026, 11, 21)


def test_flaky__what_is_found_in_stored_results_and_proposed(tmp_path: Path) -> None:
    stored_runs: dict[str, list[RunReport]] = {
        "the history of one result": days()[-1:],
        "all results, each run once": days(),
        "some of them": [days()[number] for number in (10, 5, 0)],
        "errors of the agent": [report(case("a", outcome), day=day) for day, outcome in enumerate("1x1x1")],
        "a pull request and a run that was killed": [
            days()[-1],
            report(case("flaky", "0"), day=20, pull_request=7),
            report(case("flaky", "0"), case("b", "-"), day=21),
        ],
        "a pull request alone": [report(case("flaky", "0"), day=20, pull_request=7)],
        "two runs": [report(case("a", "1"), day=day) for day in (1, 2)],
        "one run": [report(case("a", "1"))],
    }
    page = []
    for name, reports in stored_runs.items():
        found = flaky_cases(*write(tmp_path / name, *reports))
        page += [f"# {name}", *as_lines(found), render_toml(found, today=TODAY, owner="@alice")]
    check("golden_flaky.txt", "\n".join(page).replace(f"{tmp_path}/", ""))
    found = flaky_cases(*write(tmp_path / "last", days()[-1]))
    assert [problem.message for problem in policy_of(render_toml(found, today=TODAY))[1]] == [
        '`owner` of [[quarantine]] must be a non-empty text, not "".'
    ]
    policy, problems = policy_of(render_toml(found, today=TODAY, owner="@alice", days=3))
    assert (problems, policy.quarantine[0].expires) == ([], date(2026, 11, 24))


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
    with pytest.raises(UnreadableError, match=r"has the case \S+ 2 times or more\. Run `agent-eval run` again"):
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
