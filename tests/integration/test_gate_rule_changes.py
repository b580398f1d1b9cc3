"""A pull request does not loosen its own gate silently: real git, real agents, a stand-in for GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gate_runs import anywhere
from golden_files import check
from pull_requests import BOT, Lab

from agent_eval_results import ACCEPT_RULES

CASES = ("lamp_on", "lamp_off", "door")
BROKEN = {"lamp_on": 0.0, "lamp_off": 0.0}
CONFIG, EVALS = "evals/test_config.json", "evals/bot.evalset.json"


def config(**criteria: Any) -> str:
    return json.dumps({"criteria": criteria})


LOOSE = {CONFIG: config(response_match_score=0.0)}
Tell = Callable[..., None]


@pytest.fixture
def tell(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Tell]:
    """Pushes to a pull request; what became of all of them is in the golden file of the test."""
    story = []

    def pushed(
        number: int,
        title: str,
        files: Mapping[str, str],
        *arguments: str,
        rates: Mapping[str, float] | None = None,
        label: str = "",
    ) -> None:
        done = lab.pull_request(number, rates or {}, *arguments, files=files, label=label)
        changes = done.report.rule_changes
        assert changes is not None
        facts = changes.model_dump_json(exclude_defaults=True, exclude={"accepted"})
        story.append(f"{lab.told(f'#{number}, {title}', done, number)[:-1]}  {anywhere(facts)}\n\n")

    yield pushed
    check(f"golden_gate/rule_changes/{request.function.__name__.removeprefix('test_')}.txt", "".join(story))


@pytest.mark.slow
def test_a_lower_threshold__hides_nothing_until_someone_accepts_it_for_this_commit(lab: Lab, tell: Tell) -> None:
    lab.base_run(code=0)
    tell(7, "a lower threshold", LOOSE, rates=BROKEN)
    tell(7, "accepted", LOOSE, rates=BROKEN, label=ACCEPT_RULES)
    tell(7, "another commit", {**LOOSE, "README.md": "more"}, rates=BROKEN)
    done = lab.pull_request(8, {}, files=LOOSE)
    assert [file.criteria for file in done.report.files] == [{"response_match_score": 1.0}], "the one that decides"


RENAMES = f"""\
max-quarantined = 0.5

[[quarantine]]
case = ":flaky_*"
reason = "the sensor is late, #12"
owner = "@alice"
expires = {(datetime.now(UTC) + timedelta(days=90)).date()}

[[policy]]
cases = ":draft_*"
blocking = false

[[policy]]
metric = "response_match_score"
cases = ":lamp_*"
threshold = 1.0
"""


@pytest.mark.slow
def test_renaming_a_case__does_not_loosen_its_policy(lab: Lab, tell: Tell) -> None:
    """A broken case that is renamed to match an exception of the base branch still blocks, until it is accepted."""
    lab.repository.evals(EVALS, {case: f"Say {case}." for case in ("lamp_on", "lamp_off", "flaky_x", "draft_x")})
    evals = (lab.repository.root / EVALS).read_text("utf-8")
    lab.commit({}, **{"agent-eval.toml": RENAMES})
    lab.base_run(code=0)
    flaky, draft = ({EVALS: evals.replace('"lamp_on"', f'"{new}_lamp"')} for new in ("flaky", "draft"))
    tell(7, "a name of quarantined cases", flaky, rates={"lamp_on": 0.0})
    tell(8, "a name of cases that only inform", draft, rates={"lamp_on": 0.0})
    tell(7, "accepted", flaky, rates={"lamp_on": 0.0}, label=ACCEPT_RULES)
    # Two cases that have each other's ids do not have each other's policy.
    swapped = evals.replace('"lamp_on"', '"?"').replace('"flaky_x"', '"lamp_on"').replace('"?"', '"flaky_x"')
    tell(9, "swapped names", {EVALS: swapped}, rates={"lamp_on": 0.0})


def only(lab: Lab, *cases: str) -> str:
    """The eval file with these cases alone."""
    whole = (lab.repository.root / EVALS).read_text("utf-8")
    lab.repository.evals(EVALS, {case: f"Say {case}." for case in cases})
    result = (lab.repository.root / EVALS).read_text("utf-8")
    (lab.repository.root / EVALS).write_text(whole, "utf-8")
    return result


@pytest.mark.slow
def test_removed_cases__stand_in_the_headline_and_can_block(lab: Lab, tell: Tell) -> None:
    block = ("--rule-changes", "block-removals")
    smaller = {EVALS: only(lab, "lamp_on")}
    tell(7, "two cases removed", smaller)
    tell(8, "two cases removed, which blocks", smaller, *block)
    tell(8, "accepted", smaller, *block, label=ACCEPT_RULES)
    # Beside rules that are loosened, most cases gone have to be accepted in any case.
    tell(9, "two cases removed, a lower threshold", smaller | LOOSE)
    tell(9, "accepted", smaller | LOOSE, *block, label=ACCEPT_RULES)
    others = {EVALS: only(lab, "hall", "roof"), **LOOSE}
    tell(10, "no case is left", others)
    tell(10, "accepted", others, label=ACCEPT_RULES)
    tell(11, "no case is left, which is only reported", others, "--rule-changes", "report")


def test_renamed_and_replaced_cases__stay_held_to_the_base_branchs_rules(lab: Lab, tell: Tell) -> None:
    evals = renamed = (lab.repository.root / EVALS).read_text("utf-8")
    for case in CASES:
        renamed = renamed.replace(f'"{case}"', f'"the_{case}"').replace(f'"Say {case}."', f'"Say  {case}. "')
    broken = {"bot/agent.py": BOT.replace("text = said", 'text = "No" if "lamp" in said else said')}
    tell(7, "all renamed, with blanks in their prompts", {EVALS: renamed, **LOOSE, **broken})
    others = {EVALS: evals.replace('"Say ', '"Tell ')}
    tell(8, "other contents under the same ids", others)
    tell(8, "accepted", others, label=ACCEPT_RULES)
    tell(9, "another content of one case", {EVALS: evals.replace("Say door.", "Tell door.")})
    tell(10, "tags for all cases", {EVALS: evals.replace('"eval_id"', '"tags": ["smoke"], "eval_id"')})
