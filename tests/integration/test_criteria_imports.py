import subprocess
import sys

CODE = """
import sys
from agent_eval.criteria import INFORMATIONAL, warm_up

def heavy():
    return sorted({"nltk", "numpy", "rouge_score"} & set(sys.modules))

print(heavy())
warm_up()
print(heavy())
"""


def test_import_criteria__does_not_load_the_stemmer() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == ["[]", "['nltk', 'numpy', 'rouge_score']"]
