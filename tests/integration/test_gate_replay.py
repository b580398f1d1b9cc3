"""`replay: all` and `missing-live` as users run them: what is recorded is not asked, and nothing else is green."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from adk_envs import FIXTURES
from base_repos import Repo
from fake_gemini import FakeGemini, Fault
from gate_runs import Done, Repository, anywhere, repository_in, told
from golden_files import check
from judged_gate import KEY, TORN, Judge

AGENT = """import os

from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text

from .tools import price


def script(said, count, request):
    with open(os.environ["RUNS_FILE"], "a", encoding="utf-8") as file:
        file.write(f"asked about {said}\\n")
    if not count:
        return reply(call("price", item=said))
    answer = request.contents[-1].parts[0].function_response.response
    return reply(text(f"It costs {answer['price']}."))


root_agent = LlmAgent(name="shop", model=scripted(script), instruction="Sell.", tools=[price])
"""
TOOLS = '''import os


def price(item: str) -> dict[str, int]:
    """The price of an item."""
    with open(os.environ["RUNS_FILE"], "a", encoding="utf-8") as file:
        file.write(f"ran for {item}\\n")
    with open(os.path.join(os.path.dirname(__file__), "prices.txt"), encoding="utf-8") as file:
        return {"price": int(file.read()) * len(item)}
'''


def add(repository: Repository, agent: str, case: str) -> None:
    """An agent with one case."""
    repository.write(
        {
            f"{agent}/__init__.py": "from . import agent\n",
            f"{agent}/agent.py": AGENT,
            f"{agent}/tools.py": TOOLS,
            f"{agent}/prices.txt": "1\n",
        }
    )
    repository.evals(f"{agent}/{agent}.evalset.json", {case: case}, expect={case: f"It costs {len(case)}."})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """Two agents of a case each, which are recorded."""
    with repository_in(tmp_path_factory.mktemp("recorded")) as made:
        repo = Repo(made.root)
        repo.git("init", "-q", "-b", "main")
        shutil.copy(FIXTURES / "scripted_model.py", made.root)
        add(made, "shop", "tea")
        add(made, "kiosk", "cocoa")
        made.write({"shop/prices.txt": "2\n", ".gitignore": "agent-eval-results/\n__pycache__/\nlog.txt\n"})
        repo.commit({}, "A wrong price, and no tapes")
        made.write({"shop/prices.txt": "1\n"})
        assert gate(made, "--record", "all", "--num-runs", "2").code == 0
        assert len(log(made)) == 2 * 2 * 3
        repo.commit({})
        yield made


@pytest.fixture
def shops(recorded: Repository, repository: Repository) -> Repository:
    """A copy of `recorded`."""
    left_out = shutil.ignore_patterns("agent-eval-results", "__pycache__")
    shutil.copytree(recorded.root, repository.root, ignore=left_out, dirs_exist_ok=True)
    return repository


def gate(repository: Repository, *arguments: str, **variables: str) -> Done:
    """Runs the gate with an empty log."""
    repository.write({"log.txt": ""})
    environment = {"CI": "", "RUNS_FILE": str(repository.root / "log.txt"), **variables}
    return repository.gate("run", *arguments, environment=environment)


def in_parts(repository: Repository, *arguments: str, run: Callable[..., Done] = gate, **variables: str) -> Done:
    """Runs two parts and merges them, where no agent is started."""
    for part in ("1", "2"):
        run(repository, *arguments, "--shard", f"{part}/2", "--output-dir", f"shards/{part}")
    return repository.gate("merge", *arguments, environment={"CI": "", **variables})


def log(repository: Repository) -> list[str]:
    """What models and tools did."""
    return sorted((repository.root / "log.txt").read_text("utf-8").splitlines())


def change(repository: Repository, file: str, old: str, new: str) -> None:
    path = repository.root / file
    source = path.read_text("utf-8")
    assert old in source
    path.write_text(source.replace(old, new), "utf-8")


def test_replay_all__asks_no_model_and_runs_no_tool(shops: Repository) -> None:
    story = []
    for replaying in ((), ("--replay", "all", "--num-runs", "3")):
        done = gate(shops, *replaying)
        facts = [f"{case.eval_id} {each.name}: {each.score}" for case in done.report.cases for each in case.metrics]
        runs = [run for case in done.report.cases for run in case.runs]
        uses = [f"{run.tools and (run.tools.mode, run.tools.model_calls)}, {run.usage.model_calls}" for run in runs]
        seen = [line for line in [*facts, *uses] if "duration" not in line]
        story.append(told(" ".join(["run", *replaying]), done, *seen, *log(shops)))
    check("golden_gate/replay_all.txt", "".join(story))
    assert "Replayed from its tape" in shops.gate("show", "tea", python=False).out
    assert (done.output / "junit.xml").read_text("utf-8").count("Replayed from its tape") == 2
    assert not done.report.model_usage


ASKS = """

async def ask(*args, **more):
    from google import genai
    client = genai.Client(api_key='k', http_options={{'base_url': 'http://127.0.0.1:9'}})
    try:
        {}
    except Exception:
        pass


root_agent.before_model_callback = ask
"""
TAIL = "tools=[price])\n"
CALLS = "(model='own', contents='x')"
SILENT = """from google.adk.agents.base_agent import BaseAgent
from google.adk.events import Event
from google.genai import types


class Kiosk(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = types.Content(role='model', parts=[types.Part(text=f"It costs {len(ctx.user_content.parts[0].text)}.")])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=said)


root_agent = Kiosk(name='kiosk')
"""
ANSWERED = "tools=[price], before_model_callback=lambda *args, **more: reply(text('It costs 7.'))"
CHANGES: Mapping[str, tuple[str, str, str]] = {
    "nothing": ("prices.txt", "1", "1"),
    "instruction": ("agent.py", '"Sell."', '"Sell it."'),
    "comment": ("tools.py", "len(item)}", "len(item)}  # characters"),
    "answers": ("tools.py", "len(item)}", "len(item) + 1}"),
    "raises": ("tools.py", "len(item)}", "len(item) // 0}"),
    "data": ("prices.txt", "1", " 1"),
    "no_call": ("agent.py", "tools=[price]", ANSWERED),
    "asks": ("agent.py", TAIL, TAIL + ASKS.format(f"client.models.generate_content{CALLS}")),
    "awaits": ("agent.py", TAIL, TAIL + ASKS.format(f"await client.aio.models.generate_content{CALLS}")),
    "interacts": ("agent.py", TAIL, TAIL + ASKS.format("client.interactions")),
    "silent": ("prices.txt", "1", "1"),
    "talks_now": ("agent.py", SILENT, AGENT),
}
"""What happens to agents after they were recorded, by their names: a file, what is replaced in it, and by what."""


@pytest.mark.slow
def test_changes__are_never_green_from_the_tape(repository: Repository) -> None:
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    for name in (*CHANGES, "no_tape"):
        add(repository, name, name)
    repository.write({f"{name}/agent.py": SILENT for name in ("silent", "talks_now")})
    assert gate(repository, "--record", "all").code == 0
    story = []
    for name, (file, old, new) in CHANGES.items():
        change(repository, f"{name}/{file}", old, new)
    (repository.root / "no_tape/no_tape.evalset.tools/no_tape.tape.json").unlink()

    def replay(mode: str, *arguments: str) -> None:
        replaying = ("--replay", mode, *arguments)
        planned = repository.gate("validate", "--plan", *replaying).out.splitlines()
        story.append("".join(f"{line}\n" for line in planned if "which will" in line or "inconclusive" in line))
        done = gate(repository, *replaying)
        happened = dict.fromkeys(log(repository))
        story.append(told(" ".join(replaying), done, *happened))
        assert not (done.output / "journal.jsonl").exists(), "with --resume it would miss again"

    replay("all", "--on-inconclusive", "pass")
    replay("missing-live", "--num-runs", "2")
    repository.write({"agent-eval.toml": STALE_LIVE})
    replay("all", "comment", "answers", "raises", "data")
    check("golden_gate/replays.txt", "".join(story))


STALE_LIVE = '[[tool]]\nname = "*"\nstale = "live"\n'
TOOLS_ONLY = ("--replay", "tools")


def test_replay_tools__the_base_branch_gets_the_tapes_of_the_head(shops: Repository) -> None:
    compare = ("shop", "--baseline", "rerun", "--base-ref", "HEAD~1")
    done = gate(shops, *compare, *TOOLS_ONLY)
    assert (done.code, log(shops).count("ran for tea")) == (0, 0), done.out
    use = done.report.cases[0].runs[0].tools
    assert use is not None and (use.mode, use.replayed, use.live, use.missed) == ("replay", 1, 0, 0)
    assert done.report.baseline is not None and done.report.comparison is not None
    assert (done.report.baseline.status, done.report.baseline.source) == ("found", "rerun")

    # Live, the base's own tool runs: the pull request fixed it.
    live = gate(shops, *compare)
    assert live.report.comparison is not None
    assert (live.code, log(shops).count("ran for tea")) == (0, 2)

    # A tool that the pull request breaks is never green, whatever the base branch does.
    shops.write({"shop/prices.txt": "3\n"})
    broken = gate(shops, *compare, *TOOLS_ONLY)
    assert (broken.code, broken.statuses) == (3, {"tea": "errored"})
    assert "record its tools again" in broken.out


def test_replay_tools__no_change_of_a_tool_or_of_a_call_is_green(shops: Repository) -> None:
    change(shops, "kiosk/prices.txt", "1", " 1")
    story = [shops.gate("tapes").out, shops.gate("validate", "--plan", "kiosk", *TOOLS_ONLY).out, "\n"]
    story.append(told("stale", gate(shops, "kiosk", *TOOLS_ONLY, "--on-inconclusive", "pass")))
    shops.write({"agent-eval.toml": STALE_LIVE.replace("live", "warn")})
    story.append(told("part", gate(shops, "kiosk", *TOOLS_ONLY, "--shard", "1/1", "--output-dir", "shards/1")))
    story.append(told("merge", shops.gate("merge", "--paths", "kiosk", *TOOLS_ONLY, environment={"CI": ""})))
    change(shops, "kiosk/agent.py", "item=said", "item=said.upper()")
    story.append(told("another call", gate(shops, "kiosk", *TOOLS_ONLY)))
    expect_call(shops)
    story.append(told("another call where the trajectory is compared", gate(shops, "kiosk", *TOOLS_ONLY)))
    check("golden_gate/stale_tools.txt", "".join(story))


def expect_call(shops: Repository) -> None:
    """Has the trajectory of `cocoa` compared."""
    file = "kiosk/kiosk.evalset.json"
    document = json.loads((shops.root / file).read_text("utf-8"))
    expected = {"tool_uses": [{"name": "price", "args": {"item": "cocoa"}}]}
    document["eval_cases"][0]["conversation"][0]["intermediate_data"] = expected
    shops.write({file: document, "kiosk/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0}}})


def test_tapes__what_is_refused_before_an_agent_starts_and_what_is_listed(shops: Repository) -> None:
    folder = shops.root / "shop/shop.evalset.tools"
    tape, story = folder / "tea.tape.json", []

    def tell(title: str, *arguments: str, ci: str = "") -> None:
        done = shops.gate(*arguments, environment={"CI": ci})
        story.append(
            told(title, done) if arguments[0] == "run" else f"{title}: exit {done.code}\n{done.out}{done.err}\n"
        )

    tell("recording in CI", "run", "--record", "all", ci="true")
    tell("recorded answers", "run", "--agent", "recorded:shop/shop.evalset.json", *TOOLS_ONLY)
    tell("a server", "run", "--agent", "adk:http://127.0.0.1:9", *TOOLS_ONLY)
    tell("resumed", "run", "--record", "all", "--resume")
    shutil.copy(tape, folder / "stray.tape.json")
    for command in (("validate", "--plan", *TOOLS_ONLY), ("tapes",), ("validate",)):
        tell(" ".join(("a stray tape,", *command)), *command)
    # An eval file that was removed has left its tapes; one that is merely not selected keeps them.
    shutil.copytree(folder, folder.with_name("gone.evalset.tools"))
    shutil.copytree(folder, shops.root / "unselected/other.evalset.tools")
    shutil.copy(shops.root / "shop/shop.evalset.json", shops.root / "unselected/other.evalset.json")
    folder.with_name("linked.evalset.tools").symlink_to(shops.root / "unselected/other.evalset.tools")
    tell("tapes --prune", "tapes", "--prune", "--exclude", "unselected/")
    left = sorted(str(path.relative_to(shops.root)) for path in shops.root.rglob("*.tape.json"))
    story.append("\n".join(["left:", *left, "", ""]))
    folder.with_name("linked.evalset.tools").unlink()
    shutil.rmtree(shops.root / "unselected")
    content = tape.read_text("utf-8")
    tape.write_text(content.replace('"occurrence": 0', '"occurrence": "first"'), "utf-8")
    for broken in (("run", *TOOLS_ONLY), ("validate",), ("tapes",), ("validate", "--plan")):
        tell(" ".join(("a broken tape,", *broken)), *broken)
    tape.unlink()
    tell("no tape, validate --plan", "validate", "--plan", *TOOLS_ONLY)
    story.append(told("no tape", gate(shops, "shop", *TOOLS_ONLY)))
    check("golden_gate/tapes.txt", anywhere("".join(story)))


def test_an_answer_that_is_held_back__is_not_the_agents_deadline(shops: Repository) -> None:
    skips = "tools=[price], before_tool_callback=lambda **call: {'price': len(call['args']['item'])}"
    change(shops, "kiosk/agent.py", "tools=[price]", skips)
    done = gate(shops, "kiosk", "--replay", "all", "--case-timeout", "1")
    [run] = done.report.cases[0].runs
    assert run.error is not None
    assert (done.code, run.error.kind) == (3, "model-not-recorded"), done.out
    assert "ended before the answers that were recorded earlier" in run.error.message


def test_old_tapes__are_a_notice(shops: Repository) -> None:
    tapes = sorted(shops.root.glob("*/*.tools/*.tape.json"))

    def notices(replay: str, *days: int) -> list[str]:
        for tape, age in zip(tapes, days, strict=True):
            content = json.loads(tape.read_text("utf-8"))
            tape.write_text(json.dumps({**content, "recorded_at": time.time() - age * 86_400 - 60}), "utf-8")
        return [line for line in gate(shops, "--replay", replay).report.notices if "Record again" in line]

    assert notices("all", 40, 50) == [
        "2 tapes are old: that of shop/shop.evalset.json:tea is 50 days old. Record again, models change"
    ]
    assert notices("missing-live", 40, 29) == [
        "The tape of kiosk/kiosk.evalset.json:cocoa is 40 days old. Record again, models change"
    ]
    assert notices("tools", 40, 29) == [], "where models are asked, the age says nothing"


def test_missing_live__takes_no_part_in_parts_that_it_splits(shops: Repository) -> None:
    change(shops, "kiosk/agent.py", '"Sell."', '"Sell it."')
    merged = in_parts(shops, "--replay", "missing-live", "--num-runs", "2")
    assert merged.code == 0, merged.out
    assert runs_of(merged) == {"tea": (True, 1), "cocoa": (False, 2)}
    assert "1 of 2 cases was replayed from recordings: 2 model calls saved" in merged.out


def runs_of(done: Done) -> dict[str, tuple[bool, int]]:
    """Of each case whether it was replayed, and how many runs it has."""
    return {case.eval_id: (case.replayed, len(case.runs)) for case in done.report.cases}


WITHOUT_JUDGE = ("--without-keys", "deterministic-only")


@pytest.fixture
def judged(shops: Repository) -> Iterator[Callable[..., Done]]:
    """Runs the gate with a judge of `cocoa` that answers nobody."""
    shops.write({"kiosk/test_config.json": {"criteria": {"response_match_score": 1.0, "final_response_match_v2": 0.5}}})
    with FakeGemini(lambda _: Fault(kind=400)) as server:
        asked = ("--judge-base-url", server.url)
        yield lambda _, *arguments: gate(shops, *arguments, *asked, AGENT_EVAL_JUDGE_API_KEY=KEY)


@pytest.mark.slow
def test_a_judge_that_answers_nobody__costs_no_call_that_is_paid_for(
    shops: Repository, judged: Callable[..., Done]
) -> None:
    recorded = judged(shops, "--record", "all", "--num-runs", "2")
    assert recorded.code == 3, recorded.out
    done = gate(shops, "--replay", "missing-live", *WITHOUT_JUDGE)
    assert (done.code, log(shops)) == (0, []), done.out
    alone = gate(shops, "--replay", "all", *WITHOUT_JUDGE)
    assert (alone.code, alone.report.reasons[0].code, log(shops)) == (3, "judge-replay-miss", []), alone.out

    # A resumed run asks for nothing twice.
    change(shops, "kiosk/agent.py", '"Sell."', '"Sell it."')
    replaying = ("--replay", "missing-live", "--num-runs", "2")
    first = judged(shops, *replaying)
    assert (first.code, len(log(shops))) == (3, 6), first.out
    again = gate(shops, *replaying, "--resume", *WITHOUT_JUDGE)
    assert (again.code, log(shops)) == (0, []), again.out
    assert runs_of(again) == {"tea": (True, 1), "cocoa": (False, 2)}

    # Parts whose replayed case could not be judged can be merged.
    change(shops, "kiosk/agent.py", '"Sell it."', '"Sell."')
    change(shops, "shop/agent.py", "import os", "import os, no_such_module")
    merged = in_parts(shops, *replaying, run=judged, AGENT_EVAL_JUDGE_API_KEY=KEY)
    assert (merged.code, merged.statuses) == (1, {"tea": "failed", "cocoa": "errored"}), merged.out


def test_record__a_tape_that_can_not_be_written_is_an_error_and_the_rest_is_kept(shops: Repository) -> None:
    shutil.rmtree(shops.root / "kiosk" / "kiosk.evalset.tools")
    shops.write({"kiosk/kiosk.evalset.tools": "a file in its place"})
    done = gate(shops, "--record", "all")
    assert (done.code, done.report.exit_code, done.report.verdict) == (2, 2, "passed"), done.out
    [warning] = done.report.warnings
    assert warning.startswith("kiosk/kiosk.evalset.tools/cocoa.tape.json could not be written: ")
    assert "Make its directory writable, or free space on its disk" in " ".join(done.out.split())
    assert "1 tape written with 3 calls: shop/shop.evalset.tools/tea.tape.json" in done.out
    assert len(done.statuses) == 2


@pytest.mark.slow
def test_record__a_run_that_is_stopped_keeps_the_old_tape(shops: Repository) -> None:
    tape = shops.root / "kiosk/kiosk.evalset.tools/cocoa.tape.json"
    before = tape.read_text("utf-8")
    change(shops, "kiosk/tools.py", "    return", "    import time\n\n    time.sleep(30)\n    return")
    done = gate(shops, "--record", "all", "--run-timeout", "5")
    assert done.code == 3, done.out
    assert "asked about cocoa" in log(shops)
    assert "cocoa.tape.json was not written: a run of the case ended early (run-timeout)" in done.out
    assert tape.read_text("utf-8") == before


def test_fail_fast__does_not_end_a_run_for_a_case_that_runs_live(shops: Repository) -> None:
    """The tape's answer contradicts the expected calls by now, which fails the case where nothing runs live."""
    expect_call(shops)
    change(shops, "kiosk/agent.py", "def script", SPOILT + "\n\ndef script")
    change(shops, "kiosk/agent.py", "tools=[price]", "tools=[price], after_model_callback=spoilt")
    alone = gate(shops, "--replay", "all")
    assert (alone.code, alone.statuses["cocoa"]) == (1, "failed"), alone.out
    done = gate(shops, "--replay", "missing-live", "--fail-fast")
    assert done.code == 0, done.out
    assert "asked about cocoa" in log(shops)


SPOILT = '''
def spoilt(callback_context, llm_response):
    """Spoils the call of a replay alone: then nothing is in the log."""
    call = llm_response.content.parts[0].function_call
    if call is not None and not os.path.getsize(os.environ["RUNS_FILE"]):
        call.args["item"] = "milk"
'''


def test_merge__takes_no_live_run_into_a_replayed_case(shops: Repository) -> None:
    for attempt, replay in (("first", "missing-live"), ("second", "off")):
        done = gate(shops, "--replay", replay, "--num-runs", "2", "--shard", "1/1", "--output-dir", f"shards/{attempt}")
        assert (done.code, len(log(shops))) == (0, 12 if replay == "off" else 0), done.out
    merged = shops.gate("merge", "--replay", "missing-live", "--num-runs", "2", environment={"CI": ""})
    assert (merged.code, runs_of(merged)) == (0, {"tea": (True, 1), "cocoa": (True, 1)}), merged.out
    assert merged.report.pass_rates == [], "one run says nothing about another one"


@pytest.mark.slow
def test_judges__reply_as_in_the_chosen_run(shops: Repository) -> None:
    """Also where that run was not the first one, in parts, and beside an agent whose answers are in a file."""
    criteria = {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": {"num_samples": 3}}}
    shops.evals("filed/some.evalset.json", {"filed": "tea"}, expect={"filed": TORN})
    shops.record("filed/some.evalset.json", {"filed": [TORN]})
    agents = '[agents]\n"filed/**" = "recorded:answers.json"\n'
    shops.write({"kiosk/test_config.json": {"criteria": criteria}, "filed/test_config.json": {"criteria": criteria}})
    with FakeGemini(Judge(), faults=[Fault(kind=400)]) as server:
        asked = ("--judge-base-url", server.url, "--judge-cache", "cache")
        recorded = gate(shops, "kiosk", *asked, "--record", "all", "--num-runs", "3", AGENT_EVAL_JUDGE_API_KEY=KEY)
        [runs] = [case.runs for case in recorded.report.cases]
        assert sorted(run.status for run in runs) == ["errored", "passed", "passed"], recorded.out
        shops.write({"agent-eval.toml": agents})
        filed = gate(shops, "filed", *asked, AGENT_EVAL_JUDGE_API_KEY=KEY)
    tape = json.loads((shops.root / "kiosk/kiosk.evalset.tools/cocoa.tape.json").read_text("utf-8"))
    assert len(tape["replies"]) == 2, "two votes of three settle it"
    replaying = ("--replay", "all", "--judge-cache", "cache")
    merged = in_parts(shops, *replaying)
    assert merged.code == filed.code == 1, "the judge was torn, and still is"
    assert {case.eval_id: (case.status, case.replayed) for case in merged.report.cases} == {
        "tea": ("passed", True),
        "cocoa": ("passed", True),
        "filed": ("failed", False),
    }
    assert log(shops) == []


def test_all_runs_of_recorded_answers_are_scored__beside_cases_that_are_replayed_once(shops: Repository) -> None:
    done = gate(shops, "kiosk", "--num-runs", "3")
    lines = gzip.decompress((done.output / "recordings.jsonl.gz").read_bytes()).decode().splitlines()
    lines = [line if json.loads(line)["run"] == 0 else line.replace("It costs 5.", "No.") for line in lines]
    shops.write({"kept/recordings.jsonl": "\n".join(lines)})
    shops.write({"agent-eval.toml": '[agents]\n"kiosk/**" = "recorded:kept/recordings.jsonl"\n'})
    replaying = ("--replay", "all", "--num-runs", "3")
    planned = shops.gate("validate", "--plan", *replaying).out
    assert "shop.evalset.json: 1 case, 1 agent turn" in planned
    assert "kiosk.evalset.json: 1 case, 3 runs each, 3 agent turns" in planned
    alone = gate(shops, *replaying, "--output-dir", "alone")
    part = gate(shops, *replaying, "--shard", "1/1", "--output-dir", "shards/1")
    merged = shops.gate("merge", *replaying, environment={"CI": ""})
    for done in (alone, part, merged):
        runs = {case.eval_id: [run.status for run in case.runs] for case in done.report.cases}
        assert runs == {"tea": ["passed"], "cocoa": ["passed", "failed", "failed"]}, done.out
    assert (alone.code, merged.code, log(shops)) == (1, 1, [])


@pytest.mark.slow
def test_missing_live__without_a_key_judges_reply_from_the_tape_and_nothing_runs_that_they_could_not_judge(
    shops: Repository,
) -> None:
    """Not even the agent, nor is such a case an outage: as without a replay."""
    metric, replaying = "final_response_match_v2", ("--replay", "missing-live", *WITHOUT_JUDGE)
    story = []
    for others in ({"response_match_score": 1.0}, {}):
        shops.write({"kiosk/test_config.json": {"criteria": {**others, metric: 0.5}}})
        with FakeGemini(Judge()) as server:
            asked = ("--judge-base-url", server.url, "--record", "all")
            assert gate(shops, "kiosk", *asked, AGENT_EVAL_JUDGE_API_KEY=KEY).code == 0
        for more in ((), ("--judge-model", "gemini-2.5-pro")):
            done = gate(shops, "kiosk", *replaying, *more)
            story.append(told(" ".join([metric, *others, *more]), done, *log(shops)))
    scenario = {"starting_prompt": "tea", "conversation_plan": "Ask on."}
    talks = {"eval_set_id": "talks", "eval_cases": [{"eval_id": "talk", "conversation_scenario": scenario}]}
    shops.write({"shop/talks/talks.evalset.json": talks})
    shops.write({"shop/talks/test_config.json": {"criteria": {"hallucinations_v1": 0.5}}})
    (shops.root / "kiosk/kiosk.evalset.tools/cocoa.tape.json").unlink()
    story.append(told("no tape, and a simulated user", gate(shops, *replaying), *log(shops)))
    check("golden_gate/replays_without_keys.txt", "".join(story))
