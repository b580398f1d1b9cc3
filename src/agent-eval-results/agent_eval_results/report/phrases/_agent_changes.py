"""What a pull request changes in the agent: facts, and places to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval_results import AgentChange, RunReport
from agent_eval_results.data.coverage import CoverageReport
from agent_eval_results.report.phrases._causes import place_text
from agent_eval_scoring.core.text import listed, plural, shorten

MOST_CHANGES = 6
"""Changes in one line."""
_NAME = 60
"""Characters of a name, or of a value."""
_KINDS = ("model", "instruction", "description", "sub-agents", "callbacks")


def agent_change(change: AgentChange) -> str:
    """A change without its agent: `model a-large to a-small`, `instruction +3 -1 lines`, `tool find (source)`.

    Names and values are the agent's own: untrusted text, which the caller escapes.
    """
    kind, _, what = change.code.partition("-")
    if kind == "tool":
        name = shorten(change.tool, _NAME)
        return f"tool {name} {what}" if what in {"added", "removed"} else f"tool {name} ({what})"
    if kind == "agent":
        return f"agent {shorten(change.agent, _NAME)} {what}"
    if change.added or change.removed:
        lines = [f"+{change.added}" * bool(change.added), f"-{change.removed}" * bool(change.removed)]
        return (
            f"{change.code} {' '.join(filter(None, lines))} {'line' if change.added + change.removed == 1 else 'lines'}"
        )
    if change.base is None and change.head is None:
        return change.code  # a function that makes it
    if change.base == change.head:
        return f"{change.code} {shorten(change.head or '', _NAME)} (source)"
    base, head = (shorten(value or "none", _NAME) for value in (change.base, change.head))
    return f"{change.code} {base} to {head}"


def relevant_changes(report: RunReport) -> list[AgentChange]:
    """The changes of the agents whose cases fail; all changes if no case does."""
    agents = report.agents_by_file
    failing = {agents.get(case.file) for case in report.cases if case.went_wrong}
    return [change for change in report.agent_changes if not failing or change.path in failing]


def agent_changes(report: RunReport, most: int = MOST_CHANGES, *, placed: bool = False) -> str:
    """All changes in one line, with the agent's name where there are several agents; "" if nothing is known to differ.

    E.g. `model a-large to a-small, tool find_devices (source) and 2 more`; `placed`: each with its first place.
    """
    several = sum(len(tree.agents) for tree in report.agents) > 1
    names = [
        f"{shorten(change.agent, _NAME)}: " * (several and not change.code.startswith("agent-"))
        + agent_change(change)
        + "".join(f" at {place_text(place)}" for place in change.places[:placed])
        for change in relevant_changes(report)
    ]
    return listed(names, most)


def agent_unchanged(report: RunReport, base: str) -> str:
    """What is as on the base branch: `Model, instruction and 4 other tools are as on main`; "" without any change.

    Args:
        report: With `agents` and `agent_changes`.
        base: The base branch's name.
    """
    if not report.agent_changes or not report.agents:
        return ""
    codes = {change.code for change in report.agent_changes}
    same = [kind for kind in _KINDS[:2] if kind not in codes]
    changed = {(change.path, change.agent, change.tool) for change in report.agent_changes if change.tool}
    tools = {
        (tree.agent, agent.name, tool.name) for tree in report.agents for agent in tree.agents for tool in agent.tools
    }
    if left := len(tools - changed):
        same.append(plural(left, "other tool" if tools & changed else "tool"))
    if not same:
        return ""
    shown = same[0] if len(same) == 1 else f"{', '.join(same[:-1])} and {same[-1]}"
    verb = "is" if len(same) == 1 and left <= 1 else "are"
    return f"{shown[0].upper()}{shown[1:]} {verb} as on {base}"


def _uncovered(report: RunReport) -> Iterator[tuple[CoverageReport, Sequence[str], Sequence[str]]]:
    """By agent, the tools and the agents that no case reaches. Only a whole run says so, in which each case had a run
    that ended.
    """
    selected = report.selection is not None and report.selection.targets
    ended = all(any(run.error is None and run.turns for run in case.runs) for case in report.cases)
    if selected or report.caution is not None or not ended:
        return
    for each in report.coverage:
        tools, agents = (
            [name for name in names if name not in seen]
            for names, seen in ((each.tools, each.called), (each.agents, each.reached))
        )
        if tools or agents:
            yield each, tools, agents


def coverage_lines(report: RunReport) -> Iterator[str]:
    """What no case reaches, a line for each agent: `3 of 14 tools are called by no case: refund, cancel, ship`."""
    for each, tools, agents in _uncovered(report):
        said = [
            f"{len(names):,} of {plural(total, kind)} {'is' if len(names) == 1 else 'are'} {verb} by no case: "
            + listed([shorten(name, _NAME) for name in names], MOST_CHANGES)
            for names, total, kind, verb in (
                (tools, len(each.tools), "tool", "called"),
                (agents, len(each.agents), "agent", "reached"),
            )
            if names
        ]
        yield f"{each.agent}: " * (len(report.coverage) > 1) + "; ".join(said)


def uncovered_changes(report: RunReport) -> Iterator[str]:
    """The tools and agents that the pull request adds and no case reaches."""
    missing = {each.agent: {"tool-added": tools, "agent-added": agents} for each, tools, agents in _uncovered(report)}
    for change in report.agent_changes:
        name = change.tool or change.agent
        if name in missing.get(change.path, {}).get(change.code, ()):
            what = "tool" if change.tool else "agent"
            verb = "calls" if change.tool else "reaches"
            yield f"The {what} {shorten(name, _NAME)} is new, and no case {verb} it"
