"""Slow imports happen only when a model is called."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import agent_eval.models.check, agent_eval.models.pool
from agent_eval.models import ModelUse
from agent_eval.models.check import check_models
from agent_eval.models.settings import ModelSettings

use = ModelUse(model="gemini-2.5-flash", case_id="a", purpose="p")
print(len(check_models([use], ModelSettings(), {}).problems))
heavy = {"google.genai", "google.auth", "openai", "httpx2", "jsonschema", "requests"}
print(sorted(heavy & set(sys.modules)))
"""


def test_check_models__imports_no_client() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["1", "[]"]
