import os
import subprocess
import sys
from pathlib import Path

CODE = """
import asyncio, sys
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria import INFORMATIONAL, Conversation, build
from agent_eval.criteria.tokenize import tokenize
from agent_eval.evalset.models import CriterionConfig, EvalCase

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
from agent_eval.criteria.tokenize import tokenize
print(tokenize("Nationally, runners"))
"""


def output(code: str, **environment: str) -> list[str]:
    command = [sys.executable, "-c", code]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_import_criteria__loads_the_stemmer_late_and_no_more_of_nltk() -> None:
    assert output(CODE) == ["[]", "1.0 []", "['nation', 'runner'] ['rouge_score']", "runner ['run']"]


def test_stemmer__that_needs_the_code_of_its_packages(tmp_path: Path) -> None:
    stem = tmp_path / "nltk" / "stem"
    stem.mkdir(parents=True)
    (tmp_path / "nltk" / "__init__.py").write_text("LENGTH = 4\n")
    (stem / "__init__.py").write_text("")
    (stem / "porter.py").write_text(
        "from nltk import LENGTH\nclass PorterStemmer:\n    def stem(self, word):\n        return word[:LENGTH]\n"
    )
    assert output(STEMMER, PYTHONPATH=str(tmp_path)) == ["['nati', 'runn']"]
