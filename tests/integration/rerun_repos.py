"""A repository whose base and head need different versions of a package, and an index that has both."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from adk_envs import FIXTURES, adk_python
from base_repos import Repo, new_repo
from gate_runs import eval_set

_AGENT = """
import greetings
import tone
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import reply, scripted, text


def script(said, count, request):
    return reply(text({call} if said == "Hello" else "You said " + said + tone.{stop}))


root_agent = LlmAgent(name="bot", model=scripted(script), instruction="Greet.")
"""
BASE, HEAD = "Good day, how are you?", "Hi."


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str], *, requires: str = "") -> None:
    """A wheel as a build would make it."""
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(
            f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


@dataclass(frozen=True, kw_only=True)
class TwoVersions:
    """`greetings` 1.0 has `formal` and 2.0 has `short`: neither agent works with the other's.

    Nor with the other's `lib/tone.py`, a module of the repository that PYTHONPATH leads to.
    """

    repo: Repo
    base: str
    head: str
    environment: Mapping[str, str]
    """Where packages come from: an index in a directory. ADK is the one of the other tests, through a path file. And
    PYTHONPATH, as a workflow sets it: into the checkout."""


def two_versions(root: Path) -> TwoVersions:
    """Makes it below a directory; the pull request's branch is checked out."""
    index = root / "index"
    index.mkdir()
    wheel(index, "greetings", "1.0", {"greetings.py": f"def formal():\n    return {BASE!r}\n"})
    wheel(index, "greetings", "2.0", {"greetings.py": f"def short():\n    return {HEAD!r}\n"})
    python = adk_python()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([str(python), "-c", where], check=True, capture_output=True, text=True, timeout=30).stdout
    # The real ADK takes a minute to install; beside it lies all that it needs.
    wheel(index, "adk-elsewhere", "1.0", {"adk_elsewhere.pth": site})

    repo = new_repo(root / "repo")
    repo.write(
        {
            "bot/__init__.py": "from . import agent\n",
            "scripted_model.py": (FIXTURES / "scripted_model.py").read_text("utf-8"),
        }
    )
    repo.write({".python-version": f"{sys.version_info.major}.{sys.version_info.minor}\n"})
    base = repo.commit(
        {
            "bot/agent.py": _AGENT.format(call="greetings.formal()", stop="FULL_STOP"),
            "requirements.txt": "adk-elsewhere\ngreetings==1.0\n",
            "lib/tone.py": "FULL_STOP = '.'\n",
            "evals/bot.test.json": json.dumps(eval_set("bot", {"hello": [("Hello", BASE)]})),
            "evals/test_config.json": '{"criteria": {"response_match_score": 0.9}}',
        }
    )
    repo.branch("feature")
    head = repo.commit(
        {
            "bot/agent.py": _AGENT.format(call="greetings.short()", stop="DOT"),
            "requirements.txt": "adk-elsewhere\ngreetings==2.0\n",
            "lib/tone.py": "DOT = '.'\n",
            "evals/bot.test.json": json.dumps(
                eval_set("bot", {"hello": [("Hello", BASE)], "echo": [("milk", "You said milk.")]})
            ),
        }
    )
    environment = {
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(index),
        "UV_OFFLINE": "1",
        "PYTHONPATH": str(repo.root / "lib"),
    }
    return TwoVersions(repo=repo, base=base, head=head, environment=environment)
