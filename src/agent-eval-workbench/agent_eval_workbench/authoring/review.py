"""The review on a terminal: one case after the other, one key for each decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_eval_results.report.views import visible
from agent_eval_scoring.core.invocation import tool_calls
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import without_commands
from agent_eval_scoring.evalset.json import PatchError
from agent_eval_workbench.authoring.acceptance import Decisions, Options, propose_for
from agent_eval_workbench.authoring.choosing import call_key
from agent_eval_workbench.authoring.expectation import Field
from agent_eval_workbench.authoring.proposals import Proposal, rescored, with_value
from agent_eval_workbench.authoring.prospects import CaseRefused, Prospect
from agent_eval_workbench.authoring.review_text import body, header, painter, safe, shared_cause, tool_trouble
from agent_eval_workbench.authoring.terminal import Edited, EditorFailed, Terminal
from agent_eval_workbench.authoring.writing import case_text, unified

_HELP = """\
  a, y       accept the case             A   accept it and all that remain with the same kind of change
  c          accept only the calls       t   accept only the texts
  s, Space   skip the case               S   skip it and all that remain
  x          skip all with its cause     b   go back to the case before
  r          take the next run           u   undo the last decision
  m          take the calls that all runs made
  e          edit the new value          d   whole diff of the case
  i          reason, scores, votes       q   stop; what was accepted is written
  Ctrl-C     stop; nothing is written
"""
_PROMPT = "accept? [a yes, s skip, e edit, d diff, i why, u undo, q stop, ? all keys] "
_NOTHING = frozenset({"\r", "\n", "\x1b"})
"""Keys that do nothing: Enter, pressed by habit, and keys without a character."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The editor and the details that a review needs."""

    edit: Callable[[str, str], Edited | None]
    """The user's editor: text of a JSON value, name."""
    details: Callable[[Prospect], str]
    """The reason of a case's failure, its scores and votes."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """The decisions so far."""

    place: int = 0
    """The index of the case to ask about."""
    accepted: Mapping[int, Proposal] = field(default_factory=dict)
    """By the index of the case."""
    alike: frozenset[str] = frozenset()
    """Kinds of changes that are accepted without a question."""
    skipped: frozenset[int] = frozenset()
    """Cases that are skipped without a question."""

    def after(self, proposal: Proposal | None = None) -> _State:
        """The state after a decision on the case: a proposal that is accepted, or None if it is skipped."""
        accepted = {place: item for place, item in self.accepted.items() if place != self.place}
        accepted |= {} if proposal is None else {self.place: proposal}
        return replace(self, place=self.place + 1, accepted=accepted)


@dataclass(kw_only=True)
class Review:
    """A review of all cases with something to accept."""

    prospects: Sequence[Prospect]
    options: Options
    terminal: Terminal
    tools: Tools
    _state: _State = field(default_factory=_State)
    _past: list[_State] = field(default_factory=list)
    """States in which the user has decided, the oldest first."""
    _asked: list[int] = field(default_factory=list)
    """Indices of the cases that the user was asked about, in order."""
    _refusals: dict[int, Problem] = field(default_factory=dict)
    """By the index of the case."""

    def run(self) -> Decisions:
        """Asks about each case until the last one, or until the user stops.

        Raises:
            KeyboardInterrupt: Ctrl-C. Nothing must be written then.
        """
        while self._state.place < len(self.prospects):
            place = self._state.place
            item = self.prospects[place]
            if place in self._state.skipped:
                self._state = self._state.after()
                continue
            try:
                # One after the other, when its turn comes: of 1,000 cases a reviewer may look at ten.
                proposal = asyncio.run(propose_for(item, self.options))
            except CaseRefused as refusal:
                self._refuse(place, refusal)
                continue
            # Only if it holds: one that does not is a question, whatever kind of change it is.
            if proposal.holds and kind(proposal) in self._state.alike:
                self._state = self._state.after(proposal)
                self._line(f"accepted {safe(item.report.case_id)}: the same kind of change")
                continue
            if not self._ask(proposal):
                break
        accepted = [self._state.accepted[place] for place in sorted(self._state.accepted)]
        return Decisions(accepted=accepted, refusals=[*self._refusals.values()])

    def _ask(self, proposal: Proposal) -> bool:
        """Asks about one case. Returns whether the review goes on."""
        place = self._state.place
        self._asked = [*(asked for asked in self._asked if asked < place), place]
        self._show(proposal)
        while True:
            key = self.terminal.read_key(_PROMPT)
            self.terminal.write(f"{safe(key)}\n" if key.isprintable() else "\n")
            # "" is the end of the input, e.g. a closed terminal.
            if key in {"S", "q", ""}:
                return False
            if key in {"b", "u"}:
                if self._return(key):
                    return True
                continue
            decided = self._decided(proposal, key)
            if decided is not None:
                # States are immutable, so that undoing is going back to one.
                self._past.append(self._state)
                self._state = decided
                return True
            changed = self._changed(proposal, key)
            if changed is not None:
                proposal = changed
                self._show(proposal)

    def _return(self, key: str) -> bool:
        """Goes back to the case before (`b`), or undoes the last decision (`u`). Returns whether it can."""
        if key == "b" and len(self._asked) > 1:
            # Every case is asked about from there on, also those that were decided together with others.
            self._state = replace(self._state, place=self._asked[-2], alike=frozenset(), skipped=frozenset())
            return True
        if key == "u" and self._past:
            self._state = self._past.pop()
            return True
        self._line("This is the first case." if key == "b" else "There is nothing to undo.")
        return False

    def _decided(self, proposal: Proposal, key: str) -> _State | None:
        """The state after a key that ends the question; None for another key."""
        if key in {"a", "y"}:
            return self._state.after(proposal)
        if key == "A":
            return replace(self._state.after(proposal), alike=self._state.alike | {kind(proposal)})
        if key in {"s", " "}:
            return self._state.after()
        if key == "x":
            return replace(self._state.after(), skipped=self._state.skipped | {*self._with_cause_of(proposal.prospect)})
        narrowed = self._narrowed(proposal, key) if key in {"c", "t"} else None
        return None if narrowed is None else self._state.after(narrowed)

    def _with_cause_of(self, item: Prospect) -> list[int]:
        """The indices of the cases with the cause of a case; empty if it has none."""
        alike = (place for place, other in enumerate(self.prospects) if other.cause is item.cause)
        return [] if item.cause is None else list(alike)

    def _changed(self, proposal: Proposal, key: str) -> Proposal | None:
        """Handles a key that does not end the question: returns another proposal, or prints a text."""
        item = proposal.prospect
        if key == "r":
            return self._next_run(proposal)
        if key == "m":
            # Of the run that is shown, so that its texts stay the same.
            return self._proposed(item, replace(self.options, calls_from="common", run=proposal.run.run + 1))
        if key == "e":
            return self._edited(proposal)
        if key == "d":
            self._diff(proposal)
        elif key == "i":
            self.terminal.write(self.tools.details(item))
        elif key not in {*_NOTHING, "c", "t"}:
            self.terminal.write(_HELP)
        return None

    def _narrowed(self, proposal: Proposal, key: str) -> Proposal | None:
        fields: tuple[Field, ...] = ("calls",) if key == "c" else ("final", "intermediate")
        chosen = [name for name in proposal.fields if name in fields]
        if not chosen:
            self._line(f"There are no {'calls' if key == 'c' else 'texts'} to accept.")
            return None
        if len(chosen) == len(proposal.fields):
            return proposal
        if proposal.edited:
            self._line("What you have edited is accepted as a whole: press a.")
            return None
        options = replace(self.options, run=proposal.run.run + 1, calls_from=proposal.calls_from)
        return self._proposed(proposal.prospect, options, chosen)

    def _next_run(self, proposal: Proposal) -> Proposal | None:
        runs = proposal.prospect.runs
        if len(runs) == 1:
            self._line("There is one complete run.")
            return None
        start = runs.index(proposal.run)
        # Past runs that can't be accepted, e.g. because nothing would change.
        for step in range(1, len(runs)):
            run = runs[(start + step) % len(runs)].run + 1
            changed = self._proposed(proposal.prospect, replace(self.options, run=run, calls_from="run"))
            if changed is not None:
                return changed
        return None

    def _proposed(self, item: Prospect, options: Options, fields: Sequence[Field] = ()) -> Proposal | None:
        try:
            return asyncio.run(propose_for(item, options, fields=fields))
        except CaseRefused as refusal:
            self._say_refused(refusal)
            return None

    def _edited(self, proposal: Proposal) -> Proposal | None:
        """The proposal with what the user makes of its value in an editor, again and again until it is valid."""
        item = proposal.prospect
        text = case_text(item.file, item.index, proposal.value)
        while True:
            try:
                edited = self.tools.edit(text, item.report.case_id)
                if edited is None:
                    self._line("Nothing was changed in the editor.")
                    return None
                if not edited.problems:
                    changed = with_value(proposal, same_case(edited.value, proposal.value))
                    return asyncio.run(rescored(changed)) if self.options.rescore else changed
                reasons = [f"line {problem.line}: {problem.message}" for problem in edited.problems]
            except EditorFailed as error:
                self._line(str(error))
                return None
            except ValueError as error:
                reasons = [str(error)]
            except CaseRefused as refusal:
                reasons = [refusal.problem.message]
            for reason in reasons:
                self._line(reason)
            key = self.terminal.read_key("edit again? [y n] ")
            self.terminal.write(f"{safe(key)}\n" if key.isprintable() else "\n")
            # Enter is yes here: what was typed in the editor would be lost otherwise.
            if key not in {"y", "e", "\n", "\r"}:
                return None
            text = edited.text if edited is not None else text

    def _show(self, proposal: Proposal) -> None:
        paint = painter(color=self.terminal.color)
        alike, place = self._with_cause_of(proposal.prospect), self._state.place
        self._line("")
        # Once, at the first case with this cause.
        if place == min(alike, default=place + 1):
            for line in shared_cause(proposal.prospect, len(alike)):
                self._line(line)
        self._line(paint("bold", header(proposal, place + 1, len(self.prospects))))
        for line in body(proposal, paint):
            self._line(line)

    def _diff(self, proposal: Proposal) -> None:
        item = proposal.prospect
        try:
            before = case_text(item.file, item.index, item.value)
            after = case_text(item.file, item.index, proposal.value)
        except PatchError as error:
            self._line(f"{error}")
            return
        self.terminal.write(without_commands(visible(unified(before + "\n", after + "\n", item.report.case_id))))

    def _refuse(self, place: int, refusal: CaseRefused) -> None:
        self._state = self._state.after()
        if place not in self._refusals:
            self._refusals[place] = refusal.problem
            self._line("")
            self._say_refused(refusal)

    def _say_refused(self, refusal: CaseRefused) -> None:
        self._line(f"{refusal.problem.file}: {safe(refusal.problem.message)} {safe(refusal.problem.hint or '')}")

    def _line(self, text: str) -> None:
        self.terminal.write(f"{text}\n")


def kind(proposal: Proposal) -> str:
    """Equal for changes of the same kind: the same fields, of the calls the same ones added and removed, and the same
    trouble with the tools.
    """
    parts: list[str] = [*proposal.fields, *tool_trouble(proposal)]
    if "calls" in proposal.fields:
        before = set(_keys(proposal.prospect.case.conversation or ()))
        after = set(_keys(proposal.case.conversation or ()))
        parts += [f"-{key}" for key in sorted(before - after)] + [f"+{key}" for key in sorted(after - before)]
    return "\n".join(parts)


def same_case(value: Any, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """The edited value of a case.

    Raises:
        ValueError: It is another case, or asks something else than what was run.
    """
    if not isinstance(value, dict):
        raise ValueError("A case is an object.")
    # The results are stored under it.
    for name in ("eval_id", "evalId"):
        if value.get(name) != before.get(name):
            raise ValueError("The eval id must stay as it is: `agent-eval edit` can change it.")
    if _messages(value) != _messages(before):
        raise ValueError("The user's messages must stay as they are: the runs answered these.")
    return value


def _messages(case: Mapping[str, Any]) -> list[Any]:
    turns = case.get("conversation")
    # Not reported here: the whole case is validated afterwards.
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return []
    return [turn.get("user_content", turn.get("userContent")) for turn in turns]


def _keys(turns: Sequence[Any]) -> Iterator[str]:
    for turn in turns:
        yield from (call_key(call) for call in tool_calls(turn.intermediate_data))
