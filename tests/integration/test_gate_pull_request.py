"""The gate on pull requests, from end to end: real git, real agents, and a GitHub that is held to its description."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from base_repos import new_repo
from dead_or_alive import ECHO, IN_A_TURN
from fake_github import FakeGitHub, Fault, secondary_limit
from gate_runs import Done, Repository, anywhere, eval_set
from golden_files import check
from pull_requests import BOT, Lab
from runner_log import outputs_in

from agent_eval_results import BASE_RECORDINGS, BASELINE_RECORDINGS, Recording, StoredCase, StoredLines
from agent_eval_scoring.core.content import text_of

# The gate on pull requests, from end to end: real git, real agents, and a GitHub that is held to its description.


CASES = ("lamp_on", "lamp_off", "heater", "door", "window")


def ours(lab: Lab, number: int = 7) -> list[str]:
    return [item.body for item in lab.github.state.comments_of(number) if "agent-eval key=" in item.body]


def test_a_pull_request_that_breaks_a_case__is_caught_and_reported__and_so_is_its_fix(lab: Lab) -> None:
    for number in range(250):
        lab.github.state.comment(7, f"Comment {number}")
    broken = {"door": 0.0}
    story = [lab.told("broken, without a baseline", lab.pull_request(7, broken))]
    job = lab.repository.root.parent / f"job-{lab.runs[-1].id}"
    outputs = (job / "output").read_text("utf-8")
    assert "none-yet" in outputs and "/issues/7" not in outputs
    assert lab.github.server_url in outputs, "the comment's address"
    assert lab.base_run(code=0).report.history is not None

    done = lab.pull_request(7, broken)

    story.append(lab.told("broken", done))
    baseline, decision = done.report.baseline, done.report.decision
    assert baseline is not None and (baseline.status, baseline.distance) == ("found", 0)
    assert decision is not None and [case.word for case in decision.cases] == ["broken"]
    assert "No idea." in lab.comment()
    _both_sides_are_stored(done)
    repaired = lab.pull_request(7, {})
    story.append(lab.told("repaired", repaired))
    assert not any((repaired.output / name).exists() for name in (BASE_RECORDINGS, BASELINE_RECORDINGS))
    assert len(lab.github.state.comments_of(7)) == 251

    # It does not choose its own rules.
    lab.repo.git("checkout", "-q", "main")
    lab.commit({}, **{"agent-eval.toml": "num-runs = 2\n"})
    own = lab.pull_request(8, broken, files={"agent-eval.toml": 'gate = "advisory"\nnum-runs = 1\n'})
    check("golden_gate/pull_requests.txt", "".join([*story, lab.told("with rules of its own", own, 8)]))


def _both_sides_are_stored(done: Done) -> None:
    """What a reader needs beside the scores: what was expected, what main did then and now, and its trend."""
    report, output = done.report, done.output
    stored = list(StoredLines(path=output / "cases.jsonl.gz", model=StoredCase))
    assert [(line.case_id, line.fingerprint) for line in stored] == [
        (case.case_id, case.fingerprint) for case in report.cases
    ]
    today = list(StoredLines(path=output / BASE_RECORDINGS, model=Recording))
    assert {run.run_id for run in today} == {run.run_id for case in report.base_runs for run in case.runs}
    assert {text_of(run.invocations[0].final_response) for run in today} == {"Say door."}
    [then] = StoredLines(path=output / BASELINE_RECORDINGS, model=Recording)
    assert (then.eval_id, then.run, text_of(then.invocations[0].final_response)) == ("door", 0, "Say door.")
    assert report.baseline is not None and report.baseline.recordings_note is None
    history = report.base_history
    assert history is not None and [row.passed for row in history.trend] == [5]
    assert {case.case_id: bool(case.scores) for case in history.cases} == {
        case.case_id: case.eval_id == "door" for case in report.cases
    }
    assert {case.outcomes for case in history.cases} == {"1"}


@pytest.mark.slow
def test_a_base_branch_that_got_worse_little_by_little__is_said_on_main_and_on_pull_requests(lab: Lab) -> None:
    done = lab.base_run(upload=False)
    results = json.loads((done.output / "results.json").read_text("utf-8"))
    [row] = results["history"]["trend"]
    earlier = [
        row | {"run_id": day, "recorded_at": 86_400 * day, "passed": 5 - low, "failed": low}
        for day in range(1, 31)
        for low in [int(day > 18)]
    ]
    results["history"]["trend"] = [*earlier, row]
    (done.output / "results.json").write_text(json.dumps(results), "utf-8")
    lab.github.state.upload(lab.runs[-1], done.output)
    lab.commit({"door": 0.0})

    on_main = lab.base_run(code=1)
    pull_request = lab.pull_request(7, {"door": 0.0}, files={"README.md": "w"}, code=0)

    for run, done in zip(lab.runs[-2:], (on_main, pull_request), strict=True):
        assert any(
            notice.startswith("The base branch got worse: 98.0% of its cases passed") for notice in done.report.notices
        )
        output = (lab.repository.root.parent / f"job-{run.id}" / "output").read_text("utf-8")
        assert dict(outputs_in(output))["base-worse"] == "true"


@pytest.mark.slow
def test_pull_request__fail_fast_does_not_stop_at_a_case_that_fails_on_the_base_branch_too(lab: Lab) -> None:
    """It stopped every pull request after the first such case: inconclusive, whatever the change was."""
    lab.commit({"lamp_on": 0.0})

    done = lab.pull_request(7, {"lamp_on": 0.0}, "--fail-fast", "--baseline", "artifact", files={"README.md": "w"})

    assert (done.code, done.report.gate, done.report.totals.not_run) == (1, "thresholds", 0), done.out + done.err
    assert any(notice.endswith("and there turned out to be none") for notice in done.report.notices)

    lab.base_run()

    done = lab.pull_request(7, {"lamp_on": 0.0}, "--fail-fast", "--concurrency", "1", files={"README.md": "x"})

    assert (done.code, done.report.gate, done.report.totals.not_run) == (0, "regressions", 0), done.out + done.err
    assert any(notice.startswith("`fail-fast` had no effect") for notice in done.report.notices)


@pytest.mark.slow
def test_pushing_until_it_is_green__is_noticed(lab: Lab, github: FakeGitHub) -> None:
    """The second push is lucky in its screening: its first answer is right and all others are wrong."""
    lab.base_run()
    lab.pull_request(7, {"door": 0.0}, upload=True, code=1)

    lucky = BOT.replace("good = random", "good = lucky(said) or random") + LUCKY
    again = lab.pull_request(7, {"door": 0.0}, files={"bot/agent.py": lucky}, upload=True)
    assert again.statuses["door"] == "passed", "its screening run"
    assert (again.code, again.report.verdict) == (1, "failed"), again.out + again.err
    assert "1 case of the previous push" in again.err

    for seen in lab.repository.root.glob("bot/seen-*"):
        seen.unlink()
    strangers = lab.pull_request(8, {"door": 0.0}, files={"bot/agent.py": lucky})
    assert strangers.code == 0, "another pull request has nothing to do with it"

    repaired = lab.pull_request(7, {})
    assert (repaired.code, repaired.report.verdict) == (0, "passed"), repaired.out + repaired.err


@pytest.mark.slow
def test_starting_the_job_again__until_it_is_green__does_not_erase_what_the_first_attempt_measured(lab: Lab) -> None:
    """The screening of each other attempt is lucky: its answer is right, and all further ones are wrong."""
    lucky = lab.repository.root.parent / "lucky"
    once = "(said == 'Say door.' and LUCKY.exists() and not LUCKY.unlink()) or random"
    agent = BOT.replace("good = random", f"good = {once}") + f"\nLUCKY = Path({str(lucky)!r})\n"
    lab.base_run()
    lab.pull_request(7, {"door": 0.0}, files={"bot/agent.py": agent}, upload=True, code=1)

    for count in (1, 2):
        lucky.touch()
        again = lab.again(upload=True, code=1)
        assert again.statuses["door"] == "passed", "its screening run"
        counted = f"What {count} earlier attempt{'s' * (count > 1)} to test this commit measured counts as well"
        assert counted in lab.comment() and counted in (again.output / "summary.md").read_text("utf-8")
        assert again.report.decision is not None
        assert [case.case_id for case in again.report.decision.cases if case.blocking] == [
            "evals/bot.evalset.json:door"
        ]

    lab.github.state.artifacts = {
        key: own for key, own in lab.github.state.artifacts.items() if own.run_id != lab.runs[-1].id
    }
    lucky.touch()
    remembered = lab.again(code=1)
    assert "What 3 earlier attempts to test this commit measured counts as well" in lab.comment(), "by the comment"
    assert remembered.report.decision is not None
    assert {case.case_id for case in remembered.report.confirmations} == {"evals/bot.evalset.json:door"}

    lab.github.state.comments.clear()
    lucky.touch()
    alone = lab.again()
    missing = "The results of this job's earlier attempts are unavailable: upload results"
    assert missing in lab.comment() and missing in (alone.output / "summary.md").read_text("utf-8")
    assert {case.case_id: len(case.runs) >= 2 for case in alone.report.confirmations} == dict.fromkeys(
        (case.case_id for case in alone.report.cases), True
    )
    assert alone.code == 1, "by its own runs"

    repaired = lab.pull_request(7, {})
    assert repaired.code == 0, "a push is another commit"


LUCKY = """

def lucky(said):
    first = Path(__file__).with_name(f"seen-{len(said)}")
    if said != "Say door." or first.exists():
        return False
    first.touch()
    return True
"""


def test_a_fork__where_no_one_may_write__is_published_by_the_second_workflow(lab: Lab) -> None:
    lab.base_run()
    lab.github.read_only = True
    low = {"evals/test_config.json": '{"criteria": {"response_match_score": 0.1}}', "agent-eval.toml": ""}
    rates = {"door": 0.0, "else": "@octocat closes #1 <b>no</b>"}
    gated = lab.pull_request(7, rates, files=low, fork="stranger/shop", upload=True, code=1)
    run = lab.runs[-1]
    assert "::notice title=No comment::" in gated.out and "job summary" in gated.out
    assert ours(lab) == []
    lab.github.read_only = False
    shutil.rmtree(gated.output)

    done = lab.publish(run, code=0)

    [comment] = ours(lab)
    assert "door" in comment and "uploaded by the fork's own run" in comment
    # By GitHub's word: the run could keep it to itself.
    assert "This pull request changes what is scored: agent-eval.toml, evals/test" in comment
    assert "@octocat" not in re.sub(r"```.*?```", "", comment, flags=re.DOTALL), "a mention works outside of code only"
    assert not done.output.exists(), "nothing was run"


KEYED = """
from google.adk.agents.llm_agent import LlmAgent

root_agent = LlmAgent(name="bot", model="gemini-2.5-flash", instruction="Be brief.")
"""


def test_a_fork_whose_agent_needs_a_model_key__has_the_reason_in_the_headline(lab: Lab) -> None:
    none = dict.fromkeys(("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"), "")

    done = lab.pull_request(7, files={"bot/agent.py": KEYED}, fork="stranger/shop", environment=none, code=3)

    assert done.report.reasons[0].code == "no-secrets"
    said = "Can't tell yet, blocks until it can: the run has no model key: a fork's pull request gets no secrets"
    assert said in ours(lab)[0].splitlines()[1]
    assert said in " ".join(done.out.split())


def test_trouble_with_github__never_changes_the_verdict(lab: Lab) -> None:
    for number, fault in enumerate((Fault(status=403, times=1_000), Fault(status=200, body=b"<html>", times=1_000)), 7):
        lab.github.faults[:] = [fault]

        done = lab.pull_request(number, {}, code=0)

        assert done.report.baseline is not None and done.report.baseline.status == "fetch-failed"
        assert "comment could not be posted" in done.err
        assert lab.github.token not in done.err + done.out + (done.output / "results.json").read_text("utf-8")


def test_an_outage_of_github__does_not_fail_what_may_fail_on_the_base_as_well(lab: Lab) -> None:
    lab.commit({"door": 0.0})
    lab.base_run()
    limited = Fault(path="/runs", status=429, headers={"retry-after": "1000"}, times=1_000)
    lab.github.faults[:] = [limited]

    done = lab.pull_request(7, {"door": 0.0}, code=3)

    [reason] = done.report.reasons
    assert reason.code == "provider-unavailable" and reason.data["cases"] == ["evals/bot.evalset.json:door"]
    said = "1 case failed, and the results of main to compare with could not be fetched"
    assert said in ours(lab)[0].splitlines()[1]
    assert "run the failed job again" in ours(lab)[0]
    # A fork's check may be green after an outage, but not over a score that is too low.
    lab.pull_request(8, {"door": 0.0}, "--on-inconclusive", "pass", fork="stranger/shop", code=3)
    limited.times = 0
    assert lab.again().report.verdict == "passed"
    limited.times = 1_000
    notices = lab.base_run(upload=False).report.notices
    assert any(notice.startswith("The history of earlier runs could not be read") for notice in notices)


def test_pull_request__ignoring_an_eval_file_does_not_hide_it(lab: Lab) -> None:
    lab.repository.evals("more/bot.evalset.json", {"fan": "Say fan."})
    lab.commit({})
    lab.base_run()
    ignored = {".gitignore": "evals/\nagent-eval-results/\n__pycache__/\n", "evals__.gitignore": "*\n"}

    broken = lab.pull_request(7, {"door": 0.0}, files={**ignored, "evals__pyvenv.cfg": ""})

    assert (broken.code, broken.report.verdict) == (1, "failed"), broken.out + broken.err
    assert broken.statuses == {**dict.fromkeys(CASES, "passed"), "door": "failed", "fan": "passed"}

    some = lab.pull_request(7, {}, "more")

    assert (some.code, some.statuses) == (0, {"fan": "passed"}), some.out + some.err
    assert some.report.comparison is not None
    assert (some.report.comparison.cases, some.report.comparison.compared) == ([], 1)
    assert "5 cases of the base branch not compared" in some.report.comparison.notes[0].message
    assert "gone" not in ours(lab)[0].lower()


def test_link__adds_the_report_to_the_comment_of_this_run_only(lab: Lab, github: FakeGitHub) -> None:
    lab.base_run()
    broken = lab.pull_request(7, {"door": 0.0})
    url = f"{github.server_url}/octo/shop/actions/runs/{lab.runs[-1].id}/artifacts/5"
    assert "#case=" not in ours(lab)[0]

    linked = lab.link(url)

    assert (linked.code, linked.err) == (0, "agent-eval: The comment was updated.\n")
    assert broken.results == linked.results, "nothing was run"
    [comment] = ours(lab)
    assert f"[Open the report]({url})" in comment.splitlines()[3]
    assert f"[`door`]({url}#case=evals%2Fbot.evalset.json%3Adoor)" in comment
    summary = Path(lab.environments[lab.runs[-1].id]["GITHUB_STEP_SUMMARY"]).read_text("utf-8")
    assert summary.endswith(f"[Open the report]({url}): every case, turn by turn.\n")
    writes = len(github.writes())
    assert lab.link(url).code == 0
    assert len(github.writes()) == writes, "the same text is not sent again"

    # 403: the job summary has the link, and the job goes on.
    github.faults.append(Fault(method="PATCH", status=403, times=10))
    refused = lab.link(f"{url}0")
    github.faults[:] = [secondary_limit(times=99)]
    late = lab.link(f"{url}0")
    github.faults.clear()
    assert (refused.code, "could not be posted" in refused.err) == (0, True), refused.err
    assert "but only 30 s are left" in late.err, "the job has its verdict, and waits for nothing else"

    # A newer run has commented, or the results are of another attempt: the comment is left alone.
    first = lab.runs[-1]
    lab.pull_request(7, {"door": 0.0}, files={"README.md": "w"})
    newer = ours(lab)
    assert comment not in newer
    wrong = [f"{page.format(server=github.server_url)}/actions/runs/1/artifacts/5" for page in WRONG]
    said = [lab.link(url, run=first), *map(lab.link, ("", *wrong))]
    check("golden_gate/links.txt", anywhere("".join(f"exit {done.code}: {done.err}" for done in said)))
    assert ours(lab) == newer


WRONG = ("https://evil.example/octo/shop", "{server}/octo/other", "javascript:alert(1)//")


@pytest.mark.slow
def test_link__makes_no_comment_and_links_no_fork(lab: Lab, github: FakeGitHub) -> None:
    url = f"{github.server_url}/octo/shop/actions/runs/71/artifacts/5"
    for number, arguments, fork, message in (
        (7, ("--comment", "never"), None, "no comment of this run"),
        (8, (), "eve/shop", "from a fork"),
    ):
        lab.pull_request(number, {}, *arguments, fork=fork)
        before = ours(lab, number)
        done = lab.link(url)
        assert (done.code, ours(lab, number), message in done.err) == (0, before, True), done.err


# A bad moment of the pull request's first runs, end to end: what fresh runs do not show again blocks nothing.


NUMBERS = {f"case{number}": f"Say the number {number}." for number in range(20)}
EVALS, HICCUPS = "evals/bot.evalset.json", range(6)


AWAY = """
        mark = Path({marks!r}) / text.split()[-1].rstrip(".")
        if mark.name in {away} and not mark.exists():
            mark.touch()
            text = "My calendar does not answer."
"""
"""Its dependency is away in the first call of some cases: a file remembers that it was called."""


@pytest.mark.slow
def test_hiccup__an_unchanged_pull_request_whose_first_calls_fail_passes(tmp_path: Path) -> None:
    repo, repository, marks = new_repo(tmp_path / "repo"), Repository(root=tmp_path / "repo"), tmp_path / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    turn = AWAY.format(marks=str(marks), away=[str(number) for number in HICCUPS]).removeprefix("\n")
    agent = "from pathlib import Path\n" + ECHO.replace(IN_A_TURN, IN_A_TURN + turn)
    repo.write({"bot/__init__.py": "from . import agent\n", "bot/agent.py": agent})
    repository.evals(EVALS, NUMBERS)
    for number in HICCUPS:
        (marks / str(number)).touch()
    base = repository.gate("run", "evals", "--num-runs", "10", output=tmp_path / "base", code=0)
    shutil.copy(base.output / "results.json", repo.root / "evals" / "base.json")
    repo.commit({}, "The base branch, and what it did")
    repo.branch("pull-request")
    repo.commit({"notes.md": "Nothing of the agent.\n"}, "The pull request")

    def compared(*arguments: str) -> Done:
        for number in HICCUPS:
            (marks / str(number)).unlink()
        return repository.gate("run", "evals", "--baseline", "file:evals/base.json", "--base-ref", "main", *arguments)

    done = compared()
    assert done.report.decision is not None
    assert (done.code, done.report.decision.outcome) == (0, "passed"), done.out + done.err
    fresh = {case.case_id: len(case.runs) for case in done.report.confirmations}
    assert all(fresh[f"{EVALS}:case{number}"] >= 2 for number in HICCUPS)

    # Where the head can't run again, nothing is seen again: that is no pass, and blocks nothing.
    unconfirmed = compared("--max-extra-runs", "0")
    assert unconfirmed.report.decision is not None
    assert (unconfirmed.code, unconfirmed.report.decision.outcome) == (3, "inconclusive"), unconfirmed.err


# A repository of many agents whose eval sets and cases have the same ids: a case is identified by its file.


CONFIG = {"criteria": {"response_match_score": 1.0}}
AGENTS = [f"agent{number:02}" for number in range(20)]


def greets(answer: str) -> dict[str, Any]:
    return eval_set("default", {"greets": [("hello", answer)]})


@pytest.fixture
def monorepo(repository: Repository) -> Repository:
    """Agent 7 is the one that says something else than expected."""
    mapping = (f'"{name}/**" = "recorded:{name}/answers/said.json"\n' for name in AGENTS)
    repository.write({"agent-eval.toml": f"[agents]\n{''.join(mapping)}", "test_config.json": CONFIG})
    for name in AGENTS:
        repository.write({f"{name}/default.test.json": greets(f"I am {name}")})
        repository.write({f"{name}/answers/said.json": greets(f"I am {name.replace('07', 'seven')}")})
    return repository


def failed(done: Done) -> list[str]:
    assert (len(done.report.cases), done.report.problems) == (len(AGENTS), []), done.err
    return [case.case_id for case in done.report.cases if case.status == "failed"]


def test_monorepo__validates_runs_compares_and_resumes(monorepo: Repository, tmp_path: Path) -> None:
    validated = monorepo.gate("validate")
    assert (validated.code, validated.err) == (0, ""), validated.out
    first = monorepo.gate("run", python=False, output=tmp_path / "first")
    assert (first.code, failed(first)) == (1, ["agent07/default.test.json:greets"])

    # Its own recordings answer each file with what was said there, though all have the same set and eval id.
    again = monorepo.gate("run", "--agent", f"recorded:{tmp_path / 'first'}", python=False, output=tmp_path / "again")
    assert again.code == 1
    assert [case.case_id for case in again.report.cases if case.status == "failed"] == failed(first)
    warned = {(problem.severity, problem.code) for problem in again.report.problems}
    assert warned == {("warning", "duplicate-eval-set-id")}, "here they have one agent"

    monorepo.write({"agent07/answers/said.json": greets("I am agent07")})
    fixed = monorepo.gate("run", python=False, output=tmp_path / "fixed")
    assert (fixed.code, failed(fixed)) == (0, [])
    compared = monorepo.gate("compare", str(fixed.output), str(first.output))
    assert "20 cases compared: 1 newly passing, 19 passing as before" in compared.out
    itself = monorepo.gate("compare", str(first.output), f"{first.output}/.", code=2)
    assert "would be compared with itself" in itself.err

    # A selection does not report the others as gone.
    some = monorepo.gate("run", "agent03", "agent04/*.test.json", python=False, output=tmp_path / "some")
    assert (some.code, some.report.problems) == (0, [])
    compared = monorepo.gate("compare", str(some.output), str(fixed.output))
    assert "2 cases compared: 2 passing as before" in compared.out and "removed" not in compared.out
    assert "18 cases of the base branch not compared" in compared.out

    # What a killed run leaves: the journal with most of the runs.
    lines = gzip.decompress((fixed.output / "recordings.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (fixed.output / "journal.jsonl").write_bytes(b"".join(lines[:15]))
    resumed = monorepo.gate("run", "--resume", python=False, output=fixed.output)
    assert (resumed.code, failed(resumed)) == (0, [])
    assert "15 runs taken from the journal" in resumed.out


def test_monorepo__recording_that_could_belong_to_two_files(monorepo: Repository, tmp_path: Path) -> None:
    monorepo.gate("run", "agent01", "agent02", python=False, output=tmp_path / "old")
    for name in ("agent01", "agent02"):
        (monorepo.root / name / "default.test.json").rename(monorepo.root / name / "moved.test.json")
    done = monorepo.gate(
        "run", "agent01", "agent02", "--agent", f"recorded:{tmp_path / 'old'}", python=False, output=tmp_path / "new"
    )
    assert done.code == 2
    errors = [problem for problem in done.report.problems if problem.severity == "error"]
    assert [(problem.code, problem.file) for problem in errors] == [
        ("recording-ambiguous", "agent01/moved.test.json"),
        ("recording-ambiguous", "agent02/moved.test.json"),
    ]
    assert "agent01/default.test.json:greets or agent01/moved.test.json:greets or agent02/default" in errors[0].message
