"""GitLab's CI/CD component: held to GitLab's schema and to the settings; its job, run by a shell as a runner does."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import gate_server
from docs_pages import blocks, page
from fake_gitlab import GitLabLab, fake_gitlab
from gate_runs import Done
from golden_files import check_part
from jsonschema import Draft7Validator
from recorded_evals import AGENT
from ruamel.yaml import YAML

from agent_eval.settings import SETTINGS
from agent_eval.settings.options import Setting
from agent_eval_workbench.setup import _ci

COMPONENT = Path(__file__).parents[2] / "templates" / "agent-eval.yml"
TEXT = COMPONENT.read_text("utf-8")
SPEC, JOB = YAML(typ="safe").load_all(TEXT)
OWN = {"job", "stage", "image"}
ELSEWHERE = {
    "secrets are variables": {"agent-headers", "judge-api-key", "github-token"},
    "GitHub's alone": {"mode", "allow-pull-request-target", "comment-author"},
    "GitLab names the base and the job, and the job's rules which branch records": {
        "base-ref",
        "name",
        "base-branches",
    },
    "the job's artifacts, and caches that a merge request could fill": {"output-dir", "cache-dir", "judge-cache"},
    "parts need a job that merges them (docs/scale.md)": {"shard", "shard-plan"},
}
"""Settings that are not inputs, by the reason."""


def inputs() -> list[Setting]:
    left_out = set().union(*ELSEWHERE.values())
    return [one for one in SETTINGS if (one.basic or not one.in_file) and one.input not in left_out]


def test_component__has_the_inputs_of_the_settings() -> None:
    described, passed = "", ""
    for one in inputs():
        default = f" Default: {one.default}." if one.default else ""
        text = f"{one.help}{default}".replace("pull request", "merge request").replace("pull-request comment", "note")
        described += f'    {one.input}:\n      description: {json.dumps(text)}\n      default: ""\n'
        passed += f'    INPUT_{one.field.upper()}:\n      value: "$[[ inputs.{one.input} ]]"\n      expand: false\n'
    image = SPEC["spec"]["inputs"]["image"]["default"]
    for before, expected, after in ((f"{image}\n", described, "---\n"), ("  variables:\n", passed, "  script:\n")):
        start = TEXT.index(before)
        current = TEXT[start : TEXT.index(after, start)]
        check_part(COMPONENT, current, before + expected)


def filled(value: Any, given: Mapping[str, Any]) -> Any:
    """What GitLab makes of a configuration: inputs in place of `$[[ inputs.NAME ]]`, in keys and in values."""
    if isinstance(value, dict):
        return {filled(name, given): filled(each, given) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, given) for each in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda match: given[match[1]], value)


def job(**given: str) -> dict[str, Any]:
    """The configuration of a project that includes the component."""
    defaults = {name: spec["default"] for name, spec in SPEC["spec"]["inputs"].items()}
    named = {name.replace("_", "-"): value for name, value in given.items()}
    assert named.keys() <= defaults.keys()
    made: dict[str, Any] = filled(JOB, {**defaults, **named})
    return made


def test_component__is_what_gitlab_s_schema_allows_and_the_recipe_s_job() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/gitlab-ci.json").read_text("utf-8"))
    for document in (SPEC, JOB, job(), job(job="billing", num_runs="3")):
        assert not [error.message for error in Draft7Validator(schema).iter_errors(document)]
    used = set(re.findall(r"inputs\.([\w-]+)", TEXT.partition("\n---\n")[2]))
    assert used == set(SPEC["spec"]["inputs"]) == OWN | {one.input for one in inputs()}
    [included] = [text for text in blocks(page("recipes.md"), "yaml") if "component:" in text]
    [include] = YAML(typ="safe").load(included)["include"]
    assert include["inputs"].keys() <= used and f"/{COMPONENT.stem}@v1" in include["component"]
    made = job()["evals"]
    assert (made.pop("stage"), made.pop("script"), len(made.pop("variables"))) == (
        "test",
        ["agent-eval action"],
        len(inputs()),
    )
    [recipe] = YAML(typ="safe").load(_ci.GITLAB).values()
    assert recipe.pop("script") == ["agent-eval run"]
    assert made == recipe


def run(lab: GitLabLab, kind: str, facts: Mapping[str, str], **given: str) -> Done:
    """A pipeline's job as a runner makes it: its variables, then a shell that gets the script line by line."""
    [(name, made)] = job(agent=AGENT, **given).items()
    variables = {name: spec["value"] for name, spec in made["variables"].items()}
    assert all(spec["expand"] is False for spec in made["variables"].values())

    def shell(environment: Mapping[str, str]) -> Done:
        gate_server.script(lab.repository.root.parent / "agent-eval", "-m", "agent_eval")
        path = f"{lab.repository.root.parent}{os.pathsep}{os.environ['PATH']}"
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(["set -eo pipefail", *made["script"]])],
            cwd=lab.repository.root,
            env=lab.repository.environment({**environment, **variables, "PATH": path}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        return lab.repository.finish(process, timeout=90)

    return lab.run(kind, facts, job=name, gate=shell)


def test_component__its_job_gates_a_merge_request(tmp_path: Path) -> None:
    cases = "evals/home.evalset.json"
    with fake_gitlab() as fake:
        lab = GitLabLab.make(tmp_path, fake)
        lab.repo.git("checkout", "-q", "--detach", lab.base)
        assert run(lab, "push", {"CI_COMMIT_BRANCH": "main"}).code == 0
        lab.repo.branch("feature", lab.base)
        lab.commit(door=["fan"], window=["lamp"])
        red = run(lab, "merge_request_event", lab.facts())
        assert (red.code, red.statuses) == (1, {"door": "failed", "window": "passed"}), red.err
        assert red.report.baseline is not None and red.report.baseline.status == "found"
        some = run(lab, "merge_request_event", lab.facts(), paths=f"{cases}:window {cases}:door", num_runs="2")
        assert [(case.eval_id, len(case.runs)) for case in some.report.cases] == [("door", 2), ("window", 2)], some.err
        wrong = run(lab, "merge_request_event", lab.facts(), gate="$(touch pwned)")
        assert (wrong.code, "input gate: '$(touch pwned)'" in wrong.out) == (2, True), wrong.out
        assert not list(tmp_path.rglob("pwned"))
        assert len(lab.ours()) == 1, "one note, written again in its place"
        lab.repository.end()
