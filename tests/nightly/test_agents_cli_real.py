"""Google's agents-cli itself: what it gives metrics, and a repository of its scaffold from `create` to a red check."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from adk_envs import packages_python
from dataset_samples import DATASETS, EVENTS, INSTANCES
from gate_runs import Repository, program

pytestmark = pytest.mark.nightly
VERSION = "1.11.0"
WORKER = Path(__file__).with_name("agents_cli_worker.py")
SCRIPTED = '''
class Scripted(BaseLlm):
    """Says what it is asked."""

    async def generate_content_async(self, llm_request, stream=False):
        said = llm_request.contents[-1].parts[-1].text
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"You ask: {said}")]))


root_agent = Agent('''
LENGTH = """
def evaluate(instance):
    return {"score": sum(len(part.get("text", "")) for part in instance["response"]["parts"])}
"""


@pytest.fixture(scope="module")
def python() -> Path:
    return packages_python(f"agents-cli-{VERSION}", f"google-agents-cli=={VERSION}")


def test_instances__are_those_of_the_vectors(python: Path) -> None:
    datasets = {name: dataset for name, dataset in DATASETS.items() if not isinstance(dataset, str)}
    given = json.dumps({"datasets": datasets, "events": EVENTS})
    measured = json.loads(program(python, WORKER, input=given, timeout=120).stdout)
    if os.environ.get("UPDATE_GOLDEN"):
        INSTANCES.write_text(
            json.dumps({"google-agents-cli": VERSION, "instances": measured}, indent=1) + "\n", "utf-8"
        )
    assert json.loads(INSTANCES.read_text("utf-8"))["instances"] == measured


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def test_scaffold__from_create_to_a_required_check(python: Path, tmp_path: Path) -> None:
    """The commands of the recipe, on the scaffold with a model without a network; no file of `tests/eval` is changed
    but the judge, which would ask Gemini."""
    create = (python.with_name("agents-cli"), "create", "shop", "-y", "--adk", "--skip-checks")
    program(*create, cwd=tmp_path, timeout=300)
    root = tmp_path / "shop"
    agent, judge = root / "app/agent.py", root / "tests/eval/response_quality.py"
    text = agent.read_text("utf-8")
    text = re.sub(r"model=Gemini\(.*?\n    \),", 'model=Scripted(model="scripted"),', text, flags=re.DOTALL)
    text = text.replace("models import Gemini", "models import BaseLlm, LlmResponse")
    text = text.replace("\nroot_agent = Agent(", SCRIPTED)
    agent.write_text(text, "utf-8")
    judge.write_text(LENGTH, "utf-8")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    repository = Repository(root=root)
    validated = repository.gate("validate", code=0)
    assert "0 errors" in validated.out
    first = repository.gate("run", code=0)
    assert first.statuses == dict.fromkeys(("greeting", "weather_query", "capital_lookup"), "passed")
    assert "Only errors can fail this run: custom_response_quality has no threshold" in first.out
    repository.gate("init", "--ci", "github", "--yes", code=0)
    assert (root / ".github/workflows/evals.yml").exists()
    agent.write_text(text.replace('f"You ask: {said}"', '"?"'), "utf-8")
    git(root, "commit", "-qam", "worse")
    arguments = ("--base-ref", "HEAD~1", "--baseline", "rerun", "--gate", "regressions")
    worse = repository.gate("run", *arguments, code=1, timeout=300)
    assert "significant together" in worse.out, "scores without a threshold"
    agent.write_text(text, "utf-8")
    git(root, "commit", "-qam", "as before")
    repository.gate("run", *arguments[:1], "HEAD~2", *arguments[2:], code=0, timeout=300)
    (root / "tests/eval/test_config.json").write_text('{"criteria": {"custom_response_quality": 1000}}', "utf-8")
    repository.gate("run", code=1)
