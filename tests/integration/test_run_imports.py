"""What is imported late, or never: the agent's process starts early, and slow imports wait until they are needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gate_runs import program
from recorded_evals import AGENT, write_evals

# The agent's process starts early: what a run needs only afterwards is imported while that process imports its own.


CODE = """
import importlib.util
import sys
import agent_eval.commands.run
import agent_eval_agents.adk._driver, agent_eval_scoring.evalset.loading, agent_eval.gate.policy_checks
import agent_eval.pipeline._base_checkout, agent_eval.pipeline._regression, agent_eval.runner
later = (".baseline.archive", ".baseline.reader", "_scoring.criteria.judged", ".gate.evaluation", ".github.client",
         "_scoring.models.pool", "_results.report.renderers", "_results.report.html",
         "_results.data.report", "_scoring.criteria.cost_estimate", ".runner.scoring",
         "_scoring.simulation.simulated")
print([name for name in later if f"agent_eval{name}" in sys.modules])
print([name for name in later if importlib.util.find_spec(f"agent_eval{name}") is None])
"""


def test_run__imports_nothing_before_the_agent_starts_that_can_wait() -> None:
    assert output(CODE) == ["[]", "[]"], "none is loaded, none is missing: a renamed module would never be loaded"


EARLY = """
import importlib.util
import os
import sys

later = ("pydantic", "agent_eval.pipeline.pipeline", "agent_eval.runner", "agent_eval.github.client",
         "agent_eval_agents.protocol", "agent_eval_agents.registry", "agent_eval_agents.venv.environment",
         "agent_eval_results.data.origin", "agent_eval_scoring.core.recording", "agent_eval_scoring.evalset.models")

def begun(event, arguments):
    if event == "subprocess.Popen" and "parent" in arguments[1]:
        print([name for name in later if name in sys.modules], flush=True)
        print([name for name in later if importlib.util.find_spec(name) is None], flush=True)
        os._exit(0)

sys.addaudithook(begun)
from agent_eval.__main__ import run
run()
"""


def test_run__imports_even_less_before_its_agents_interpreter_starts(tmp_path: Path) -> None:
    done = program(sys.executable, "-c", EARLY, "run", "--agent-python", sys.executable, cwd=tmp_path)
    assert done.stdout.splitlines() == ["[]", "[]"]


ENVIRONMENT = """
import importlib.util
import os
import sys

later = ("agent_eval.runner", "agent_eval.pipeline.queued", "agent_eval_agents.host._facts",
         "agent_eval_scoring.criteria")

def begun(event, arguments):
    if event == "os.mkdir" and str(arguments[0]).endswith("/envs"):
        print([name for name in later if name in sys.modules], flush=True)
        print([name for name in later if importlib.util.find_spec(name) is None], flush=True)
        os._exit(0)

sys.addaudithook(begun)
from agent_eval.__main__ import run
run()
"""


def test_run__plans_while_the_environment_of_its_agent_is_made(tmp_path: Path) -> None:
    write_evals(tmp_path, "a.test.json", {"one": ["lamp"]})
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot/agent.py").write_text("root_agent = None\n")
    cache = ("--cache-dir", str(tmp_path / "cache"))
    done = program(sys.executable, "-c", ENVIRONMENT, "run", ".", "--agent", "bot", *cache, cwd=tmp_path)
    assert done.stdout.splitlines() == ["[]", "[]"]


def test_run__never_imports_the_workbench(tmp_path: Path) -> None:
    write_evals(tmp_path, "evals/lamp.test.json", {"on": ["lamp"]})
    code = "import sys; sys.modules['agent_eval_workbench'] = None; from agent_eval.cli import main;"
    code += "print(main(sys.argv[1:])); main(['flaky', 'agent-eval-results'])"
    done = program(sys.executable, "-c", code, "run", "--agent", AGENT, cwd=tmp_path, code=1)
    assert done.stdout.splitlines()[-1] == "0" and "agent_eval_workbench" in done.stderr.splitlines()[-1]


#


CRITERIA = """
import asyncio, sys
import agent_eval.forge.comments, agent_eval.github.forge
import agent_eval_scoring.models.check, agent_eval_scoring.models.pool
from agent_eval_scoring.models import ModelUse
from agent_eval_scoring.models.check import check_models
from agent_eval_scoring.models.settings import ModelSettings

use = ModelUse(model="gemini-2.5-flash", case_id="a", purpose="p")
print(len(check_models([use], ModelSettings(), {}).problems))
clients = {"google.genai", "google.auth", "openai", "httpx2", "jsonschema", "requests"}
print(sorted(clients & set(sys.modules)))

from agent_eval_scoring.core.content import model_message, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.criteria import INFORMATIONAL, Conversation, build
from agent_eval_scoring.criteria.tokenize import tokenize
from agent_eval_scoring.evalset.models import CriterionConfig, EvalCase

def heavy():
    return sorted({"nltk", "numpy", "rouge_score"} & set(sys.modules))

print(heavy())
turn = Invocation(user_content=user_message("hi"), final_response=model_message("Unchanged answers need no stems."))
case = EvalCase(eval_id="a", conversation=[turn])
criterion = build(CriterionConfig(metric="response_match_score", threshold=1.0))
print(asyncio.run(criterion.score(Conversation(case=case, actual=[turn], expected=[turn]))).score, heavy())
print(tokenize("Nationally, runners"), heavy())
from nltk.stem import SnowballStemmer
print(SnowballStemmer("english").stem("runners"), tokenize("runs"))
"""
STEMMER = """
from agent_eval_scoring.criteria.tokenize import tokenize
print(tokenize("Nationally, runners"))
"""


def output(code: str, **environment: str) -> list[str]:
    return program(sys.executable, "-c", code, env={**os.environ, **environment}).stdout.splitlines()


def test_imports__of_clients_and_of_the_stemmer_wait_until_they_are_needed_and_no_more_of_nltk_is_loaded() -> None:
    assert output(CRITERIA) == ["1", "[]", "[]", "1.0 []", "['nation', 'runner'] ['rouge_score']", "runner ['run']"]


def test_stemmer__that_needs_the_code_of_its_packages(tmp_path: Path) -> None:
    stem = tmp_path / "nltk" / "stem"
    stem.mkdir(parents=True)
    (tmp_path / "nltk" / "__init__.py").write_text("LENGTH = 4\n")
    (stem / "__init__.py").write_text("")
    (stem / "porter.py").write_text(
        "from nltk import LENGTH\nclass PorterStemmer:\n    def stem(self, word):\n        return word[:LENGTH]\n"
    )
    assert output(STEMMER, PYTHONPATH=str(tmp_path)) == ["['nati', 'runn']"]
