"""Whose rules hold for a pull request, and which criteria, if it changes them: real git, no network but loopback."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from base_repos import ENVIRON, Repo, new_repo
from fake_github import FakeGitHub, Fault
from gate_runs import Repository, eval_set
from golden_files import check
from pull_requests import job_of
from recorded_evals import AGENT, write_evals

from agent_eval.pipeline import find
from agent_eval.pipeline._base_rules import held_rules
from agent_eval.pipeline.ci_context import CIContext, deciding_files, detect_ci_context, gating_files_changed, rules
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


Files = Mapping[str, str | bytes | None]
"""Contents by path; `->TARGET` is a symbolic link, None a file that is removed."""


def put(repo: Repo, files: Files) -> str:
    links = {name: text[2:] for name, text in files.items() if isinstance(text, str) and text.startswith("->")}
    for name, target in links.items():
        (repo.root / name).unlink(missing_ok=True)
        (repo.root / name).symlink_to(target)
    return repo.commit({name: text for name, text in files.items() if name not in links})


def proposed(repo: Repo, github: FakeGitHub, files: Files, **environ: str) -> dict[str, str]:
    """The variables of a run on GitHub's merge of a pull request that changes these files."""
    base = repo.head
    repo.branch("change")
    head = put(repo, files)
    repo.merge("change", "main")
    return pull_request(repo, github, head=head, base=base, **environ)


def surveyed(repo: Repo, environ: Mapping[str, str], **flags: str) -> tuple[CIContext, Settings]:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    settings, problems = read_settings(repo.root, flags=named, secrets=environ, text=None)
    assert problems == []
    ci, refused = detect_ci_context(settings, environ)
    assert refused == []
    return ci, settings


def test_rules__of_which_commit(tmp_path: Path, github: FakeGitHub) -> None:
    said = []

    def told(situation: str, repo: Repo, environ: Mapping[str, str] = ENVIRON, **flags: str) -> CIContext:
        ci, _ = surveyed(repo, environ, **flags)
        result = rules(ci, repo.root, NAME)
        notice = " ".join(result.notice.replace(str(tmp_path), "FOLDER").split())
        said.append(f"{situation}\n    {result.text!r} {notice.partition(': fatal')[0]}".rstrip() + "\n")
        return ci

    # The head itself is checked out, and it lies on a commit from before there were strict rules.
    repo = new_repo(tmp_path / "older")
    repo.commit({"a": "1"})
    repo.branch("change")
    head = repo.commit({"b": "1"})
    repo.git("checkout", "-q", "main")
    strict = repo.commit({NAME: "min-pass-rate = 1.0\n"})
    repo.git("checkout", "-q", "--detach", head)
    ci = told("the author branched off before the rules", repo, pull_request(repo, github, head=head, base=strict))
    assert ci.baseline_request is not None and ci.baseline_request.commit != strict, "scores are compared elsewhere"

    repo = new_repo(tmp_path / "unknown")
    base = repo.commit({NAME: "num-runs = 3\n"})
    repo.branch("change")
    head = repo.commit({"b": "1"})
    repo.commit({NAME: "num-runs = 1\n"}, message="made by an earlier step")
    ci = told("an unknown checkout", repo, pull_request(repo, github, head=head, base=base))
    assert ci.baseline_request is None and ci.no_baseline and "neither" in ci.no_baseline.message

    for own in (None, "num-runs = 1\n", b'comment = "never" # \xff\n'):
        name = "removed" if own is None else "changed" if isinstance(own, str) else "no text"
        repo = new_repo(tmp_path / name)
        base = repo.commit({NAME: "num-runs = 3\n"})
        repo.branch("change")
        head = repo.commit({NAME: own, "b": "1"})
        clone = repo.shallow_checkout(repo.merge("change", "main"), tmp_path / f"clone of {name}")
        told(name, repo, pull_request(repo, github, head=head, base=base))
        if isinstance(own, bytes):
            continue
        clone.git("remote", "set-url", "origin", f"file://{tmp_path}/nowhere")
        for status in (404, 403):
            github.faults[:] = [Fault(status=status, body=b"{}", times=1_000)]
            environ = pull_request(clone, github, head=head, base=base)
            told(f"{name}, and the base can't be read, since GitHub says {status}", clone, environ)
        github.faults.clear()

    # As in GitLab. Where the branch was made does not choose the rules, nor does a stale local branch.
    repo = new_repo(tmp_path / "gitlab")
    repo.commit({"a": "1"})
    repo.git("clone", "-q", str(repo.root), str(tmp_path / "change"))
    repo.commit({NAME: "min-pass-rate = 1.0\n"})
    change = Repo(tmp_path / "change")
    change.branch("change")
    change.commit({NAME: "min-pass-rate = 0.0\n"})
    change.git("fetch", "-q", "origin")
    told("base-ref: main", change, base_ref="main")
    told("base-ref: origin/main", change, base_ref="origin/main")
    told("no base-ref", change)
    told("no base-ref, and a comparison", change, baseline="rerun")

    repo = new_repo(tmp_path / "linked")
    (repo.root / NAME).symlink_to("cfg/e.toml")
    repo.commit({"cfg/e.toml": "num-runs = 3\n"})
    environ = proposed(repo, github, {"cfg/e.toml": "num-runs = 1\n"})
    github.faults[:] = [Fault(status=503, body=b"{}", times=1_000)]
    told("a link, which is resolved at the base", repo, environ)
    told("a link, and base-ref", repo, base_ref="main")
    check("golden_rules.txt", "".join(said))


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
    said = "For the reviewer: this checkout changes agent-eval.toml, the gate's own rules. Check that this is meant: "
    said += "the rules of the base branch were applied here, and the change applies after the merge."
    assert said in " ".join(held.err.split()) and said in (held.output / "summary.md").read_text("utf-8")
    repo.commit({NAME: "num-runs = 'many'\n"})
    wrong = gate(*command, "--base-ref", "main", python=False)
    assert wrong.code == 2 and "num-runs" in wrong.out, "the checkout's own file is checked"


DECIDING = [
    ".github/workflows/evals.yml", "deep/test_config.json", "eval_config.json", "evals/bot.test.json",
    "evals/bot.test.tools/lamp.tape.json",
]  # fmt: skip
OTHERS: Files = {".github/workflows/other.yml": "on: push", "bot.py": "", "evals/other.json": "{}"}
NAMED: list[tuple[dict[str, str], str]] = [
    ({"config": "lenient.json"}, "lenient.json"),
    ({"judge_cache": ".cache/judge"}, ".cache/judge/ab/forged.json"),
    ({"judge_cache": "./.cache/judge/"}, ".cache/judge/ab/forged.json"),
    ({"replay": "all", "judge_cache": "replies"}, "replies/forged.json"),
    ({"resume": "true"}, "agent-eval-results/journal.jsonl"),
    ({"agent": "recorded:good.jsonl"}, "good.jsonl"),
]
"""Settings, and a file that decides because of them."""


def test_ci_context__what_decides_about_scores_is_named(tmp_path: Path, github: FakeGitHub) -> None:
    def check_changed(files: Files, deciding: list[str], **flags: str) -> None:
        repo = new_repo(Path(tempfile.mkdtemp(dir=tmp_path)) / "repo")
        repo.commit({"test_config.json": "{}", "evals/bot.test.json": "{}", "lenient.json": "{}"})
        ci, settings = surveyed(repo, proposed(repo, github, {**files, **OTHERS}), **flags)
        assert gating_files_changed(ci, settings.root, deciding_files(settings)) == deciding

    removed = "test_config.json"
    check_changed({**dict.fromkeys(DECIDING, "{ }"), removed: None}, [*DECIDING, removed])
    for flags, path in NAMED:
        check_changed({path: "{} "}, [path], **flags)
    check_changed({".cache": "->forged"}, [".cache"], judge_cache=".cache/judge")  # in the place of a directory


@pytest.mark.parametrize(
    "environ", [{"GITHUB_TOKEN": "two words"}, {"GITHUB_TOKEN": "t", "GITHUB_API_URL": "file:///etc/passwd"}]
)
def test_ci_context__a_token_or_an_address_that_is_none_does_not_end_the_run(
    repo: Repo, github: FakeGitHub, environ: dict[str, str]
) -> None:
    base = repo.commit({NAME: "num-runs = 3\n"})
    said: list[str] = []
    variables = proposed(repo, github, {"b": "1"}, **environ)
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
    settings, _ = read_settings(repo.root, flags={"base-ref": "upstream/main"}, secrets=ENVIRON, text=None)
    assert "Did you mean main?" in str(detect_ci_context(settings, ENVIRON)[1][0].hint), "no such remote here"
    # Nobody asked for a branch by name here: the thresholds decide, as the docs say.
    settings, _ = read_settings(repo.root, flags={"baseline": "rerun"}, secrets=ENVIRON, text=None)
    repo.git("branch", "-m", "trunk")
    ci, problems = detect_ci_context(settings, ENVIRON)
    assert problems == []
    assert "This clone has no branch main or master" in (ci.no_baseline.message if ci.no_baseline else "")


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


def told(situation: str, ci: CIContext, settings: Settings) -> str:
    """The criteria of all cases, and what is said of the change of rules."""
    held = asyncio.run(held_rules(settings, ci, *find(settings), find))
    lines = []
    for file in held.files:
        code = {name: metric["code_config"]["name"] for name, metric in file.config.custom_metrics.items()}
        scored = [
            f"{item.name} {item.threshold:g} {item.options.get('match_type', '')}{code.get(item.name, '')}"
            for item in file.config.criteria
        ]
        lines.append(f"{file.path}, {' and '.join(case.eval_id for case in file.cases)}: {', '.join(scored)}")
    if held.changes is not None:
        for item in held.changes.changes:
            lines.append(f"{item.kind} of {item.metric} in {len(item.case_ids)} cases: {item.base} -> {item.head}")
        lines += [f"{item.removed} of {item.base} cases removed from {item.file}" for item in held.changes.removed]
        lines.append(f"the base has {held.changes.base_cases} cases, accepted: {held.accepted or 'no'}")
    report = held.report([])
    assert report is not None and (report.base_ref, report.unread) == (held.base_ref, held.unread) == (
        "main",
        held.unread,
    )
    return f"{situation}\n" + "".join(f"    {line.rstrip()}\n" for line in [*lines, held.unread] if line)


LOOSE = config({"response_match_score": 0.0})
LOWER = config({**BASE, "response_match_score": 0.1})
HIGHER = config({**BASE, "response_match_score": 0.9, "safety_v1": 0.5})
LESS = config({"tool_trajectory_avg_score": BASE["tool_trajectory_avg_score"]})
OTHER = config({**BASE, "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "ANY_ORDER"}})
EUROS = config({"euros": 0.5}, euros="bot.metrics.euros")
EASY = config({"euros": 0.5}, euros="bot.easy.euros")
CHECKS = {CONFIG: config({"euros": 0.5}, euros="bot.checks.euros"), "bot/checks.py": "from .metrics import euros\n"}
REWRITTEN = METRICS.replace("None", "1.0")
MOVED = {"evals/b.test.json": None, "other/c.test.json": evals("hours"), "other/test_config.json": LOOSE}


@dataclass(frozen=True)
class Change:
    """What a pull request changes, what the base branch has besides the shop, and the settings."""

    files: Files
    base: Files = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)


CHANGES = {
    "nothing": Change({"README.md": "hello"}),
    "a lower threshold, and a new case": Change({CONFIG: LOWER, "evals/a.test.json": evals("price", "new", "stock")}),
    "a lower threshold that is only reported": Change({CONFIG: LOWER}, flags={"rule_changes": "report"}),
    "a higher threshold and a new criterion": Change({CONFIG: HIGHER}),
    "a criterion less": Change({CONFIG: LESS}),
    "a nearer config": Change({CONFIG: LOOSE}, {CONFIG: None, "test_config.json": config(BASE)}),
    "a link in place of the config": Change({CONFIG: "->../loose.json", "loose.json": LOOSE}),
    "the target of a link": Change({"base.json": LOWER}, {CONFIG: "->../base.json", "base.json": config(BASE)}),
    "other options": Change({CONFIG: OTHER}),
    "a custom metric rewritten": Change({"bot/metrics.py": REWRITTEN}, {CONFIG: EUROS}),
    "a custom metric removed": Change({"bot/metrics.py": None}, {CONFIG: EUROS}),
    "a custom metric that is imported, rewritten": Change({"bot/metrics.py": REWRITTEN}, CHECKS),
    "a custom metric that is imported, removed": Change({"bot/metrics.py": None}, CHECKS),
    "a custom metric's threshold": Change({CONFIG: EUROS.replace("0.5", "0.9"), "bot/new.py": ""}, {CONFIG: EUROS}),
    "a custom metric by another function": Change({CONFIG: EASY, "bot/easy.py": REWRITTEN}, {CONFIG: EUROS}),
    "a custom metric less": Change({CONFIG: config(BASE)}, {CONFIG: EUROS}),
    "a case renamed": Change(MOVED),
    "cases removed": Change({"evals/a.test.json": evals("price"), "evals/b.test.json": None}),
    "cases removed that are not selected": Change({"evals/b.test.json": None}, flags={"exclude": "b.test.json"}),
    "the named config": Change({CONFIG: LOOSE}, flags={"config": CONFIG}),
    "a named config that the base has not": Change({"loose.json": LOOSE}, flags={"config": "loose.json"}),
}


def test_held_rules__of_what_a_pull_request_changes(shop: Repo, github: FakeGitHub) -> None:
    said = []
    begun = shop.head
    for name, change in CHANGES.items():
        shop.branch("main", begun)
        put(shop, change.base)
        ci, settings = surveyed(shop, proposed(shop, github, change.files), **change.flags)
        said.append(told(name, ci, settings))

    # It is behind main, whose own changes are none of the pull request's.
    shop.branch("main", begun)
    shop.branch("change")
    head = shop.commit({"README.md": "hello"})
    shop.git("checkout", "-q", "main")
    tip = shop.commit({CONFIG: config({**BASE, "response_match_score": 0.95}), "evals/c.test.json": evals("late")})
    shop.git("checkout", "-q", "--detach", head)
    ci, settings = surveyed(shop, pull_request(shop, github, head=head, base=tip))
    assert ci.baseline_request is not None and ci.baseline_request.commit == begun
    said.append(told("a branch that is behind", ci, settings))

    # As in the recipe: `pull_request_target`, whose GITHUB_SHA is the base's, with the head checked out.
    shop.branch("change", begun)
    head = shop.commit({CONFIG: LOWER})
    environ = pull_request(
        shop, github, head=head, base=begun, GITHUB_EVENT_NAME="pull_request_target", GITHUB_SHA=begun
    )
    ci, settings = surveyed(shop, environ, allow_pull_request_target="true")
    assert ci.activity.kind == "compare" and not ci.activity.secrets_withheld
    said.append(told("a fork's commit that a reviewer let run", ci, settings))

    # Each pull request of a merge group has passed its own check before it could be queued.
    environ = pull_request(shop, github, head=head, base=begun, GITHUB_EVENT_NAME="merge_group")
    payload = {
        "repository": {"default_branch": "main", "full_name": github.state.repository},
        "merge_group": {"base_ref": "refs/heads/main", "base_sha": begun, "head_sha": head},
    }
    Path(environ["GITHUB_EVENT_PATH"]).write_text(json.dumps(payload), "utf-8")
    ci, settings = surveyed(shop, environ)
    said.append(told("a merge group", ci, settings))
    check("golden_held_rules.txt", "".join(said))


def test_held_rules__without_a_temporary_directory_the_rules_of_the_base_are_unread(
    shop: Repo, github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ci, settings = surveyed(shop, proposed(shop, github, {CONFIG: LOWER}))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert "gone/agent-eval-base-" in told("", ci, settings)


def test_origin__names_files_that_are_tested_otherwise_than_committed(tmp_path: Path, github: FakeGitHub) -> None:
    repo = new_repo(tmp_path / "shop")
    repo.commit({"a.py": "1", "b.py": "1", "sub/c.py": "1", ".gitignore": "*.log\n"})
    assert surveyed(repo, ENVIRON)[0].origin.uncommitted == []
    repo.write(
        {
            "a.py": "2",
            "sub/c.py": None,
            "new.py": "1",
            "x.log": "1",
            "notes.txt": "",
            "agent-eval-results/junit.xml": "",
        }
    )
    repo.write({"before/results.json": "{}", "before/logs/x.txt": ""})
    repo.git("add", "a.py")
    assert surveyed(repo, ENVIRON)[0].origin.uncommitted == ["a.py", "sub/c.py", "new.py"]
    below, _ = read_settings(repo.root / "sub", flags={}, secrets=ENVIRON, text=None)
    assert detect_ci_context(below, ENVIRON)[0].origin.uncommitted == ["c.py", "/a.py"]
    job = pull_request(repo, github, head=repo.head, base=repo.head)
    assert surveyed(repo, job)[0].origin.uncommitted == ["a.py", "sub/c.py"], "steps of a job leave new files"


@pytest.mark.parametrize(("value", "token"), [("", None), ("glpat-1", "glpat-1")])
def test_remote__a_variable_without_a_value_is_no_token(value: str, token: str | None, tmp_path: Path) -> None:
    """GitLab refuses wrong credentials for public projects, too. A project may define the variable so for forks."""
    repo = new_repo(tmp_path)
    base = repo.commit({"a": "1"})
    environ = {
        **{"CI": "true", "GITLAB_CI": "true", "CI_PIPELINE_SOURCE": "merge_request_event", "GITLAB_TOKEN": value},
        **{"CI_API_V4_URL": "http://127.0.0.1:9/api/v4", "CI_SERVER_URL": "http://127.0.0.1:9", "CI_PIPELINE_ID": "1"},
        **{"CI_PROJECT_ID": "9", "CI_PROJECT_PATH": "fork/p", "CI_PROJECT_DIR": str(tmp_path), "CI_COMMIT_SHA": base},
        **{"CI_DEFAULT_BRANCH": "main", "CI_JOB_ID": "2", "CI_JOB_NAME": "evals", "CI_MERGE_REQUEST_IID": "7"},
        **{"CI_MERGE_REQUEST_PROJECT_ID": "42", "CI_MERGE_REQUEST_PROJECT_PATH": "g/p"},
        **{"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "9", "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "fork/p"},
        **{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base},
        **{"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "x", "CI_MERGE_REQUEST_REF_PATH": "refs/merge-requests/7/head"},
        **{"CI_MERGE_REQUEST_PROJECT_URL": "http://127.0.0.1:9/g/p", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": base},
    }
    ci, _ = surveyed(repo, environ)
    assert (ci.remote.url, ci.remote.token) == ("http://127.0.0.1:9/g/p.git", token)
