"""`only-affected`: a pull request pays for the agents that it can affect, by what they opened on the base branch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import pytest
from fake_github import FakeGitHub
from gate_runs import Done
from pull_requests import BOT, Lab

CASES, ONLY = ("door",), ("--only-affected",)
AGENT = '''
"""Repeats the message if what `read` returns is good."""

from pathlib import Path

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def read(said):
    {read}


class Bot(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        text = said if read(said).strip() == "good" else "No idea."
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Bot(name="bot")
'''
READERS = {
    "own": ('return (HERE / "data.txt").read_text()', "agents/own/data.txt"),
    "symlink": ('return (ROOT / "shared/symlink.txt").read_text()', "agents/store/symlink.txt"),
    "added": ('return "bad" if list(ROOT.glob("agents/*/added.txt")) else "good"', "agents/store/added.txt"),
    "exists": ('return "bad" if (ROOT / "shared/switch").exists() else "good"', "shared/switch"),
    "imported": ("import library.words; return library.words.WORD", "library/words.py"),
}
"""Agents: how they read what a pull request changes so that they answer wrongly, and what that is.

test_host_opened_files.py has the other ways, test_pipeline_affected.py what else a change can mean.
"""


def agents_of(readers: Mapping[str, str]) -> dict[str, str]:
    return {f"agents/{name}/agent.py": AGENT.replace("{read}", read) for name, read in readers.items()}


def write_evals(lab: Lab, names: Iterable[str]) -> None:
    for name in names:
        lab.repository.evals(f"agents/{name}/evals/{name}.evalset.json", {name: f"Say {name}."})


def skipped(done: Done) -> set[str]:
    return {item.agent.removeprefix("agents/") for item in done.report.unaffected}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A repository with all READERS, and the results of its base branch."""
    with FakeGitHub() as github:
        lab = Lab.make(tmp_path_factory.mktemp("affected") / "zoo", github, "door", "window")
        write_evals(lab, [*READERS, "store"])
        (lab.repo.root / "shared").mkdir()
        (lab.repo.root / "shared/symlink.txt").symlink_to("../agents/store/symlink.txt")
        lab.commit(
            {},
            **agents_of({name: read for name, (read, _) in READERS.items()} | {"store": 'return "good"'}),
            **{
                "agents/own/data.txt": "good\n",
                "agents/store/symlink.txt": "good\n",
                "library/words.py": 'WORD = "good"\n',
                "docs/guide.md": "A guide.\n",
                "agents/own/requirements.txt": "google-adk\n-r ../../pins/own.txt\n",
                "pins/own.txt": "-c more.txt\n",
                "pins/more.txt": "six==1.16.0\n",
                "agent-eval.toml": '[agents]\n"evals/bot*" = "bot"\n',
            },
        )
        base = lab.base_run(*ONLY)
        assert base.code == 0, base.out + base.err
        yield lab
        lab.repository.end()


@pytest.mark.slow
def test_only_affected__a_file_that_the_agent_opened_makes_it_run(zoo: Lab) -> None:
    words = {name: 'WORD = "bad"\n' if name == "imported" else "bad\n" for name in READERS if name != "exists"}
    broken = zoo.pull_request(100, {}, *ONLY, files={READERS[name][1]: word for name, word in words.items()})

    failed = {case.eval_id for case in broken.report.cases if case.status == "failed"}
    assert (broken.code, failed) == (1, set(words)), broken.out + broken.err
    assert "bot" in skipped(broken)

    # Where nobody looked for it, a new file can affect anyone.
    created = zoo.pull_request(101, {}, *ONLY, files={READERS["exists"][1]: "bad\n"})
    assert (created.code, created.statuses["exists"], skipped(created)) == (1, "failed", set()), created.err


@pytest.mark.slow
def test_only_affected__an_unrelated_change_runs_nothing(zoo: Lab) -> None:
    nothing = zoo.pull_request(200, {}, *ONLY, files={"docs/guide.md": "New words.\n"})

    assert (nothing.code, nothing.report.verdict, nothing.report.cases) == (0, "passed", []), nothing.out + nothing.err
    assert [reason.code for reason in nothing.report.reasons] == ["unaffected"]
    assert len(nothing.report.unaffected) == len(READERS) + 2
    [comment] = zoo.github.state.comments_of(200)
    assert "## ✅ Does not block: not affected by this pull request and not run: 8 cases of" in comment.body


@pytest.mark.slow
def test_only_affected__a_new_file_beside_an_agent_that_nobody_looked_at_runs_this_agent_alone(zoo: Lab) -> None:
    alone = zoo.pull_request(201, {"door": 0.0}, *ONLY, files={"bot/notes.txt": "x\n"})

    # Its case is compared, and the cases of the others have not gone.
    assert (alone.code, {case.file for case in alone.report.cases}) == (1, {"evals/bot.evalset.json"}), alone.err
    assert alone.report.comparison is not None
    assert [(case.case_id, case.change) for case in alone.report.comparison.cases] == [
        ("evals/bot.evalset.json:door", "newly_failing")
    ]
    assert "Not affected by this pull request and not run: 6 cases of" in alone.out


@pytest.mark.slow
def test_only_affected__what_installs_makes_agents_run(zoo: Lab) -> None:
    every = zoo.pull_request(202, {}, *ONLY, files={"bot/requirements.txt": "google-adk\n"})
    assert (len(every.report.cases), every.report.unaffected) == (len(READERS) + 3, []), every.out + every.err

    included = zoo.pull_request(203, {}, *ONLY, files={"pins/more.txt": "six==1.15.0\n"})
    assert [case.eval_id for case in included.report.cases] == ["own"], included.out + included.err


@pytest.mark.slow
def test_only_affected__an_invalid_file_of_an_unaffected_agent_is_still_exit_2(zoo: Lab) -> None:
    broken = zoo.pull_request(220, {}, *ONLY, files={"bot/evals/dog.evalset.json": "{", "docs/guide.md": "x\n"})
    assert (broken.code, broken.report.verdict) == (2, "invalid")


LISTED = {
    "plain": 'return (ROOT / "shared" / f"{said[4:-1]}.txt").read_text()',
    "starts": 'import subprocess; return subprocess.run(["echo", "good"], capture_output=True, text=True).stdout',
    "made": 'return (HERE / "index.made").read_text()',
    "raises": 'raise ValueError("no")',
}
METRIC = """
from pathlib import Path

from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult


def score(metric, actual, expected, scenario=None):
    score = float(Path(__file__).with_name("limit.txt").read_text())
    status = EvalStatus.PASSED if score else EvalStatus.FAILED
    turns = [PerInvocationResult(actual_invocation=turn, score=score, eval_status=status) for turn in actual]
    return EvaluationResult(overall_score=score, overall_eval_status=status, per_invocation_results=turns)
"""


@pytest.fixture(name="lab")
def listed(lab: Lab) -> Lab:
    """A repository with the agents LISTED; the plain one has two cases and a custom metric."""
    lab.repo.git("rm", "-rq", "evals")
    write_evals(lab, [name for name in LISTED if name != "plain"])
    lab.repository.evals("agents/plain/evals/p.evalset.json", {"one": "Say one.", "two": "Say two."})
    criteria = {"criteria": {"response_match_score": 1.0, "limited": 0.5}}
    custom = {"custom_metrics": {"limited": {"code_config": {"name": "metrics.score"}}}}
    lab.repository.write({".git/info/exclude": "*.made\nparts/\n", "agents/made/index.made": "good"})
    files = {"metrics.py": METRIC, "limit.txt": "1.0", "shared/one.txt": "good", "shared/two.txt": "good"}
    config = {"agents/plain/evals/test_config.json": json.dumps({**criteria, **custom})}
    lab.commit({}, **agents_of(LISTED), **files, **config)
    return lab


PATHS = {"agents/plain/agent.py", "metrics.py", "limit.txt", "shared/one.txt", "shared/two.txt"}


@pytest.mark.slow
def test_only_affected__what_the_base_run_keeps_of_each_agent(lab: Lab) -> None:
    base = lab.base_run(*ONLY, "--num-runs", "2")

    opened = {entry.agent.removeprefix("agents/"): entry for entry in base.report.opened}
    assert set(opened["plain"].paths) >= PATHS, opened["plain"]
    assert not any("agent_eval" in path or "test_config" in path for path in opened["plain"].paths)
    assert {name: entry.unseen.partition(",")[0] for name, entry in opened.items()} == {
        "plain": "",
        "starts": "it starts other programs",
        "made": "it reads agents/made/index.made",
        "raises": "one of its cases did not complete",
    }
    assert [entry.paths for entry in base.report.opened if entry.unseen] == [[]] * 3

    # The others run whatever changed, and it is said why.
    ran = lab.pull_request(7, {}, *ONLY, files={"bot/agent.py": BOT + "\n"})
    assert skipped(ran) == {"plain"}
    [notice] = [text for text in ran.report.notices if text.startswith("Ran whatever changed")]
    assert "agents/starts (it starts other programs" in notice
    assert ran.report.opened == []

    # What its metric reads counts, too.
    metric = lab.pull_request(8, {}, *ONLY, files={"limit.txt": "0.0"})
    assert (metric.code, metric.report.unaffected) == (1, [])

    for why, *arguments in (
        ("its tools did not run", "--replay", "tools"),
        ("`agent-setup` runs programs", "--agent-setup", "true"),
    ):
        listed = lab.base_run(*ONLY, *arguments, upload=False).report.opened
        assert len(listed) == len(LISTED)
        assert all(entry.unseen.startswith(why) and not entry.paths for entry in listed)


@pytest.mark.slow
def test_only_affected__parts_are_merged_and_an_unknown_part_gives_no_list(lab: Lab) -> None:
    for part in ("1", "2"):
        lab.base_run(*ONLY, "--shard", f"{part}/2", "--output-dir", f"shards/{part}", upload=False)
    merge = ("--mode", "merge")
    merged = {entry.agent: entry for entry in lab.base_run(*ONLY, *merge).report.opened}
    assert set(merged["agents/plain"].paths) >= PATHS
    assert "programs" in merged["agents/starts"].unseen

    lab.base_run("--shard", "2/2", "--output-dir", "shards/2", upload=False)
    merged = {entry.agent: entry for entry in lab.base_run(*ONLY, *merge, upload=False).report.opened}
    assert merged["agents/plain"].unseen == "a part of the run does not say which files it opened"


def test_only_affected__without_lists_everything_runs(lab: Lab) -> None:
    lab.base_run()
    everything = lab.pull_request(7, {}, *ONLY, files={"docs.md": "x\n"})
    assert (len(everything.report.cases), everything.report.unaffected) == (5, [])
    assert any("don't say which files" in text for text in everything.report.notices)
