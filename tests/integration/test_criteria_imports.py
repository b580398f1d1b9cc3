import subprocess
import sys

CODE = """
import asyncio, sys
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria import INFORMATIONAL, Conversation, build, warm_up
from agent_eval.evalset.models import CriterionConfig, EvalCase

def heavy():
    return sorted({"nltk", "numpy", "rouge_score"} & set(sys.modules))

print(heavy())
turn = Invocation(user_content=user_message("hi"), final_response=model_message("Unchanged answers need no stems."))
case = EvalCase(eval_id="a", conversation=[turn])
criterion = build(CriterionConfig(metric="response_match_score", threshold=1.0))
print(asyncio.run(criterion.score(Conversation(case=case, actual=[turn], expected=[turn]))).score, heavy())
warm_up()
print(heavy())
"""


def test_import_criteria__does_not_load_the_stemmer() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == ["[]", "1.0 []", "['nltk', 'numpy', 'rouge_score']"]
