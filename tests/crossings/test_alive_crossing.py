"""Dead or alive: what a pull request did to its agent, from a refactoring to a SIGKILL, x `gate` x the baseline."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from adk_envs import FIXTURES
from base_repos import new_repo
from crossing_table import Cell, Row, Table
from fake_github import FakeGitHub
from gate_runs import Call, Done, Repository, eval_case, patience
from pull_requests import Lab

# What pull requests do to an agent with two tools and to its five cases, from a refactoring to a SIGKILL.


Files = Mapping[str, str | None]
"""Text by path; None removes the file."""

AGENT = '''
"""Switches lamps and says whether they are on."""

from google.adk.agents.llm_agent import LlmAgent

from scripted_model import call, reply, scripted, text

from .tools import state, switch


def script(said, count, request):
    if count == 0:
        room = "hall" if "hall" in said else "kitchen"
        return reply(call("state", room=room) if said.startswith("Is") else call("switch", room=room, on="on" in said))
    return reply(text(request.contents[-1].parts[-1].function_response.response["result"]))


root_agent = LlmAgent(name="bot", model=scripted(script), instruction="Switch lamps.", tools=[switch, state])
'''
TOOLS = '''
def switch(room: str, on: bool) -> str:
    """Switches a lamp."""
    return f"The lamp in the {room} is {'on' if on else 'off'}."


def state(room: str) -> str:
    """Whether a lamp is on."""
    return f"The lamp in the {room} is off."
'''
LAMPS = {
    "kitchen_on": ("Switch the lamp in the kitchen on.", "on"),
    "kitchen_off": ("Switch the lamp in the kitchen off.", "off"),
    "hall_on": ("Switch the lamp in the hall on.", "on"),
}
STATE = {
    "kitchen_state": ("Is the lamp in the kitchen lit?", "off"),
    "hall_state": ("Is the lamp in the hall lit?", "off"),
}
LAMPS_FILE, STATE_FILE, CONFIG = "evals/lamps.evalset.json", "evals/state.evalset.json", "evals/test_config.json"


def _evals(cases: Mapping[str, tuple[str, str]], name: str) -> str:
    return json.dumps({"eval_set_id": name, "eval_cases": [_case(eval_id, *case) for eval_id, case in cases.items()]})


def _case(eval_id: str, said: str, lit: str) -> dict[str, object]:
    room = "hall" if "hall" in said else "kitchen"
    switch: Call = ("switch", {"room": room, "on": lit == "on"})
    called: Call = switch if said.startswith("Switch") else ("state", {"room": room})
    return eval_case(eval_id, (said, [called], f"The lamp in the {room} is {lit}."))


def _criteria(**thresholds: float) -> str:
    return json.dumps({"criteria": thresholds})


BASE_FILES: Files = {
    "scripted_model.py": (FIXTURES / "scripted_model.py").read_text("utf-8"),
    "bot/agent.py": AGENT,
    "bot/tools.py": TOOLS,
    LAMPS_FILE: _evals(LAMPS, "lamps"),
    STATE_FILE: _evals(STATE, "state"),
    CONFIG: _criteria(tool_trajectory_avg_score=1.0, response_match_score=1.0),
}
BEFORE_HALL_STATE: Files = {STATE_FILE: _evals({"kitchen_state": STATE["kitchen_state"]}, "state")}
"""The base branch as it was a commit ago: without one of its cases."""


def _in_each_turn(statement: str) -> Files:
    return {"bot/agent.py": AGENT.replace("    if count == 0:\n", f"    {statement}\n    if count == 0:\n")}


def _in_one_case(statement: str) -> Files:
    return _in_each_turn(f'if said == "{LAMPS["kitchen_on"][0]}":\n        {statement}')


def _at_import(statement: str) -> Files:
    return {"bot/agent.py": f"import os, sys\n\n{statement}\n{AGENT}"}


SWITCHED, OFF = "'on' if on else 'off'", "is off."
RESULT = 'request.contents[-1].parts[-1].function_response.response["result"]'
SWITCH_WRONG: Files = {"bot/tools.py": TOOLS.replace(SWITCHED, "'off' if on else 'on'")}
"""Three of five cases fail, by one word of seven: below the criterion of 1.0, above ADK's default of 0.8."""
STATE_WRONG: Files = {"bot/tools.py": TOOLS.replace(OFF, "is on.")}
BOTH_WRONG: Files = {"bot/tools.py": TOOLS.replace(SWITCHED, "'off' if on else 'on'").replace(OFF, "is on.")}
SWITCH_RAISES: Files = {"bot/tools.py": TOOLS.replace(SWITCHED, "dict()['no lamp']")}
HANG, EXIT = "__import__('time').sleep(600)", "__import__('os')._exit(0)"
KILL, NO_MEMORY = "__import__('os').kill(__import__('os').getpid(), 9)", "bytearray(1 << 60)"
REFACTORED: Files = {
    "bot/tools.py": "from .lamps import state, switch\n",
    "bot/lamps.py": TOOLS.replace(SWITCHED, "['off', 'on'][on]"),
}


CHANGES: Mapping[str, Files] = {
    "fine": {"README.md": "# Lamps\n"},
    "refactored": REFACTORED,
    "new file": {"evals/more.evalset.json": _evals({"hall_off": ("Switch the lamp in the hall off.", "off")}, "more")},
    "renamed file": {LAMPS_FILE: None, "evals/lights.evalset.json": _evals(LAMPS, "lights")},
    "deleted file": {STATE_FILE: None},
    "tool raises": SWITCH_RAISES,
    "tool wrong": BOTH_WRONG,
    "one wrong tool": STATE_WRONG,
    "import error": _at_import("os.environ['LAMPS_TOKEN']"),
    "exit at import": _at_import("sys.exit(0)"),
    "hang, one": _in_one_case(HANG),
    "hang, all": _in_each_turn(HANG),
    "exit, one": _in_one_case(EXIT),
    "out of memory": _in_each_turn(NO_MEMORY),
    "SIGKILL": _in_each_turn(KILL),
    "empty answers": {"bot/agent.py": AGENT.replace(RESULT, '""')},
    "removed cases": {
        **SWITCH_WRONG,
        LAMPS_FILE: _evals({name: LAMPS[name] for name in ("kitchen_on", "hall_on")}, "lamps"),
    },
    "renamed cases": {
        **SWITCH_WRONG,
        LAMPS_FILE: _evals({f"{name}_again": case for name, case in LAMPS.items()}, "lamps"),
    },
    "criteria lowered": {**SWITCH_WRONG, CONFIG: _criteria(tool_trajectory_avg_score=1.0, response_match_score=0.1)},
    "criteria dropped": {**SWITCH_WRONG, CONFIG: _criteria(tool_trajectory_avg_score=1.0)},
    "criteria deleted": {**SWITCH_WRONG, CONFIG: None},
    ".gitignore": {**SWITCH_WRONG, ".gitignore": "evals/\nbot/\nagent-eval-results/\n__pycache__/\n"},
}
"""By what they do. The last six also change what is asked of the agent, whose `switch` is wrong."""


# Dead or alive: what a pull request did to its agent x `gate` x the baseline.
#
# A dead agent is never green: with `advisory` the exit code is 0, and the first line says what would have failed. A
# baseline of a dead run excuses nothing.


GATES = ("auto", "thresholds", "regressions", "both", "advisory")
USABLE = ("artifact", "stale artifact", "file", "rerun")
UNUSABLE = ("none", "artifact of a dead run", "rerun of a dead base")
GREEN = ("fine", "refactored", "new file", "renamed file", "deleted file")
LOW = (
    *("tool wrong", "one wrong tool", "empty answers", "removed cases", "renamed cases"),
    *("criteria lowered", "criteria dropped", "criteria deleted", ".gitignore"),
)
"""Agents that answer, and wrongly. The last six also change what is asked of them."""
ERRORS = {"tool raises": "agent-error", "hang, one": "agent-error", "exit, one": "agent-crash"}
"""Agents that answer in other cases, and the reason beside a baseline."""
UNLOADED = ("import error", "exit at import")
"""Agents that can't be imported."""
DEAD = {"hang, all": "deadline", "out of memory": "agent-exception", "SIGKILL": "agent-crash"}
"""Agents that can be imported and never answer, and the reason beside a baseline."""
WORSE = "worse than main"
"""Stands for the codes of a case, or of cases, that are worse than on the base branch."""
CODES_OF_WORSE = {"case-worse", "cases-worse-together", "suite-worse", "broken-case"}

Outcome = tuple[int, str, frozenset[str]]
"""Exit code, verdict, codes of the reasons."""


def outcome(code: int, verdict: str, *codes: str) -> Outcome:
    return code, verdict, frozenset(codes)


def compared(change: str | tuple[str, ...], *codes: str, baseline: tuple[str, ...] = USABLE) -> list[Row]:
    """What a comparison finds; `both` adds the thresholds' reason."""
    where = {"change": change, "baseline": baseline}
    return [
        Row(where={**where, "gate": ("auto", "regressions")}, expect=outcome(1, "failed", *codes)),
        Row(where={**where, "gate": "both"}, expect=outcome(1, "failed", "failed", *codes)),
    ]


TABLE = Table(
    name="alive",
    axes={"change": tuple(CHANGES), "gate": GATES, "baseline": USABLE + UNUSABLE},
    rows=(
        Row(where={"change": GREEN}, expect=outcome(0, "passed")),
        Row(where={"gate": "advisory"}, expect=outcome(0, "passed", "advisory")),
        # Where nothing can be compared, the thresholds decide.
        *(
            Row(where={**where, "change": changes}, expect=outcome(1, "failed", "failed", *more))
            for where in ({"gate": "thresholds"}, {"baseline": UNUSABLE})
            for changes, more in (((*LOW, *ERRORS), ()), ((*DEAD, *UNLOADED), ("nothing-scored",)))
        ),
        Row(
            where={"change": UNLOADED},
            expect=outcome(1, "failed", "failed", "nothing-scored"),
            cause="no case of an agent that can't be imported can be compared, so the thresholds decide",
        ),
        # The stale artifact has no results of the case that main has added since: it must reach its thresholds.
        *compared(
            ("tool wrong", "one wrong tool", "empty answers"), WORSE, "not-comparable", baseline=("stale artifact",)
        ),
        *compared(LOW, WORSE),
        *(row for change, code in ERRORS.items() for row in compared(change, code)),
        *(row for change, code in DEAD.items() for row in compared(change, code, "nothing-scored")),
    ),
)


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=["baseline"]))
def test_alive(cell: Cell, lab_of: Callable[[str], Lab]) -> None:
    lab = lab_of(cell["baseline"])

    done = _pull_request(lab, cell)

    assert _outcome_of(done) == TABLE.expected(cell), (done.report.reasons, done.out + done.err)
    assert _baseline_of(done) == BASELINES[cell["baseline"]], done.report.baseline
    if cell["gate"] == "advisory" and cell["change"] not in GREEN:
        assert "Does not block, since `gate` is `advisory`: " in done.out, done.out


BASELINES: Mapping[str, tuple[str, int | None] | None] = {
    "none": None,
    "artifact": ("found", 0),
    "stale artifact": ("found", 1),
    "file": ("found", None),
    "rerun": ("found", 0),
    "artifact of a dead run": ("none-yet", None),
    "rerun of a dead base": ("fetch-failed", None),
}
"""Status and distance of the baseline that each value of the axis leads to."""


def _outcome_of(done: Done) -> Outcome:
    codes = {reason.code for reason in done.report.reasons}
    return outcome(done.code, done.report.verdict, *(WORSE if code in CODES_OF_WORSE else code for code in codes))


def _baseline_of(done: Done) -> tuple[str, int | None] | None:
    baseline = done.report.baseline
    return None if baseline is None else (baseline.status, baseline.distance)


def _pull_request(lab: Lab, cell: Cell) -> Done:
    baseline = {"file": "file:base.json", "none": "none"}.get(cell["baseline"], cell["baseline"].split(" of ")[0])
    arguments = ["--gate", cell["gate"], "--baseline", baseline.removeprefix("stale ")]
    if cell["change"].startswith("hang"):
        arguments += ["--turn-timeout", str(round(2 * patience(), 1))]
    number = len(lab.github.state.pulls) + 1
    return lab.pull_request(number, None, *arguments, files={**BASE_FILES, **CHANGES[cell["change"]]}, timeout=120)


@pytest.fixture(scope="module")
def lab_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    """The repository of a baseline; each is made once, and all pull requests of the cells are opened in it."""
    with ExitStack() as stack:

        @functools.cache
        def lab_of(baseline: str) -> Lab:
            github = stack.enter_context(FakeGitHub())
            lab = _lab(tmp_path_factory.mktemp("lab") / "repo", github, baseline)
            stack.callback(lab.repository.end)
            return lab

        yield lab_of


def _lab(root: Path, github: FakeGitHub, baseline: str) -> Lab:
    lab = Lab(repository=Repository(root=root), github=github, repo=new_repo(root))
    dead = CHANGES["import error"] if "dead" in baseline else {}
    lab.commit(None, **{**BASE_FILES, **dead, **(BEFORE_HALL_STATE if baseline == "stale artifact" else {})})
    if "artifact" in baseline or baseline == "file":
        done = lab.base_run(upload="artifact" in baseline, code=1 if dead else 0)
    if baseline == "file":
        lab.commit(None, **BASE_FILES, **{"base.json": (done.output / "results.json").read_text("utf-8")})
    if baseline == "stale artifact":
        lab.commit(None, **BASE_FILES)
    return lab
