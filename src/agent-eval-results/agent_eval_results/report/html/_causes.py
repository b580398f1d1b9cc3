"""What stands above the list: what failing cases have in common, and what the pull request changes in the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval_results import MOST_PLACES, CauseReport, Place
from agent_eval_results.report import phrases
from agent_eval_results.report.html._case import PageCase
from agent_eval_results.report.html._packing import dumped, shown
from agent_eval_results.report.html._source import CaseDetail, Facts
from agent_eval_results.report.views import causes as errors
from agent_eval_results.report.views import reproduce
from agent_eval_scoring.core.invocation import tool_calls
from agent_eval_scoring.core.text import plural

_NAME, _LINE, _COMMAND, _MOST = 500, 2_000, 10_000, 50


class Causes:
    """The causes of a report in the order of the page: shared differences, then errors of several cases."""

    def __init__(self, facts: Facts) -> None:
        """Numbers the causes and the cases that they explain."""
        self._facts = facts
        self._causes = facts.report.causes[:_MOST]
        explained = {case_id for cause in self._causes for case_id in cause.cases}
        stopped = [case for case in facts.report.cases if case.errored or case.failed]
        groups = errors(facts.report, stopped)
        self._errors = [group for group in groups if len(group.cases) > 1 and group.cases[0].case_id not in explained][
            :_MOST
        ]
        self.count = len(self._causes) + len(self._errors)
        self._numbers: dict[str, int] = {}
        self._examples: dict[tuple[str, int], tuple[str, str]] = {}
        members = [cause.cases for cause in self._causes]
        members += [[case.case_id for case in group.cases] for group in self._errors]
        for number, case_ids in enumerate(members):
            for case_id in case_ids:
                self._numbers.setdefault(case_id, number)

    def number(self, case_id: str) -> int | None:
        """The place of the cause that explains a case; None for no cause."""
        return self._numbers.get(case_id)

    def see(self, page_case: PageCase) -> None:
        """Takes the call of an example from the runs of its case, which are read only once."""
        for at, cause in enumerate(self._causes):
            example = cause.example
            if example.case_id != page_case.case.case_id:
                continue
            for run in page_case.runs.head:
                if run.result.run == example.run:
                    turns = run.recording.all_turns if run.recording is not None else ()
                    turn = turns[example.turn] if example.turn < len(turns) else None
                    calls = tool_calls(turn.intermediate_data) if turn is not None else []
                    call = calls[example.call] if example.call is not None and example.call < len(calls) else None
                    text = "" if call is None else f"{call.name}({_arguments(call.args or {})})"
                    self._examples[cause.example.case_id, at] = run.key, shown(text, _LINE)

    def _command(self, case_ids: Sequence[str]) -> str:
        chosen = set(case_ids)
        cases = [case for case in self._facts.report.cases if case.case_id in chosen]
        return shown(reproduce(cases, self._facts.report.options).command, _COMMAND)

    def data(self, detail: CaseDetail) -> list[dict[str, Any]]:
        """The causes as the index has them. Without words of agents and tools, only kinds and names."""
        data = [self._cause(at, cause, detail) for at, cause in enumerate(self._causes)]
        total = len(self._facts.report.cases)
        scored = sum(case.is_judged for case in self._facts.report.cases)
        for group in self._errors:
            others = f"; {scored:,} {'has' if scored == 1 else 'have'} a result" * group.cases[0].errored
            without = f"In {len(group.cases):,} of {plural(total, 'case')}{others}."
            raised = [Place(file=group.file, first=group.line)] if group.file is not None else []
            data.append(
                {
                    **{"title": shown(group.message if detail.words else group.kind, _LINE), "line": ""},
                    **{"evidence": without, "count": len(group.cases)},
                    **{"places": places(raised), "lead": "Raised at" * bool(raised)},
                    **{"hint": shown(group.hint, _LINE) if detail.words else "", "call": "", "now": "", "base": ""},
                    "base_name": "",
                    "command": self._command([case.case_id for case in group.cases]),
                    "example": {"case": shown(group.cases[0].case_id, _LINE), "run": None, "turn": None},
                    "agent": group.by_agent,
                }
            )
        return data

    def _cause(self, at: int, cause: CauseReport, detail: CaseDetail) -> dict[str, Any]:
        branch = self._facts.view.branch
        run, call = self._examples.get((cause.example.case_id, at), (None, ""))
        line = shown(phrases.cause_line(cause), _LINE)
        evidence = phrases.cause_evidence(cause, branch)
        return {
            "title": shown(phrases.cause_sentence(cause, branch), _LINE) if detail.words else line,
            "line": line,
            "evidence": shown(f"{evidence[:1].upper()}{evidence[1:]}.", _LINE),
            "hint": "",
            "count": len(cause.cases),
            "command": self._command(cause.cases),
            "places": places(cause.changed_here),
            "lead": shown(phrases.changed_lead(cause), _LINE),
            "call": call if detail.words else "",
            "now": shown(cause.data.actual, _LINE) if detail.words and call else "",
            "base": shown(cause.data.expected, _LINE) if detail.words and call else "",
            "base_name": "expected" if cause.base is None else branch,
            "example": {"case": shown(cause.example.case_id, _LINE), "run": run, "turn": cause.example.turn + 1},
            "agent": True,
        }


def agent_changes(facts: Facts) -> list[dict[str, Any]]:
    """The differences between the base branch's agent and this one."""
    report = facts.report
    several = len({agent.name for tree in report.agents for agent in tree.agents}) > 1
    changes = [
        {
            "agent": shown(change.agent, _NAME) if several and not change.code.startswith("agent-") else "",
            "text": shown(phrases.agent_change(change), _LINE),
            "places": places(change.places),
        }
        for change in phrases.relevant_changes(report)[: 2 * _MOST]
    ]
    same = phrases.agent_unchanged(report, facts.view.branch)
    return [*changes, {"agent": "", "text": shown(same, _LINE), "places": []}] if same else changes


def places(found: Sequence[Place]) -> list[dict[str, Any]]:
    """Lines of files."""
    return [
        {
            "file": shown(place.file, 1_000),
            "first": place.first,
            "last": place.last if place.last != place.first else None,
            "symbol": shown(phrases.place_name(place), _NAME),
        }
        for place in found[:MOST_PLACES]
    ]


def _arguments(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={dumped(value).decode()}" for name, value in args.items())
