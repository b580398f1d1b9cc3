"""Ways in which a run can evaluate nothing: each is prepared in a repository, and run as a user runs it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fake_gemini import FakeGemini, Fault
from gate_runs import Done, Repository, eval_set
from judged_gate import KEY, Judge

ECHO = '''
"""Repeats the message of the user, which is what its eval file expects."""

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Bot(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Bot(name="bot")
'''
IN_A_TURN = "        text = ctx.user_content.parts[0].text\n"
GEMINI = """
from google.adk.agents.llm_agent import LlmAgent

root_agent = LlmAgent(name="bot", model="gemini-2.5-flash", instruction="Repeat what you are told.")
"""
CASES = {"lamp_on": "Switch the lamp on.", "lamp_off": "Switch the lamp off."}
EVALS, CONFIG = "evals/bot.evalset.json", "evals/test_config.json"
QUARANTINE = f"""
max-quarantined = 1.0

[[quarantine]]
case = "{EVALS}"
reason = "the fixture drifts, #123"
owner = "@alice"
expires = {datetime.now(UTC).date() + timedelta(days=90)}
"""


def suite(root: Path) -> Repository:
    """A repository with a bot that passes all of its cases."""
    repository = Repository(root=root)
    repository.write({"bot/__init__.py": "from . import agent\n", "bot/agent.py": ECHO})
    repository.evals(EVALS, CASES)
    return repository


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One way."""

    name: str
    files: Mapping[str, str | Mapping[str, Any] | None] = field(default_factory=dict)
    """What is written before the run; None removes a file."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    python: bool = True
    closed: bool = False
    """Whether nobody may read the agent's directory."""

    def run(self, repository: Repository) -> Done:
        """Runs the gate with it, in a new interpreter only where root's right to read everything is given up."""
        for name, content in self.files.items():
            if content is None:
                (repository.root / name).unlink()
            else:
                repository.write({name: content})
        options: dict[str, Any] = {"preexec_fn": _give_up_reading_everything} if self.closed else {}
        (repository.root / "bot").chmod(0 if self.closed else 0o755)
        no_keys = dict.fromkeys(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "")
        try:
            with FakeGemini(lambda _: Fault(kind=500)) as server:
                environment = {
                    name: value.format(place=server.url.removeprefix("http:"))
                    for name, value in {**no_keys, **self.environment}.items()
                }
                return repository.gate("run", *self.arguments, python=self.python, environment=environment, **options)
        finally:
            (repository.root / "bot").chmod(0o755)

    @property
    def judged(self) -> bool:
        """Whether a judge scores the cases, and nothing else."""
        return self.files.get(CONFIG) is JUDGED


def _give_up_reading_everything() -> None:
    """Makes root a user who must be allowed to read a file. To be called in the child, before it starts a program."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None).prctl
        for capability in _READ_EVERYTHING:
            prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


_PR_CAPBSET_DROP, _READ_EVERYTHING = 24, (1, 2)
"""linux/prctl.h, linux/capability.h: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
JUDGED = {"criteria": {"final_response_match_v2": {"threshold": 0.5, "judge_model_options": {"num_samples": 1}}}}


def healthy_run(repository: Repository, *, judged: bool) -> Done:
    """The base branch's run: the agent passes all cases."""
    if not judged:
        return repository.gate("run")
    repository.write({CONFIG: JUDGED})
    with FakeGemini(Judge()) as server:
        key = {"AGENT_EVAL_JUDGE_API_KEY": KEY}
        return repository.gate("run", "--judge-base-url", server.url, environment=key)


_GEMINI = {"bot/agent.py": GEMINI}
_TROUBLES: Mapping[str, Mapping[str, Any]] = {
    "syntax error": {"files": {"bot/agent.py": "def broken(:\n"}},
    "unreadable directory": {"closed": True},
    "wrong interpreter": {"arguments": ("--agent-python", "nowhere/bin/python"), "python": False},
    "all filtered": {"arguments": ("--exclude", "evals/")},
    "no files": {"files": {EVALS: None}},
    "recording missing": {"arguments": ("--agent", "recorded:nowhere.json"), "python": False},
    "no key": {"files": _GEMINI, "environment": {"GOOGLE_GEMINI_BASE_URL": "http:{place}"}},
    "no TLS": {
        "files": _GEMINI,
        "arguments": ("--turn-timeout", "6"),  # for retries
        "environment": {"GOOGLE_GEMINI_BASE_URL": "https:{place}", "GOOGLE_API_KEY": "no-key"},
    },
    "all quarantined": {"files": {"agent-eval.toml": QUARANTINE}},
    "none blocks": {"files": {"agent-eval.toml": "[[policy]]\nblocking = false\n"}},
    "every threshold 0": {"files": {CONFIG: {"criteria": {"response_match_score": 0}}}},
    "criteria withheld": {"files": {CONFIG: JUDGED}, "arguments": ("--without-keys", "deterministic-only")},
    "recording without these cases": {
        "files": {"answers.json": eval_set("answers", {"other": [("Hello.", "Hello.")]})},
        "arguments": ("--agent", "recorded:answers.json"),
        "python": False,
    },
}
TROUBLES = [Trouble(name=name, **facts) for name, facts in _TROUBLES.items()]
"""Those of tests/crossings are not here: an agent that raises, hangs or dies, and a provider that is down."""
