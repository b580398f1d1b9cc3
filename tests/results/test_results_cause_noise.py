"""That nothing is claimed of a noisy agent in a pull request that changes something harmless, if few cases fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from test_results_cause_places import always, code_between
from test_results_causes import NOISE, Noise, claims_of_noise, random_tool

from agent_eval_results import AgentFacts, AgentTree, CauseReport, Place, ToolFacts
from agent_eval_results.causes.changed_here import note_changed_here, supported
from agent_eval_results.causes.evidence import Before
from agent_eval_results.report.phrases import changed_lead

FILES = {
    "visa/agent.py": '''from .tools import fee, rules

PROMPT = """You are the desk for visas.
Call rules for the stay and fee for the costs.
Say: You may stay <stay>, the fee is <euros> euros.
Be polite.
"""
root_agent = LlmAgent(
    name="home",
    model="large",
    instruction=PROMPT,
    tools=[rules, fee],
)
''',
    "visa/tools.py": '''import json
from pathlib import Path

BASE = 10
ROWS = json.loads((Path(__file__).parent / "countries.json").read_text())


def rules(country: str) -> dict:
    """How long a visitor may stay in a country."""
    row = ROWS[country]
    return {"stay": f"{row['stay']} days", "kind": "tourist visa"}


def fee(country: str) -> dict:
    """What a visa costs.

    Args:
        country: Its name.
    """
    number = ROWS[country]["number"]
    return {"euros": BASE * number}
''',
    "visa/countries.json": "{\n"
    + ",\n".join(f' "land {n}": {{"stay": {n}, "number": {n}}}' for n in range(1, 30))
    + "\n}\n",
}
HARMLESS: Mapping[str, tuple[str, str, str]] = {
    "a typo of the prompt": ("visa/agent.py", "Call rules for the stay", "Call rules for the stays"),
    "a polite word": ("visa/agent.py", "Be polite.", "Be polite. Be friendly, too."),
    "a rule more": ("visa/agent.py", "Say: You", "Never talk about politics, please.\nSay: You"),
    "a word of an answer": ("visa/agent.py", "the fee is <euros>", "a fee of <euros>"),
    "a tool's line in the prompt": ("visa/agent.py", "and fee for the costs", "and use fee for all costs"),
    "a docstring": ("visa/tools.py", "What a visa costs.", "The price of a visa."),
    "an argument's words": ("visa/tools.py", "country: Its name.", "country: The name of it."),
    "another row": ("visa/countries.json", '"land 28": {"stay": 28', '"land 28": {"stay": 29'),
    "a tool's code": ("visa/tools.py", "    row = ROWS[country]\n", "    row = ROWS.get(country)\n    assert row\n"),
    "another tool's code": ("visa/tools.py", "BASE * number}", "number * BASE}"),
    "a constant": ("visa/tools.py", "BASE = 10", "BASE = 10.0"),
    "another model": ("visa/agent.py", 'model="large"', 'model="larger"'),
}


def claims_beside(changes: Sequence[str], claims: Sequence[CauseReport]) -> list[CauseReport]:
    """The claims that are left in a pull request with these changes."""
    head: dict[str, str | None] = dict(FILES)
    for file, old, new in map(HARMLESS.__getitem__, changes):
        text = head[file] or ""
        assert old in text, old
        head[file] = text.replace(old, new)
    lines = FILES["visa/tools.py"].splitlines()
    tools = [
        ToolFacts(name=name, place=Place(file="visa/tools.py", first=lines.index(line) + 1, symbol=name))
        for name, line in (("rules", "def rules(country: str) -> dict:"), ("fee", "def fee(country: str) -> dict:"))
    ]
    place = Place(file="visa/agent.py", symbol="root_agent")
    tree = AgentTree(agent="visa", agents=[AgentFacts(name="home", model="large", tools=tools, places=[place])])
    before = Before(tools={"rules"}, agents={"home"}, arguments={f"land {n}" for n in range(1, 17)})
    note_changed_here(claims, partial(always, [tree]), code_between(FILES, head, "visa"), lambda _: before)
    return supported(claims)


def claimed(noise: Noise, often: float, runs: int, on_base: int, rng: random.Random) -> list[CauseReport]:
    """The claims of one pair of runs, in a pull request with one to three harmless changes."""
    changes = rng.sample(sorted(HARMLESS), rng.randint(1, 3))
    claims = claims_of_noise(noise, runs, rng, on_base=on_base, often=often, few=True)
    return claims_beside(changes, claims)


@pytest.mark.parametrize("noise", NOISE)
def test_supported__noise_is_no_cause_of_few_cases(noise: Noise) -> None:
    """`benchmarks/cause_noise.py` counts how often."""
    rng = random.Random(1)
    assert [each.code for often in (0.4, 0.1) for _ in range(4) for each in claimed(noise, often, 1, 1, rng)] == []


def test_supported__one_run_of_a_tool_that_varies_may_be_chance() -> None:
    rng = random.Random(4)
    found = [each for _ in range(25) for each in claimed(random_tool, 0.03, 1, 1, rng)]
    assert {changed_lead(each)[:29] for each in found} == {"One run may differ by chance;"}
