"""Judges with the google-genai that google-adk 2.13.0 needs: the pytest plugin is installed beside the agent."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
from adk_envs import adk_python

HERE = Path(__file__).parent
CODE = f"""
import site, sys
site.addsitedir({sysconfig.get_path("purelib")!r})
import importlib.metadata, pytest
print("google-genai", importlib.metadata.version("google-genai"))
sys.exit(pytest.main(sys.argv[1:]))
"""
"""The agent's packages have precedence over ours, as in one environment for both."""
TESTS = (
    "test_models_gemini.py::test_gemini__sends_the_question_and_reads_the_answer",
    "test_models_faults.py::test_faults__a_server_that_is_not_there",
    "test_models_faults.py::test_faults__are_retried",
)


@pytest.mark.slow
def test_gemini__works_with_google_genai_2() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [str(adk_python()), "-c", CODE, "-q", "-p", "no:cacheprovider", *(str(HERE / test) for test in TESTS)]

    done = subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("google-genai 2.")
