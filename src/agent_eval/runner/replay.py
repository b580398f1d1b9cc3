"""Gives each session the tape of its case, words what a tape does not answer, and writes recorded tapes."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.agents.messages import ModelAsked, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.tapes import (
    InvalidTape,
    Mode,
    Obstacle,
    Tape,
    TapeIndex,
    TapeSession,
    ToolRules,
    Unanswerable,
    read_tape,
    tape_of,
    tape_path,
    write_tape,
)
from agent_eval.core.content import FunctionCall
from agent_eval.core.invocation import Invocation
from agent_eval.core.problem import Problem
from agent_eval.core.text import harmless, listed, plural
from agent_eval.criteria import ToolTrajectory, unlabelled
from agent_eval.evalset.paths import name_of
from agent_eval.results import RunError, ToolUse, give_to_owner
from agent_eval.runner._replay_text import hint_of, message_of, remarks_on
from agent_eval.runner.plan import Plan, PlannedCase
from agent_eval.runner.tool_files import NO_FILES, ToolFiles

_KINDS = {
    Obstacle.NOT_RECORDED: FailureKind.NOT_RECORDED,
    Obstacle.MISSING: FailureKind.TAPE_MISSING,
    Obstacle.STALE: FailureKind.TAPE_STALE,
    Obstacle.NOT_REPLAYABLE: FailureKind.NOT_REPLAYABLE,
}


_TESTED_MAJOR = 2
"""Major version of the newest google-adk in tests/integration/adk_envs.py."""
_UNKNOWN: Mapping[str, str] = {}
"""Versions of google-adk, by agent: none is known."""
Decides = Callable[[str, str, str], bool]
"""Whether a metric fails a case by its threshold in test_config.json: file, eval id, metric."""


@dataclass(kw_only=True)
class CaseTools:
    """Decides about the tool calls of one run; implements `protocol.CallDecider`."""

    session: TapeSession
    planned: PlannedCase
    run: int
    turns: Sequence[Invocation]
    """The turns that have ended."""
    tape_age: float | None
    """Seconds since the case's tape was recorded."""
    decides: Decides
    error: RunError | None = None
    """Why the run ended early."""

    @property
    def use(self) -> ToolUse:
        """How the calls were answered."""
        return self.session.use

    def ended(self, error: RunError | None) -> None:
        """The run has ended."""
        self.error = error
        self.turns = ()  # Sessions that are recorded live until their tape is written.

    async def ask(self, call: ToolAsked, so_far: Callable[[], Sequence[FunctionCall]]) -> Mapping[str, Any]:
        """Decides; see `protocol.CallDecider.ask`."""
        try:
            return self.session.ask(call)
        except Unanswerable as unanswerable:
            raise self._failure(unanswerable, so_far) from None

    def ran(self, result: ToolRan) -> None:
        """Records the outcome of a body."""
        self.session.ran(result)

    async def model(self, asked: ModelAsked) -> Mapping[str, Any]:
        """Every model is asked: no tape has its answers."""
        return {"do": "run"}

    def model_ran(self, result: ModelRan) -> None:
        """Nothing: no tape has answers of models."""

    def toolset(self, toolset: ToolsetAsked) -> Mapping[str, Any]:
        """Decides whether an MCP server is asked for its tools."""
        return self.session.toolset(toolset)

    def listed(self, listing: ToolsetListed) -> None:
        """Records the tools of an MCP server."""
        self.session.listed(listing)

    def _failure(self, error: Unanswerable, so_far: Callable[[], Sequence[FunctionCall]]) -> AgentFailure:
        owner = Owner.GATE
        if error.obstacle is Obstacle.NOT_RECORDED and self._is_contradicted(so_far()):
            owner = Owner.AGENT
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
    mode: Mode
    rules: ToolRules
    of_base: bool = False
    """Whether the agent is the base branch's, whose tools may be older than the answers."""
    decides: Decides = lambda file, eval_id, metric: True
    skip: Sequence[Path] = ()
    """Directories that `depends` never covers, e.g. the output directory."""
    _indexes: dict[tuple[str, str], TapeIndex | None] = field(default_factory=dict)
    _sessions: dict[str, list[CaseTools]] = field(default_factory=lambda: defaultdict(list))
    _changed: dict[str, str] = field(default_factory=dict)
    _planned: dict[str, PlannedCase] = field(default_factory=dict)
    _num_runs: int = 1
    """Runs of each case."""

    def for_base(self) -> Tapes | None:
        """The same tapes for the base branch's agent; None if its tools run."""
        return dataclasses.replace(self, of_base=True) if self.mode == "replay" else None

    def in_plan(self, plan: Plan) -> tuple[Plan, list[Problem]]:
        """The plan with each case's tape in its fingerprints, and the problems of the tapes and of `depends`.

        Only `replay` changes what a case is compared with: then head and base see the same answers.
        """
        self._num_runs = plan.num_runs
        problems = [] if self.of_base else self._unreadable()
        cases = []
        for case in plan.cases:
            try:
                index = self._index(case)
            except InvalidTape as invalid:
                problems += invalid.problems
                index = None
            tape = index.tape.content_hash if index is not None else ""
            fingerprint = _hash([case.fingerprint, self.mode, self.of_base, self.rules.as_json(), tape])
            content = _hash([case.content, tape]) if self.mode == "replay" and tape else case.content
            cases.append(dataclasses.replace(case, fingerprint=fingerprint, content=content))
        return dataclasses.replace(plan, cases=tuple(cases)), problems

    def _unreadable(self) -> list[Problem]:
        """Errors about files that `depends` names: found before anything runs, not at the first call of a tool."""
        try:
            for rule in self.rules.rules:
                if rule.depends:
                    self._files.of_patterns(rule.depends)
        except OSError as error:
            message = f"{error.strerror}: {harmless(str(error.filename))}"
            hint = "Make it readable, or exclude it: a pattern that begins with `!` takes files out of `depends`."
            return [Problem(code="tool-rule-invalid", message=message, hint=hint)]
        return []

    def _index(self, planned: PlannedCase) -> TapeIndex | None:
        """The case's tape; None if it has none, or a new one is made."""
        key = planned.file, planned.case.eval_id
        if key not in self._indexes:
            tape = None if self.mode == "record" else read_tape(tape_path(self.root, *key), self.root)
            self._indexes[key] = None if tape is None else TapeIndex(tape, self.rules)
        return self._indexes[key]

    def session(self, planned: PlannedCase, run: int, turns: Sequence[Invocation]) -> CaseTools:
        """Decides about the tool calls of a new session.

        Raises:
            AgentFailure: The case's tape holds a call that can't be replayed.
        """
        index = self._index(planned)
        age = max(time.time() - index.tape.recorded_at, 0.0) if index is not None else None
        tools = CaseTools(
            session=TapeSession(
                mode=self.mode,
                rules=self.rules,
                index=index,
                of_base=self.of_base,
                depends=self._files.of_patterns,
                changed=self._changed if self.mode == "replay" else {},
            ),
            planned=planned,
            run=run,
            turns=turns,
            tape_age=age,
            decides=self.decides,
        )
        if self.mode != "replay":
            self._planned[planned.case_id] = planned
            self._sessions[planned.case_id] = [one for one in self._sessions[planned.case_id] if one.run != run]
            self._sessions[planned.case_id].append(tools)
        for call in index.tape.calls if index is not None and self.mode == "replay" else ():
            if not call.replayable and self.rules.of(call.tool).replay:
                asked = ToolAsked(turn=0, call=0, name=call.tool, args=call.args)
                obstacle = Unanswerable(Obstacle.NOT_REPLAYABLE, asked, why=call.reason or "")
                raise tools._failure(obstacle, tuple)
        return tools

    @functools.cached_property
    def _files(self) -> ToolFiles:
        return ToolFiles(self.root, self.skip)

    def notices(self, adk: Mapping[str, str] = _UNKNOWN) -> list[str]:
        """What a reader of the report should know about recorded tools: changed ones (`stale = "warn"`), `depends`
        without files, and versions of google-adk whose tools this version of agent-eval was not tested with.

        Args:
            adk: The version of each agent, by the agent's key.
        """
        lines = [
            f"The answers of `{tool}` were recorded before it changed: {what}"
            for tool, what in sorted(self._changed.items())
            if self.rules.of(tool).stale == "warn"
        ]
        lines += [
            f"`depends` of the [[tool]] `{rule.name}` matches no file, so no change can make its recorded answers stale"
            for rule in self.rules.rules
            if rule.depends and self._files.of_patterns(rule.depends) == NO_FILES
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

    def write(self, adk: Mapping[str, str] = _UNKNOWN) -> list[str]:
        """Writes the recorded tapes.

        Args:
            adk: The version of google-adk that ran the tools of each agent, by the agent's key.

        Returns:
            Lines for the reader: what was written, what was not, and what looks wrong.
        """
        if self.mode not in {"record", "record-missing"}:
            return []
        obstacles: list[str] = []
        written: dict[str, int] = {}
        remarks: dict[str, list[str]] = {}
        for case_id, sessions in self._sessions.items():
            sessions.sort(key=lambda tools: tools.run)
            planned = self._planned[case_id]
            tape = self._write_case(planned, sessions, adk.get(planned.agent, ""), written)
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
        self, planned: PlannedCase, sessions: Sequence[CaseTools], adk: str, written: dict[str, int]
    ) -> list[str] | str:
        """Writes the tape of one case; `written` gets its name with the number of its calls.

        Returns:
            Remarks on the new tape, or why there is none.
        """
        path = tape_path(self.root, planned.file, planned.case.eval_id)
        name = name_of(path, self.root)
        broken = next((tools.error for tools in sessions if tools.error and tools.error.owner != "agent"), None)
        if broken is not None:
            return f"{name} was not written: a run of the case ended early ({broken.kind})"
        # Runs that confirm a regression come on top, in a merge alone.
        if (runs := sum(tools.run < self._num_runs for tools in sessions)) < self._num_runs:
            return f"{name} was not written: only {runs} of {self._num_runs} runs of the case took place here"
        index = self._index(planned)
        taped = tape_of([tools.session for tools in sessions], self.rules, None if index is None else index.tape)
        if not taped.calls and not taped.toolsets:
            return _removed(path, name)
        is_new = any(tools.session.recorded for tools in sessions)
        if self.mode == "record-missing" and not is_new and index and index.tape.toolsets == taped.toolsets:
            return []
        tape = Tape(
            eval_set_id=planned.eval_set_id,
            eval_id=planned.case.eval_id,
            recorded_at=int(time.time()),
            runs=len(sessions),
            adk=adk,
            tools=dict(taped.tools),
            calls=list(taped.calls),
            toolsets=dict(taped.toolsets),
        )
        try:
            write_tape(path, tape)
            give_to_owner(path.parent, self.root)
        except (OSError, ValueError) as error:  # no space, too big; a number that is not JSON
            return f"{name} could not be written: {error}"
        written[name] = len(tape.calls)
        return remarks_on(tape, taped, [tools.session for tools in sessions])


def _removed(path: Path, name: str) -> list[str] | str:
    if not path.exists():
        return []
    path.unlink()
    return f"{name} was removed: the agent called no tool that can be recorded"


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
