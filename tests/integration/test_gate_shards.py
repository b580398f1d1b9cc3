"""Parts of a run and their merge, a killed run that continues, and recordings that are scored again."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from base_repos import new_repo
from fake_gemini import FakeGemini
from gate_runs import Done, Repository, eval_set, repository_in, told, wait_until
from golden_files import check
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from judged_gate import BAD, KEY, Judge, answers, criteria
from pull_requests import Lab
from recorded_evals import AGENT, write_evals

from agent_eval.baseline.reader import incomplete
from agent_eval.cli import main
from agent_eval.pipeline import Outcome, RunContext, detect_ci_context
from agent_eval.pipeline._checkout import Checkout, forwarded
from agent_eval.pipeline.pipeline import run
from agent_eval.runner import Progress
from agent_eval.settings import Settings, parsers, read_settings
from agent_eval_agents.sandbox.isolation import NO_PROCESS
from agent_eval_agents.sources import short_hash, uncommitted_files
from agent_eval_results import RunReport
from agent_eval_results.report.renderers import comment_markdown

# Parts of a run and their merge, with recorded agents: the merge equals one run, and is never green with a part
# missing.


TOML = """
[[policy]]
cases = ["evals/b.test.json:*"]
metric = "tool_trajectory_avg_score"
threshold = 0.5

[[policy]]
metric = "tool_call_count_v1"
threshold = 1.0
direction = "lower"

[[quarantine]]
case = "evals/a.test.json:q"
reason = "known"
owner = "us"
expires = 2027-01-31
"""


def configured(root: Path, **changes: Any) -> Settings:
    read, problems = read_settings(root)
    assert problems == []
    return dataclasses.replace(read, agent=AGENT, **changes)


def execute(settings: Settings) -> Outcome:
    return asyncio.run(run(settings, RunContext(environ={})))


def part(root: Path, text: str, folder: str, *, stopped: bool = False, **changes: Any) -> Outcome:
    """A part; the job of one that is stopped was cancelled before its first run."""
    settings = configured(root, shard=parsers.part(text), output_dir=Path(folder), **changes)
    context = RunContext(environ={})
    if stopped:
        context.stop.set()
    return asyncio.run(run(settings, context))


def merged(root: Path, *folders: str, **changes: Any) -> Outcome:
    return execute(
        configured(root, **{"mode": "merge", "output_dir": Path("merged"), "shards": folders or ("shards",), **changes})
    )


def comparable(outcome: Outcome) -> dict[str, Any]:
    """results.json without times and without what only a merge has."""

    def without_times(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = {"started_at", "duration", "merged_from"}
            return {key: without_times(item) for key, item in value.items() if key not in left_out}
        return [without_times(item) for item in value] if isinstance(value, list) else value

    content: dict[str, Any] = without_times(json.loads(outcome.files["results-file"].read_text("utf-8")))
    content["provenance"].pop("concurrency", None)
    for case in content["cases"]:
        case["metrics"] = [metric for metric in case["metrics"] if metric["name"] != "invocation_duration_v1"]
    return content


def text_of(outcome: Outcome) -> str:
    """The comment without its lines about time."""
    lines = comment_markdown(outcome.report).splitlines()
    return "\n".join(line for line in lines if "<sub>" not in line and " a run" not in line)


SUITES = st.dictionaries(
    st.sampled_from([f"c{number}" for number in range(12)] + ["q"]),
    st.sampled_from([["lamp"], ["fan"], ["lamp", "fan"], None]),
    min_size=1,
)
"""The tools that were called, by eval id; None if nothing was recorded, which is an error of the agent."""


def write_suite(root: Path, first: Mapping[str, Any], second: Mapping[str, Any], policy: bool) -> None:
    for path, suite in (("evals/a.test.json", {"q": ["fan"], **first}), ("evals/b.test.json", second)):
        answers = {name: called for name, called in suite.items() if called is not None}
        write_evals(root, path, answers, missing=[name for name, called in suite.items() if called is None])
    text = "max-quarantined = 1.0\n"
    (root / "agent-eval.toml").write_text(text + (TOML if policy else ""), "utf-8")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=SUITES,
    second=SUITES,
    total=st.integers(1, 5),
    num_runs=st.integers(1, 3),
    policy=st.booleans(),
    data=st.data(),
)
def test_merge__equals_one_run(
    tmp_path_factory: pytest.TempPathFactory,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    total: int,
    num_runs: int,
    policy: bool,
    data: st.DataObject,
) -> None:
    root = tmp_path_factory.mktemp("suite")
    assume(any({"q": ["fan"], **first, **second}.values()))  # A recording without a case is refused.
    write_suite(root, first, second, policy)
    options: dict[str, Any] = {"num_runs": num_runs, "min_pass_rate": data.draw(st.sampled_from([0.5, 1.0]))}
    folders = data.draw(st.permutations([f"shards/x{index}" for index in range(1, total + 1)]))
    parts = [part(root, f"{index}/{total}", folder, **options) for index, folder in enumerate(folders, 1)]
    whole = execute(configured(root, **options))

    outcome = merged(root, **options)

    assert comparable(outcome) == comparable(whole)
    assert text_of(outcome) == text_of(whole)
    assert outcome.report.exit_code == whole.report.exit_code
    assert {one.report.exit_code for one in parts} == {0}, "an error of the agent is judged"
    assert {one.report.verdict for one in parts} == {"inconclusive"}, "a part has no verdict of its own"
    recordings = [one.files["recordings-file"].stat().st_size for one in (outcome, whole)]
    assert abs(recordings[0] - recordings[1]) < 0.1 * recordings[1] + 50


@pytest.fixture(scope="module")
def four_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four parts: one has only a quarantined case, one has no case, and all others pass. `early` and `late` have
    attempts that were stopped, before and after.
    """
    root = tmp_path_factory.mktemp("parts")
    write_suite(root, {"q": ["lamp"], "c1": ["lamp"]}, {"c2": ["lamp"]}, True)
    for index in (1, 2, 3, 4):
        part(root, f"{index}/4", f"early/{index}", stopped=True)
        part(root, f"{index}/4", f"all/{index}")
        part(root, f"{index}/4", f"late/{index}", stopped=True)
    return root


@pytest.mark.parametrize("changes", [{}, {"on_inconclusive": "pass"}, {"gate": "advisory"}])
def test_merge__is_never_green_with_a_part_missing(four_parts: Path, changes: dict[str, Any]) -> None:
    for size in (1, 2, 3, 4):
        for there in itertools.combinations((1, 2, 3, 4), size):
            report = merged(four_parts, *(f"all/{index}" for index in there), **changes).report

            assert report.merged_from is not None
            assert report.merged_from.missing == sorted({1, 2, 3, 4} - {*there})
            assert report.exit_code == (0 if size == 4 else 3), there
            assert size == 4 or (report.verdict, report.reasons[0].code) == ("inconclusive", "shard-missing")


ATTEMPTS = ((), ("all",), ("early",), ("early", "all"), ("all", "late"), ("early", "late"))
"""The attempts at one part whose results arrive."""


@pytest.mark.slow
def test_merge__is_green_exactly_if_every_part_was_completed_by_some_attempt(four_parts: Path) -> None:
    codes = {
        (index, folder): json.loads((four_parts / folder / str(index) / "results.json").read_text("utf-8"))["exit_code"]
        for index in (1, 2, 3, 4)
        for folder in ("early", "all", "late")
    }
    assert sorted(codes.values()) == [0] * 6 + [3] * 6, "the part without cases is always complete"
    once = itertools.product(ATTEMPTS[:3], repeat=4)
    twice = (
        tuple(attempts if place in (first, second) else ("all",) for place in range(4))
        for first, second in itertools.combinations(range(4), 2)
        for attempts in ATTEMPTS
    )
    uneven = ((one, two, ("all",), ("all",)) for one, two in itertools.permutations(ATTEMPTS, 2))
    for attempts in {*once, *twice, *uneven}:
        folders = [f"{folder}/{index}" for index, tried in enumerate(attempts, 1) for folder in tried]
        if not folders:
            continue
        complete = all(any(codes[index, folder] == 0 for folder in tried) for index, tried in enumerate(attempts, 1))

        report = merged(four_parts, *folders, on_inconclusive="pass").report

        assert report.exit_code == (0 if complete else 3), folders
        assert report.merged_from is not None
        assert report.merged_from.missing == [index for index, tried in enumerate(attempts, 1) if not tried]


def test_a_stop_before_the_comparison__is_never_green_and_the_paid_runs_are_resumed(tmp_path: Path) -> None:
    write_suite(tmp_path, {"q": ["lamp"]}, {"c2": ["lamp"]}, True)
    new_repo(tmp_path).commit({})
    ci, problems = detect_ci_context(configured(tmp_path, baseline="file:base.json"), {})
    assert problems == []
    context = RunContext(environ={}, ci=ci)
    asyncio.run(run(configured(tmp_path, shard=parsers.part("1/1"), output_dir=Path("shards/1")), context))
    whole = asyncio.run(run(configured(tmp_path), context))
    shutil.copy(whole.files["results-file"], tmp_path / "base.json")

    def compared(*, stops: bool = False, **changes: Any) -> RunReport:
        """A run with a baseline; it is stopped after its last case, or a merge before it compares."""
        settings = configured(tmp_path, baseline="file:base.json", **changes)
        context.stop.clear()
        if stops and settings.mode == "merge":
            context.stop.set()

        def stop_at_the_end(progress: Progress) -> None:
            if stops and progress.done == progress.total:
                context.stop.set()

        return asyncio.run(run(settings, replace(context, progress=stop_at_the_end))).report

    for mode in ("gate", "merge"):
        for changes in ({}, {"on_inconclusive": "pass"}, {"gate": "advisory"}, {"gate": "regressions"}):
            stopped = compared(stops=True, mode=mode, **changes)
            assert (stopped.verdict, stopped.exit_code) == ("inconclusive", 3), stopped.problems
            assert [reason.code for reason in stopped.reasons] == ["not-compared"]
            assert incomplete(stopped) == "it was stopped before it had read the history of earlier runs"
        done = compared(mode=mode, resume=mode == "gate")
        assert (done.comparison is not None, done.exit_code) == (True, 0)
        assert ("2 runs taken from the journal of an earlier run" in done.notices) == (mode == "gate")
    assert not (tmp_path / "agent-eval-results/journal.jsonl").exists()


def test_merge__runs_missing_cases_if_asked(four_parts: Path) -> None:
    report = merged(four_parts, "all/2", "all/3", mode="merge-and-run").report

    assert (report.verdict, report.exit_code) == ("passed", 0)
    assert any("ran in the merge" in notice for notice in report.notices)
    assert report.merged_from is not None
    assert report.merged_from.missing == []


def test_merge__first_judged_outcome_counts_and_attempts_fill_the_rest(tmp_path: Path) -> None:
    write_evals(tmp_path, "evals/a.test.json", {"q": ["fan"], "c1": ["lamp"]})
    part(tmp_path, "1/1", "shards/first")
    shutil.copytree(tmp_path / "shards/first", tmp_path / "shards/second")
    first, second = (tmp_path / f"shards/{name}/results.json" for name in ("first", "second"))
    content = json.loads(first.read_text("utf-8"))
    # The first attempt judged `q` (failed) and could not judge `c1`; the second one passed both.
    failed, passed = content["cases"]
    edit(second, started_at=content["started_at"] + 60, cases=[{**passed, "case_id": failed["case_id"]}, passed])
    error = {"kind": "provider-unavailable", "owner": "provider", "message": "503"}
    errored = {**passed, "status": "errored", "metrics": []}
    edit(first, cases=[failed, {**errored, "runs": [{**passed["runs"][0], "status": "errored", "error": error}]}])

    report = merged(tmp_path).report

    assert {case.eval_id: case.status for case in report.cases} == {"q": "failed", "c1": "passed"}
    assert [notice for notice in report.notices if "repeated" in notice] == [
        "Part 1 of 1 was repeated: 1 run that its first attempt could not judge was taken from a later one. "
        "A judged run is never replaced"
    ]


def test_merge__an_attempt_that_ended_without_results_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its artifact stays in the workflow run, so re-running the job would not help."""
    write_evals(tmp_path, "evals/a.test.json", {name: ["lamp"] for name in "abcd"})
    with monkeypatch.context() as patched:
        patched.setattr(Checkout, "execute", AsyncMock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        story = [told("the attempt", part(tmp_path, "2/2", "shards/early").report)]
        story.append(told("alone", merged(tmp_path).report))
    part(tmp_path, "1/2", "shards/1")
    story.append(told("with the other part", merged(tmp_path).report))
    assert merged(tmp_path, mode="merge-and-run").report.exit_code == 0
    part(tmp_path, "2/2", "shards/late")
    story.append(told("with a later attempt", merged(tmp_path).report))
    check("golden_gate/attempts.txt", "".join(story))


def test_merge__all_jobs_that_ran_again_replace_an_attempt_that_does_not_belong_to_them(tmp_path: Path) -> None:
    for name in "ab":
        write_evals(tmp_path, f"evals/{name}.test.json", {"one": ["lamp"], "two": ["lamp"]})
    one: dict[str, Any] = {"exclude": ("evals/b.test.json",)}
    part(tmp_path, "1/2", "shards/1-early")
    part(tmp_path, "2/2", "shards/2-early", **one)
    story = [told("parts of two runs", merged(tmp_path).report)]
    part(tmp_path, "2/2", "shards/2-late")
    story.append(told("and the right one", merged(tmp_path).report))
    part(tmp_path, "2/2", "shards/2-latest", **one)
    story.append(told("and a later one, which is not left out silently", merged(tmp_path).report))
    check("golden_gate/attempts_of_two_runs.txt", "".join(story))


def messages(outcome: Outcome) -> str:
    assert (outcome.report.verdict, outcome.report.exit_code) == ("invalid", 2)
    return " ".join(f"{problem.code} {problem.message}" for problem in outcome.report.problems)


def edit(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text("utf-8"))
    content.update(changes)
    path.write_text(json.dumps(content), "utf-8")


def test_merge__refuses_what_does_not_belong_together(tmp_path: Path) -> None:
    write_suite(tmp_path, {f"c{number}": ["lamp"] for number in range(6)}, {"d": ["lamp"]}, False)
    story = [told("no part", merged(tmp_path).report)]
    for index in (1, 2):
        part(tmp_path, f"{index}/2", f"shards/{index}")
    first, second = (tmp_path / f"shards/{index}/results.json" for index in (1, 2))
    intact = {path: path.read_bytes() for path in (first, second)}
    content, other = map(json.loads, intact.values())
    shard, cases = content["shard"], content["cases"]

    def tell(title: str, *folders: str, **changes: Any) -> None:
        report = merged(tmp_path, *folders, **changes).report
        story.append(told(title, report, *(problem.hint or "" for problem in report.problems)))
        for path, data in intact.items():
            path.write_bytes(data)

    changes: Mapping[str, Mapping[str, Any]] = {
        "another number of parts": {"shard": {**shard, "total": 3}},
        "a part of no number": {"shard": {**shard, "index": 3}},
        "another plan": {"shard": {**shard, "plan": "0" * 64}},
        "another version": {"tool_version": "0.0.1"},
        "another min-pass-rate": {"min_pass_rate": 0.25},
        "another commit": {"origin": {"commit": "f" * 40}},
        "a case less": {"cases": cases[1:]},
        "a case without runs": {"cases": [{**cases[0], "runs": []}, *cases[1:]]},
        "a case more": {"cases": [*cases, {**cases[0], "case_id": "other"}]},
        "the cases of another part": {"shard": {**other["shard"], "index": 1}, "cases": other["cases"]},
        "another status, but that follows from the runs": {"cases": [{**case, "status": "passed"} for case in cases]},
        "a notice": {"shard": {**shard, "notices": ["The answers of `book` were recorded before it changed"]}},
    }
    suites = {f"other {what}": {**shard["suite"], what: "0"} for what in sorted(shard["suite"])}
    for title, changed in {**changes, **{what: {"shard": {**shard, "suite": suites[what]}} for what in suites}}.items():
        edit(first, **changed)
        tell(title)
    first.write_text("{", "utf-8")
    tell("no JSON")
    edit(second, schema_version="0")
    tell("another schema")  # Scores that are made again are no part.
    tell("other paths", paths=("evals/a.test.json",))
    tell("more runs", num_runs=3)
    tell("folders without parts", "nosuch", "evals")
    tell("a file, and a directory that does not exist", "shards/1/results.json", "shard/2")
    (tmp_path / "shards/1/recordings.jsonl.gz").unlink()
    (tmp_path / "shards/2/recordings.jsonl.gz").write_bytes(b"no gzip")
    tell("without recordings")
    config = tmp_path / "evals/test_config.json"
    config.write_text(config.read_text("utf-8").replace("1.0", "0.9"), "utf-8")
    tell("criteria that changed since")
    config.write_text(config.read_text("utf-8").replace("0.9", "1.0"), "utf-8")
    (tmp_path / "evals/a.test.json").rename(tmp_path / "evals/z.test.json")
    tell("a renamed file")
    check("golden_gate/merges.txt", "".join(story))


def same_checkout(root: Path) -> None:
    pass


def written(name: str, text: str = "other") -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text, "utf-8")


VARIABLES = {"OPENAI_MODEL": "a-small-one", "MY_TOKEN": "one-secret-value", "PATH": "/bin"}
VERSIONS = {"python": "3.12.1", "packages": "aaaa"}
IN_ONE_JOB: Mapping[str, tuple[Callable[[Path], object], Mapping[str, str], Mapping[str, str]]] = {
    "nothing": (same_checkout, {}, {}),
    "a tracked file": (written("bot.py"), {}, {}),
    "an untracked source file": (written("tools.py"), {}, {}),
    "an untracked report": (written("coverage.xml"), {}, {}),
    "an ignored file": (written("cache.ignored"), {}, {}),
    "a job's credentials": (written("gha-creds-2.json"), {}, {}),
    "a .env": (written(".env", "MY_TOKEN=hidden-in-a-file"), {}, {}),
    "a variable": (same_checkout, {"OPENAI_MODEL": "a-large-one"}, {}),
    "one variable more": (same_checkout, {"EXTRA_MODE": "extra-value"}, {}),
    "a rotated secret": (same_checkout, {"MY_TOKEN": "another-secret-value"}, {}),
    "another path": (same_checkout, {"PATH": "/usr/bin"}, {}),
    "a package": (same_checkout, {}, {"packages": "bbbb"}),
    "a patch version": (same_checkout, {}, {"python": "3.12.2"}),
}


def test_merge__files_are_refused_and_variables_noticed_that_differ_between_parts(tmp_path: Path) -> None:
    """Facts of parts are taken where the pipeline takes them; the merge's own checkout has other files in every row."""
    write_suite(tmp_path, {f"c{number}": ["lamp"] for number in range(4)}, {"d": ["lamp"]}, False)
    new_repo(tmp_path).commit({"bot.py": "", ".gitignore": ".env\n*.ignored\nshards/\nmerged/\n"})
    for index in (1, 2):
        part(tmp_path, f"{index}/2", f"shards/{index}")
    first, second = (tmp_path / f"shards/{index}/results.json" for index in (1, 2))
    assert json.loads(first.read_text("utf-8"))["shard"].get("files") is None, "no agent runs here"

    def facts(change: Callable[[Path], object], variables: Mapping[str, str], versions: Mapping[str, str]) -> None:
        content = json.loads(second.read_text("utf-8"))
        before = {path: path.read_bytes() for path in (tmp_path / "bot.py",)}
        change(tmp_path)
        given = replace(NO_PROCESS.sandbox, environment={**VARIABLES, **variables})
        found = {
            "files": uncommitted_files(tmp_path, skip=[tmp_path / "shards"]),
            "variables": {
                name: value and short_hash(value)
                for name, value in forwarded(replace(NO_PROCESS, sandbox=given)).items()
            },
        }
        edit(second, shard={**content["shard"], **found}, provenance={**VERSIONS, **versions})
        for path, data in before.items():
            path.write_bytes(data)
        for name in ("tools.py", "coverage.xml", "cache.ignored", "gha-creds-2.json", ".env"):
            (tmp_path / name).unlink(missing_ok=True)

    story = []
    written("gha-creds-1.json")(tmp_path)
    facts(*IN_ONE_JOB["nothing"])
    known = json.loads(second.read_text("utf-8"))["shard"]
    edit(
        first,
        shard={
            **json.loads(first.read_text("utf-8"))["shard"],
            "files": known["files"],
            "variables": known["variables"],
        },
        provenance=VERSIONS,
    )
    for title, row in IN_ONE_JOB.items():
        facts(*row)
        written("merge-only.py")(tmp_path)
        outcome = merged(tmp_path)
        (tmp_path / "merge-only.py").unlink()
        story.append(told(title, outcome.report))
        for notice in outcome.report.notices:
            assert notice in outcome.files["results-file"].read_text("utf-8") and notice in text_of(outcome)
        everything = outcome.files["results-file"].read_text("utf-8") + second.read_text("utf-8")
        for value in ("a-small-one", "a-large-one", "secret-value", "hidden-in", "extra-value"):
            assert value not in everything
    facts(written("coverage.xml", "other"), {}, {})
    content = json.loads(first.read_text("utf-8"))["shard"]
    edit(first, shard={**content, "files": {**content["files"], "coverage.xml": "1234"}})
    story.append(told("an untracked report of each job", merged(tmp_path).report))
    edit(first, shard=content)
    facts(*IN_ONE_JOB["a tracked file"])
    shard = json.loads(second.read_text("utf-8"))["shard"]
    edit(second, shard={name: value for name, value in shard.items() if name not in {"files", "variables"}})
    story.append(told("a part of an older version", merged(tmp_path).report))
    check("golden_gate/parts_of_other_checkouts.txt", "".join(story))


def test_merge__never_overwrites_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_evals(tmp_path, "evals/a.test.json", {name: ["lamp"] for name in "ab"})
    part(tmp_path, "1/1", "agent-eval-results")
    before = (tmp_path / "agent-eval-results/results.json").read_bytes()
    monkeypatch.chdir(tmp_path)

    assert main(["merge", "agent-eval-results", "--agent", AGENT]) == 2
    assert "agent-eval-results has the results of part 1 of 1, and this merge would" in capsys.readouterr().out
    assert (tmp_path / "agent-eval-results/results.json").read_bytes() == before

    assert main(["merge", "agent-eval-results", "--agent", AGENT, "--output-dir", "merged"]) == 0
    assert main(["merge", "agent-eval-results", "--agent", AGENT, "--output-dir", "merged"]) == 0


def test_plan__splits_by_recorded_durations_and_every_job_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_evals(tmp_path, "evals/a.test.json", {name: ["lamp"] for name in "abcd"})
    execute(configured(tmp_path, output_dir=Path("earlier")))
    results = tmp_path / "earlier/results.json"
    content = json.loads(results.read_text("utf-8"))
    for case, seconds in zip(content["cases"], (90.0, 30.0, 30.0, 30.0), strict=True):
        case["runs"][0] |= {"duration": seconds, "turns": 1}
    edit(results, cases=content["cases"])
    monkeypatch.chdir(tmp_path)

    def plan(*arguments: str) -> tuple[int, str]:
        code = main(["validate", "--plan", "--agent", AGENT, "--durations", "earlier", *arguments])
        return code, capsys.readouterr().out

    code, out = plan("--shards", "2", "--format", "json")
    split = json.loads(out)["split"]
    assert (code, split["matrix"]) == (0, ["1/2", "2/2"])
    assert [(one["cases"], one["weight"]) for one in split["parts"]] == [(1, 90.0), (3, 90.0)]
    # 180 s / (8 * 1 s) is more than 20.
    for each, words in (("1", "20 parts"), ("9", "3 parts"), ("7200", "1 part,")):
        assert words in plan("--shards", "auto", "--shard-seconds", each)[1]
    (tmp_path / "plain").mkdir()
    for wrong in (("--shards", "auto"), ("--durations", "plain")):
        assert main(["validate", "--plan", "--agent", AGENT, *wrong]) == 2

    (tmp_path / "plan.json").write_text(out, "utf-8")
    planned: dict[str, Any] = {"shard_plan": Path("plan.json")}
    first = part(tmp_path, "1/2", "shards/1", **planned).report.shard
    part(tmp_path, "2/2", "shards/2", **planned)
    assert first is not None
    assert (first.cases, first.weights_from) == (["evals/a.test.json:a"], "recorded")
    assert merged(tmp_path, **planned).report.exit_code == 0
    assert merged(tmp_path).report.exit_code == 0, "the merge doesn't need it if no part is missing"
    assert merged(tmp_path, "shards/1").report.exit_code == 3
    part(tmp_path, "1/3", "thirds/1", **planned)
    errors = [run.error for case in merged(tmp_path, "thirds").report.cases for run in case.runs]
    assert {error.message for error in errors if error is not None} == {
        "parts 2 and 3 of 3 left no results: their jobs failed, were cancelled, or their artifacts were not downloaded"
    }, "which of them has a case is unknown without the plan"
    (tmp_path / "plan.json").write_text("[]", "utf-8")
    assert "shard-plan-invalid" in messages(part(tmp_path, "1/2", "shards/1", **planned))


# Parts of a run as processes: a killed one, a repeated one, the comparison in the merge, and what judges are asked.


CASES = {"milk": "milk", "tea": "tea", "bread": "bread", "long": ["wait:3", "salt"]}


@pytest.fixture
def breaking(tmp_path: Path) -> Iterator[Repository]:
    """A pull request that breaks one of four cases; the agent notes every turn."""
    with repository_in(tmp_path / "repo", "counted") as made:
        repo = new_repo(made.root)
        made.evals("evals/shop.test.json", CASES)
        repo.write({".gitignore": "shards/\n__pycache__/\n"})
        repo.commit({})
        repo.branch("feature")
        agent = (made.root / "counted/agent.py").read_text("utf-8")
        broken = 'return reply(text("nothing of the kind" if said == "milk" else said))'
        repo.commit({"counted/agent.py": agent.replace("return reply(text(said))", broken)})
        yield made


def turns(path: Path) -> list[str]:
    return sorted(path.read_text("utf-8").splitlines()) if path.exists() else []


@pytest.mark.slow
def test_parts__killed_then_repeated_and_merged_as_one_run(breaking: Repository, tmp_path: Path) -> None:
    compared = ("--base-ref", "main", "--baseline", "rerun", "--num-runs", "2")
    noted = tmp_path / "turns.txt"
    environment = {"RUNS_FILE": str(noted)}

    def gate(*arguments: str, code: int) -> Done:
        return breaking.gate(*arguments, *compared, environment=environment, code=code)

    def run_part(number: int) -> Done:
        return gate("run", "--shard", f"{number}/2", "--output-dir", f"shards/{number}", code=0)

    process = breaking.start("run", "--shard", "1/2", "--output-dir", "shards/1", *compared, environment=environment)
    wait_until(lambda: "wait:3" in turns(noted), seconds=60)
    process.kill()
    process.communicate(timeout=60)
    assert "part 2 of 2: 2 of 4 cases" in run_part(2).err
    incomplete = breaking.gate("merge", *compared, environment=environment)
    assert incomplete.code in {1, 3}
    assert "shard-missing" in [reason.code for reason in incomplete.report.reasons]

    noted.unlink()
    run_part(2)
    run_part(1)
    assert turns(noted) == sorted(2 * ["milk", "tea", "bread", "wait:3", "salt"]), "nothing of the base branch"
    shutil.copytree(breaking.root / "shards/2", breaking.root / "shards/2-again")
    merged = gate("merge", code=1)
    sharded = turns(noted)
    noted.unlink()
    whole = gate("run", "--output-dir", "whole", code=1)

    assert sharded == turns(noted), "as many runs as in one job: those of the base branch and confirmation runs, too"
    one, other = merged.report, replace(whole, output=breaking.root / "whole").report
    assert (one.reasons, one.blocking, one.decision) == (other.reasons, other.blocking, other.decision)
    assert one.blocking == ["evals/shop.test.json:milk"] and one.decision is not None
    assert [len(case.runs) for case in one.confirmations] == [len(case.runs) for case in other.confirmations]
    assert one.merged_from is not None
    assert [part.index for part in one.merged_from.parts] == [1, 2], "the copy of a part is no second attempt"
    assert {recording.run_id for recording in merged.recordings} == {
        run.run_id for case in (*one.cases, *one.confirmations) for run in case.runs
    }
    assert breaking.left_behind() == []


def usage(done: Done) -> dict[str, Any]:
    [model] = done.results["model_usage"]
    return {name: model[name] for name in ("calls", "input_tokens", "output_tokens", "cost")}


@pytest.mark.slow
def test_parts__ask_judges_as_often_as_one_run_and_share_the_budget(tmp_path: Path) -> None:
    with repository_in(tmp_path / "repo") as repository, FakeGemini(Judge()) as server:
        criteria(repository, "final_response_match_v2", "hallucinations_v1", samples=3)
        said = {f"case {number}": [["Paris.", "Paris."], BAD][number % 2] for number in range(9)}
        answers(repository, said)
        shared = ("--agent", "recorded:answers.json", "--judge-base-url", server.url)
        environment = {"AGENT_EVAL_JUDGE_API_KEY": KEY}

        def gate(*arguments: str) -> tuple[Done, int]:
            before = server.stats.requests
            done = repository.gate(*arguments, *shared, python=False, environment=environment)
            return done, server.stats.requests - before

        whole, calls = gate("run", "evals")

        def parts(folder: str, *arguments: str) -> int:
            asked = 0
            for index in range(1, 5):
                place = ("--output-dir", f"{folder}/{index}", "--judge-cache", f"{folder}-cache-{index}")
                asked += gate("run", "evals", "--shard", f"{index}/4", *place, *arguments)[1]
            return asked

        asked = parts("shards")
        merged, in_merge = gate("merge", "--paths", "evals", "--judge-cache", "merged-cache")

        assert (asked, in_merge) == (calls, 0)
        assert usage(merged) == pytest.approx(usage(whole))
        assert merged.results["case_usage"] == whole.results["case_usage"]
        assert (merged.code, merged.report.verdict) == (whole.code, whole.report.verdict)
        replies = {path.name for path in (repository.root / "merged-cache").glob("*/*.json")}
        assert replies == {path.name for path in repository.root.glob("shards-cache-*/*/*.json")}
        assert gate("run", "evals", "--judge-cache", "merged-cache")[1] == 0, "it has the replies of all parts"

        limit = ("--max-judge-calls", str(calls // 2))
        asked = parts("limited", *limit)
        over, more = gate("merge", "limited", "--paths", "evals", *limit)
        assert 0 < asked + more <= calls // 2
        assert over.code == 3 or over.report.verdict == "failed"


@pytest.mark.slow
def test_parts__on_a_pull_request_only_the_merge_comments_and_a_second_attempt_completes_it(lab: Lab) -> None:
    assert lab.base_run().code == 0
    first = lab.pull_request(7, {"tea": 0.0}, "--shard", "1/2", "--output-dir", "shards/1")
    environment = lab.environments[lab.runs[-1].id]

    assert first.code == 0, first.err
    assert lab.github.state.comments_of(7) == []
    assert "::error" not in first.out
    assert Path(environment["GITHUB_STEP_SUMMARY"]).read_text("utf-8").startswith("Part 1 of 2;")

    incomplete = lab.repository.gate("merge", environment=environment)
    [comment] = lab.github.state.comments_of(7)

    assert incomplete.code == 3, incomplete.err
    assert "part 2 of 2 left no results" in comment.body

    again = {**environment, "GITHUB_RUN_ATTEMPT": "2"}
    second = lab.repository.gate("run", "--shard", "2/2", "--output-dir", "shards/2", environment=again)
    merged = lab.repository.gate("merge", environment=again)
    [comment] = lab.github.state.comments_of(7)

    assert second.code == 0, second.err
    assert (merged.code, merged.report.verdict, merged.report.gate) == (1, "failed", "regressions"), merged.err
    assert "tea" in comment.body.splitlines()[1]
    assert merged.report.merged_from is not None
    assert [part.attempt for part in merged.report.merged_from.parts] == [1, 2]


# A killed run continues where it stopped, and pays for nothing twice.


COUNTED = {f"case {number}": f"say {number}" for number in range(4)}


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Repository]:
    with repository_in(tmp_path / "repo", "counted") as made:
        yield made


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs.txt"


def paid(runs: Path) -> list[str]:
    return sorted(runs.read_text(encoding="utf-8").splitlines())


def run_counted(repository: Repository, runs: Path, *arguments: str) -> Done:
    return repository.gate("run", *arguments, environment={"RUNS_FILE": str(runs)})


def interrupted(repository: Repository, runs: Path, number: signal.Signals) -> None:
    """A run that is ended when all but the last case are recorded, and the last one has begun."""
    process = repository.start("run", environment={"RUNS_FILE": str(runs)})
    repository.wait_for_runs(len(COUNTED))
    wait_until(
        lambda: len(paid(runs)) == len(COUNTED) + 1
    )  # It may be in a second process, which has to load the agent.
    os.kill(process.pid, number)
    repository.finish(process, timeout=30)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_resume__it_finishes_without_running_again_what_is_done(
    counted: Repository, runs: Path, number: signal.Signals
) -> None:
    if number == signal.SIGTERM:  # The agent's directory is the repository itself, so what we write lies inside it.
        for path in (counted.root / "counted").iterdir():
            path.rename(counted.root / path.name)
    counted.evals("evals/some.test.json", {**COUNTED, "slow": "wait:1.5"})
    interrupted(counted, runs, number)
    assert paid(runs) == sorted([*COUNTED.values(), "wait:1.5"])
    wait_until(lambda: counted.left_behind() == [], seconds=10)
    done = run_counted(counted, runs, "--resume")
    assert done.code == 0, done.out + done.err
    assert done.statuses == dict.fromkeys([*COUNTED, "slow"], "passed")
    assert paid(runs) == sorted([*COUNTED.values(), "wait:1.5", "wait:1.5"]), "only what was missing ran"
    done.check_files()
    assert len(done.recordings) == 5
    assert "4 runs taken from the journal of an earlier run" in done.out
    assert not (done.output / "journal.jsonl").exists()

    if number == signal.SIGTERM:
        assert run_counted(counted, runs, "--resume").code == 0
        assert len(paid(runs)) == 6 + 5, "a run that is complete leaves nothing to resume"


# What was recorded can be scored again, also where it lies.


LOOKS = eval_set("a", {"looks": [("hi", "nothing there")]})
LOOKS["eval_cases"][0]["conversation"][0]["intermediate_data"] = {
    "tool_uses": [{"name": "look", "args": {"room": "hall"}}],
    "tool_responses": [{"name": "look", "response": {"devices": []}}],
}


@pytest.mark.parametrize("recording", ["agent-eval-results", "agent-eval-results/recordings.jsonl.gz"])
def test_rescoring__into_the_same_output_directory(repository: Repository, recording: str) -> None:
    def run(agent: str) -> Done:
        return repository.gate("run", "--agent", f"recorded:{agent}", python=False)

    repository.write({"a.test.json": LOOKS})
    assert run("a.test.json").code == 0
    repository.write({"test_config.json": {"criteria": {"trajectory_precision": 0.5}}})
    for _ in range(2):
        [case] = run(recording).report.cases
        assert (case.status, case.metrics[0].name) == ("passed", "trajectory_precision")

    # A failure shows the recorded answer.
    repository.write({"test_config.json": {"criteria": {"response_match_score": 0.8}}})
    repository.write({"a.test.json": json.dumps(LOOKS).replace("nothing there", "two lamps")})
    [failed] = run(recording).results["cases"]
    [said] = failed["conversation"]["turns"]
    assert said["steps"] == [{"call": 'look(room="hall")', "responses": ['{"devices": []}']}]
    assert (said["answer"], said["expected_answer"]) == ("nothing there", "two lamps")
