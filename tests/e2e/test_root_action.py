"""`uses: org/agent-eval-action@v1`, by act without a container: our file is real, what it uses are stand-ins."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from base_repos import new_repo
from container_engine import REPOSITORY
from container_workflows import ACTION, gate_stand_in, replaced_actions, run_act, stand_ins
from fake_github import FakeGitHub
from recorded_evals import AGENT, write_evals

from agent_eval.settings import SETTINGS
from agent_eval_results.report.renderers.outputs import OUTPUTS

# `uses: org/agent-eval-action@v1`, by act without a container: our file is real, what it uses are stand-ins.
#
# What stands for another action writes down what it was given; what stands for the gate also leaves results and a
# judge's reply.


pytestmark = pytest.mark.container

WORKFLOW = """
on: push
jobs:
  evals:
    runs-on: ubuntu-latest
    env:
      NOTED: {noted}
    steps:
      - id: gate
        uses: org/agent-eval-action@v1
        env:
          GOOGLE_API_KEY: a-key
        with:
          paths: evals
          {more}
      - if: always()
        shell: bash
        run: echo "after ${{{{ steps.gate.outcome }}}} ${{{{ steps.gate.outputs.verdict }}}}" >>"$NOTED/steps"
"""
GATE = """
    - id: gate
      shell: bash
      env:
        ALL: "${{ toJSON(inputs) }}"
        OUT: "${{ inputs.output-dir }}"
        REPLIES: "${{ inputs.judge-cache }}"
        MODE: "${{ inputs.mode }}"
        PAGE: "${{ inputs.report }}"
      run: |
        if [ "$MODE" = link ]; then
          printf %s "$ALL" >"$NOTED/linking.json"
          echo "link $AGENT_EVAL_REPORT_URL" >>"$NOTED/steps"
          exit 0
        fi
        printf %s "$ALL" >"$NOTED/inputs.json"
        echo "gate $GOOGLE_API_KEY" >>"$NOTED/steps"
        mkdir -p "$OUT"
        touch "$OUT/results.json"
        if [ "$PAGE" != off ]; then
          echo page >"$OUT/report.html"
          echo "report-file=$OUT/report.html" >>"$GITHUB_OUTPUT"
        fi
        [ "$REPLIES" = off ] || { mkdir -p "$REPLIES" && touch "$REPLIES/reply"; }
        echo verdict=VERDICT >>"$GITHUB_OUTPUT"
        [ VERDICT = passed ]
"""


UPLOAD = """
    - id: upload
      shell: bash
      env: {FILE: "${{ inputs.path }}"}
      run: |
        if [ "${{ inputs.archive }}" = false ]; then
          echo "upload the file $(basename "$FILE"): $(cat "$FILE")" >>"$NOTED/steps"
          echo "artifact-url=https://github.com/o/r/actions/runs/1/artifacts/9" >>"$GITHUB_OUTPUT"
        else
          kept="kept ${{ inputs.retention-days }} days"
          echo "upload ${{ inputs.name }}: $(ls "$FILE" | xargs), $kept" >>"$NOTED/steps"
        fi
"""
LINKED = [
    "upload the file agent-eval-results-report.html: page",
    "link https://github.com/o/r/actions/runs/1/artifacts/9",
]


def noting(what: str) -> str:
    return f'\n    - shell: bash\n      run: |\n        echo "{what}" >>"$NOTED/steps"\n'


def run(tmp_path: Path, verdict: str, more: str = "") -> tuple[list[str], dict[str, str], int]:
    """Runs the workflow: what the steps noted in order, the gate's inputs, and how it ended."""
    noted, actions, work = tmp_path / "noted", tmp_path / "actions", tmp_path / "work"
    noted.mkdir()
    gate_stand_in(actions, GATE.replace("VERDICT", verdict))
    downloads = noting("download ${{ inputs.pattern }} to ${{ inputs.path }}")
    stand_ins(actions, upload=UPLOAD, download=downloads, cache=noting("CACHE ${{ inputs.key }}"))
    new_repo(work).commit({".github/workflows/evals.yml": WORKFLOW.format(noted=noted, more=more)})
    done = run_act(
        "push", "-P", "ubuntu-latest=-self-hosted", "-s", "GITHUB_TOKEN=a-token", *replaced_actions(actions),
        cwd=work,
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=120,
    )  # fmt: skip
    assert (noted / "inputs.json").exists(), done.stdout.decode("utf-8", "replace")[-4000:]
    return (noted / "steps").read_text().splitlines(), json.loads((noted / "inputs.json").read_text()), done.returncode


JUDGE_CACHE = "agent-eval-judge-agent-eval-results-1-1"
RESULTS = "report.html results.json, kept"
OWN = {"name": "billing", "output-dir": "out/billing", "judge-cache": "off", "report": "off"}


@pytest.mark.parametrize(
    ("verdict", "given", "steps"),
    [
        *(
            (verdict, {}, [f"upload agent-eval-results: {RESULTS} 0 days", *LINKED, f"save {JUDGE_CACHE}"])
            for verdict in ("passed", "failed")
        ),
        # In a matrix, each job has names of its own, and no cache if none is wanted.
        ("passed", OWN, ["upload agent-eval-results-billing: results.json, kept 0 days"]),
        ("passed", {"shard": "2/5"}, [f"upload agent-eval-results-part-2-attempt-1: {RESULTS} 3 days"]),
    ],
)
def test_root_action__everything_around_the_gate_also_when_it_fails(
    tmp_path: Path, verdict: str, given: dict[str, str], steps: list[str]
) -> None:
    noted, inputs, code = run(
        tmp_path, verdict, "".join(f'{name}: "{value}"\n          ' for name, value in given.items())
    )

    restored = [] if given.get("judge-cache") == "off" else [f"restore {JUDGE_CACHE}"]
    outcome = "success" if verdict == "passed" else "failure"
    assert noted == [*restored, "gate a-key", *steps, f"after {outcome} {verdict}"]
    assert (code == 0) == (verdict == "passed")
    assert set(inputs) == {setting.input for setting in SETTINGS}
    passed = {name: value for name, value in inputs.items() if value and name != "name"}
    cache = passed.pop("judge-cache")
    assert cache == "off" if not restored else Path(cache).name == "agent-eval-judge-cache"
    assert not list((tmp_path / "work").rglob("agent-eval-judge-cache")), "in the checkout a pull request could fill it"
    default = {"paths": "evals", "github-token": "a-token", "output-dir": "agent-eval-results"}
    assert passed == default | {name: value for name, value in given.items() if name not in {"name", "judge-cache"}}
    if LINKED[1] in steps:
        linking = json.loads((tmp_path / "noted/linking.json").read_text())
        differing = {name for name in inputs if linking.get(name, "") != inputs[name]}
        assert differing == {"mode"}, "else it would not write the same comment"


def test_root_action__sets_every_output() -> None:
    assert set(re.findall(r"steps\.gate\.outputs\.([\w-]+)", ACTION)) == set(OUTPUTS)


# The workflow of docs/scale.md whose jobs run parts and merge them: one dies, and "Re-run failed jobs" completes it.
#
# Real: the workflow, run by act without a container; the root `action.yml`; the gate's processes, with the
# environment of a container action; git. Stand-ins: a folder for the artifact service, which like it takes a name
# only once in a run; a server for GitHub; a gate that is killed for a runner that dies; a recording for the agent;
# nothing for the cache.


GATE_OF_PARTS = """
    - id: gate
      shell: bash
      env:
        INPUTS: "${{ toJSON(inputs) }}"
        DIES: "${{ inputs.shard == '3/4' && github.run_attempt == '1' }}"
      run: |
        [ "$DIES" != true ] || kill -9 $$
        exec "$PYTHON" "$STARTED"
"""
STARTED = """
import json, os, sys

# As the runner does it for a container action.
os.environ |= {f"INPUT_{name.upper()}": value for name, value in json.loads(os.environ.pop("INPUTS")).items()}
os.environ |= json.loads(os.environ.pop("GITHUB"))
os.execv(sys.executable, [sys.executable, "-m", "agent_eval", "action"])
"""
UPLOAD_OF_PARTS = """
    - id: upload
      shell: bash
      env:
        NAME: "${{ inputs.name }}"
        FILE: "${{ inputs.path }}"
        ARCHIVE: "${{ inputs.archive }}"
        OVERWRITE: "${{ inputs.overwrite }}"
      run: |
        if [ ! -e "$FILE" ]; then echo "No files were found"; exit 0; fi
        [ "$ARCHIVE" != false ] || NAME=$(basename "$FILE")
        [ "$OVERWRITE" != true ] || rm -rf "$ARTIFACTS/$NAME"
        mkdir "$ARTIFACTS/$NAME" # Fails if it exists.
        if [ -d "$FILE" ]; then cp -R "$FILE/." "$ARTIFACTS/$NAME"; else cp "$FILE" "$ARTIFACTS/$NAME"; fi
        echo "artifact-url=https://github.com/o/r/actions/runs/1/artifacts/9" >>"$GITHUB_OUTPUT"
"""
DOWNLOAD = """
    - shell: bash
      env: {PATTERN: "${{ inputs.pattern }}", INTO: "${{ inputs.path }}"}
      run: |
        mkdir -p "$INTO"
        for artifact in "$ARTIFACTS"/$PATTERN; do cp -R "$artifact" "$INTO"; done
"""


def uploaded_parts(root: Path) -> list[str]:
    return sorted(path.name.rpartition("-part-")[2] for path in root.glob("artifacts/agent-eval-results-part-*"))


def test_parts__a_dead_job_is_red_and_only_it_is_repeated_with_one_comment(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "started.py").write_text(STARTED, "utf-8")
    gate_stand_in(tmp_path / "actions", GATE_OF_PARTS)
    stand_ins(tmp_path / "actions", upload=UPLOAD_OF_PARTS, download=DOWNLOAD)
    local = replaced_actions(tmp_path / "actions")
    _, _, workflows = (REPOSITORY / "docs/scale.md").read_text("utf-8").partition("## Workflows")
    recipe = workflows.partition("```yaml\n")[2].partition("```")[0]
    repo = new_repo(tmp_path / "work")
    write_evals(repo.root, "evals/a.test.json", {f"c{number}": ["lamp"] for number in range(6)})
    repo.commit({"agent-eval.toml": f'agent = "{AGENT}"\n', ".github/workflows/evals.yml": recipe})
    repo.git("branch", "-M", "main")
    repo.branch("change")
    head = repo.commit({"README.md": "More.\n"})
    repo.merge("change", "main")
    with FakeGitHub() as github:
        github.state.take_git(repo.root)
        github.state.pull(7, head_sha=head, head_ref="change")
        run = github.state.run(head, path=".github/workflows/evals.yml", event="pull_request", branch="change")
        (tmp_path / "event.json").write_text(json.dumps(github.state.event_of(7)), "utf-8")

        def attempt(number: int, *only: str) -> tuple[int, str]:
            """The exit code and the log of act."""
            run.attempt = number
            ref = "refs/pull/7/merge"
            of_github = {
                "GITHUB_API_URL": github.api_url,
                "GITHUB_SERVER_URL": github.server_url,
                "GITHUB_REPOSITORY": github.state.repository,
                "GITHUB_REF": ref,
                "GITHUB_SHA": repo.head,
                "GITHUB_WORKFLOW_REF": f"{github.state.repository}/{run.path}@{ref}",
            }
            variables = {
                "PYTHON": sys.executable,
                "STARTED": str(tmp_path / "started.py"),
                "ARTIFACTS": str(tmp_path / "artifacts"),
                "GITHUB": json.dumps(of_github),
                "GITHUB_RUN_ID": str(run.id),
                "GITHUB_RUN_ATTEMPT": str(number),
            }
            done = run_act(
                "pull_request", "-P", "ubuntu-latest=-self-hosted", "-s", f"GITHUB_TOKEN={github.token}",
                "-e", str(tmp_path / "event.json"), *local, *only,
                *(word for name, value in variables.items() for word in ("--env", f"{name}={value}")),
                cwd=repo.root,
                environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
                timeout=300,
            )  # fmt: skip
            return done.returncode, done.stdout.decode("utf-8", "replace")

        first, log = attempt(1)
        [before] = github.state.comments_of(7)

        assert first != 0, log[-4000:]
        assert "part 3 of 4 left no results" in before.body
        assert uploaded_parts(tmp_path) == ["1-attempt-1", "2-attempt-1", "4-attempt-1"]

        second, log = attempt(2, "--matrix", "part:3/4")
        [after] = github.state.comments_of(7)

        assert second == 0, log[-4000:]
        assert after.id == before.id
        assert "6 cases" in after.body.splitlines()[1], after.body
        assert uploaded_parts(tmp_path) == ["1-attempt-1", "2-attempt-1", "3-attempt-2", "4-attempt-1"]
