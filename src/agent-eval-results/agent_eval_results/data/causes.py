"""What failing cases have in common, and what a pull request changes in the agent: parts of `results.json`.

Both are facts. A cause says what the failing runs share and passing runs lack; a change is a place to look at. That the
one led to the other is never claimed. All values come from agents and tools and are untrusted.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from agent_eval_scoring.core.wire import ReportModel, WireModel

CauseCode = Literal[
    "tool-error",
    "tool-empty",
    "tool-response",
    "call-argument",
    "call-missing",
    "call-extra",
    "sub-agent",
    "exception",
    "deadline",
    "toolset",
    "answer",
    "answer-change",
    "criterion",
]
AgentChangeCode = Literal[
    "model",
    "instruction",
    "description",
    "sub-agents",
    "callbacks",
    "tool-added",
    "tool-removed",
    "tool-declaration",
    "tool-source",
    "tool-data",
    "plugins",
    "output-schema",
    "variables",
    "agent-added",
    "agent-removed",
]
MOST_PLACES = 10
MOST_PASSING = 2_000
"""Passing cases that are compared, spread over the suite."""


class Place(WireModel):
    """Lines of a file of the repository."""

    file: str
    """Relative to the root, with forward slashes."""
    first: PositiveInt | None = None
    """1-based; None: the whole file."""
    last: PositiveInt | None = None
    """The last line, included."""
    symbol: str = ""
    """The function, class or variable there, e.g. `find_devices`; what was removed; the new name of a file."""
    gone: Literal["", "removed", "renamed"] = ""
    """Whether what was there is removed: `first` is the line before it. Of a file: whether it is removed or renamed."""


class CauseData(WireModel):
    """What a cause is about. A code has the fields that its phrase needs; values are JSON, at most 2,000 characters."""

    agent: str = ""
    """The agent that made the call, handed over, answered or raised."""
    tool: str = ""
    names: list[str] = Field(default_factory=list)
    """The arguments, or top-level keys of a response, that differ from the base's (or the expected) ones."""
    renamed: bool = False
    """Whether an argument's name, not its value, differs."""
    actual: str | None = None
    """What the head's example has: a response, an argument's value, an error, a sub-agent, an answer. Where one name
    differs it is that name's value."""
    expected: str | None = None
    """What it should be: the base's run has it, or the eval case if there is none."""
    exception: str = ""
    """The type of an exception, e.g. `KeyError`."""
    place: Place | None = None
    """Where an exception was raised."""
    seconds: float | None = None
    """The time limit of a turn that ran out of time."""
    metric: str = ""
    rubric: str = ""
    """The id of a rubric."""
    gone: list[str] = Field(default_factory=list)
    """Words that answers no longer have; names of arguments that calls no longer have."""
    new: list[str] = Field(default_factory=list)
    """Words that answers have only now; names of arguments likewise."""


class CauseCounts(WireModel):
    """In how many runs, or cases, something was seen."""

    total: NonNegativeInt
    having: NonNegativeInt
    """Those that have it."""


class CauseExample(WireModel):
    """The place in one run where it is seen first."""

    case_id: str
    run: NonNegativeInt
    """0-based, as in `recordings.jsonl.gz`; extra runs have the numbers after the others."""
    turn: NonNegativeInt
    """0-based."""
    call: NonNegativeInt | None = None
    """0-based number of the tool call in its turn; None: the answer, or the whole turn."""


class CauseSymptom(WireModel):
    """What else a changed line does, beside its cause."""

    code: CauseCode
    data: CauseData


class CauseReport(ReportModel):
    """A first difference that several failing cases share, and hardly any passing case has."""

    code: CauseCode
    data: CauseData
    message: str = ""
    """In English; "" until the report is written."""
    cases: list[str]
    """Ids of the failing cases that it explains, in the order of the report."""
    failing: CauseCounts
    """All failing cases, and those of them that it explains."""
    passing: CauseCounts
    """The passing cases that were compared, all or `MOST_PASSING`, and those of them that have it."""
    base: CauseCounts | None = None
    """The base branch's runs of these cases; None if no recording of them is available."""
    repeated: bool = False
    """Whether every one of the cases ran more than once."""
    few: bool = False
    """Whether so few cases share it that only the evidence for `changed_here` tells it from chance."""
    example: CauseExample
    changed_here: list[Place] = Field(default_factory=list)
    """Lines of the agent's code that it depends on and the pull request changes: a place to look at."""
    one_of: bool = False
    """Whether nothing says which of `changed_here` it is, or, of one place, that no chance made a single run differ."""
    symptoms: list[CauseSymptom] = Field(default_factory=list)
    """Others that depend on the same changed line; `cases` and `failing` count theirs, too."""
    called_before: bool = False
    """Whether `changed_here` names tools that only ran earlier in all of these cases."""

    @property
    def by_response(self) -> bool:
        """Whether it is what a tool returned."""
        return self.code in {"tool-error", "tool-empty", "tool-response"}


class AgentChange(ReportModel):
    """One difference between the agent of the base branch and that of the head."""

    code: AgentChangeCode
    path: str
    """Of the root agent, as in `files`."""
    agent: str
    """Name of the agent, or of the sub-agent."""
    message: str = ""
    """In English; "" until the report is written."""
    tool: str = ""
    base: str | None = None
    """The old value, e.g. a model's name or the sub-agents' names; None for texts, which have `added` and `removed`."""
    head: str | None = None
    added: NonNegativeInt = 0
    """Lines."""
    removed: NonNegativeInt = 0
    places: list[Place] = Field(default_factory=list)
    """In the head's files; none for what is gone."""


class ToolFacts(WireModel):
    """A tool, as the agent declares it."""

    name: str
    place: Place | None = None
    """None: not in a file of the repository."""
    source: str = ""
    """Hash of its source code, with the functions and constants of the repository that it uses; "" if unknown."""
    declaration: str = ""
    """Hash of what the model is shown of it."""


class AgentFacts(WireModel):
    """An agent, or a sub-agent, as it was loaded."""

    name: str
    model: str = ""
    instruction: str = ""
    """The template, or the qualified name of the function that makes it; at most 20,000 characters."""
    description: str = ""
    sub_agents: list[str] = Field(default_factory=list)
    callbacks: dict[str, str] = Field(default_factory=dict)
    """Hash of the source by its kind, e.g. `before_model_callback`; `instruction` if a function makes it."""
    tools: list[ToolFacts] = Field(default_factory=list)
    places: list[Place] = Field(default_factory=list)
    """Where it, its instruction and its callbacks are defined."""


class AgentTree(WireModel):
    """The agents that answered some eval files."""

    agent: str
    """Its path, as in `files`."""
    adk: str = ""
    """The version of google-adk, with which declarations of tools change."""
    agents: list[AgentFacts] = Field(default_factory=list)
    """The root first."""
