"""`agent-eval record FILE[:EVAL_ID]`: makes an eval case of a chat, of messages, or of something recorded."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems, log_start_directory, print_problems, settings_of
from agent_eval.settings import Settings
from agent_eval_agents.fingerprints import DEFAULT_APP_NAME, DEFAULT_USER_ID
from agent_eval_agents.protocol import AgentFailure
from agent_eval_agents.sandbox import AgentNotEnded, secrets_in
from agent_eval_agents.traces import Place
from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.problem import docs_page, has_error
from agent_eval_scoring.core.text import harmless, listed, plural
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_workbench.recording import live, new_cases, stored
from agent_eval_workbench.recording.chat import Chat, ChatIO, Left, failure_lines, message_lines, turn_lines
from agent_eval_workbench.recording.target import USER_ID, Refused, Target, error, open_target, split_name, write_target
from agent_eval_workbench.sources.cases import CaseForm
from agent_eval_workbench.sources.conversation import Conversation

_SOURCE = "record-source"
_WAYS = (
    "Say it with `--say TEXT`, take it from a file with `--messages FILE`, or from something recorded with "
    "`--from SOURCE`."
)


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    from agent_eval.pipeline import AgentUnavailable

    # Windows, where agents can't be isolated; a source needs none.
    if not hasattr(os, "geteuid") and arguments.source is None:
        io.log("agent-eval: `record` starts agents on Linux or macOS only. `--from` works on Windows.")
        return 2
    log_start_directory(io)
    settings, problems = settings_of(arguments, io)
    if has_error(problems):
        print_problems(problems)
        return 2
    log_problems(problems, io)
    try:
        return _Recorder(arguments=arguments, io=io, settings=settings).run()
    except (Refused, AgentUnavailable) as refused:
        print_problems(refused.problems)
        return 2
    except AgentNotEnded as still_running:
        io.log(f"agent-eval: {still_running}. The sealed directories stay sealed ({docs_page('security')}).")
        return 2
    except AgentFailure as failure:
        io.log("\n".join([*failure_lines(failure), "agent-eval: nothing was written."]))
        return 1
    except Left as left:
        io.log("agent-eval: nothing was written.")
        return 130 if left.interrupted else 0


@dataclass(frozen=True, kw_only=True)
class _Recorded:
    """A conversation that becomes a case, and the draft that it is scored against."""

    conversation: Conversation
    draft: new_cases.Draft
    taping: live.Taping | None = None
    again: Callable[[Collection[str]], Sequence[Invocation]] = lambda _: ()
    """Has the same conversation in a new process, because of these values."""


@dataclass(frozen=True, kw_only=True)
class _Recorder:
    arguments: argparse.Namespace
    io: CliIO
    settings: Settings

    def run(self) -> int:
        arguments = self.arguments
        self._check_source()
        if arguments.list:
            _, found = stored.read_stored(Path(arguments.source), str(arguments.source), self._stored_request())
            self.io.print_result(harmless(stored.conversation_table(found)))
            return 0
        if arguments.target is None:
            raise error("record-file", "The eval file is missing.", "Write `agent-eval record FILE[:EVAL_ID] ...`.")
        target = open_target(self.settings.root, *split_name(arguments.target), replace=arguments.replace)
        state = None if arguments.state is None else stored.read_state(arguments.state)
        if arguments.source is not None:
            return self._write(target, self._from_source(target, state))
        is_chat = not arguments.say and arguments.messages is None
        if is_chat and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise error(_SOURCE, "A chat needs a terminal.", _WAYS)
        return self._ask(target, state)

    def _check_source(self) -> None:
        arguments = self.arguments
        flags = {
            "--say": bool(arguments.say),
            "--messages": arguments.messages is not None,
            "--from": arguments.source is not None,
        }
        chosen = [flag for flag, is_set in flags.items() if is_set]
        if len(chosen) > 1:
            raise error(_SOURCE, f"{' and '.join(chosen)} exclude each other.", "Choose one of them.")
        with_source = ("--session", "--case", "--run", "--list", "--state-scopes")
        unused = [flag for flag in with_source if getattr(arguments, flag[2:].replace("-", "_"))]
        if unused and arguments.source is None:
            raise error(_SOURCE, f"{unused[0]} needs --from.", "Name what was recorded: `--from SOURCE`.")
        if arguments.source is not None and arguments.runs > 1:
            raise error(_SOURCE, "--runs is for conversations with the agent, not for --from.", "Leave it out.")

    def _stored_request(self) -> stored.StoredRequest:
        arguments = self.arguments
        return stored.StoredRequest(
            session=arguments.session, case=arguments.case, run=arguments.run, state_scopes=arguments.state_scopes
        )

    def _from_source(self, target: Target, state: dict[str, Any] | None) -> list[_Recorded]:
        arguments, request, name = self.arguments, self._stored_request(), str(self.arguments.source)
        source, found = stored.read_stored(Path(arguments.source), name, request)
        ask = input if sys.stdin.isatty() and sys.stdout.isatty() else None
        chosen = stored.choose_stored(found, name, request, ask)
        ids = [f"`{conversation.session_id}`" for conversation in chosen]
        shown = [
            item for item in source.problems if request.session == "all" or any(name in item.message for name in ids)
        ]
        log_problems(shown, self.io)
        if request.session == "all":
            if target.eval_id:
                raise error(_SOURCE, "--session all makes several cases, and EVAL_ID names one.", "Leave out the id.")
            chosen, notices = stored.without_known(chosen, target.cases)
            log_problems(notices, self.io)
        # A session of `adk web` is raw: it has what the agent's tools returned, keys included.
        masker = Masker(secrets_in(self.io.environ))
        chosen = [self._placed(stored.masked(item, masker), target, state) for item in chosen]
        return [_Recorded(conversation=item, draft=new_cases.Draft(turns=list(item.turns))) for item in chosen]

    def _placed(self, kept: Conversation, target: Target, state: dict[str, Any] | None) -> Conversation:
        """A stored conversation with what the flags say about its session."""
        arguments = self.arguments
        if arguments.app_name is None and kept.app_name is not None:
            self._compare_app(kept.app_name, target)
        app_name = arguments.app_name or kept.app_name
        user_id = arguments.user_id or kept.user_id
        # ADK's session_input needs an app and a user as soon as there is one.
        if app_name or user_id or state is not None:
            app_name = app_name or self._agent_name(target)
            user_id = user_id or USER_ID
        return replace(kept, app_name=app_name, user_id=user_id, state=kept.state if state is None else state)

    def _agent_name(self, target: Target) -> str:

        try:
            return live.choose_agent(target, self.settings, None, {}).app_name or DEFAULT_APP_NAME
        except Refused:
            return DEFAULT_APP_NAME

    def _compare_app(self, app_name: str, target: Target) -> None:
        """Warns if the session belongs to another app than the agent of the file."""
        try:
            chosen = live.choose_agent(target, self.settings, None, {})
        except Refused:
            return  # The next `run` reports it; the recording needs no agent.
        directory = chosen.choice.directory(self.settings.root)
        if directory is not None and directory.resolve().name != app_name:
            self.io.log(
                f"agent-eval: the session is of the app `{harmless(app_name)}`, and the agent of {target.name} is "
                f"{chosen.choice.path}. `--app-name` changes the name in the case."
            )

    def _ask(self, target: Target, state: dict[str, Any] | None) -> int:

        arguments = self.arguments
        messages = self._messages()
        chosen = live.choose_agent(target, self.settings, arguments.app_name, state or {})
        log_problems(chosen.choices.problems, self.io)
        # Left out if nothing needs it: the case then belongs to whatever agent is nearest.
        keeps = chosen.app_name or state or arguments.user_id
        user_id = (arguments.user_id or USER_ID) if keeps else None
        start = live.SessionStart(
            eval_set_id=target.set_id,
            eval_id=target.eval_id or "new",
            app_name=chosen.app_name or DEFAULT_APP_NAME,
            user_id=user_id or DEFAULT_USER_ID,
            state=state or {},
        )
        taping = live.taping_of(self.settings, chosen.choices, target.name, target.set_id)
        draft = self._converse(target, start, chosen, messages, taping)
        conversation = Conversation(
            session_id=target.name,
            turns=draft.turns,
            started_at=0.0,
            place=Place(file=target.name),
            app_name=start.app_name if user_id else None,
            user_id=user_id,
            state=state,
        )
        target = replace(target, eval_id=self._chosen_id(target, draft))
        again = partial(self._again, start, chosen, draft)
        recorded = _Recorded(conversation=conversation, draft=draft, taping=taping, again=again)
        return self._write(target, [recorded], flag=chosen.flag)

    def _chosen_id(self, target: Target, draft: new_cases.Draft) -> str:
        """The id of the case: the one given to `/save`, unless another case has it."""
        # The conversation is worth more than its name: the case gets another id instead of being refused.
        if draft.eval_id and draft.eval_id in target.taken and target.index is None:
            self.io.log(f"agent-eval: {target.name} has a case `{harmless(draft.eval_id)}` already; it is kept.")
            return ""
        return draft.eval_id if draft.eval_id and target.index is None else target.eval_id

    def _messages(self) -> list[Content]:
        """The messages to send; empty for a chat."""
        arguments = self.arguments
        if arguments.say:
            return stored.said(arguments.say)
        if arguments.messages is not None:
            return stored.read_messages(arguments.messages, sys.stdin.buffer.read)
        return []

    def _converse(
        self,
        target: Target,
        start: live.SessionStart,
        chosen: live.ChosenAgent,
        messages: Sequence[Content],
        taping: live.Taping | None,
    ) -> new_cases.Draft:
        from agent_eval.pipeline import RunContext

        context = RunContext(environ=self.io.environ, log=self.io.log)
        with live.live_agent(self.settings, context, chosen.choices, start, taping) as agent:
            if not messages:
                return Chat(agent=agent, terminal=self._terminal(), state=start.state).run()
            takes = agent.converse(messages, self.arguments.runs)
        take = takes[0] if len(takes) == 1 else self._most_typical(target, takes, taping)
        return new_cases.Draft(turns=list(take.turns), calls_visible=take.calls_visible)

    def _again(
        self, start: live.SessionStart, chosen: live.ChosenAgent, draft: new_cases.Draft, values: Collection[str]
    ) -> Sequence[Invocation]:
        """The same conversation in a new process, if the user has allowed several: the agent's tools run again."""
        from agent_eval.pipeline import RunContext

        # A server goes on in its process: there would be no new one.
        if chosen.choices.remote:
            return ()
        shown = listed(sorted(values), 3)
        if self.arguments.runs < 2:
            self.io.log(
                f"agent-eval: {shown} may be other values in each process: `--runs 2` asks again and says it, and runs "
                "the tools again, too"
            )
            return ()
        self.io.log(f"agent-eval: asking once more in a new process, since {shown} may be other values there")
        context = RunContext(environ=self.io.environ, log=self.io.log)
        try:
            with live.live_agent(self.settings, context, chosen.choices, start) as agent:
                return agent.converse([turn.user_content for turn in draft.turns], 1)[0].turns
        except AgentFailure as failure:  # The case is written.
            self.io.log("\n".join(failure_lines(failure)))
            return ()

    def _most_typical(self, target: Target, takes: Sequence[live.Take], taping: live.Taping | None) -> live.Take:

        config = new_cases.config_of(target.path, self.settings.root, self.settings.config)
        if config is None:
            raise error("record-file", "The config of the file is invalid.", "`agent-eval validate` reports why.")
        case = EvalCase(eval_id="new", conversation=list(takes[0].turns))
        index, alike = new_cases.most_typical_take(case, takes, config)
        # Tapes with other calls in each run would answer only the run that they are of.
        if taping is not None:
            taping.chosen = index if alike == len(takes) else None
        self.io.log(f"agent-eval: expecting run {index + 1} of {len(takes)}; {alike} of them made the same calls.")
        return takes[index]

    def _terminal(self) -> ChatIO:
        import readline  # noqa: F401 - gives `input` a line editor

        return ChatIO(read=input, write=print, width=self.io.width)

    def _write(self, target: Target, recorded: Sequence[_Recorded], *, flag: str | None = None) -> int:
        if not recorded:
            self.io.print_result(f"{target.name}: nothing new.")
            return 0
        form = CaseForm(expect=self.arguments.expect, form=self.arguments.form or target.form)
        conversations = [item.conversation for item in recorded]
        cases, written, problems = new_cases.new_cases(target, conversations, form)
        problems += new_cases.failed_tools(cases, conversations, target.name, str(self.settings.output / "logs"))
        log_problems([*target.notices, *problems], self.io)
        shown = [case.model_dump(mode="json", exclude_unset=True, exclude_none=True) for case in cases]
        text = "\n".join(json.dumps(case, indent=2, ensure_ascii=False) for case in shown)
        if self.arguments.dry_run:
            self.io.print_result(text)
            return 0
        try:
            write_target(target, written, cases)
        except OSError:
            self.io.print_result(text)  # The conversation may have been long.
            raise
        return self._report(target, cases, recorded, flag)

    def _report(
        self, target: Target, cases: Sequence[EvalCase], recorded: Sequence[_Recorded], flag: str | None
    ) -> int:
        verb = "Replaced" if target.index is not None else "Added"
        names = listed([f"`{case.eval_id}`" for case in cases], 20)
        lines = [f"{verb} {plural(len(cases), 'case')} in {target.name}: {names}"]
        if len(cases) == 1:
            for turn in recorded[0].draft.turns if self.arguments.say or self.arguments.messages else ():
                lines += message_lines("you> ", turn.user_content)
                lines += turn_lines(turn, width=self.io.width)
        ok, scores = self._self_scores(target, cases, recorded)
        selector = target.name if len(cases) > 1 else f"{target.name}:{cases[0].eval_id}"
        command = ["agent-eval", "run", selector, *(["--agent", flag] if flag else [])]
        lines += scores
        if taping := recorded[0].taping:
            lines += taping.write(cases[0])
            command += ["--replay", taping.replay(cases[0].eval_id)] if taping.is_written else []
        lines.append(f"Run it: {shlex.join(command)}")
        if self.settings.tape_mode != "live" and not taping:
            recording = shlex.join([*command, "--record", "all"])
            lines.append(f"Record its tools first: {recording} ({docs_page('tools')})")
        self.io.print_result(harmless("\n".join(lines)))
        # Without its tape, the case would run the tools in CI, which the user has just recorded to avoid.
        return 2 if taping and not taping.is_written else 0 if ok else 1

    def _self_scores(
        self, target: Target, cases: Sequence[EvalCase], recorded: Sequence[_Recorded]
    ) -> tuple[bool, list[str]]:
        """Whether what was recorded passes with the new cases, and the scores."""
        config = new_cases.config_of(target.path, self.settings.root, self.settings.config)
        if config is None:
            return True, ["The config of the file is invalid: `agent-eval validate` reports why."]
        lines: list[str] = []
        passes = True
        # A conversation that could not become a case has none, so which is whose is unknown then.
        pairs = zip(cases, recorded, strict=False) if len(cases) == len(recorded) else ()
        for case, item in pairs:
            check = new_cases.self_check(case, item.draft.turns, config, calls_visible=item.draft.calls_visible)
            passes = passes and check.passes
            if len(cases) == 1 or not check.passes:
                lines += new_cases.score_lines(check, case)
            # Only then: a case that fails against itself needs no second conversation to be wrong.
            if check.passes and (values := new_cases.seemingly_random(case)) and (again := item.again(values)):
                log_problems(new_cases.random_values(case, again, target.name), self.io)
                check = new_cases.self_check(case, again, config, calls_visible=item.draft.calls_visible)
                lines += [] if check.passes else ["  It does not pass in a new process."]
                passes = passes and check.passes
        return passes, lines
