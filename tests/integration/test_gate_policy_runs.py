"""Policy and quarantine on a real pull request, and what `agent-eval flaky` makes of the base branch's results."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gate_runs import Done, Repository
from pull_requests import Lab

from agent_eval.cli import main
from agent_eval.forge import ACCEPT_RULES

CASES = ("lamp_on", "lamp_off", "heater", "door")
SOON = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
RULES = """\
max-quarantined = 0.25

[[quarantine]]
case = "evals/bot.evalset.json:door"
reason = "the door's sensor is late, #12"
owner = "@alice"
expires = {expires}

[[policy]]
cases = ":heater"
blocking = false
"""


def test_the_bases_policy_counts__and_a_quarantine_that_has_ended_does_not(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.commit({"door": 0.0}, **{"agent-eval.toml": RULES.format(expires=SOON)})
    base = lab.base_run()
    assert base.code == 0, base.out + base.err
    assert base.statuses["door"] == "quarantined"
    door = next(case for case in base.report.cases if case.eval_id == "door")
    assert door.reason is not None
    assert door.reason.message.endswith(f"; quarantined until {SOON} by @alice: the door's sensor is late, #12")
    assert any("1 quarantined case, which failed; it doesn't block" in notice for notice in base.report.notices)
    assert base.report.history is not None
    assert [case.outcomes for case in base.report.history.cases] == ["1", "1", "1", "0"], (
        "they are history all the same"
    )
    assert main(["flaky", str(base.output), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1

    # Months later: no one has repaired the door, and a pull request removes the entries.
    lab.commit({"door": 0.0}, **{"agent-eval.toml": RULES.format(expires="2026-01-31")})
    done = lab.pull_request(7, {"door": 0.0, "lamp_on": 0.0, "heater": 0.0}, files={"agent-eval.toml": "# nothing\n"})

    report = done.report
    assert (done.code, report.verdict, report.gate) == (1, "failed", "regressions"), done.out + done.err
    assert set(done.statuses.values()) == {"passed", "failed"}
    assert all("lamp_on" in reason.message and "heater" not in reason.message for reason in report.reasons)
    text = " ".join(report.notices)
    assert "1 case that only informs failed: evals/bot.evalset.json:heater" in text
    assert "1 case failed as on main (evals/bot.evalset.json:door" in text
    warnings = [problem for problem in report.problems if problem.code == "quarantine-expired"]
    assert [problem.severity for problem in warnings] == ["warning"]
    assert warnings[0].message.startswith("agent-eval.toml of the base branch, line 3: ")


RENAMES = f"""\
max-quarantined = 0.5

[[quarantine]]
case = ":flaky_*"
reason = "the sensor is late, #12"
owner = "@alice"
expires = {SOON}

[[policy]]
cases = ":draft_*"
blocking = false

[[policy]]
metric = "response_match_score"
cases = ":lamp_*"
threshold = 1.0
"""


@pytest.mark.slow
def test_renaming_a_case__does_not_loosen_its_policy(lab: Lab) -> None:
    """A broken case that is renamed to match an exception of the base branch still blocks, until it is accepted."""
    path = "evals/bot.evalset.json"
    lab.repository.evals(path, {case: f"Say {case}." for case in ("lamp_on", "lamp_off", "flaky_x", "draft_x")})
    evals = (lab.repository.root / path).read_text("utf-8")
    lab.commit({}, **{"agent-eval.toml": RENAMES})
    base = lab.base_run()
    assert base.code == 0, base.out + base.err

    def renamed(number: int, new: str, **options: Any) -> Done:
        text = evals.replace('"lamp_on"', f'"{new}"')
        return lab.pull_request(number, {"lamp_on": 0.0}, files={path: text, "more": new}, **options)

    for number, new in enumerate(("flaky_lamp", "draft_lamp"), 7):
        done = renamed(number, new)

        assert done.code == 1, done.out + done.err
        assert done.statuses[new] == "failed"
        assert done.report.blocking == [f"{path}:{new}"]
        assert done.report.rule_changes is not None
        assert done.report.rule_changes.renamed == {f"{path}:{new}": f"{path}:lamp_on"}
        comment = lab.comment(number)
        assert "the stricter policy of both ids decides" in comment and ACCEPT_RULES in comment
        assert "The rules of this pull request decide" not in comment

    accepted = renamed(7, "flaky_lamp", label=ACCEPT_RULES)

    assert accepted.code == 0, accepted.out + accepted.err
    assert accepted.statuses["flaky_lamp"] == "quarantined"
    comment = lab.comment()
    assert "The rules of this pull request decide: maintainer set the label" in comment

    # Two cases that have each other's ids do not have each other's policy.
    swapped = evals.replace('"lamp_on"', '"?"').replace('"flaky_x"', '"lamp_on"').replace('"?"', '"flaky_x"')
    done = lab.pull_request(9, {"lamp_on": 0.0}, files={path: swapped})

    assert done.code == 1, done.out + done.err
    assert done.report.blocking == [f"{path}:flaky_x"]


@pytest.mark.slow
def test_a_quarantined_case_that_is_broken_now__is_at_the_top_of_every_report(lab: Lab) -> None:
    lab.commit({}, **{"agent-eval.toml": RULES.format(expires=SOON)})
    assert lab.base_run().code == 0

    done = lab.pull_request(7, {"door": 0.0})

    assert done.code == 0, done.out + done.err
    comment = lab.comment()
    summary = (done.output / "summary.md").read_text("utf-8")
    for text in (comment.split("\n", 1)[1], summary):
        lines = [line for line in text.splitlines() if line]
        assert lines[0].startswith("## ⚠️")
        assert lines[1].startswith("**Next:** ") and "now always fails: evals/bot.evalset.json:door" in lines[2]
        assert text.count("now always fails") == 1
        [row] = [line for line in lines if line.startswith("| 🟡")]
        assert "needs 1.00" in row, "what it did, not only that a quarantined case is not compared"
    assert "now always fails: evals/bot.evalset.json:door" in " ".join(done.out.split())
    assert [warning for warning in done.report.warnings if "door" in warning]


@pytest.mark.slow
def test_extra_runs__are_judged_by_the_policys_thresholds(lab: Lab) -> None:
    rules = '[[policy]]\nmetric = "response_match_score"\nthreshold = 1.0\n'
    config = json.dumps({"criteria": {"response_match_score": 0.3}})
    lab.commit({}, **{"agent-eval.toml": rules, "evals__test_config.json": config})
    assert lab.base_run().code == 0

    done = lab.pull_request(7, {"lamp_on": 0.0, "else": "Say lamp."})

    assert done.code == 1, done.out + done.err
    [extra] = done.report.confirmations
    assert extra.runs and {run.status for run in extra.runs} == {"failed"}, "0.3 would let them pass"


@pytest.mark.slow
def test_rerun__what_the_base_branch_answers_today_is_judged_by_the_policy_too(lab: Lab) -> None:
    rules = '[[policy]]\nmetric = "response_match_score"\nthreshold = 1.0\n'
    config = json.dumps({"criteria": {"response_match_score": 0.3}})
    weak = {"lamp_on": 0.0, "else": "Say lamp."}
    lab.commit(weak, **{"agent-eval.toml": rules, "evals__test_config.json": config})

    done = lab.pull_request(7, weak, "--baseline", "rerun", files={"README.md": "new"})

    assert done.code == 0, done.out + done.err
    comparison = done.report.comparison
    assert comparison is not None
    assert {case.eval_id: case.change for case in comparison.cases} == {"lamp_on": "still_failing"}
    assert comparison.pass_rate.head == comparison.pass_rate.base == 0.75
    assert not [note for note in comparison.notes if note.code == "threshold-moved"]


def test_fail_fast__ends_at_a_case_that_fails_by_the_policy(repository: Repository) -> None:
    path = "evals/bot.evalset.json"
    repository.evals(path, {case: f"Say {case} now." for case in ("door", "heater", "lamp_on", "lamp_off")})
    answers = {"door": "No.", "heater": "No.", "lamp_on": "Say lamp."}
    repository.record(path, answers)
    mild = '\n[[policy]]\nmetric = "response_match_score"\nthreshold = 0.3\n'
    repository.write({"agent-eval.toml": RULES.format(expires=SOON) + mild})

    def run(*arguments: str) -> Done:
        flags = ("--agent", "recorded:answers.json", "--fail-fast", "--concurrency", "1")
        return repository.gate("run", "evals", *flags, *arguments, python=False, environment={"CI": ""})

    done = run()
    assert done.statuses == {"door": "quarantined", "heater": "failed", "lamp_on": "passed", "lamp_off": "passed"}
    assert done.code == 0
    assert "turn below a threshold" not in done.out, "its one turn reaches the policy's"
    assert run("--threshold", "response_match_score=0.9").statuses["lamp_off"] == "not_run"
