"""A tape: the tool calls of one case with their answers, as in CASE.tape.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, FiniteFloat, NonNegativeFloat, NonNegativeInt

from agent_eval.agents.tapes._keys import equal
from agent_eval.core.text import listed
from agent_eval.core.wire import WireModel

SCHEMA_VERSION: Literal["1"] = "1"
NOT_COMPARED = "$"
"""Stands for a value that is another one at each start of the agent or on each machine, and for a secret."""


class ToolHashes(WireModel):
    """What a tool was when its answers were recorded."""

    declaration: str = ""
    """Hash of the declaration that the model sees."""
    source: str = ""
    """Hash of the files of the repository that define the tool and what its code uses; empty if there are none."""
    files: list[str] = Field(default_factory=list)
    """The names of these files, relative to the root; empty if one of them is installed somewhere else."""
    implementation: dict[str, str] = Field(default_factory=dict)
    """The functions and classes behind the tool, and hashes of the values that they hold, by place: `self.url`. What
    their code uses of modules and classes has its full name: `home.settings:URL`. A value `$` is not compared."""
    depends: str = ""
    """Hash of the files that `depends` of `[[tool]]` names; empty without it."""

    def changed_implementation(self, now: Mapping[str, str]) -> str:
        """What is no longer as recorded, in words; "" if nothing is.

        Args:
            now: What `implementation` is today.
        """
        before = self.implementation
        changed = [
            place
            for place in sorted(before.keys() | now.keys())
            if before.get(place) != now.get(place) and NOT_COMPARED not in {before.get(place), now.get(place)}
        ]
        if "" in changed:
            return f"the function or object behind it (it was {before.get('')}, it is {now.get('')})"
        held = [place for place in changed if ":" not in place]
        if held:
            return f"a value that the function or object behind it holds ({listed(held, 3)})"
        return f"something that its code uses ({listed(changed, 3)})" if changed else ""

    def changed_depends(self, now: str) -> str:
        """What is no longer as recorded, in words; "" if nothing is.

        Args:
            now: What `depends` would be today.
        """
        if self.depends == now:
            return ""
        return "a file that it depends on" if self.depends and now else "`depends` of its [[tool]]"


class CallError(WireModel):
    """The exception that the tool raised."""

    type: str
    """Full name of the class; builtins without their module."""
    message: str = ""


class CallActions(WireModel):
    """What the tool asked of ADK."""

    escalate: bool | None = None
    skip_summarization: bool | None = None
    transfer_to_agent: str | None = None


class RecordedCall(WireModel):
    """A call and its answer."""

    tool: str
    agent: str = ""
    """The agent that called it. For information: a call of another agent gets the same answer."""
    args: dict[str, Any] = Field(default_factory=dict)
    occurrence: NonNegativeInt = 0
    """The number of calls of this tool with the same arguments before it in the session."""
    response: Any = None
    """As the tool returned it."""
    state: dict[str, Any] = Field(default_factory=dict)
    """The keys of the session's state that the tool set."""
    actions: CallActions = Field(default_factory=CallActions)
    error: CallError | None = None
    seconds: NonNegativeFloat = 0.0
    """Duration when it was recorded."""
    seen: NonNegativeInt = 1
    """Number of recorded runs with this call."""
    replayable: bool = True
    reason: str | None = None
    """Why it can't be replayed, e.g. `it saves artifacts`."""

    def answers_like(self, other: RecordedCall) -> bool:
        """Whether both calls have the same answer."""
        return equal(self.answer(), other.answer())

    def answer(self) -> dict[str, Any]:
        """What the agent sees of it."""
        return {
            "response": self.response,
            "state": self.state,
            "actions": self.actions.model_dump(exclude_none=True),
            "error": None if self.error is None else self.error.model_dump(),
        }


class Tape(WireModel):
    """The recorded tool calls of one case."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    eval_set_id: str
    eval_id: str
    recorded_at: FiniteFloat
    """Unix time in seconds."""
    runs: NonNegativeInt = 1
    """Number of recorded runs."""
    adk: str = ""
    """The version of google-adk."""
    tools: dict[str, ToolHashes] = Field(default_factory=dict)
    """By name; a tool of the same name that another agent has is `AGENT/NAME`."""
    calls: list[RecordedCall] = Field(default_factory=list)
    """In the order of their first appearance."""
    toolsets: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    """The tools that MCP servers list, in MCP's own form. By the agent, and its number among the agent's toolsets:
    `clerk/1`."""

    @property
    def content_hash(self) -> str:
        """Hash of what replayed agents see. Recording the same answers again does not change it."""
        calls = [
            [call.tool, call.args, call.occurrence, call.replayable, call.answer()]
            for call in sorted(
                self.calls, key=lambda call: (call.tool, call.occurrence, json.dumps(call.args, sort_keys=True))
            )
        ]
        text = json.dumps([calls, self.toolsets] if self.toolsets else calls, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def hashes_of(self, tool: str, agent: str) -> ToolHashes | None:
        """What a tool of an agent was when its answers were recorded; None if it wasn't recorded."""
        return self.tools.get(f"{agent}/{tool}") or self.tools.get(tool)
