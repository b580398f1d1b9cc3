import subprocess
import sys

CODE = """
import sys
from agent_eval.criteria.registry import INFORMATIONAL, prepare
from agent_eval.evalset.suite import CriterionConfig

def heavy():
    return sorted({"nltk", "numpy", "rouge_score"} & set(sys.modules))

prepare([CriterionConfig(metric="tool_trajectory_avg_score", threshold=1.0)])
print(heavy())
prepare([CriterionConfig(metric="response_match_score", threshold=0.8)])
print(heavy())
"""


def test_the_stemmer__is_loaded_only_for_who_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == ["[]", "['nltk', 'numpy', 'rouge_score']"]
