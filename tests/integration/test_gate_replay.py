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
from gate_runs import Done, Repository
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
        file.write("ran\\n")
    with open(os.path.join(os.path.dirname(__file__), "prices.txt"), encoding="utf-8") as file:
        return {"price": int(file.read()) * len(item)}
'''
CASES = {"tea": "It costs 3.", "cocoa": "It costs 5."}


def files_of(agent: str) -> dict[str, str]:
    return {
        f"{agent}/__init__.py": "from . import agent\n",
        f"{agent}/agent.py": AGENT,
        f"{agent}/tools.py": TOOLS,
        f"{agent}/prices.txt": "1\n",
    }


@pytest.fixture
def shops(repository: Repository) -> Repository:
    """Two agents of a case each, which are recorded."""
    repo = Repo(repository.root)
    repo.git("init", "-q", "-b", "main")
    shutil.copy(FIXTURES / "scripted_model.py", repository.root)
    for agent, case in (("shop", "tea"), ("kiosk", "cocoa")):
        repository.write(files_of(agent))
        repository.evals(f"{agent}/{agent}.evalset.json", {case: case}, expect={case: CASES[case]})
    repository.write({".gitignore": "agent-eval-results/\n__pycache__/\nlog.txt\n"})
    recorded = gate(repository, "--record", "all", "--num-runs", "2")
    assert recorded.code == 0, recorded.out
    assert len(log(repository)) == 2 * 2 * 3
    repo.commit({})
    return repository


def gate(repository: Repository, *arguments: str, **variables: str) -> Done:
    """Runs the gate with an empty log."""
    repository.write({"log.txt": ""})
    environment = {"CI": "", "RUNS_FILE": str(repository.root / "log.txt"), **variables}
    return repository.gate("run", *arguments, environment=environment)


def log(repository: Repository) -> list[str]:
    """What models and tools did."""
    return (repository.root / "log.txt").read_text("utf-8").splitlines()


def errors(done: Done) -> dict[str, str]:
    """The kind of each case's error."""
    return {case.eval_id: run.error.kind for case in done.report.cases for run in case.runs if run.error is not None}


def scores(done: Done) -> dict[str, list[float | None]]:
    return {case.eval_id: [metric.score for metric in case.metrics] for case in done.report.cases}


def test_replay_all__asks_no_model_and_runs_no_tool(shops: Repository) -> None:
    live = gate(shops)
    done = gate(shops, "--replay", "all", "--num-runs", "3")
    assert (done.code, log(shops)) == (0, []), done.out
    assert scores(done) == scores(live)
    assert "Passed: both cases pass; replayed" in done.out
    assert "Replayed from its tape" in shops.gate("show", "tea", python=False).out
    assert (done.output / "junit.xml").read_text("utf-8").count("Replayed from its tape") == 2
    assert "Both cases were replayed from recordings: 4 model calls saved" in done.out
    runs = [run for case in done.report.cases for run in case.runs]
    assert [(run.tools.mode, run.tools.model_calls, run.usage.model_calls) for run in runs if run.tools] == [
        ("all", 2, 0),
        ("all", 2, 0),
    ]
    assert not done.report.model_usage


ANSWERED = "tools=[price], before_model_callback=lambda *args, **more: reply(text('It costs 5.'))"
CHANGES: Mapping[str, tuple[str, str, str, str]] = {
    "instruction": ("kiosk/agent.py", '"Sell."', '"Sell it."', "model-not-recorded"),
    "declaration": ("kiosk/tools.py", "The price of", "What it costs:", "model-not-recorded"),
    "body": ("kiosk/tools.py", "len(item)}", "len(item) * 1}", "tool-tape-stale"),
    "data": ("kiosk/prices.txt", "1", " 1", "tool-tape-stale"),
    "fewer-calls": ("kiosk/agent.py", "tools=[price]", ANSWERED, "model-calls-left"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_is_asked__is_never_green_from_the_tape(shops: Repository, change: str) -> None:
    file, old, new, kind = CHANGES[change]
    path = shops.root / file
    source = path.read_text("utf-8")
    assert old in source
    path.write_text(source.replace(old, new), "utf-8")

    alone = gate(shops, "--replay", "all")
    assert (alone.code, errors(alone), log(shops)) == (3, {"cocoa": kind}, []), alone.out
    assert "Next: record the case again (`--record all`) and commit its tape." in alone.out
    assert not (alone.output / "journal.jsonl").exists(), "with --resume it would miss again"
    excused = gate(shops, "--replay", "all", "--on-inconclusive", "pass")
    assert excused.code == 3

    done = gate(shops, "--replay", "missing-live", "--num-runs", "2")
    assert done.code == 0, done.out
    assert "asked about tea" not in log(shops)
    assert log(shops).count("ran") == (0 if change == "fewer-calls" else 2)
    assert {case.eval_id: len(case.runs) for case in done.report.cases} == {"tea": 1, "cocoa": 2}
    assert "1 case ran live" in done.out


def test_an_answer_that_is_held_back__is_not_the_agents_deadline(shops: Repository) -> None:
    skips = "tools=[price], before_tool_callback=lambda **call: {'price': len(call['args']['item'])}"
    change(shops, "kiosk/agent.py", "tools=[price]", skips)
    done = gate(shops, "--replay", "all", "--case-timeout", "2")
    assert (done.code, errors(done)) == (3, {"cocoa": "model-not-recorded"}), done.out
    assert "ended before the answers that were recorded earlier" in " ".join(done.out.split())


def test_old_tapes__are_a_notice(shops: Repository) -> None:
    tapes = sorted(shops.root.glob("*/*.tools/*.tape.json"))
    for tape, days in zip(tapes, (40, 50), strict=True):
        content = json.loads(tape.read_text("utf-8"))
        tape.write_text(json.dumps({**content, "recorded_at": time.time() - days * 86_400 - 60}), "utf-8")
    done = gate(shops, "--replay", "all")
    assert done.code == 0, done.out
    [notice] = [line for line in done.report.notices if "tape" in line]
    assert notice == ("2 tapes are old: that of shop/shop.evalset.json:tea is 50 days old. Record again, models change")
    tapes[1].write_text(json.dumps({**content, "recorded_at": time.time() - 29 * 86_400}), "utf-8")
    done = gate(shops, "--replay", "missing-live")
    [notice] = [line for line in done.report.notices if "tape" in line]
    assert notice == "The tape of kiosk/kiosk.evalset.json:cocoa is 40 days old. Record again, models change"
    # Where models are asked, the age says nothing.
    assert not [line for line in gate(shops, "--replay", "tools").report.notices if "tape" in line]


@pytest.mark.parametrize("how", ["aio.models", "models", "interactions"])
def test_code_that_asks_a_model_itself__is_never_green(shops: Repository, how: str) -> None:
    path = shops.root / "kiosk/agent.py"
    asks = {
        "aio.models": "await client.aio.models.generate_content(model='own', contents='x')",
        "models": "client.models.generate_content(model='own', contents='x')",
        "interactions": "client.interactions",
    }[how]
    code = (
        "\n\nasync def ask(*args, **more):\n    from google import genai\n"
        "    client = genai.Client(api_key='k', http_options={'base_url': 'http://127.0.0.1:9'})\n"
        f"    try:\n        {asks}\n    except Exception:\n        pass\n\n\nroot_agent.before_model_callback = ask\n"
    )
    path.write_text(path.read_text("utf-8") + code, "utf-8")
    done = gate(shops, "--replay", "all")
    assert (done.code, errors(done), log(shops)) == (3, {"cocoa": "tool-not-replayable"}, []), done.out
    assert "own code asks" in done.out
    if how == "models":
        live = gate(shops, "--replay", "missing-live")
        assert (live.code, len(log(shops))) == (0, 3), live.out


def test_an_agent_that_asks_no_model__is_replayed(shops: Repository) -> None:
    path = shops.root / "kiosk/agent.py"
    asks = path.read_text("utf-8")
    path.write_text(
        "from google.adk.agents.base_agent import BaseAgent\nfrom google.adk.events import Event\n"
        "from google.genai import types\n\n\nclass Kiosk(BaseAgent):\n    async def _run_async_impl(self, ctx):\n"
        "        said = types.Content(role='model', parts=[types.Part(text='It costs 5.')])\n"
        "        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=said)\n\n\n"
        "root_agent = Kiosk(name='kiosk')\n",
        "utf-8",
    )
    gate(shops, "--record", "all")
    done = gate(shops, "--replay", "all")
    assert (done.code, log(shops)) == (0, []), done.out
    assert "replayed" in done.out
    live = gate(shops, "kiosk", "--replay", "missing-live", "--num-runs", "2")
    assert (live.code, [(case.replayed, len(case.runs)) for case in live.report.cases]) == (0, [(False, 2)]), (
        "a library that is not known may have asked a model, which would be asked again"
    )
    planned = shops.gate("validate", "kiosk", "--plan", "--replay", "missing-live").out
    assert "No recorded model calls: 1 case, which will run live" in planned
    # It answers no model.
    path.write_text(asks, "utf-8")
    assert errors(gate(shops, "--replay", "all")) == {"cocoa": "tool-tape-missing"}


STALE_LIVE = '[[tool]]\nname = "*"\nstale = "live"\n'


@pytest.mark.parametrize(
    ("new", "code", "kind", "message"),
    [
        ("len(item)}  # characters", 0, "", ""),
        ("len(item) + 1}", 3, "tool-tape-stale", "Its answer differs in response.price: 5 on the tape, 6 now"),
        ("len(item) // 0}", 1, "agent-exception", "ZeroDivisionError"),
    ],
    ids=["comment", "answer", "exception"],
)
def test_a_changed_tool__runs_and_must_answer_as_recorded(
    shops: Repository, new: str, code: int, kind: str, message: str
) -> None:
    path = shops.root / "kiosk/tools.py"
    path.write_text(path.read_text("utf-8").replace("len(item)}", new), "utf-8")
    shops.write({"agent-eval.toml": STALE_LIVE})
    for replay in ("all", "missing-live"):
        if replay == "missing-live" and kind == "tool-tape-stale":
            continue
        done = gate(shops, "--replay", replay)
        assert (done.code, log(shops)) == (code, ["ran"]), done.out
        assert errors(done) == ({"cocoa": kind} if kind else {})
        assert message in " ".join(done.out.split()), done.out


def test_plan__names_the_cases_that_a_replay_does_not_answer(shops: Repository) -> None:
    (shops.root / "kiosk/kiosk.evalset.tools/cocoa.tape.json").unlink()
    tools = shops.root / "shop/tools.py"
    tools.write_text(tools.read_text("utf-8").replace("len(item)", "len(item) + 0"), "utf-8")
    for replay, then in {"all": "inconclusive", "missing-live": "which will run live"}.items():
        planned = shops.gate("validate", "--plan", "--replay", replay, "--num-runs", "3")
        assert f"No recorded model calls: 1 case, {then}: kiosk/kiosk.evalset.json:cocoa" in planned.out
        assert f"because tools have changed: 1 case, {then}: shop/shop.evalset.json:tea" in planned.out
        assert ("In all 2 agent turns" in planned.out) == (replay == "all")
    shops.write({"agent-eval.toml": STALE_LIVE})
    assert "tools have changed" not in shops.gate("validate", "--plan", "--replay", "all").out


def test_missing_live__takes_no_part_in_parts_that_it_splits(shops: Repository) -> None:
    path = shops.root / "kiosk/agent.py"
    path.write_text(path.read_text("utf-8").replace('"Sell."', '"Sell it."'), "utf-8")
    replaying = ("--replay", "missing-live", "--num-runs", "2")
    for part in ("1", "2"):
        done = gate(shops, *replaying, "--shard", f"{part}/2", "--output-dir", f"shards/{part}")
        assert done.code == 0, done.out
    environment = {"CI": "", "RUNS_FILE": str(shops.root / "log.txt")}
    merged = shops.gate("merge", *replaying, environment=environment)
    assert merged.code == 0, merged.out
    assert {case.eval_id: len(case.runs) for case in merged.report.cases} == {"tea": 1, "cocoa": 2}
    assert "1 of 2 cases was replayed from recordings: 2 model calls saved" in merged.out


WITHOUT_JUDGE = ("--without-keys", "deterministic-only")


@pytest.fixture
def judged(shops: Repository) -> Iterator[Callable[..., Done]]:
    """Runs the gate with a judge of `cocoa` that answers nobody."""
    shops.write({"kiosk/test_config.json": {"criteria": {"response_match_score": 1.0, "final_response_match_v2": 0.5}}})
    with FakeGemini(lambda _: Fault(kind=400)) as server:
        yield lambda *arguments: gate(
            shops, *arguments, "--judge-base-url", server.url, AGENT_EVAL_JUDGE_API_KEY="AIza-a-key"
        )


def change(repository: Repository, file: str, old: str, new: str) -> None:
    path = repository.root / file
    source = path.read_text("utf-8")
    assert old in source
    path.write_text(source.replace(old, new), "utf-8")


def test_a_part__whose_replayed_case_could_not_be_judged_is_merged(
    shops: Repository, judged: Callable[..., Done]
) -> None:
    change(shops, "shop/agent.py", "import os", "import os, no_such_module")
    replaying = ("--replay", "missing-live", "--num-runs", "2")
    for part in ("1", "2"):
        judged(*replaying, "--shard", f"{part}/2", "--output-dir", f"shards/{part}")
    environment = {"CI": "", "AGENT_EVAL_JUDGE_API_KEY": "AIza-a-key"}
    merged = shops.gate("merge", *replaying, environment=environment)
    assert merged.code == 1, merged.out
    assert errors(merged) == {"tea": "agent-import"}
    assert {case.eval_id: case.status for case in merged.report.cases} == {"tea": "failed", "cocoa": "errored"}


def test_resume__asks_for_nothing_twice(shops: Repository, judged: Callable[..., Done]) -> None:
    change(shops, "kiosk/agent.py", '"Sell."', '"Sell it."')
    replaying = ("--replay", "missing-live", "--num-runs", "2")
    first = judged(*replaying)
    assert (first.code, len(log(shops))) == (3, 6), first.out
    again = gate(shops, *replaying, "--resume", *WITHOUT_JUDGE)
    assert (again.code, log(shops)) == (0, []), again.out
    assert {case.eval_id: (case.replayed, len(case.runs)) for case in again.report.cases} == {
        "tea": (True, 1),
        "cocoa": (False, 2),
    }


def test_record__without_a_judge_keeps_the_calls_of_models(shops: Repository, judged: Callable[..., Done]) -> None:
    recorded = judged("--record", "all", "--num-runs", "2")
    assert recorded.code == 3, recorded.out
    done = gate(shops, "--replay", "missing-live", *WITHOUT_JUDGE)
    assert (done.code, log(shops)) == (0, []), done.out
    alone = gate(shops, "--replay", "all", *WITHOUT_JUDGE)
    assert (alone.code, alone.report.reasons[0].code, log(shops)) == (3, "judge-replay-miss", []), alone.out


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
    expected = {"tool_uses": [{"name": "price", "args": {"item": "cocoa"}}]}
    file = shops.root / "kiosk/kiosk.evalset.json"
    document = json.loads(file.read_text("utf-8"))
    document["eval_cases"][0]["conversation"][0]["intermediate_data"] = expected
    shops.write({"kiosk/kiosk.evalset.json": document})
    shops.write({"kiosk/test_config.json": {"criteria": {"tool_trajectory_avg_score": 1.0}}})
    change(shops, "kiosk/agent.py", "def script", SPOILT + "\n\ndef script")
    change(shops, "kiosk/agent.py", "tools=[price]", "tools=[price], after_model_callback=spoilt")
    alone = gate(shops, "--replay", "all")
    assert (alone.code, errors(alone)) == (1, {"cocoa": "tool-not-recorded"}), alone.out
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
    assert merged.code == 0, merged.out
    assert {case.eval_id: (case.replayed, len(case.runs)) for case in merged.report.cases} == {
        "tea": (True, 1),
        "cocoa": (True, 1),
    }
    assert merged.report.pass_rates == [], "one run says nothing about another one"


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
    for part in ("1", "2"):
        done = gate(shops, *replaying, "--shard", f"{part}/2", "--output-dir", f"shards/{part}")
        assert done.code == 0, done.out
    merged = shops.gate("merge", *replaying, environment={"CI": ""})
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


@pytest.mark.parametrize("others", [{"response_match_score": 1.0}, {}], ids=["others", "alone"])
def test_missing_live__without_a_key_judges_still_reply_from_the_tape(
    shops: Repository, others: dict[str, float]
) -> None:
    metric = "final_response_match_v2"
    shops.write({"kiosk/test_config.json": {"criteria": {**others, metric: 0.5}}})
    with FakeGemini(Judge()) as server:
        asked = ("--judge-base-url", server.url, "--record", "all")
        assert gate(shops, "kiosk", *asked, AGENT_EVAL_JUDGE_API_KEY=KEY).code == 0
    replaying = ("--replay", "missing-live", *WITHOUT_JUDGE)
    done = gate(shops, "kiosk", *replaying)
    [case] = done.report.cases
    assert (done.code, case.replayed, case.status) == (0, True, "passed"), done.out
    assert {each.status for each in case.metrics if each.threshold is not None} == {"passed"}
    done = gate(shops, "kiosk", *replaying, "--judge-model", "gemini-2.5-pro")
    [case] = done.report.cases
    assert (done.code, case.status) == ((0, "passed") if others else (3, "not_run")), done.out
    assert log(shops) == []


def test_missing_live__without_a_key_runs_nothing_that_could_not_be_judged(shops: Repository) -> None:
    """Not even the agent, nor is the case an outage: as without a replay."""
    scenario = {"starting_prompt": "tea", "conversation_plan": "Ask on."}
    talks = {"eval_set_id": "talks", "eval_cases": [{"eval_id": "talk", "conversation_scenario": scenario}]}
    shops.write({"shop/talks/talks.evalset.json": talks})
    shops.write({"kiosk/test_config.json": {"criteria": {"final_response_match_v2": 0.5}}})
    shops.write({"shop/talks/test_config.json": {"criteria": {"hallucinations_v1": 0.5}}})
    (shops.root / "kiosk/kiosk.evalset.tools/cocoa.tape.json").unlink()
    done = gate(shops, "--replay", "missing-live", *WITHOUT_JUDGE)
    assert (done.code, log(shops)) == (0, []), done.out
    assert errors(done) == {"talk": "without-key", "cocoa": "without-key"}
    assert "ran live" not in done.out
