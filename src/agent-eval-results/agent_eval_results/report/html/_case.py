"""A case as a block of the page holds it, and its row in the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from agent_eval_results import CHANGED_FACTS, CaseComparison, CaseHistory, CaseReport, HistoryReport
from agent_eval_results.data.origin import CaseWord
from agent_eval_results.data.trend import flakiness
from agent_eval_results.report.html._metrics import base_scores, case_metrics, reason_of
from agent_eval_results.report.html._packing import number, shown
from agent_eval_results.report.html._runs import CaseRuns, base_runs, run_facts
from agent_eval_results.report.html._source import CaseDetail, Facts
from agent_eval_results.report.html._turns import excerpt_expected, expected_turns, turns_of
from agent_eval_results.report.phrases import changed_place, sides
from agent_eval_results.report.views import Finding, Links, answered_notes, findings, low_turns, reproduce, shown_word
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, tool_calls
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.models import EvalCase

_NAME, _LINE, _LOG = 500, 2_000, 20_000
_USER = 2_000
"""Characters of the user's messages in the index, for search."""


_WORDS: Mapping[str, str] = {"broken": "regression", "suspicious": "suspected regression"}
_WORDS_OF: Mapping[str, Mapping[str, str]] = {"regression": {**_WORDS, "suspicious": "regression"}}
"""By standing: what blocks by itself, e.g. by an error, is a regression for the headline and the list, too."""
_CHANGES: Mapping[str, str] = {
    "changed": "The case itself differs from {}, so its scores say nothing about the agent.",
    "added": "The case does not exist on {}.",
}


def page_word(word: CaseWord, words: Mapping[str, str] = _WORDS) -> str:
    """A word of the statistics as the page shows it and finds it."""
    return words.get(word, word)


class PageCase:
    """A case with everything that is known about it."""

    def __init__(self, facts: Facts, case: CaseReport, detail: CaseDetail) -> None:
        """Reads the eval case and, as far as the detail goes, the recordings."""
        self.facts = facts
        self.case = case
        self.detail = detail
        self.eval_case: EvalCase | None = facts.source.cases(case.case_id)
        self.expected: Sequence[Invocation] | None = self.eval_case.conversation if self.eval_case is not None else None
        """The turns of the eval case; None if it is unknown or its user is simulated."""
        self.bases = base_scores(facts, case)
        """The score on the base branch by metric."""
        # Reading costs more than all else. Without the eval case only the recordings have what the user said.
        is_read = detail.conversations or (detail.words and self.eval_case is None)
        self.runs = CaseRuns(facts, case, is_read=is_read, is_base_read=is_read and detail.base)

    @cached_property
    def listed(self) -> Sequence[Finding]:
        """What keeps it from passing."""
        return findings(self.case)

    @cached_property
    def low(self) -> Sequence[str]:
        """Its turns below a threshold, although it passes."""
        return low_turns(self.case) if self.case.passed else []

    def block(self) -> dict[str, Any]:
        """The case as a block holds it."""
        detail = self.detail
        return {
            "id": shown(self.case.case_id, 2_000),
            "reason": reason_of(self.case.reason, detail),
            "findings": self._findings(detail),
            "notes": self._notes(detail),
            "changed": self._changed(detail),
            "decision": self._decision(detail),
            "counts": self._counts(),
            "expected": self._expected(detail),
            "runs": list(self.runs.shown(self.expected, detail)),
            "base_note": self._base_note(detail),
            "metrics": case_metrics(self.facts, self.case, self.bases, detail),
            "history": self._history(),
            "command": shown(reproduce([self.case], self.facts.report.options).command, _LINE),
        }

    def tools(self) -> list[str]:
        """The names of the tools that were expected or called, sorted."""
        expected = {
            call.name for turn in self.expected or () for call in tool_calls(turn.intermediate_data) if call.name
        }
        return sorted(shown(name, _NAME) for name in expected | self.runs.tools())

    def user(self) -> str:
        """All messages of the user, joined by newlines, for search."""
        if self.expected is not None:
            text = "\n".join(text_of(turn.user_content) for turn in self.expected)
        elif not (text := self.runs.user()) and self.case.conversation is not None:
            text = "\n".join(turn.user for turn in self.case.conversation.turns)
        return shown(text[:_USER], _USER)

    def _findings(self, detail: CaseDetail) -> list[dict[str, Any]]:
        if not detail.words:
            return []
        return [
            {
                "summary": shown(finding.summary, _LINE),
                "lines": [shown(line, _LINE) for line in finding.lines],
                "log": shown(finding.log, _LOG),
            }
            for finding in self.listed
        ]

    def _changed(self, detail: CaseDetail) -> list[dict[str, Any]]:
        """What it answers or does otherwise than on the base branch."""
        changed = self.facts.view.answers.get(self.case.case_id)
        return [
            {
                "turn": value.turn,
                "kind": value.kind,
                "place": shown(changed_place(value), _NAME),
                **dict(zip(("before", "after"), (shown(side, _NAME) for side in sides(value)), strict=True)),
            }
            for value in (changed.values if changed is not None and detail.words else ())
        ]

    def _notes(self, detail: CaseDetail) -> list[str]:
        """The tags of the case in sentences."""
        case, branch = self.case, self.facts.view.branch
        notes = []
        change = self.facts.change(case.case_id)
        notes += [f"{note}." for note in answered_notes(case)]
        if case.is_quarantined:
            reason = case.reason if detail.words else None  # It may quote why the case failed.
            notes.append(reason.message if reason else "The case is in quarantine: it can't fail the gate.")
        if change is not None and change.renamed_from is not None:
            notes.append(f"On {branch} the case is called {change.renamed_from}.")
        if change is not None and (other := _CHANGES.get(change.change)) is not None:
            notes.append(other.format(branch))
        if change is not None and change.note:
            notes.append(change.note.message)
        notes += [f"{line[0].upper()}{line[1:]}. The mean over the turns decides." for line in self.low]
        if self.eval_case is not None and self.expected is None:
            notes.append("A simulated user leads the conversation: nothing is expected turn by turn.")
        return [shown(note, _LINE) for note in notes]

    def _counts(self) -> str:
        """How many runs passed on both sides, if no decision about the case says it; else ""."""
        runs = self.facts.view.runs.get(self.case.case_id)
        if runs is None or not runs.base_runs or self.facts.view.decisions.get(self.case.case_id):
            return ""
        here = f"{runs.head_passed:,} of {plural(runs.head_runs, 'run')} passed"
        return shown(f"{here}, on {self.facts.view.branch} {runs.base_passed:,} of {runs.base_runs:,}", _LINE)

    def _decision(self, detail: CaseDetail) -> list[dict[str, Any]]:
        decision = self.facts.report.decision
        if decision is None:
            return []
        words = _WORDS_OF.get(self.facts.view.standing(self.case), _WORDS)
        return [
            {
                "metric": shown(item.metric, _NAME),
                "word": page_word(shown_word(item, decision), words),
                # That of changed answers has their values.
                "evidence": shown(item.evidence, _LINE) if detail.words or item.metric != CHANGED_FACTS else "",
                "would_decide": shown(item.would_decide, _LINE) or None,
                # A larger one is no evidence of what the word says.
                "p_value": number(item.p_value) if decision.is_beyond_chance(item) else None,
            }
            for item in self.facts.view.decisions.get(self.case.case_id, ())
        ]

    def _expected(self, detail: CaseDetail) -> list[dict[str, Any]] | None:
        if not detail.conversations:
            return None
        if self.expected is not None:
            return expected_turns(self.expected, detail)
        recorded = any(run.recording is not None for run in self.runs.head)
        # The excerpt has only what was not met, so it is shown only where nothing else is left of the case.
        if self.eval_case is None and self.case.conversation is not None and not recorded:
            return excerpt_expected(self.case.conversation)
        return None

    def _base_note(self, detail: CaseDetail) -> str | None:
        if self.facts.report.comparison is None or not detail.conversations:
            return None
        branch = self.facts.view.branch
        if not detail.base:
            return f"The side of {branch} is left out; base/recordings.jsonl.gz has it."
        if any(run.recording is not None for run in self.runs.base):
            return None
        change = self.facts.change(self.case.case_id)
        # No run there is what a new case has; it is no loss that has to be explained.
        if change is not None and change.is_new:
            return _CHANGES["added"].format(branch)
        return shown(self.facts.source.base_note, _LINE) or f"No run of {branch} is recorded for this case."

    def _history(self) -> dict[str, Any] | None:
        case, history = self.facts.history_of(self.case), self.facts.history
        return None if case is None or history is None else history_of(case, history, self.facts.source.links)


class RemovedCase:
    """A case that only the base branch has, with what was recorded there."""

    def __init__(self, facts: Facts, change: CaseComparison) -> None:
        """Reads the recordings of the base branch."""
        self._facts = facts
        self._change = change
        self._runs = list(base_runs(facts, change.case_id, is_gone=True))

    def block(self, detail: CaseDetail) -> dict[str, Any] | None:
        """The case as a block holds it; None if nothing is recorded of it or may be shown."""
        recorded = [run for run in self._runs if run.recording is not None]
        if not recorded or not detail.conversations or not detail.base:
            return None
        branch = self._facts.view.branch
        return {
            "id": shown(self._facts.removed_id(self._change.case_id), 2_000),
            "reason": None,
            "findings": [],
            "changed": [],
            "notes": [f"The case exists on {branch} only: this is what happened there."],
            "decision": [],
            "counts": "",
            "expected": None,
            "runs": [
                {
                    **run_facts(run, branch, detail),
                    "turns": turns_of(run.recording.all_turns, None, detail),
                    "left_out": None,
                }
                for run in recorded
                if run.recording is not None
            ],
            "base_note": None,
            "metrics": [],
            "history": None,
            "command": "",
        }


def history_of(case: CaseHistory, history: HistoryReport, links: Links) -> dict[str, Any]:
    """The last runs of a case on the base branch, oldest first."""
    sources = [history.records[int(number_)] for number_ in case.records.split()]
    return {
        "outcomes": case.outcomes,
        "records": [
            {"commit": shown(record.commit, 100), "time": record.recorded_at, "url": links.own(record.run_url)}
            for record in sources
        ],
        "scores": {
            shown(history.metrics[int(index)].name, _NAME): [
                None if score == "-" else float(score) for score in column.split()
            ]
            for index, column in case.scores.items()
        },
        "sentence": _history_sentence(case, history),
    }


def _history_sentence(case: CaseHistory, history: HistoryReport) -> str:
    """E.g. `failed 4 of 10 runs since 5f0c1d2e`; "" if it never failed."""
    rate = flakiness(history, case)
    if not rate.failures:
        return ""
    since = f" since {shown(rate.since.commit[:8], 8)}" if rate.since is not None and rate.since.commit else ""
    return f"failed {rate.failures} of {plural(rate.runs, 'run')}{since}"
