"""Whose rules hold for a pull request, and which criteria, if it changes them: real git, no network but loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from base_repos import ENVIRON, Repo, new_repo
from fake_github import FakeGitHub, Fault
from gate_runs import Repository, eval_set
from pull_requests import job_of
from recorded_evals import AGENT, write_evals

from agent_eval.evalset.models.schema import MatchType
from agent_eval.pipeline import find
from agent_eval.pipeline._base_rules import HeldRules, held_rules
from agent_eval.pipeline.ci_context import CIContext, detect_ci_context, gating_files_changed, rules
from agent_eval.settings import Settings, read_settings

# Whose rules hold for a pull request, and what of it decides about the verdict: real git, no network but loopback.


NAME = "agent-eval.toml"


def pull_request(repo: Repo, github: FakeGitHub, *, head: str, base: str, **environ: str) -> dict[str, str]:
    """The variables of a run on a pull request whose checkout is what is checked out now."""
    named = {"full_name": github.state.repository}
    payload: Mapping[str, Any] = {
        "repository": {"default_branch": "main", **named},
        "pull_request": {
            "number": 7,
            "head": {"sha": head, "ref": "change", "repo": named},
            "base": {"sha": base, "ref": "main", "repo": named},
        },
    }
    return {
        **ENVIRON,
        **job_of(github, repo.root.parent, "pull_request", payload, 17),
        "GITHUB_TOKEN": "",
        "GITHUB_WORKFLOW_REF": "octo/shop/.github/workflows/evals.yml@refs/pull/7/merge",
        **environ,
    }


def surveyed(repo: Repo, environ: Mapping[str, str], **flags: str) -> tuple[CIContext, Settings]:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    settings, problems = read_settings(repo.root, flags=named, secrets=environ, text=None)
    assert problems == []
    ci, refused = detect_ci_context(settings, environ)
    assert refused == []
    return ci, settings


def test_ci_context__where_the_author_branched_off_does_not_choose_the_rules(repo: Repo, github: FakeGitHub) -> None:
    """The head itself is checked out, and it lies on a commit from before there were strict rules."""
    repo.commit({"a": "1"})
    repo.branch("change")
    head = repo.commit({"b": "1"})
    repo.git("checkout", "-q", "main")
    strict = repo.commit({NAME: "min-pass-rate = 1.0\n"})
    repo.git("checkout", "-q", "--detach", head)

    ci, _ = surveyed(repo, pull_request(repo, github, head=head, base=strict))

    assert ci.baseline_request is not None and ci.baseline_request.commit != strict, (
        "scores are compared with the merge base"
    )
    assert rules(ci, repo.root, NAME).text == "min-pass-rate = 1.0\n"


def test_ci_context__an_unknown_checkout_is_judged_by_the_base_s_rules(repo: Repo, github: FakeGitHub) -> None:
    base = repo.commit({NAME: "num-runs = 3\n"})
    repo.branch("change")
    head = repo.commit({"b": "1"})
    repo.commit({NAME: "num-runs = 1\n"}, message="made by an earlier step")

    ci, _ = surveyed(repo, pull_request(repo, github, head=head, base=base))

    assert ci.baseline_request is None and "neither" in ci.no_baseline_reason
    result = rules(ci, repo.root, NAME)
    assert result.text == "num-runs = 3\n"
    assert "changes agent-eval.toml" in result.notice


@pytest.mark.parametrize("own", [None, "num-runs = 1\n"], ids=["the pull request removes them", "it keeps some"])
def test_rules__can_not_be_read_on_the_base_branch(
    repo: Repo, github: FakeGitHub, tmp_path: Path, own: str | None
) -> None:
    base = repo.commit({NAME: "num-runs = 3\n"})
    repo.branch("change")
    head = repo.commit({NAME: own, "b": "1"})
    clone = repo.shallow_checkout(repo.merge("change", "main"), tmp_path / "clone")
    clone.git("remote", "set-url", "origin", f"file://{tmp_path}/nowhere")
    github.faults.append(Fault(status=404, body=b"{}", times=1_000))
    github.faults.append(Fault(status=403, body=b"{}", times=1_000))

    environ = pull_request(clone, github, head=head, base=base)
    ci, _ = surveyed(clone, environ)
    github.faults.pop(0)

    result = rules(ci, clone.root, NAME)
    assert result.text == own
    assert "the base branch's can't be read" in result.notice


def test_ci_context__a_file_that_is_no_text_is_a_change_of_the_rules(repo: Repo, github: FakeGitHub) -> None:
    """The gate refuses it by itself; the comment is written by the base's rules all the same."""
    base = repo.commit({NAME: "num-runs = 3\n"})
    repo.branch("change")
    head = repo.commit({NAME: b'comment = "never" # \xff\n'})
    repo.merge("change", "main")

    ci, _ = surveyed(repo, pull_request(repo, github, head=head, base=base))

    result = rules(ci, repo.root, NAME)
    assert (result.text, "changes" in result.notice) == ("num-runs = 3\n", True)


@pytest.mark.parametrize("name", ["main", "origin/main"])
def test_rules__base_ref_names_the_branch_whose_tip_decides(repo: Repo, tmp_path: Path, name: str) -> None:
    """As in GitLab. Where the branch was made does not choose the rules, nor does a stale local branch."""
    repo.commit({"a": "1"})
    clone = tmp_path / "clone"
    repo.git("clone", "-q", str(repo.root), str(clone))
    repo.commit({NAME: "min-pass-rate = 1.0\n"})
    change = Repo(clone)
    change.branch("change")
    change.commit({NAME: "min-pass-rate = 0.0\n"})
    change.git("fetch", "-q", "origin")

    ci, _ = surveyed(change, ENVIRON, base_ref=name)
    without, _ = surveyed(change, ENVIRON)
    compared, _ = surveyed(change, ENVIRON, baseline="rerun")

    result = rules(ci, clone, NAME)
    assert result.text == "min-pass-rate = 1.0\n"
    assert result.notice == (
        f"This checkout changes {NAME}, the gate's own rules. The rules of the base branch were applied."
    )
    assert rules(without, clone, NAME).text == rules(compared, clone, NAME).text == "min-pass-rate = 0.0\n"


def test_rules__a_link_is_resolved_at_the_base_commit(repo: Repo, github: FakeGitHub) -> None:
    (repo.root / NAME).symlink_to("cfg/e.toml")
    base = repo.commit({"cfg/e.toml": "num-runs = 3\n"})
    repo.branch("change")
    head = repo.commit({"cfg/e.toml": "num-runs = 1\n"})
    repo.merge("change", "main")
    github.faults.append(Fault(status=503, body=b"{}", times=1_000))

    for environ, flags in ((pull_request(repo, github, head=head, base=base), {}), (ENVIRON, {"base_ref": "main"})):
        ci, _ = surveyed(repo, environ, **flags)
        result = rules(ci, repo.root, NAME)
        assert result.text == "num-runs = 3\n", flags
        assert f"changes {NAME}" in result.notice


def test_run__base_ref_does_not_let_a_branch_loosen_its_gate(repo: Repo) -> None:
    write_evals(repo.root, "home.test.json", {"on": ["lamp"], "off": ["heater"]})
    repo.commit({".gitignore": "agent-eval-results/\n", NAME: "min-pass-rate = 1.0\n"})
    repo.branch("change")
    repo.commit({NAME: '[[policy]]\ncases = ":*"\nblocking = false\n'})
    gate = Repository(root=repo.root).gate
    command = ("run", "--agent", AGENT, "--baseline", "none")

    own = gate(*command, python=False)
    held = gate(*command, "--base-ref", "main", python=False)

    assert own.code == 0 and "Nothing was gated" in own.out, own.out + own.err
    assert held.code == 1, held.out + held.err
    said = "This checkout changes agent-eval.toml, the gate's own rules. The rules of the base branch were applied."
    assert said in " ".join(held.err.split()) and said in (held.output / "summary.md").read_text("utf-8")
    repo.commit({NAME: "num-runs = 'many'\n"})
    wrong = gate(*command, "--base-ref", "main", python=False)
    assert wrong.code == 2 and "num-runs" in wrong.out, "the checkout's own file is checked"


def changed(repo: Repo, github: FakeGitHub, files: Mapping[str, str | None], **flags: str) -> list[str]:
    base = repo.commit({"test_config.json": "{}", "evals/bot.test.json": "{}", "lenient.json": "{}"})
    repo.branch("change")
    links = {name: text[2:] for name, text in files.items() if isinstance(text, str) and text.startswith("->")}
    repo.write({name: text for name, text in files.items() if name not in links})
    for name, target in links.items():
        (repo.root / name).symlink_to(target)
    head = repo.commit({})
    repo.merge("change", "main")
    ci, settings = surveyed(repo, pull_request(repo, github, head=head, base=base), **flags)
    result = gating_files_changed(ci, settings)
    assert result is not None
    return result


def test_ci_context__what_decides_about_scores_is_named(repo: Repo, github: FakeGitHub) -> None:
    deciding = [
        ".github/workflows/evals.yml", "deep/test_config.json", "eval_config.json", "evals/bot.test.json",
        "evals/bot.test.tools/lamp.tape.json",
    ]  # fmt: skip
    others = {".github/workflows/other.yml": "on: push", "bot.py": "", "evals/other.json": "{}"}

    result = changed(repo, github, {**dict.fromkeys(deciding, "{ }"), **others, "test_config.json": None})

    assert result == [*deciding, "test_config.json"]


@pytest.mark.parametrize(
    ("flags", "path"),
    [
        ({"config": "lenient.json"}, "lenient.json"),
        ({"judge_cache": ".cache/judge"}, ".cache/judge/ab/forged.json"),
        ({"judge_cache": "./.cache/judge/"}, ".cache/judge/ab/forged.json"),
        ({"replay": "all", "judge_cache": "replies"}, "replies/forged.json"),
        ({"resume": "true"}, "agent-eval-results/journal.jsonl"),
        ({"agent": "recorded:good.jsonl"}, "good.jsonl"),
    ],
)
def test_ci_context__what_the_settings_name_decides_too(
    repo: Repo, github: FakeGitHub, flags: dict[str, str], path: str
) -> None:
    assert changed(repo, github, {path: "{} ", "other.json": "{}"}, **flags) == [path]


def test_ci_context__a_link_in_the_place_of_a_directory_decides_too(repo: Repo, github: FakeGitHub) -> None:
    assert changed(repo, github, {".cache": "->forged"}, judge_cache=".cache/judge") == [".cache"]


@pytest.mark.parametrize(
    "environ", [{"GITHUB_TOKEN": "two words"}, {"GITHUB_TOKEN": "t", "GITHUB_API_URL": "file:///etc/passwd"}]
)
def test_ci_context__a_token_or_an_address_that_is_none_does_not_end_the_run(
    repo: Repo, github: FakeGitHub, environ: dict[str, str]
) -> None:
    base = repo.commit({NAME: "num-runs = 3\n"})
    repo.branch("change")
    head = repo.commit({"b": "1"})
    repo.merge("change", "main")
    said: list[str] = []

    variables = pull_request(repo, github, head=head, base=base, **environ)
    settings, _ = read_settings(repo.root, secrets=variables, text=None)
    ci, refused = detect_ci_context(settings, variables, said.append)

    assert (ci.forge, refused) == (None, [])
    assert any("GITHUB_API_URL" in line or "token" in line for line in said)
    assert "two words" not in "".join(said)
    assert ci.baseline_request is not None and ci.baseline_request.commit == base


def test_survey__a_base_ref_that_is_not_there_forbids_the_run(repo: Repo) -> None:
    repo.commit({"a": "1"})
    settings, _ = read_settings(repo.root, flags={"base-ref": "origin/mian"}, secrets=ENVIRON, text=None)
    ci, [problem] = detect_ci_context(settings, ENVIRON)
    assert (problem.code, ci.baseline_request) == ("base-ref-not-found", None)
    assert "origin/mian" in problem.message
    # Nobody asked for a branch by name here: the thresholds decide, as the docs say.
    settings, _ = read_settings(repo.root, flags={"baseline": "rerun"}, secrets=ENVIRON, text=None)
    repo.git("branch", "-m", "trunk")
    ci, problems = detect_ci_context(settings, ENVIRON)
    assert problems == []
    assert "This clone has no branch main or master" in ci.no_baseline_reason


# Which criteria hold for a pull request that changes them: real git and real eval files; no agent runs.


CONFIG = "evals/test_config.json"
METRICS = "def euros(*args):\n    return None\n"
BASE = {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}, "response_match_score": 0.8}


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
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
    return json.dumps(eval_set("-".join(names), {name: [(said or name, name)] for name in names}))


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


def test_nothing_changed__the_criteria_are_those_of_the_files(shop: Repo, github: FakeGitHub) -> None:
    rules = held(shop, github, {"README.md": "hello"})

    assert kinds(rules) == [] and criteria_of(rules) == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    assert rules.changes is not None and (rules.changes.removed, rules.changes.base_cases) == ((), 3)


def test_a_lower_threshold__is_replaced_for_known_cases_and_holds_for_new_ones(shop: Repo, github: FakeGitHub) -> None:
    changed = {
        CONFIG: config({**BASE, "response_match_score": 0.1}),
        "evals/a.test.json": evals("price", "new", "stock"),
    }
    rules = held(shop, github, changed)

    assert kinds(rules) == [("threshold", "response_match_score", 3)]
    assert [criteria_of(rules, name)["response_match_score"] for name in ("price", "new", "stock")] == [0.8, 0.1, 0.8]
    ids = [case.eval_id for file in rules.files for case in file.cases]
    assert ids == ["price", "new", "stock", "hours"], "in the order of the files"


def test_a_higher_threshold_and_a_new_criterion__hold_and_are_no_change(shop: Repo, github: FakeGitHub) -> None:
    rules = held(shop, github, {CONFIG: config({**BASE, "response_match_score": 0.9, "safety_v1": 0.5})})

    assert kinds(rules) == []
    assert criteria_of(rules) == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.9, "safety_v1": 0.5}


def test_a_removed_criterion__is_put_back(shop: Repo, github: FakeGitHub) -> None:
    trajectory = BASE["tool_trajectory_avg_score"]

    rules = held(shop, github, {CONFIG: config({"tool_trajectory_avg_score": trajectory})})

    assert kinds(rules) == [("removed", "response_match_score", 3)]
    assert criteria_of(rules) == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}


def test_a_nearer_config__does_not_hide_the_criteria_of_the_farther_one(shop: Repo, github: FakeGitHub) -> None:
    shop.commit({CONFIG: None, "test_config.json": config(BASE)})

    rules = held(shop, github, {CONFIG: config({"response_match_score": 0.0})})

    assert kinds(rules) == [("removed", "tool_trajectory_avg_score", 3), ("threshold", "response_match_score", 3)]
    assert criteria_of(rules) == {"response_match_score": 0.8, "tool_trajectory_avg_score": 1.0}


def test_a_symbolic_link_in_place_of_the_config__and_a_link_whose_target_changes(
    shop: Repo, github: FakeGitHub
) -> None:
    base = shop.head
    shop.branch("change")
    (shop.root / CONFIG).unlink()
    (shop.root / CONFIG).symlink_to("../loose.json")
    shop.commit({"loose.json": config({"response_match_score": 0.0})})

    rules = held_for_head(shop, github, base)

    assert kinds(rules) == [("removed", "tool_trajectory_avg_score", 3), ("threshold", "response_match_score", 3)]

    shop.git("branch", "-f", "main", "change")
    shop.git("checkout", "-q", "main")
    shop.commit({"loose.json": config(BASE)})
    assert kinds(held(shop, github, {"loose.json": config({**BASE, "response_match_score": 0.0})})) == [
        ("threshold", "response_match_score", 3)
    ]


def test_other_options__are_scored_by_both_definitions(shop: Repo, github: FakeGitHub) -> None:
    changed = {**BASE, "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "ANY_ORDER"}}

    rules = held(shop, github, {CONFIG: config(changed)})

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
    shop: Repo, github: FakeGitHub, function: str, text: str | None
) -> None:
    imported = {"bot/checks/__init__.py": "from ..metrics import euros\n"}
    shop.commit({CONFIG: config({"euros": 0.5}, euros=function), **imported})

    rules = held(shop, github, {"bot/metrics.py": text})

    assert kinds(rules) == [("code", "euros", 3)]
    assert rules.changes is not None and rules.accepted == ""


def test_a_custom_metric_with_another_threshold__is_scored_by_both(shop: Repo, github: FakeGitHub) -> None:
    shop.commit({CONFIG: config({"euros": 0.5}, euros="bot.metrics.euros")})

    rules = held(shop, github, {CONFIG: config({"euros": 0.9}, euros="bot.metrics.euros"), "bot/agent2.py": "x = 1\n"})

    assert kinds(rules) == [("threshold", "euros", 3)]
    assert criteria_of(rules) == {"euros": 0.5, "euros (as changed here)": 0.9}
    assert set(rules.files[0].config.custom_metrics) == {"euros", "euros (as changed here)"}


def test_a_renamed_case__keeps_the_rules_that_it_had(shop: Repo, github: FakeGitHub) -> None:
    loose = {"other/c.test.json": evals("hours"), "other/test_config.json": config({"response_match_score": 0.0})}
    rules = held(shop, github, {"evals/b.test.json": None, **loose})

    assert criteria_of(rules, "hours") == {"response_match_score": 0.8, "tool_trajectory_avg_score": 1.0}
    assert rules.changes is not None and rules.changes.removed == ()


def test_removed_cases__are_counted_by_file_if_they_were_selected(shop: Repo, github: FakeGitHub) -> None:
    rules = held(shop, github, {"evals/a.test.json": evals("price"), "evals/b.test.json": None})
    assert rules.changes is not None
    assert [(item.file, item.base, item.removed) for item in rules.changes.removed] == [
        ("evals/a.test.json", 2, 1),
        ("evals/b.test.json", 1, 1),
    ]

    shop.git("checkout", "-q", "main")
    rules = held(shop, github, {"evals/b.test.json": None}, exclude="b.test.json")
    assert rules.changes is not None and (rules.changes.removed, rules.changes.base_cases) == ((), 2)


def test_a_base_commit_that_can_not_be_read__is_reported(shop: Repo, github: FakeGitHub) -> None:
    loose = {CONFIG: config({"response_match_score": 0.0})}

    rules = held(shop, github, loose, config="evals/test_config.json")
    assert kinds(rules) != []

    shop.git("checkout", "-q", "main")
    rules = held(shop, github, {"loose.json": loose[CONFIG]}, config="loose.json")
    assert rules.changes is None and "has no file loose.json" in rules.unread
    report = rules.report([])
    assert report is not None and report.unread == rules.unread


def test_report__leaves_the_rules_to_the_pull_request(shop: Repo, github: FakeGitHub) -> None:
    rules = held(shop, github, {CONFIG: config({**BASE, "response_match_score": 0.1})}, rule_changes="report")

    assert kinds(rules) == [("threshold", "response_match_score", 3)]
    assert criteria_of(rules)["response_match_score"] == 0.1 and rules.accepted


def test_a_branch_that_is_behind__is_held_to_the_commit_that_it_branched_off(shop: Repo, github: FakeGitHub) -> None:
    """Its merge has what main has meanwhile: this is no change of the pull request's."""
    base = shop.head
    shop.branch("change")
    head = shop.commit({"README.md": "hello"})
    shop.git("checkout", "-q", "main")
    shop.commit({CONFIG: config({**BASE, "response_match_score": 0.95}), "evals/c.test.json": evals("late")})
    tip = shop.head
    shop.git("checkout", "-q", "--detach", head)
    ci, settings = surveyed(shop, pull_request(shop, github, head=head, base=tip))

    rules = asyncio.run(held_rules(settings, ci, *find(settings), find))

    assert ci.baseline_request is not None and ci.baseline_request.commit == base
    assert kinds(rules) == [] and rules.changes is not None and rules.changes.removed == ()


def test_a_forks_commit_that_a_reviewer_let_run__is_held_to_the_rules_too(shop: Repo, github: FakeGitHub) -> None:
    """As in the recipe: `pull_request_target`, whose GITHUB_SHA is the base's, with the head checked out."""
    base = shop.head
    shop.branch("change")
    head = shop.commit({CONFIG: config({**BASE, "response_match_score": 0.1})})
    environ = pull_request(shop, github, head=head, base=base, GITHUB_EVENT_NAME="pull_request_target", GITHUB_SHA=base)
    ci, settings = surveyed(shop, environ, allow_pull_request_target="true")

    rules = asyncio.run(held_rules(settings, ci, *find(settings), find))

    assert ci.activity.kind == "compare" and not ci.activity.secrets_withheld
    assert kinds(rules) == [("threshold", "response_match_score", 3)] and rules.base_ref == "main"


def test_a_merge_group__shows_the_changes_and_blocks_nothing(shop: Repo, github: FakeGitHub) -> None:
    """Each of its pull requests has passed its own check before it could be queued."""
    base = shop.head
    shop.branch("queue")
    shop.commit({CONFIG: config({**BASE, "response_match_score": 0.1})})
    environ = pull_request(shop, github, head=shop.head, base=base, GITHUB_EVENT_NAME="merge_group")
    payload = {
        "repository": {"default_branch": "main", "full_name": github.state.repository},
        "merge_group": {"base_ref": "refs/heads/main", "base_sha": base, "head_sha": shop.head},
    }
    Path(environ["GITHUB_EVENT_PATH"]).write_text(json.dumps(payload), "utf-8")
    ci, settings = surveyed(shop, environ)

    rules = asyncio.run(held_rules(settings, ci, *find(settings), find))

    assert kinds(rules) == [("threshold", "response_match_score", 3)]
    assert criteria_of(rules)["response_match_score"] == 0.1 and "merge group" in rules.accepted
