"""`uses: org/agent-eval-action@v1`, by act without a container: our file is real, what it uses are stand-ins.

What stands for another action writes down what it was given; what stands for the gate also leaves results and a judge's
reply.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from container_workflows import run_act
from root_action import ACTION, gate_stand_in, replaced_actions, stand_ins

from agent_eval.report.renderers.outputs import OUTPUTS
from agent_eval.settings import SETTINGS

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
    (work / ".github/workflows").mkdir(parents=True)
    (work / ".github/workflows/evals.yml").write_text(WORKFLOW.format(noted=noted, more=more), "utf-8")
    git = ["git", "-C", str(work), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True, timeout=30)
    done = run_act(
        "push", "-P", "ubuntu-latest=-self-hosted", "-s", "GITHUB_TOKEN=a-token", *replaced_actions(actions),
        cwd=work,
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=120,
    )  # fmt: skip
    assert (noted / "inputs.json").exists(), done.stdout.decode("utf-8", "replace")[-4000:]
    return (noted / "steps").read_text().splitlines(), json.loads((noted / "inputs.json").read_text()), done.returncode


@pytest.mark.parametrize(("verdict", "outcome"), [("passed", "success"), ("failed", "failure")])
def test_root_action__everything_around_the_gate_also_when_it_fails(tmp_path: Path, verdict: str, outcome: str) -> None:
    steps, inputs, code = run(tmp_path, verdict)

    assert steps == [
        "restore agent-eval-judge-agent-eval-results-1-1",
        "gate a-key",
        "upload agent-eval-results: report.html results.json, kept 0 days",
        *LINKED,
        "save agent-eval-judge-agent-eval-results-1-1",
        f"after {outcome} {verdict}",
    ]
    assert (code == 0) == (verdict == "passed")
    given = {name: value for name, value in inputs.items() if value}
    assert Path(given.pop("judge-cache")).name == "agent-eval-judge-cache"
    assert not list((tmp_path / "work").rglob("agent-eval-judge-cache")), "in the checkout a pull request could fill it"
    linking = json.loads((tmp_path / "noted/linking.json").read_text())
    differing = {name for name in inputs if linking.get(name, "") != inputs[name]}
    assert differing == {"mode"}, "else it would not write the same comment"
    assert given == {
        "paths": "evals",
        "github-token": "a-token",
        "output-dir": "agent-eval-results",
    }


def test_root_action__a_matrix_has_names_of_its_own_and_no_cache_if_none_is_wanted(tmp_path: Path) -> None:
    own = {"name": "billing", "output-dir": "out/billing", "judge-cache": "off", "report": "off"}
    steps, inputs, _ = run(tmp_path, "passed", "".join(f'{name}: "{value}"\n          ' for name, value in own.items()))

    assert steps == [
        "gate a-key",
        "upload agent-eval-results-billing: results.json, kept 0 days",
        "after success passed",
    ]
    assert inputs["judge-cache"] == "off"
    assert set(inputs) == {setting.input for setting in SETTINGS}


def test_root_action__a_part_has_an_artifact_of_its_own(tmp_path: Path) -> None:
    steps, inputs, _ = run(tmp_path, "passed", 'shard: "2/5"')

    assert inputs["shard"] == "2/5"
    assert steps == [
        "restore agent-eval-judge-agent-eval-results-1-1",
        "gate a-key",
        "upload agent-eval-results-part-2-attempt-1: report.html results.json, kept 3 days",
        "after success passed",
    ]


def test_root_action__sets_every_output() -> None:
    assert set(re.findall(r"steps\.gate\.outputs\.([\w-]+)", ACTION)) == set(OUTPUTS)
