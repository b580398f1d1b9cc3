"""Every layout that ADK's own loaders load is found and can be spelled: what ADK loads, and what the gate loads."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from adk_envs import adk_python
from evalset_samples import loaded

from agent_eval_agents.discovery.locate import choose_agents
from agent_eval_agents.host import PROGRAM

AGENT = "from google.adk.agents import BaseAgent\n{0}root_agent = BaseAgent(name='{1}')\n"
RIGHT, WRONG = AGENT.format("", "right"), AGENT.format("", "wrong")
BEYOND, BESIDE = AGENT.format("from ..words import HI\n", "right"), AGENT.format("from words import HI\n", "right")
APP = RIGHT.replace("root_agent", "top") + "from google.adk.apps.app import App\napp = App(name='x', root_agent=top)\n"
YAML = "name: right\nmodel: gemini-2.5-flash\ninstruction: Say hi.\n"
PART = {
    "bot/agent/__init__.py": "from .core import root_agent\n",
    "bot/agent/core.py": BEYOND,
    "bot/words.py": "HI = 1\n",
}
MAIN = {"bot/main.py": RIGHT}
LAYOUTS: dict[str, tuple[dict[str, str], str, str]] = {
    "agent.py": (
        {"bot/__init__.py": "from . import agent\n", "bot/agent.py": RIGHT},
        "bot",
        "bot bot/ ./bot bot/agent.py bot.agent",
    ),
    "agent.py, without __init__.py": ({"bot/agent.py": RIGHT}, "bot", "bot bot.agent"),
    "agent.py below an empty __init__.py": ({"bot/__init__.py": "", "bot/agent.py": RIGHT}, "bot", "bot bot.agent"),
    "__init__.py": ({"bot/__init__.py": RIGHT}, "bot", "bot bot/__init__.py"),
    "root_agent.yaml": ({"bot/root_agent.yaml": YAML}, "bot", "bot"),
    "in src": ({"src/bot/agent.py": RIGHT}, "src/bot", "src/bot src/bot/agent.py bot.agent"),
    "in src of a project": (
        {"back/pyproject.toml": "", "back/src/bot/agent.py": BESIDE, "back/src/words.py": "HI = 1\n"},
        "back/src/bot",
        "back/src/bot",
    ),
    "a single file": ({"bot.py": BESIDE, "words.py": "HI = 1\n"}, "bot", "bot bot.py ./bot ./bot.py ROOT/bot.py"),
    "a single file in a directory": (
        {"agents/bot.py": BESIDE, "agents/words.py": "HI = 1\n"},
        "agents/bot",
        "agents/bot agents/bot.py",
    ),
    "a single file that imports it": (
        {"bot.py": "from core import root_agent\n", "core.py": RIGHT},
        "bot",
        "bot bot.py",
    ),
    "a single file beside a directory": ({"bot.py": RIGHT, "bot/data.txt": ""}, "bot", "bot bot.py"),
    "a single file beside an agent": ({"bot.py": WRONG, "bot/__init__.py": RIGHT}, "bot", "bot bot/__init__.py"),
    "a file beside agent.py": ({"bot/agent.py": WRONG, "bot/other.py": RIGHT}, "bot/other", "bot/other.py bot/other"),
    "a star": ({"bot/__init__.py": "from .main import *\n", **MAIN}, "bot", "bot ./bot/"),
    "an absolute star": ({"bot/__init__.py": "from bot.main import *\n", **MAIN}, "bot", "bot"),
    "a chain of stars": (
        {"bot/__init__.py": "from .a import *\n", "bot/a/__init__.py": "from ..main import *\n", **MAIN},
        "bot",
        "bot",
    ),
    "a star in agent.py": ({"bot/agent.py": "from bot.main import *\n", **MAIN}, "bot", "bot bot.agent"),
    "another name": (
        {
            "bot/__init__.py": "from .main import top as root_agent\n",
            "bot/main.py": RIGHT.replace("root_", "top = root_"),
        },
        "bot",
        "bot",
    ),
    "a chain of re-exports": (
        {
            "bot/__init__.py": "from .a import root_agent\n",
            "bot/a/__init__.py": "from ..main import root_agent\n",
            **MAIN,
        },
        "bot",
        "bot",
    ),
    "of a sibling": (
        {"bot/agent.py": "from core.main import root_agent\n", "core/main.py": RIGHT, "core/__init__.py": ""},
        "bot",
        "bot",
    ),
    "an app": ({"bot/__init__.py": "", "bot/agent.py": APP}, "bot", "bot"),
    "an app of another file": ({"bot/__init__.py": "from .main import app\n", "bot/main.py": APP}, "bot", "bot"),
    "an app among others": (
        {"bot/__init__.py": "from .main import (\n    app,\n    top,\n)\n", "bot/main.py": APP},
        "bot",
        "bot",
    ),
    "an annotation": ({"bot/agent.py": RIGHT.replace("root_agent =", "root_agent: BaseAgent =")}, "bot", "bot"),
    "a lazy attribute": (
        {
            "bot/__init__.py": "def __getattr__(name):\n    if name == 'root_agent':\n"
            "        from .main import root_agent\n        return root_agent\n    raise AttributeError(name)\n",
            **MAIN,
        },
        "bot",
        "bot",
    ),
    "a package named agent": ({"bot/__init__.py": "", **PART}, "bot", "bot bot/agent bot.agent bot/agent/__init__.py"),
    "a package named agent, without __init__.py above": (PART, "bot", "bot bot/agent bot.agent"),
    "a package named agent that needs nothing above": (
        {"app/agent/__init__.py": "from .core import root_agent\n", "app/agent/core.py": RIGHT},
        "app",
        "app app/agent app.agent",
    ),
    "a package named agent in the root": (
        {"agent/__init__.py": "from .core import root_agent\n", "agent/core.py": RIGHT},
        "agent",
        "agent agent/",
    ),
    "a package named agent in src": (
        {
            "src/agent/__init__.py": "from .core import root_agent\n",
            "src/agent/core.py": BESIDE,
            "src/words.py": "HI = 1\n",
        },
        "src/agent",
        "src/agent",
    ),
    "a package named agent beside agents": (
        {"bot/__init__.py": "", **PART, "bot/agent/helper/agent.py": WRONG},
        "bot",
        "bot bot/agent",
    ),
    "the root": ({"agent.py": RIGHT, "__init__.py": ""}, ".", ". ./agent.py"),
}
"""Files; the directory and name for ADK's loader; spellings, each of which loads the same."""
ONLY_BY_NAME = {"a file beside agent.py"}
"""Layouts that no one finds without a name, because another agent is nearer; ADK takes them only as modules."""


def choice(root: Path, explicit: str | None) -> str:
    """The path that the host gets, or the problems."""
    choices = choose_agents(root, [loaded("evals/a.test.json")], explicit=explicit)
    for agent in choices.by_file.values():
        directory = agent.directory(root)
        return agent.source if directory is None else str((root / agent.source).resolve())
    return str(choices.problems)


@pytest.mark.slow
def test_layouts__what_adk_loads_the_gate_finds_and_loads(tmp_path: Path) -> None:
    jobs: dict[str, dict[str, list[str]]] = {}
    for number, (layout, (files, name, spellings)) in enumerate(LAYOUTS.items()):
        root = tmp_path / f"r{number}"
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        place = (root / name).resolve()
        names: list[str | None] = [*spellings.split()]
        if layout not in ONLY_BY_NAME:
            jobs[f"{layout}: ADK"] = {"adk": [str(place.parent), place.name]}
            names.append(None)
        for spelling in names:
            explicit = spelling and spelling.replace("ROOT", str(root))
            jobs[f"{layout}: {spelling or 'nothing'}"] = {"host": [choice(root, explicit), str(root)]}
            if spelling and "/" not in spelling and spelling.endswith(".agent"):
                below = root / "src" if (root / "src").is_dir() else root
                jobs[f"{layout}: AgentEvaluator {spelling}"] = {"module": [str(below), spelling]}
    worker = Path(__file__).with_name("adk_layouts_worker.py")
    done = subprocess.run(
        [str(adk_python()), str(worker)],
        input=json.dumps([*jobs.values()]),
        env={**os.environ, "PYTHONPATH": str(Path(PROGRAM).parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = dict(zip(jobs, json.loads(done.stdout), strict=True))
    assert {name: text for name, text in results.items() if text != "right"} == {}
