"""Gives each session the tape of its case, says why a call has no answer, and writes recorded tapes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.runner.plan import Plan, PlannedCase, given_by
from agent_eval_agents import tapes
from agent_eval_agents.messages import ModelAsked, ModelNews, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval_agents.protocol import AgentFailure, FailureKind, Look, Owner, SoFar
from agent_eval_agents.replay_text import hint_of, message_of, remarks_on
from agent_eval_agents.tool_files import ToolFiles, depends_problems
from agent_eval_results import RecordedScores, RunError, ToolUse, give_to_owner
from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import harmless, listed, plural
from agent_eval_scoring.criteria import ToolTrajectory, unlabelled
from agent_eval_scoring.evalset.paths import name_of
from agent_eval_scoring.models import Replies
from agent_eval_scoring.simulation import CODES as SIMULATOR_CODES

_KINDS = {
    tapes.Obstacle.NOT_RECORDED: FailureKind.NOT_RECORDED,
    tapes.Obstacle.MISSING: FailureKind.TAPE_MISSING,
    tapes.Obstacle.STALE: FailureKind.TAPE_STALE,
    tapes.Obstacle.NOT_REPLAYABLE: FailureKind.NOT_REPLAYABLE,
    tapes.Obstacle.MODEL_NOT_RECORDED: FailureKind.MODEL_NOT_RECORDED,
    tapes.Obstacle.CALLS_LEFT: FailureKind.MODEL_CALLS_LEFT,
    tapes.Obstacle.CHANGED: FailureKind.TAPE_CHANGED,
}
REPLAY_MISSES = frozenset({*_KINDS.values(), SIMULATOR_CODES["replay-miss"]})
"""What ends a run whose tape does not answer: the case has to run without it."""

_TESTED_MAJOR = 2
"""Major version of the newest google-adk in tests/integration/adk_envs.py."""
_UNKNOWN: Mapping[str, str] = {}
"""Versions of google-adk, by agent: none is known."""
_REPLAYING = frozenset({"live", "replay", "all"})
Decides = Callable[[str, str, str], bool]
"""Whether a metric fails a case by its threshold in test_config.json: file, eval id, metric."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The run of a case whose model calls become its tape."""

    run: int
    status: str = ""
    """`passed` or `failed`."""
    scores: RecordedScores = field(default_factory=dict)


@dataclass(kw_only=True)
class CaseTools:
    """Decides about the calls of one run; implements `protocol.CallDecider`."""

    session: tapes.TapeSession
    planned: PlannedCase
    run: int
    turns: Sequence[Invocation]
    """The turns that have ended."""
    tape_age: float | None
    """Seconds since the case's tape was recorded."""
    decides: Decides
    replies: Replies = field(default_factory=Replies)
    """Those of judges and simulated users."""
    error: RunError | None = None
    """Why the run ended early."""
    _so_far: tuple[int, Callable[[], Sequence[FunctionCall]]] = (0, tuple)
    """The turn of the last tool call, and its calls."""
    _open: list[ToolAsked | ModelAsked] = field(default_factory=list)
    """Calls that are not decided yet: only the order of the recorded answers holds a decision back."""

    @property
    def use(self) -> ToolUse:
        """How the calls were answered."""
        return self.session.use

    def ended(self, error: RunError | None) -> None:
        """The run has ended."""
        self.error = error
        self.turns = ()  # Sessions that are recorded live until their tape is written.

    async def ask(self, call: ToolAsked, so_far: SoFar, look: Look) -> Mapping[str, Any]:
        """Decides; see `protocol.CallDecider.ask`."""
        self._so_far = (call.turn, so_far)
        return await self._decided(call, self.session.ask(call, look))

    async def model(self, asked: ModelAsked) -> Mapping[str, Any]:
        """Decides about a call of a model."""
        return await self._decided(asked, self.session.model(asked))

    async def _decided(self, call: ToolAsked | ModelAsked, decision: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
        self._open.append(call)
        try:
            return await decision
        except tapes.Unanswerable as unanswerable:
            raise self._failure_in(call.turn, unanswerable) from None
        finally:
            self._open.remove(call)

    def held(self) -> AgentFailure | None:
        """See `protocol.CallDecider.held`."""
        # Only a replay of models has an order to wait for: `replay: tools` answers at once.
        if not self._open or self.session.mode != "all":
            return None
        why = "the turn's time ended before the answers that were recorded earlier were asked for, or dealt with"
        return self._failure_in(
            self._open[0].turn, tapes.Unanswerable(tapes.Obstacle.MODEL_NOT_RECORDED, self._open[0], why=why)
        )

    def model_news(self, news: ModelNews) -> None:
        """No model is asked in a replay: that would be by code that ADK does not know as a model."""
        try:
            self.session.model_news(news)
        except tapes.Unanswerable as unanswerable:
            raise self._failure(unanswerable, tuple) from None

    def model_ran(self, result: ModelRan) -> None:
        """Records the answer of a model."""
        self.session.model_ran(result)

    def finish(self) -> None:
        """The conversation has ended.

        Raises:
            AgentFailure: The agent has not made all calls of the tape.
        """
        try:
            self.session.check_ended()
        except tapes.Unanswerable as unanswerable:
            raise self._failure(unanswerable, tuple) from None
        if left := self.session.left:
            raise self._failure(tapes.Unanswerable(tapes.Obstacle.CALLS_LEFT, left=left), tuple)

    def ran(self, result: ToolRan) -> None:
        """Records the outcome of a body, or compares it with the tape."""
        try:
            self.session.ran(result)
        except tapes.Unanswerable as unanswerable:
            raise self._failure(unanswerable, tuple) from None

    def event(self, event: Mapping[str, Any]) -> None:
        """The agent has dealt with an answer."""
        answered: list[str] = []
        with contextlib.suppress(AttributeError, TypeError):  # The agent's process may send anything.
            responses = (part.get("function_response") for part in (event.get("content") or {}).get("parts") or ())
            answered = [str(each.get("id")) for each in responses if each]
        self.session.event(str(event.get("author")), answered)

    def toolset(self, toolset: ToolsetAsked) -> Mapping[str, Any]:
        """Decides whether an MCP server is asked for its tools."""
        return self.session.toolset(toolset)

    def listed(self, listing: ToolsetListed) -> None:
        """Records the tools of an MCP server."""
        self.session.listed(listing)

    def _failure_in(self, turn: int, error: tapes.Unanswerable) -> AgentFailure:
        latest, so_far = self._so_far
        return self._failure(error, so_far if turn == latest else tuple)

    def _failure(self, error: tapes.Unanswerable, so_far: Callable[[], Sequence[FunctionCall]]) -> AgentFailure:
        # A call that no tape has can be the very change that the case is there to find.
        may_be_agents = error.obstacle in {tapes.Obstacle.NOT_RECORDED, tapes.Obstacle.MODEL_NOT_RECORDED}
        owner = Owner.AGENT if may_be_agents and self._is_contradicted(so_far()) else Owner.GATE
        return AgentFailure(
            message_of(error, self.tape_age),
            kind=_KINDS[error.obstacle],
            owner=owner,
            hint=hint_of(error, self.planned.case_id),
        )

    def _is_contradicted(self, calls: Sequence[FunctionCall]) -> bool:
        """Whether the calls of this turn already fail the case, whatever the tool would have answered."""
        expected, case = self.planned.case.conversation or (), self.planned
        return bool(calls) and any(
            isinstance(trajectory := unlabelled(criterion), ToolTrajectory)
            and trajectory.is_contradicted(expected, len(self.turns), calls)
            and self.decides(case.file, case.case.eval_id, criterion.name)
            for criterion in case.criteria
        )


@dataclass(kw_only=True)
class Tapes:
    """The tapes of a repository's cases, in one mode."""

    root: Path
    mode: tapes.Mode
    rules: tapes.ToolRules
    of_base: bool = False
    """Whether the agent is the base branch's, whose tools may be older than the answers."""
    may_be_live: bool = False
    """Whether the cases that a tape does not answer run live."""
    decides: Decides = lambda file, eval_id, metric: True
    skip: Sequence[Path] = ()
    """Directories that `depends` never covers, e.g. the output directory."""
    recorded: Collection[str] = ()
    """The agents (keys of the plan) whose answers come from files: their cases need no tapes."""
    untrusted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The cases (file, eval id) whose tape answers no model calls, each with the reason as a clause."""
    mask: Callable[[str], str] = str
    """Replaces secrets in what judges and simulated users reply: all else was masked when it came."""
    patience: float = tapes.PATIENCE
    """Seconds that an answer waits for an earlier one for which the agent does not ask."""
    ages: dict[str, float] = field(default_factory=dict)
    """Seconds since the tapes of the cases that had sessions were recorded, by case id."""
    unwritten: list[str] = field(default_factory=list)
    """A line for each tape that `write` could not write because of its directory or disk."""
    _indexes: dict[tuple[str, str], tapes.TapeIndex | None] = field(default_factory=dict)
    _sessions: dict[str, list[CaseTools]] = field(default_factory=lambda: defaultdict(list))
    _changed: dict[str, str] = field(default_factory=dict)
    _planned: dict[str, PlannedCase] = field(default_factory=dict)
    _num_runs: int = 1
    """Runs of each case."""

    def for_base(self) -> Tapes | None:
        """The same tapes for the base branch's agent; None if its tools run."""
        return dataclasses.replace(self, of_base=True) if self.mode == "replay" else self.without_tapes()

    def without_tapes(self) -> Tapes | None:
        """For runs whose tools run, except those that are answered by hand; None if none is."""
        # Without what was read for the replay: a tape that can't be used would end the live run, too.
        return dataclasses.replace(self, mode="live", _indexes={}) if self.rules.any_by_hand else None

    def in_plan(self, plan: Plan) -> tuple[Plan, list[Problem]]:
        """The plan with each case's tape in its fingerprints, and the problems of the tapes and of `depends`.

        Only `replay` changes what a case is compared with: then head and base see the same answers.
        """
        self._num_runs = plan.num_runs
        # The base branch's files are not the pull request's to repair.
        problems = [] if self.of_base else depends_problems(self.rules, self._files)
        cases = []
        for case in plan.cases:
            try:
                index = self._index(case)
            except tapes.InvalidTape as invalid:
                problems += invalid.problems
                index = None
            tape = index.tape.content_hash if index is not None else ""
            # A replay of models depends on the whole conversation, and not on the tools' answers alone.
            if index is not None and self.mode == "all":
                tape = _hash([tape, index.tape.conversation])
            untrusted = self.untrusted.get((case.file, case.case.eval_id), "")
            fingerprint = _hash([case.fingerprint, self.mode, self.of_base, self.rules.as_json(), tape, untrusted])
            cases.append(case.answered_by(tape if self.mode == "replay" else "", fingerprint))
        return dataclasses.replace(plan, cases=tuple(cases)), problems

    def _index(self, planned: PlannedCase) -> tapes.TapeIndex | None:
        """The case's tape; None if it has none, or a new one is made."""
        key = planned.file, planned.case.eval_id
        if key not in self._indexes and self.mode not in {"live", "record"} and planned.agent not in self.recorded:
            tape = tapes.read_tape(tapes.tape_path(self.root, *key), self.root)
            if tape is not None and not (tape.outdated and self.mode == "record-missing"):
                self._indexes[key] = tapes.TapeIndex(tape, self.rules)
        return self._indexes.setdefault(key, None)

    def session(self, planned: PlannedCase, run: int, turns: Sequence[Invocation]) -> CaseTools:
        """Decides about the calls of a new session.

        Raises:
            AgentFailure: The case's tape can't be used, or holds a call that can't be replayed.
        """
        index = self._index(planned)
        # Not below 0: a tape may be of a machine whose clock is ahead.
        age = max(time.time() - index.tape.recorded_at, 0.0) if index is not None else None
        if age is not None:
            self.ages[planned.case_id] = age
        tools = CaseTools(
            session=tapes.TapeSession(
                mode=self.mode,
                rules=self.rules,
                index=index,
                by_hand=tapes.by_hand(planned.given, self.rules) if self.rules.any_by_hand else None,
                of_base=self.of_base,
                depends=self._files.of_patterns,
                evidence=self._files.evidence,
                changed=self._changed if self.mode in _REPLAYING else {},
                order=tapes.Order(patience=self.patience),
            ),
            planned=planned,
            run=run,
            turns=turns,
            tape_age=age,
            decides=self.decides,
        )
        # Only what is recorded has to be kept until the end: the sessions of a big replay would fill the memory.
        if self.mode not in _REPLAYING:
            self._planned[planned.case_id] = planned
            # A run that is repeated after an outage replaces its first try on the tape.
            others = [one for one in self._sessions[planned.case_id] if one.run != run]
            self._sessions[planned.case_id] = [*others, tools]
        if unusable := self._unusable(planned, index):
            raise tools._failure(unusable, tuple)
        return tools

    def replies(self, planned: PlannedCase, run: int, *, of_user: bool = False) -> Replies | None:
        """The replies of models in a run whose session has begun: on the tape, or to record; None if they are neither.

        A judge is no part of what is tested, so another one of it is asked for; that of a simulated user is a miss.
        """
        if self.mode == "all":
            index = None if (planned.file, planned.case.eval_id) in self.untrusted else self._index(planned)
            return Replies(taped=index.tape.replies if index is not None else {}, only=of_user)
        return next((tools.replies for tools in self._sessions.get(planned.case_id, ()) if tools.run == run), None)

    def _unusable(self, planned: PlannedCase, index: tapes.TapeIndex | None) -> tapes.Unanswerable | None:
        """Why a case can't be replayed, if that is known before it begins."""
        if self.mode not in _REPLAYING:
            return None
        if index is not None and (outdated := index.tape.outdated):
            return tapes.Unanswerable(tapes.Obstacle.MISSING, why=outdated)
        if self.mode == "all":
            if untrusted := self.untrusted.get((planned.file, planned.case.eval_id)):
                return tapes.Unanswerable(tapes.Obstacle.CHANGED, why=untrusted)
            if index is None or not index.tape.has_models(may_be_live=self.may_be_live):
                return tapes.Unanswerable(tapes.Obstacle.MISSING)
            if (name := index.tape.eval_id) != planned.case.eval_id:
                return tapes.Unanswerable(
                    tapes.Obstacle.MISSING, why=f"it was recorded for the case `{harmless(name)}`"
                )
            # Found here: the model's first request would miss as well, and look like a change of the agent.
            if other := index.tape.other_given(given_by(planned.given)):
                return tapes.Unanswerable(
                    tapes.Obstacle.MISSING, why=f"it was recorded with another {other} of the case"
                )
        for call in index.tape.calls if index is not None else ():
            is_used = self.mode == "replay" or call.done is not None
            if is_used and not call.replayable and self.rules.of(call.tool).is_taped:
                call_of = ToolAsked(turn=0, call=0, name=call.tool, args=call.args)
                return tapes.Unanswerable(tapes.Obstacle.NOT_REPLAYABLE, call_of, why=call.reason or "")
        return None

    @functools.cached_property
    def _files(self) -> ToolFiles:
        return ToolFiles(self.root, self.skip)

    def notices(self, adk: Mapping[str, str] = _UNKNOWN) -> list[str]:
        """What a reader of the report should know about recorded tools: changed ones (`stale = "warn"`), and versions
        of google-adk whose tools this version of agent-eval was not tested with.

        Args:
            adk: The version of each agent, by the agent's key.
        """
        lines = [
            f"The answers of `{tool}` were recorded before it changed: {what}"
            for tool, what in sorted(self._changed.items())
            if self.rules.of(tool).stale == "warn"
        ]
        lines += [
            f"Recorded tools were not tested with google-adk {version}: check that no tool runs with `replay: tools`"
            for version in sorted(set(adk.values()))
            if (major := version.partition(".")[0]).isdecimal() and int(major) > _TESTED_MAJOR
        ]
        return lines

    def rename(self, planned: PlannedCase, renamed: PlannedCase) -> None:
        """The tape of a recorded case becomes that of another one."""
        self._planned[planned.case_id] = renamed

    def write(self, adk: Mapping[str, str] = _UNKNOWN, chosen: Mapping[str, Chosen | None] | None = None) -> list[str]:
        """Writes the recorded tapes.

        Args:
            adk: The version of google-adk that ran the tools of each agent, by the agent's key.
            chosen: The run whose model calls each tape gets, by case id; None if the case's runs disagree. Of a case
                that is not named, its only run.

        Returns:
            Lines for the reader: what was written, what was not, and what looks wrong. Those of `unwritten` are no
            part of them.
        """
        if self.mode not in {"record", "record-missing"}:
            return []
        obstacles: list[str] = []
        written: dict[str, int] = {}
        remarks: dict[str, list[str]] = {}
        for case_id, sessions in self._sessions.items():
            # They ended in any order, and a tape must not change without a reason: it is committed.
            sessions.sort(key=lambda tools: tools.run)
            planned = self._planned[case_id]
            only = Chosen(run=sessions[0].run) if len(sessions) == 1 else None
            run = (chosen or {}).get(case_id, only)
            try:
                tape = self._write_case(planned, sessions, run, adk.get(planned.agent, ""), written)
            except OSError as error:
                name = name_of(tapes.tape_path(self.root, planned.file, planned.case.eval_id), self.root)
                then = "Make its directory writable, or free space on its disk, and record again."
                self.unwritten.append(f"{name} could not be written: {error.strerror or error}. {then}")
                continue
            if isinstance(tape, str):
                obstacles.append(tape)
                continue
            for remark in tape:
                remarks.setdefault(remark, []).append(planned.case_id)
        lines = []
        if written:
            calls = plural(sum(written.values()), "call")
            lines = [f"{plural(len(written), 'tape')} written with {calls}: {listed(list(written), 3)}"]
        lines += obstacles
        several = len(self._sessions) > 1
        return lines + [f"{remark} ({listed(ids, 3)})" if several else remark for remark, ids in remarks.items()]

    def _write_case(
        self,
        planned: PlannedCase,
        sessions: Sequence[CaseTools],
        chosen: Chosen | None,
        adk: str,
        written: dict[str, int],
    ) -> list[str] | str:
        """Writes the tape of one case; `written` gets its name with the number of its calls.

        Returns:
            Remarks on the new tape, or why there is none.
        """
        path = tapes.tape_path(self.root, planned.file, planned.case.eval_id)
        name = name_of(path, self.root)
        # Half a conversation would be replayed as all that the agent does. Its own error is an end, too.
        broken = next((tools.error for tools in sessions if tools.error and tools.error.owner != "agent"), None)
        if broken is not None:
            return f"{name} was not written: a run of the case ended early ({broken.kind})"
        # Runs that confirm a regression come on top, in a merge alone.
        if (runs := sum(tools.run < self._num_runs for tools in sessions)) < self._num_runs:
            return f"{name} was not written: only {runs} of {self._num_runs} runs of the case took place here"
        index = self._index(planned)
        source, untaped = _source_of(sessions, chosen)
        before = None if index is None else index.tape
        taped = tapes.tape_of(
            [tools.session for tools in sessions], self.rules, before, source.session if source else None
        )
        if not (taped.calls or taped.toolsets or source):
            if not path.exists():
                return []
            path.unlink()
            return f"{name} was removed: the agent called no tool that can be recorded"
        said = source.replies.given if source else {}
        replies = {key: reply.model_copy(update={"text": self.mask(reply.text)}) for key, reply in said.items()}
        is_new = any(tools.session.recorded for tools in sessions)
        given = given_by(planned.given) if source else {}
        if self.mode == "record-missing" and not is_new and before and taped.is_in(before, given, replies):
            return []
        tape = tapes.Tape(
            eval_set_id=planned.eval_set_id,
            eval_id=planned.case.eval_id,
            recorded_at=int(time.time()),
            runs=len(sessions),
            adk=adk,
            tools=dict(taped.tools),
            calls=list(taped.calls),
            toolsets=dict(taped.toolsets),
            model_calls=list(taped.model_calls),
            parts=dict(taped.parts),
            given=given,
            replies=replies,
            recorded=tapes.RecordedRun(status=chosen.status, scores=dict(chosen.scores)) if chosen and source else None,
        )
        try:
            # The tools' answers alone are still a tape for `replay: tools`.
            if tape.model_calls and not tapes.fits(tape):
                untaped = "it would be too big with them"
                tape = tape.without_models()
            tapes.write_tape(path, tape)
            # In a container root writes it, and whoever commits it must be able to change it.
            give_to_owner(path.parent, self.root)
        except ValueError as error:  # too big; a number that is not JSON
            return f"{name} could not be written: {error}"
        written[name] = len(tape.calls) + len(tape.model_calls)
        remarks = [f"The tape has no model calls, so the case always runs live: {untaped}"] if untaped else []
        return remarks + remarks_on(tape, taped, [tools.session for tools in sessions])


def _source_of(sessions: Sequence[CaseTools], chosen: Chosen | None) -> tuple[CaseTools | None, str]:
    """The run whose model calls become the tape, or None and the reason, which is empty if there is no model call."""
    if chosen is None:
        asked = any(tools.session.asked_models for tools in sessions)
        return None, "its runs had different results" if asked else ""
    source = next((tools for tools in sessions if tools.run == chosen.run), None)
    if source is None or source.error is not None:
        return None, "the run ended early"
    return (source, "") if (why := source.session.why_not_taped) is None else (None, why)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
