"""How often changed answers are named: of planted changes, and of pull requests that change nothing.

python benchmarks/changed_answers.py [--seed N] [--pulls N] [--show]: the six agents of changed_answers.toml, whose
tools and data are real code; a script stands for the model. The expectation of each case is one of its runs, as
`agent-eval record` writes it. What a pull request changes is read by the gate's own functions. With --agent-python,
some pull requests are whole runs of the gate instead, which must name the same cases.

Planted: each change alone, in steady agents and in agents whose words differ from run to run. Unchanged: noisy agents,
in pull requests that leave the agents as they are, or change their code without an effect.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("unit", "results", "scoring"))

from recording_samples import actual, recording
from report_samples import case
from test_results_cause_places import code_between

from agent_eval.pipeline._agents import is_documentation, is_read
from agent_eval.pipeline._facts import MOST_CASES, RUNS
from agent_eval_results import AgentFacts, AgentTree, Place, ToolFacts
from agent_eval_results.causes import CaseRuns
from agent_eval_results.causes.agent_diff import Diff, diff_of
from agent_eval_results.causes.changed_answers import changed_answers
from agent_eval_results.report.phrases import changed_lines
from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, Part
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.recording import Recording
from agent_eval_scoring.evalset.models import EvalCase, EvalSet

AGENTS: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GOAL_NAMED, GOAL_NOISE = 0.95, 0.03
AGENT = """from pathlib import Path

from google.adk.agents import LlmAgent

from . import tools
from .model import Scripted

root_agent = LlmAgent(
    name="home",
    model=Scripted(),
    instruction=(Path(__file__).parent / "prompt.txt").read_text("utf-8"),
    tools=[{tools}],
)
"""
DAY = 86_400.0
NOW = 1_790_000_000.0
Files = Mapping[str, str]
Call = tuple[str, dict[str, Any]]


# -- agents


@dataclass(frozen=True, kw_only=True)
class Agent:
    """The code of an agent, imported."""

    turn: Callable[[str, str, list[dict[str, Any]]], list[Call] | str]
    cases: Mapping[str, Sequence[str]]
    tools: Any
    prompt: str


def files_of(name: str) -> dict[str, str]:
    """The files of an agent as it is on the base branch."""
    files = dict(AGENTS[name]["files"])
    names = re.findall(r"^def ([a-z]\w*)\(", files["tools.py"], re.M)
    files["agent.py"] = AGENT.format(tools=", ".join(f"tools.{tool}" for tool in names))
    return {f"{name}/{file}": text for file, text in files.items()}


def imported(files: Files, folder: Path) -> Agent:
    """Writes an agent's files, and imports its tools and its script."""
    name = f"changed_{folder.name}"
    for path, text in files.items():
        target = folder / name / Path(path).name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    (folder / name / "__init__.py").touch()
    sys.path.insert(0, str(folder))
    try:
        tools, script = (importlib.import_module(f"{name}.{module}") for module in ("tools", "script"))
    finally:
        sys.path.remove(str(folder))
    prompt = (folder / name / "prompt.txt").read_text("utf-8")
    return Agent(turn=script.turn, cases=script.CASES, tools=tools, prompt=prompt)


class Agents:
    """Imports each version of an agent once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Agent] = {}

    def of(self, files: Files) -> Agent:
        key = repr(sorted(files.items()))
        if key not in self._known:
            self._known[key] = imported(files, self._folder / f"v{len(self._known)}")
        return self._known[key]


def diff(base: Files, head: Files) -> Diff:
    """What the gate knows of a pull request."""
    agent = next(iter(base)).partition("/")[0]
    code = code_between(base, dict(head), agent)
    text = head[f"{agent}/tools.py"].splitlines()
    places = [
        ToolFacts(
            name=match[1],
            place=Place(file=f"{agent}/tools.py", first=text.index(match[0]) + 1, symbol=match[1]),
        )
        for match in re.finditer(r"^def ([a-z]\w*)\(.*$", head[f"{agent}/tools.py"], re.M)
        if f"tools.{match[1]}" in head[f"{agent}/agent.py"]
    ]
    place = Place(file=f"{agent}/agent.py", symbol="root_agent")
    tree = AgentTree(agent=agent, agents=[AgentFacts(name="home", tools=places, places=[place])])
    return diff_of(code, tree, is_read, is_documentation=is_documentation)


# -- noise


class Noise:
    """What a model, a tool or a clock does differently from run to run. This one does nothing."""

    def __init__(self, rng: random.Random, at: float) -> None:
        self.rng, self.at = rng, at

    def calls(self, calls: list[Call]) -> list[Call]:
        return calls

    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        return response

    def answer(self, text: str) -> str:
        return text

    def _clock(self, form: str) -> str:
        import time

        return time.strftime(form, time.gmtime(self.at))


class Wording(Noise):
    def answer(self, text: str) -> str:
        first = ("", "", "Sure! ", "Of course. ", "Here is what I found: ", "Thanks for asking. ", "Good question! ")
        last = ("", "", " Anything else?", " I hope this helps.", " Let me know if you need more.", " Have a nice day!")
        for words in ((" is ", " is currently ", " is now "), (" costs ", " is priced at "), (" The ", " Your ")):
            text = text.replace(words[0], self.rng.choice(words), 1)
        return self.rng.choice(first) + text + self.rng.choice(last)


class Counts(Noise):
    def answer(self, text: str) -> str:
        return f"{text} I checked {self.rng.randint(2, 60)} records in {self.rng.uniform(0.1, 3):.1f} s."


class FewCounts(Noise):
    def answer(self, text: str) -> str:
        return f"{text} (Sources: {self.rng.choice((2, 2, 3))})"


class Ids(Noise):
    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        return {**response, "request_id": f"{self.rng.getrandbits(48):x}", "trace": f"T-{self.rng.randint(1000, 9999)}"}

    def answer(self, text: str) -> str:
        return f"{text} Reference: REQ-{self.rng.randint(10_000, 99_999)}."


class Clock(Noise):
    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        return {**response, "generated_at": self._clock("%Y-%m-%dT%H:%M:%SZ"), "asked": self._clock("%H:%M")}

    def answer(self, text: str) -> str:
        return f"{text} As of {self._clock('%d %B %Y, %H:%M')}."


class Lists(Noise):
    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        items = list(response.items())
        self.rng.shuffle(items)
        others = self.rng.sample(["Anna Berg", "Tom Hill", "Lea Wolf", "Ivan Petrov", "Mia Rossi"], 3)
        return {**dict(items), "similar": others}

    def answer(self, text: str) -> str:
        sentences = re.split(r"(?<=[.!]) (?=[A-Z])", text)
        self.rng.shuffle(sentences)
        picks = self.rng.sample(["Blue Lagoon", "Red Rock", "Green Park", "White Sands"], 2)
        return " ".join([*sentences, f"See also {picks[0]} and {picks[1]}."])


class Flaky(Noise):
    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        return {"error": "503 upstream timed out"} if self.rng.random() < 0.15 else response


class Calls(Noise):
    def calls(self, calls: list[Call]) -> list[Call]:
        again = calls * (2 if self.rng.random() < 0.3 else 1)
        return [(name, {**args, "note": self.rng.choice(("now", "as asked", "please"))}) for name, args in again]


class Optional(Noise):
    def answer(self, text: str) -> str:
        sentences = re.split(r"(?<=[.!]) (?=[A-Z])", text)
        return " ".join(sentences[:-1] if len(sentences) > 1 and self.rng.random() < 0.3 else sentences)


class Rounding(Noise):
    def answer(self, text: str) -> str:
        def other(match: re.Match[str]) -> str:
            number = float(match[0])
            return self.rng.choice((match[0], match[0], f"{number:,.2f}", f"{number:,.0f}", f"about {number:.0f}"))

        return re.sub(r"(?<![\w.:/+-])\d+(?:\.\d+)?(?![\w:/-]|\.\d)", other, text)


class Live(Noise):
    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        return {**response, "queue": self.rng.randint(1, 5), "load": round(self.rng.random(), 2)}

    def answer(self, text: str) -> str:
        return f"{text} There are {self.rng.randint(1, 5)} people before you."


class States(Noise):
    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        return {**response, "health": self.rng.choice(("green", "green", "green", "yellow"))}

    def answer(self, text: str) -> str:
        return f"{text} Our lines are {self.rng.choice(('open', 'open', 'busy'))}."


class Mixed(Noise):
    """A little of all."""

    def _some(self, often: float) -> Iterator[Noise]:
        for kind in (Wording, Counts, FewCounts, Ids, Clock, Lists, Flaky, Calls, Optional, Rounding, Live, States):
            if self.rng.random() < often:
                yield kind(self.rng, self.at)

    def calls(self, calls: list[Call]) -> list[Call]:
        for noise in self._some(0.2):
            calls = noise.calls(calls)
        return calls

    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        for noise in self._some(0.2):
            response = noise.response(response)
        return response

    def answer(self, text: str) -> str:
        for noise in self._some(0.2):
            text = noise.answer(text)
        return text


KINDS = (Wording, Counts, FewCounts, Ids, Clock, Lists, Flaky, Calls, Optional, Rounding, Live, States, Mixed)


# -- runs


def run_of(agent: Agent, name: str, number: int, at: float, noise: Noise) -> Recording:
    """A run of a case, as a host records it."""
    turns = []
    state: dict[str, Any] = {}
    for asked in agent.cases[name]:
        results: list[dict[str, Any]] = []
        parts: list[Any] = []
        said = agent.turn(asked, agent.prompt, results)
        while not isinstance(said, str):
            for tool, args in noise.calls(said):
                known = {key: value for key, value in args.items() if key != "note"}
                try:
                    made = noise.response(getattr(agent.tools, tool)(**known))
                except Exception as error:
                    made = {"error": repr(error)}
                parts += [
                    Part(function_call=FunctionCall(name=tool, args=args)),
                    Part(function_response=FunctionResponse(name=tool, response=made)),
                ]
            results.append(made)
            state[f"last_{said[0][0]}"] = made
            said = "I could not look that up, sorry." if "error" in made else agent.turn(asked, agent.prompt, results)
        state["report"] = noise.answer(said)
        turns.append(actual(asked, state["report"], *parts))
        turns[-1].session_state = {**state}
    return recording(name, *turns, run=number, started_at=at)


def expected(run: Recording) -> list[Invocation]:
    """What `agent-eval record` writes of a run: calls and answers."""
    return [
        turn.model_copy(
            update={
                "session_state": None,
                "intermediate_data": IntermediateData(
                    tool_uses=[
                        FunctionCall(name=part.function_call.name, args=part.function_call.args)
                        for event in turn.intermediate_data.invocation_events  # type: ignore[union-attr]
                        for part in (event.content.parts or [] if event.content is not None else [])
                        if part.function_call is not None
                    ]
                ),
            }
        )
        for turn in run.invocations
    ]


def with_state(run: Recording) -> list[Invocation]:
    """The same of a case that expects the state at the end, too."""
    *turns, last = expected(run)
    return [*turns, last.model_copy(update={"session_state": run.invocations[-1].session_state})]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the base branch's runs are had."""

    rerun: bool
    runs: int

    def __str__(self) -> str:
        return f"{'rerun' if self.rerun else 'stored runs'}, num-runs {self.runs}"


SETTINGS = [Setting(rerun=rerun, runs=runs) for rerun in (True, False) for runs in (1, 3)]


def named(
    base: Agent, head: Agent, change: Diff, setting: Setting, rng: random.Random, noise: Mapping[str, type[Noise]]
) -> tuple[dict[str, str], set[str]]:
    """The cases that are named in a pull request, with the first value; and those that are still named after fresh runs
    of both sides, as `changed-facts = "block"` asks for them.
    """

    def runs(agent: Agent, name: str, at: float, count: int) -> list[Recording]:
        starts = [at + rng.uniform(0, 600) for _ in range(count)]
        return [run_of(agent, name, i, start, noise[name](rng, start)) for i, start in enumerate(starts)]

    there = NOW - (0 if setting.rerun else rng.uniform(0.1, 9) * DAY)
    sides = {
        name: CaseRuns(
            head=runs(head, name, NOW, setting.runs),
            base=runs(base, name, there, setting.runs),
            expected=with_state(*runs(base, name, NOW - 40 * DAY, 1)),
        )
        for name in base.cases
    }
    reports = [case(name, "passed") for name in base.cases]
    by_id = {report.case_id: name for report, name in zip(reports, base.cases, strict=True)}

    def names() -> dict[str, str]:
        found = changed_answers(reports, lambda case_id: sides[by_id[case_id]], lambda _: "", lambda _: change)
        return {by_id[each.case_id]: "; ".join(changed_lines(each, 1)) for each in found}

    found = names()
    again = [*found][:MOST_CASES]
    for name in again:
        before, more = sides[name], [runs(agent, name, NOW + 600, RUNS) for agent in (head, base)]
        sides[name] = CaseRuns(head=[*before.head, *more[0]], base=[*before.base, *more[1]], expected=before.expected)
    return found, {*again} & names().keys() if again else set()


def affected(base: Agent, head: Agent) -> set[str]:
    """The cases in which a planted change shows, in an answer, a call or a tool's response."""
    return {
        name
        for name in base.cases
        if run_of(base, name, 0, NOW, Noise(random.Random(0), NOW)).invocations
        != run_of(head, name, 0, NOW, Noise(random.Random(0), NOW)).invocations
    }


# -- planted changes


def planted() -> Iterator[tuple[str, str, Files, Files]]:
    """What a change is about, its words, and the files before and after."""
    for name, agent in AGENTS.items():
        base = files_of(name)
        for file, changes in agent["planted"].items():
            for kind, old, new in changes:
                path = f"{name}/{file}"
                assert base[path].count(old) == 1, (path, old)
                yield kind, f"{path}: {old} -> {new}", base, {**base, path: base[path].replace(old, new)}


def measure_planted(agents: Agents, seed: int, *, show: bool) -> bool:
    """Prints which share is named; whether the goal is met."""
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    extra: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    cases: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for kind, words, base_files, head_files in planted():
        base, head, change = agents.of(base_files), agents.of(head_files), diff(base_files, head_files)
        shows = affected(base, head)
        assert shows, words
        for setting, noise in product(SETTINGS, (Noise, Wording)):
            rng = random.Random(f"{seed} {words} {setting} {noise.__name__}")
            found, blocked = named(base, head, change, setting, rng, dict.fromkeys(base.cases, noise))
            column = f"{setting}, {'steady' if noise is Noise else 'other words'}"
            for row in (kind, "all"):
                counts[row, column][0] += 1
                counts[row, column][1] += bool(found.keys() & shows)
            blocks[column] += bool(blocked & shows)
            cases[column][0] += len(shows)
            cases[column][1] += len(found.keys() & shows)
            extra[column] += len(found.keys() - shows)
            if show and not found.keys() & shows:
                print(f"not named ({column}): {words}")
    columns = list(cases)
    print(f"Planted: {counts['all', columns[0]][0]} changes. Named, of the pull requests:")
    for column in columns:
        rows = sorted({row for row, _ in counts} - {"all"})
        kinds = ", ".join(f"{row} {counts[row, column][1]}/{counts[row, column][0]}" for row in rows)
        total, hits = counts["all", column]
        there, seen = cases[column]
        share, kept = hits / total, blocks[column] / total
        print(
            f"  {column:38} {share:6.1%}  blocked {kept:6.1%}  cases {seen / there:6.1%}, others {extra[column]:3}",
            kinds,
        )
    first = counts["all", columns[0]]
    return first[1] >= GOAL_NAMED * first[0]


# -- pull requests that change nothing


def _before_first_line(text: str, line: str) -> str:
    """Puts a line at the beginning of the first tool, behind its docstring."""
    return re.sub(r'("""[^"]+"""\n)', lambda match: match[1] + line, text, count=1)


def _reordered(text: str) -> str:
    """The last function is the first one."""
    parts = re.split(r"(?m)^(?=def )", text)
    return "".join([parts[0], parts[-1].rstrip() + "\n\n\n", *parts[1:-1]])


def _in_tools(change: Callable[[str], str]) -> Callable[[Files, str], Files]:
    return lambda files, name: {**files, f"{name}/tools.py": change(files[f"{name}/tools.py"])}


_LOGGER = "import logging\n\nlogger = logging.getLogger(__name__)\n"
_GUARD = '    if not __name__:\n        raise ValueError("no name, 2 or 3")\n'
_PING = '\n\ndef ping() -> dict:\n    """Whether the service is up."""\n    return {"up": True, "count": 3}\n'
_PLAIN = "\n\ndef _plain(made):\n    return dict(made)\n"
EFFECTLESS: Mapping[str, Callable[[Files, str], Files]] = {
    "other files": lambda files, name: {**files, "README.md": "# Agents\n", ".github/workflows/x.yml": "on: push\n"},
    "comments": _in_tools(lambda text: f"# Reviewed.\n{text}"),
    "docstring": _in_tools(lambda text: text.replace('."""', ' (live)."""', 1)),
    "log": _in_tools(lambda text: _LOGGER + _before_first_line(text, '    logger.info("asked")\n')),
    "unused code": _in_tools(lambda text: f"{text}\n\ndef old_helper(value):\n    return value + 2\n"),
    "type hints": _in_tools(lambda text: text.replace("-> dict:", "-> dict[str, object]:")),
    "order of functions": _in_tools(_reordered),
    "guard": _in_tools(lambda text: _before_first_line(text, _GUARD)),
    "refactoring": _in_tools(lambda text: re.sub(r"(?m)return (\{.*\})$", r"return _plain(\1)", text) + _PLAIN),
    "politeness": lambda files, name: {
        **files,
        f"{name}/prompt.txt": f"{files[f'{name}/prompt.txt']}Be polite and brief.\n",
    },
    "dependencies": lambda files, name: {**files, "requirements.txt": "google-adk==2.13.0\nrequests==2.33.0\n"},
    "other tool": lambda files, name: {
        **_in_tools(lambda text: text + _PING)(files, name),
        f"{name}/agent.py": files[f"{name}/agent.py"].replace("tools=[", "tools=[tools.ping, "),
    },
}
"""Changes without an effect on what agents say."""


def measure_unchanged(agents: Agents, seed: int, pulls: int, *, show: bool) -> bool:
    """Prints in which share of the pull requests a case is named; whether the goal is met."""
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    rng = random.Random(seed)
    kinds = [*product(AGENTS, KINDS, EFFECTLESS, (True, False))]
    rng.shuffle(kinds)
    for number, (name, noise, effectless, everywhere) in enumerate(islice(cycle(kinds), pulls)):
        base_files = files_of(name)
        if effectless == "dependencies":
            base_files["requirements.txt"] = "google-adk==2.13.0\nrequests==2.32.0\n"
        head_files = EFFECTLESS[effectless](base_files, name)
        code = [{path: text for path, text in files.items() if "/" in path} for files in (base_files, head_files)]
        base, head = (
            agents.of({path: text for path, text in files.items() if path.startswith(name)}) for files in code
        )
        change = diff(base_files, head_files)
        noisy = {*base.cases} if everywhere else {rng.choice([*base.cases])}
        for setting in SETTINGS:
            drawn = random.Random(f"{seed} {number} {setting}")
            found, blocked = named(
                base, head, change, setting, drawn, {each: noise if each in noisy else Noise for each in base.cases}
            )
            counts["blocked", str(setting)][0] += 1
            counts["blocked", str(setting)][1] += bool(blocked)
            for row in ("all", effectless, noise.__name__, "all cases noisy" if everywhere else "one case noisy"):
                counts[row, str(setting)][0] += 1
                counts[row, str(setting)][1] += bool(found)
            if show and found:
                print(f"named ({setting}): {name}, {noise.__name__}, {effectless}: {found}")
    print(f"Unchanged: {pulls} pull requests. With a case named:")
    for row in dict.fromkeys(row for row, _ in counts):
        shares = [f"{hits / total:6.1%}" for total, hits in (counts[row, str(setting)] for setting in SETTINGS)]
        print(f"  {row:20} {'  '.join(shares)}   of {counts[row, str(SETTINGS[0])][0]}")
    print("  " + "; ".join(map(str, SETTINGS)))
    return all(hits <= GOAL_NOISE * total for total, hits in (counts["all", str(setting)] for setting in SETTINGS))


# -- the same by whole runs of the gate

MODEL = """import os
import random

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from . import script


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        asked, results = "", []
        for content in llm_request.contents:
            for part in content.parts or []:
                if part.function_response:
                    results.append(part.function_response.response)
                elif part.text and content.role == "user":
                    asked, results = part.text, []
        said = script.turn(asked, str(llm_request.config.system_instruction), results)
        if isinstance(said, str):
            first = random.choice({words}) if {noisy} else ""
            parts = [types.Part(text=first + said)]
        else:
            parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in said]
        yield LlmResponse(content=types.Content(role="model", parts=parts))
"""
WORDS = ("Sure! ", "Of course. ", "Here is what I found: ", "Thanks for asking. ", "Good question! ", "Well, ", "Yes. ")
CONFIG = '{"criteria": {"tool_trajectory_avg_score": 0.0, "response_match_score": 0.0}}'


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def named_by_the_gate(agents: Agents, base: Files, head: Files, root: Path, python: str, *, noisy: bool) -> set[str]:
    """The cases that `agent-eval run` names in a repository with the agent."""
    name = next(iter(base)).partition("/")[0]
    steady = agents.of(base)
    cases = [
        EvalCase(eval_id=case_id, conversation=expected(run_of(steady, case_id, 0, NOW, Noise(random.Random(0), NOW))))
        for case_id in steady.cases
    ]
    model = MODEL.replace("{words}", repr(WORDS)).replace("{noisy}", repr(noisy))
    evals = EvalSet(eval_set_id=name, eval_cases=cases).model_dump_json(exclude_none=True, indent=1)
    config = f'[agents]\n"evals/{name}.evalset.json" = "{name}"\n'
    others = {f"{name}/__init__.py": "", f"{name}/model.py": model, f"evals/{name}.evalset.json": evals}
    others |= {"evals/test_config.json": CONFIG, "agent-eval.toml": config, ".gitignore": "agent-eval-results\n"}
    git(root, "init", "-q", "-b", "main")
    for files in ({**base, **others}, head):
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", "x")
        git(root, "branch", "-f", "after" if files is head else "before")
    command = [sys.executable, "-m", "agent_eval", "run", "--base-ref", "before", "--baseline", "rerun"]
    done = subprocess.run([*command, "--agent-python", python], cwd=root, capture_output=True, text=True)
    results = json.loads((root / "agent-eval-results" / "results.json").read_text("utf-8"))
    if results["verdict"] != "passed" or not results["comparison"]["compared"]:
        raise RuntimeError(done.stdout + done.stderr)
    return {each["eval_id"] for each in results["comparison"].get("changed_answers", ())}


def measure_gate(agents: Agents, seed: int, python: str, folder: Path) -> bool:
    """Compares some pull requests of each agent with whole runs; whether both name the same cases."""
    rng = random.Random(seed)
    pulls = [*planted()]
    chosen = [
        pull for name in AGENTS for pull in rng.sample([each for each in pulls if each[1].startswith(f"{name}/")], 2)
    ]
    rows = [(words, base, head, False) for _, words, base, head in chosen]
    rows += [
        (f"{name}: {way}", files_of(name), EFFECTLESS[way](files_of(name), name), True)
        for name, way in zip(
            AGENTS, ("other tool", "politeness", "guard", "refactoring", "log", "type hints"), strict=True
        )
    ]
    agree = 0
    for number, (words, base, head, noisy) in enumerate(rows):
        root = folder / f"repository{number}"
        root.mkdir()
        seen = named_by_the_gate(agents, base, head, root, python, noisy=noisy)
        here = {path: text for path, text in head.items() if path in base}
        noise: type[Noise] = Wording if noisy else Noise
        found, _ = named(
            agents.of(base),
            agents.of(here),
            diff(base, head),
            SETTINGS[0],
            rng,
            dict.fromkeys(agents.of(base).cases, noise),
        )
        agree += seen == found.keys()
        print(
            f"  {words}: {len(seen)} cases named by the gate, {len(found)} here{'' if seen == found.keys() else ' (!)'}"
        )
    print(f"Whole runs: {agree} of {len(rows)} pull requests as here")
    return agree == len(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints both tables; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pulls", type=int, default=600, help="pull requests that change nothing")
    parser.add_argument("--agent-python", metavar="PYTHON", help="with google-adk: compare with whole runs of the gate")
    parser.add_argument("--show", action="store_true", help="print each miss")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        agents = Agents(Path(folder))
        if options.agent_python:
            return int(not measure_gate(agents, options.seed, options.agent_python, Path(folder)))
        met = [
            measure_planted(agents, options.seed, show=options.show),
            measure_unchanged(agents, options.seed, options.pulls, show=options.show),
        ]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
