"""Which criteria hold for a pull request that changes them: real git and real eval files; no agent runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from base_repos import Repo, new_repo
from fake_github import FakeGitHub
from test_pipeline_ci_context import pull_request, surveyed

from agent_eval.evalset.models.schema import MatchType
from agent_eval.pipeline import find
from agent_eval.pipeline._base_rules import HeldRules, held_rules

CONFIG = "evals/test_config.json"
METRICS = "def euros(*args):\n    return None\n"
BASE = {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}, "response_match_score": 0.8}


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as fake:
        yield fake


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "shop")
    made.commit(
        {
            "bot/__init__.py": "from . import agent\n",
            "bot/agent.py": "from google.adk.agents import Agent\nroot_agent = Agent(name='bot', model='m')\n",
            "bot/metrics.py": METRICS,
            "evals/a.test.json": evals("price", "stock"),
            "evals/b.test.json": evals("hours"),
            CONFIG: config(BASE),
        }
    )
    return made


def evals(*names: str, said: str = "") -> str:
    turns = {
        name: {"user_content": {"parts": [{"text": said or name}]}, "final_response": {"parts": [{"text": name}]}}
        for name in names
    }
    cases = [{"eval_id": name, "conversation": [turn]} for name, turn in turns.items()]
    return json.dumps({"eval_set_id": "-".join(names), "eval_cases": cases})


def config(criteria: Mapping[str, Any], **functions: str) -> str:
    custom = {name: {"code_config": {"name": function}} for name, function in functions.items()}
    return json.dumps({"criteria": criteria, **({"custom_metrics": custom} if custom else {})})


def held(repo: Repo, github: FakeGitHub, files: Mapping[str, str | bytes | None], **flags: str) -> HeldRules:
    """The rules for a pull request that changes these files."""
    base = repo.head
    repo.branch("change")
    repo.commit(files)
    return held_for_head(repo, github, base, **flags)


def held_for_head(repo: Repo, github: FakeGitHub, base: str, **flags: str) -> HeldRules:
    head = repo.git("rev-parse", "change")
    repo.merge("change", "main")
    ci, settings = surveyed(repo, pull_request(repo, github, head=head, base=base), **flags)
    return asyncio.run(held_rules(settings, ci, *find(settings), find))


def criteria_of(rules: HeldRules, eval_id: str = "price") -> dict[str, float]:
    [file] = [file for file in rules.files if any(case.eval_id == eval_id for case in file.cases)]
    return {case.name: case.threshold for case in file.config.criteria}


def kinds(rules: HeldRules) -> list[tuple[str, str, int]]:
    assert rules.changes is not None, rules.unread
    return [(change.kind, change.metric, len(change.case_ids)) for change in rules.changes.changes]


def test_nothing_changed__the_criteria_are_those_of_the_files(repo: Repo, github: FakeGitHub) -> None:
    rules = held(repo, github, {"README.md": "hello"})

    assert kinds(rules) == [] and criteria_of(rules) == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    assert rules.changes is not None and (rules.changes.removed, rules.changes.base_cases) == ((), 3)


def test_a_lower_threshold__is_replaced_for_known_cases_and_holds_for_new_ones(repo: Repo, github: FakeGitHub) -> None:
    changed = {
        CONFIG: config({**BASE, "response_match_score": 0.1}),
        "evals/a.test.json": evals("price", "new", "stock"),
    }
    rules = held(repo, github, changed)

    assert kinds(rules) == [("threshold", "response_match_score", 3)]
    assert [criteria_of(rules, name)["response_match_score"] for name in ("price", "new", "stock")] == [0.8, 0.1, 0.8]
    ids = [case.eval_id for file in rules.files for case in file.cases]
    assert ids == ["price", "new", "stock", "hours"], "in the order of the files"


def test_a_higher_threshold_and_a_new_criterion__hold_and_are_no_change(repo: Repo, github: FakeGitHub) -> None:
    rules = held(repo, github, {CONFIG: config({**BASE, "response_match_score": 0.9, "safety_v1": 0.5})})

    assert kinds(rules) == []
    assert criteria_of(rules) == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.9, "safety_v1": 0.5}


def test_a_removed_criterion__is_put_back(repo: Repo, github: FakeGitHub) -> None:
    trajectory = BASE["tool_trajectory_avg_score"]

    rules = held(repo, github, {CONFIG: config({"tool_trajectory_avg_score": trajectory})})

    assert kinds(rules) == [("removed", "response_match_score", 3)]
    assert criteria_of(rules) == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}


def test_a_nearer_config__does_not_hide_the_criteria_of_the_farther_one(repo: Repo, github: FakeGitHub) -> None:
    repo.commit({CONFIG: None, "test_config.json": config(BASE)})

    rules = held(repo, github, {CONFIG: config({"response_match_score": 0.0})})

    assert kinds(rules) == [("removed", "tool_trajectory_avg_score", 3), ("threshold", "response_match_score", 3)]
    assert criteria_of(rules) == {"response_match_score": 0.8, "tool_trajectory_avg_score": 1.0}


def test_a_symbolic_link_in_place_of_the_config__and_a_link_whose_target_changes(
    repo: Repo, github: FakeGitHub
) -> None:
    base = repo.head
    repo.branch("change")
    (repo.root / CONFIG).unlink()
    (repo.root / CONFIG).symlink_to("../loose.json")
    repo.commit({"loose.json": config({"response_match_score": 0.0})})

    rules = held_for_head(repo, github, base)

    assert kinds(rules) == [("removed", "tool_trajectory_avg_score", 3), ("threshold", "response_match_score", 3)]

    repo.git("branch", "-f", "main", "change")
    repo.git("checkout", "-q", "main")
    repo.commit({"loose.json": config(BASE)})
    assert kinds(held(repo, github, {"loose.json": config({**BASE, "response_match_score": 0.0})})) == [
        ("threshold", "response_match_score", 3)
    ]


def test_other_options__are_scored_by_both_definitions(repo: Repo, github: FakeGitHub) -> None:
    changed = {**BASE, "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "ANY_ORDER"}}

    rules = held(repo, github, {CONFIG: config(changed)})

    assert kinds(rules) == [("options", "tool_trajectory_avg_score", 3)]
    assert rules.changes is not None
    [change] = rules.changes.changes
    assert (change.base, change.head) == ("match_type IN_ORDER", "match_type ANY_ORDER")
    both = [item for item in rules.files[0].config.criteria if item.metric == "tool_trajectory_avg_score"]
    assert [(item.name, item.options["match_type"]) for item in both] == [
        ("tool_trajectory_avg_score", MatchType.IN_ORDER),
        ("tool_trajectory_avg_score (as changed here)", MatchType.ANY_ORDER),
    ]


@pytest.mark.parametrize("text", [METRICS.replace("None", "1.0"), None], ids=["rewritten", "removed"])
@pytest.mark.parametrize("function", ["bot.metrics.euros", "bot.checks.euros"], ids=["there", "where it is imported"])
def test_the_code_of_a_custom_metric__has_to_be_accepted(
    repo: Repo, github: FakeGitHub, function: str, text: str | None
) -> None:
    imported = {"bot/checks/__init__.py": "from ..metrics import euros\n"}
    repo.commit({CONFIG: config({"euros": 0.5}, euros=function), **imported})

    rules = held(repo, github, {"bot/metrics.py": text})

    assert kinds(rules) == [("code", "euros", 3)]
    assert rules.changes is not None and rules.accepted == ""


def test_a_custom_metric_with_another_threshold__is_scored_by_both(repo: Repo, github: FakeGitHub) -> None:
    repo.commit({CONFIG: config({"euros": 0.5}, euros="bot.metrics.euros")})

    rules = held(repo, github, {CONFIG: config({"euros": 0.9}, euros="bot.metrics.euros"), "bot/agent2.py": "x = 1\n"})

    assert kinds(rules) == [("threshold", "euros", 3)]
    assert criteria_of(rules) == {"euros": 0.5, "euros (as changed here)": 0.9}
    assert set(rules.files[0].config.custom_metrics) == {"euros", "euros (as changed here)"}


def test_a_renamed_case__keeps_the_rules_that_it_had(repo: Repo, github: FakeGitHub) -> None:
    loose = {"other/c.test.json": evals("hours"), "other/test_config.json": config({"response_match_score": 0.0})}
    rules = held(repo, github, {"evals/b.test.json": None, **loose})

    assert criteria_of(rules, "hours") == {"response_match_score": 0.8, "tool_trajectory_avg_score": 1.0}
    assert rules.changes is not None and rules.changes.removed == ()


def test_removed_cases__are_counted_by_file_if_they_were_selected(repo: Repo, github: FakeGitHub) -> None:
    rules = held(repo, github, {"evals/a.test.json": evals("price"), "evals/b.test.json": None})
    assert rules.changes is not None
    assert [(item.file, item.base, item.removed) for item in rules.changes.removed] == [
        ("evals/a.test.json", 2, 1),
        ("evals/b.test.json", 1, 1),
    ]

    repo.git("checkout", "-q", "main")
    rules = held(repo, github, {"evals/b.test.json": None}, exclude="b.test.json")
    assert rules.changes is not None and (rules.changes.removed, rules.changes.base_cases) == ((), 2)


def test_a_base_commit_that_can_not_be_read__is_reported(repo: Repo, github: FakeGitHub) -> None:
    loose = {CONFIG: config({"response_match_score": 0.0})}

    rules = held(repo, github, loose, config="evals/test_config.json")
    assert kinds(rules) != []

    repo.git("checkout", "-q", "main")
    rules = held(repo, github, {"loose.json": loose[CONFIG]}, config="loose.json")
    assert rules.changes is None and "has no file loose.json" in rules.unread
    report = rules.report([])
    assert report is not None and report.unread == rules.unread


def test_report__leaves_the_rules_to_the_pull_request(repo: Repo, github: FakeGitHub) -> None:
    rules = held(repo, github, {CONFIG: config({**BASE, "response_match_score": 0.1})}, rule_changes="report")

    assert kinds(rules) == [("threshold", "response_match_score", 3)]
    assert criteria_of(rules)["response_match_score"] == 0.1 and rules.accepted


def test_a_branch_that_is_behind__is_held_to_the_commit_that_it_branched_off(repo: Repo, github: FakeGitHub) -> None:
    """Its merge has what main has meanwhile: this is no change of the pull request's."""
    base = repo.head
    repo.branch("change")
    head = repo.commit({"README.md": "hello"})
    repo.git("checkout", "-q", "main")
    repo.commit({CONFIG: config({**BASE, "response_match_score": 0.95}), "evals/c.test.json": evals("late")})
    tip = repo.head
    repo.git("checkout", "-q", "--detach", head)
    ci, settings = surveyed(repo, pull_request(repo, github, head=head, base=tip))

    rules = asyncio.run(held_rules(settings, ci, *find(settings), find))

    assert ci.baseline_request is not None and ci.baseline_request.commit == base
    assert kinds(rules) == [] and rules.changes is not None and rules.changes.removed == ()


def test_a_forks_commit_that_a_reviewer_let_run__is_held_to_the_rules_too(repo: Repo, github: FakeGitHub) -> None:
    """As in the recipe: `pull_request_target`, whose GITHUB_SHA is the base's, with the head checked out."""
    base = repo.head
    repo.branch("change")
    head = repo.commit({CONFIG: config({**BASE, "response_match_score": 0.1})})
    environ = pull_request(repo, github, head=head, base=base, GITHUB_EVENT_NAME="pull_request_target", GITHUB_SHA=base)
    ci, settings = surveyed(repo, environ, allow_pull_request_target="true")

    rules = asyncio.run(held_rules(settings, ci, *find(settings), find))

    assert ci.activity.kind == "compare" and not ci.activity.secrets_withheld
    assert kinds(rules) == [("threshold", "response_match_score", 3)] and rules.base_ref == "main"


def test_a_merge_group__shows_the_changes_and_blocks_nothing(repo: Repo, github: FakeGitHub) -> None:
    """Each of its pull requests has passed its own check before it could be queued."""
    base = repo.head
    repo.branch("queue")
    repo.commit({CONFIG: config({**BASE, "response_match_score": 0.1})})
    environ = pull_request(repo, github, head=repo.head, base=base, GITHUB_EVENT_NAME="merge_group")
    payload = {
        "repository": {"default_branch": "main", "full_name": github.state.repository},
        "merge_group": {"base_ref": "refs/heads/main", "base_sha": base, "head_sha": repo.head},
    }
    Path(environ["GITHUB_EVENT_PATH"]).write_text(json.dumps(payload), "utf-8")
    ci, settings = surveyed(repo, environ)

    rules = asyncio.run(held_rules(settings, ci, *find(settings), find))

    assert kinds(rules) == [("threshold", "response_match_score", 3)]
    assert criteria_of(rules)["response_match_score"] == 0.1 and "merge group" in rules.accepted
