"""Which tools and agents the cases of a run reach, of those that are declared."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from pydantic import Field

from agent_eval_results.data.causes import AgentTree
from agent_eval_scoring.core.invocation import (
    Invocation,
    InvocationEvents,
    contents_of,
    declared_tools,
    tool_calls,
)
from agent_eval_scoring.core.recording import Recording
from agent_eval_scoring.core.wire import ReportModel

_OF_ADK = frozenset({"transfer_to_agent", "set_model_response", "finish_task"})
"""Tools that google-adk adds itself. Those of its own requests (`adk_request_...`) are none of an agent's either."""
_MOST = 1_000
"""Names of a kind and an agent."""


class CoverageReport(ReportModel):
    """What an agent has, and what its cases reach. In a part of a run: those of the part."""

    agent: str
    """Its path, as in `files`."""
    tools: list[str] = Field(default_factory=list)
    """That its models were given, and functions of its agents. Those of a toolset are unknown if no case reaches it."""
    called: list[str] = Field(default_factory=list)
    """The tools that were called, or that a case expects to be."""
    agents: list[str] = Field(default_factory=list)
    """Its agents with a model."""
    reached: list[str] = Field(default_factory=list)
    """Those that took part in a run."""


class Reach:
    """What the runs of an agent show."""

    def __init__(self) -> None:
        """Of no run yet."""
        self.tools: set[str] = set()
        self.called: set[str] = set()
        self.agents: set[str] = set()
        self.is_blind = False
        """Whether calls were not visible in a run."""

    def note(self, recording: Recording, expected: Iterable[Invocation] = ()) -> None:
        """Adds a run of a case with these expected turns."""
        self.is_blind = self.is_blind or not recording.calls_visible
        for turn in expected:  # A case that fails, since its call is missing, is there all the same.
            self.called.update(call.name or "" for call in tool_calls(turn.intermediate_data))
        for turn in recording.all_turns:
            spans = turn.spans or ()
            self.tools.update(declared_tools(turn.app_details))
            self.called.update(call.name or "" for call in tool_calls(turn.intermediate_data))
            self.called.update(span.name for span in spans if span.kind == "tool")
            data = turn.intermediate_data  # An event of the final answer has no content.
            events = (
                data.invocation_events if isinstance(data, InvocationEvents) else map(itemgetter(0), contents_of(data))
            )
            self.agents.update(event.author for event in events)
            self.agents.update(span.agent for span in spans)
            self.agents.update(turn.app_details.agent_details if turn.app_details is not None else ())

    def report(self, agent: str, tree: AgentTree | None) -> CoverageReport | None:
        """What is known of an agent; None if nothing is.

        Args:
            agent: Its path.
            tree: How it was loaded; None if that is not known.
        """
        parts = {part.name: part for part in (tree.agents if tree is not None else ())}
        # Of the agent of an AgentTool that runs without plugins, nothing but the call is seen.
        hidden = [name for name in parts if name in self.called and name not in self.agents]
        for name in hidden:
            hidden += [child for child in parts[name].sub_agents if child in parts and child not in hidden]
        models = {name: part for name, part in parts.items() if (part.model or part.instruction) and name not in hidden}
        functions = {tool.name for part in models.values() for tool in part.tools if tool.declaration}
        tools = {name for name in self.tools | functions if name not in _OF_ADK and not name.startswith("adk_request_")}
        tools -= parts.keys()
        if self.is_blind or not (tools or models):
            return None
        return CoverageReport(
            agent=agent,
            tools=sorted(tools)[:_MOST],
            called=sorted(tools & self.called)[:_MOST],
            agents=sorted(models)[:_MOST],
            reached=sorted(models.keys() & (self.agents | self.called))[:_MOST],
        )


def joined(reports: Iterable[CoverageReport]) -> list[CoverageReport]:
    """One report per agent."""
    found: dict[str, CoverageReport] = {}
    for report in reports:
        before = found.setdefault(report.agent, CoverageReport(agent=report.agent))
        for name in ("tools", "called", "agents", "reached"):
            setattr(before, name, sorted({*getattr(before, name), *getattr(report, name)})[:_MOST])
    return list(found.values())
