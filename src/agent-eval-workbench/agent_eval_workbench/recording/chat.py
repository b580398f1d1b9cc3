"""A chat with the agent in the terminal, which becomes a case."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval_agents.protocol import AgentFailure
from agent_eval_scoring.core.content import Content, Part, user_message
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import Invocation, contents_of, tool_calls
from agent_eval_scoring.core.text import harmless, plural, shorten
from agent_eval_scoring.criteria import literal, render_call, token_usage, visible
from agent_eval_workbench.recording.live import LiveAgent, LiveSession
from agent_eval_workbench.recording.new_cases import Draft

_ANSWER = 20_000
_LEAST = 60


def turn_lines(turn: Invocation, *, width: int) -> Iterator[str]:
    """Calls with their responses, what sub-agents said, the answer, seconds and tokens."""
    limit = max(3 * width, _LEAST)
    yield from _steps(turn, limit)
    yield from message_lines("agent> ", turn.final_response)
    usage = token_usage(turn)
    facts = [f"{turn.duration:.1f} s"] if turn.duration is not None else []
    facts += [f"{int(usage['total_tokens']):,} tokens"] if usage.get("total_tokens") else []
    if facts:
        yield f"       ({', '.join(facts)})"


def message_lines(prompt: str, content: Content | None) -> Iterator[str]:
    """A message as escaped lines behind a prompt."""
    texts = [part.text or _placeholder(part) for part in content.iter_parts() if not part.thought] if content else []
    lines = shorten("\n".join(text for text in texts if text), _ANSWER).splitlines() or ["(no text)"]
    for number, line in enumerate(lines):
        # Escaped line by line: an agent's text must not move the cursor or forge a prompt.
        yield (prompt if number == 0 else " " * len(prompt)) + visible(line)


def _placeholder(part: Part) -> str:
    if part.inline_data is not None:
        return f"[{part.inline_data.mime_type or 'data'}]"
    return f"[{part.file_data.file_uri}]" if part.file_data is not None else ""


def _steps(turn: Invocation, limit: int) -> Iterator[str]:
    answer = [part.text for part in turn.final_response.iter_parts()] if turn.final_response else []
    authors = {author for author, _ in _parts(turn)}
    for author, part in _parts(turn):
        # One agent alone needs no name before each line.
        name = f"{visible(shorten(author, 60))}: " if len(authors) > 1 else ""
        if part.function_call is not None:
            yield f"  {name}→ {render_call(part.function_call, limit=limit)}"
        elif part.function_response is not None:
            response = part.function_response.response
            yield f"  {name}← {shorten(literal({} if response is None else response, limit), limit)}"
        # The final response is among the events, too, and is printed last.
        elif part.text and not part.thought and part.text not in answer:
            yield f"  {name}{visible(shorten(part.text, limit))}"


def _parts(turn: Invocation) -> Iterator[tuple[str, Part]]:
    for event, parts in contents_of(turn.intermediate_data):
        yield from ((event.author or "agent", part) for part in parts)


_HELP = """\
  /state         show the state with which the session begins
  /retry         ask everything again in a new session
  /back          forget the last turn
  /save [ID]     write the case (also: end of input, Ctrl-D)
  /quit          leave without writing
  a backslash at the end of a line continues the message on the next line"""
_BROKEN = "The last turn has no answer, and can't be part of a case: use /retry or /back first."
_NO_TURN = "There is no turn yet."
_LOG_LINES = 5


@dataclass(frozen=True, kw_only=True)
class ChatIO:
    """How the chat talks to the user."""

    read: Callable[[str], str]
    """Shows a prompt and returns a line. Raises EOFError at the end of the input, KeyboardInterrupt for Ctrl-C."""
    write: Callable[[str], None]
    """Prints a line."""
    width: int
    """Columns."""


class Left(AgentEvalError):
    """The user has left without writing."""

    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__("Nothing was written.")
        self.interrupted = interrupted


@dataclass(kw_only=True)
class Chat:
    """One chat."""

    agent: LiveAgent
    terminal: ChatIO
    state: Mapping[str, Any]
    """With which each session begins."""
    draft: Draft = field(default_factory=lambda: Draft(turns=[]))
    _session: LiveSession | None = None
    _unanswered: str | None = None
    """The message to which the last turn has failed or was broken off."""
    _saved: bool = False
    _ended: bool = False

    def run(self) -> Draft:
        """Talks until the user saves.

        Raises:
            Left: The user has left without writing.
        """
        self.terminal.write("Talk to the agent. /save writes the case, /help lists all commands.")
        try:
            while not self._saved:
                text = self._read_message()
                if text is None:
                    self._end()
                elif text.startswith("/"):
                    self._command(text)
                elif text.strip():
                    self._ask(text)
        finally:
            self._close()
        return self.draft

    def _read_message(self) -> str | None:
        """The user's message; None at the end of the input."""
        lines: list[str] = []
        interrupted = False
        while True:
            try:
                line = self.terminal.read("...> " if lines else "you> ")
            except EOFError:
                self.terminal.write("")
                # The end of the input in the middle of a message sends what there is.
                return "\n".join(lines) if lines else None
            except KeyboardInterrupt:
                self.terminal.write("")
                # Twice, since readline's users press Ctrl-C to discard a line.
                if interrupted:
                    raise Left(interrupted=True) from None
                self.terminal.write("(Ctrl-C again leaves without writing; /save writes)")
                interrupted, lines = True, []
                continue
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line.removesuffix("\\"))

    def _confirmed(self, question: str) -> bool:
        try:
            return self.terminal.read(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
        except (EOFError, KeyboardInterrupt):
            self.terminal.write("")
            return False

    def _command(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        rest = rest.strip()
        commands: dict[str, Callable[[], None]] = {
            "/state": lambda: self.terminal.write(harmless(json.dumps(self.state, indent=2, ensure_ascii=False))),
            "/retry": self._retry,
            "/back": self._back,
            "/save": lambda: self._save(rest),
            "/quit": self._quit,
            "/help": lambda: self.terminal.write(_HELP),
        }
        if word not in commands:
            self.terminal.write(f"There is no command {visible(word)}. /help lists the commands.")
            return
        commands[word]()

    def _ask(self, text: str) -> None:
        if self._unanswered is not None:
            self.terminal.write("The last turn has no answer: /retry asks again, /back forgets it.")
            return
        begun = time.monotonic()
        turn = self._answer(text)
        if turn is None:
            self._unanswered = text
            return
        # Servers measure nothing; what the user has waited is the nearest.
        if turn.duration is None:
            turn = turn.model_copy(update={"duration": time.monotonic() - begun})
        self.draft.turns.append(turn)
        for line in turn_lines(turn, width=self.terminal.width):
            self.terminal.write(line)

    def _answer(self, text: str) -> Invocation | None:
        """The agent's turn; None if it failed or the user broke it off."""
        try:
            if self._session is None:
                self._session = self.agent.open()
            turn = self._session.send(user_message(text))
            self.draft.calls_visible = self._session.calls_visible
            return turn
        except AgentFailure as failure:
            for line in failure_lines(failure):
                self.terminal.write(line)
        except KeyboardInterrupt:
            self.terminal.write("")
            self.terminal.write("The turn was broken off.")
        self.terminal.write("/retry asks again in a new session, /back forgets this turn.")
        return None

    def _retry(self) -> None:
        if messages := self._messages():
            self._replay(messages)
        else:
            self.terminal.write(_NO_TURN)

    def _back(self) -> None:
        messages = self._messages()
        if not messages:
            self.terminal.write(_NO_TURN)
            return
        kept = messages[:-1]
        # A session can't go back: its tools run again, with whatever they change.
        if kept and not self._confirmed(f"This asks the agent {plural(len(kept), 'message')} again. Continue?"):
            return
        self._replay(kept)
        if not kept:
            self.terminal.write("The chat begins again.")

    def _messages(self) -> list[str]:
        texts = ["\n".join(part.text or "" for part in turn.user_content.iter_parts()) for turn in self.draft.turns]
        return texts if self._unanswered is None else [*texts, self._unanswered]

    def _replay(self, messages: Sequence[str]) -> None:
        """Asks the messages in a new session."""
        self._close()
        self.draft = Draft(turns=[])
        self._unanswered = None
        for message in messages:
            for line in message_lines("you> ", user_message(message)):
                self.terminal.write(line)
            self._ask(message)
            if self._unanswered is not None:
                break

    def _end(self) -> None:
        """The input has ended. A broken turn can't be saved, so the user gets one chance to repair it."""
        if self._unanswered is None:
            self._save("")
        elif self._ended:
            raise Left
        else:
            self._ended = True
            self.terminal.write(f"{_BROKEN} (Ctrl-D again leaves without writing.)")

    def _save(self, eval_id: str) -> None:
        if self._unanswered is not None:
            self.terminal.write(_BROKEN)
            return
        if not self.draft.turns:
            raise Left
        if any(_asks_for_more(turn) for turn in self.draft.turns):
            self.terminal.write(
                "The agent asked for a confirmation or for credentials. A case can't give that answer; its run will "
                "end there."
            )
        self.draft.eval_id = eval_id
        self._saved = True

    def _quit(self) -> None:
        count = len(self.draft.turns)
        if not count or self._confirmed(f"Leave without writing {plural(count, 'turn')}?"):
            raise Left

    def _close(self) -> None:
        if self._session is not None:
            # The second Ctrl-C of an impatient user must not lose what is about to be written.
            with contextlib.suppress(KeyboardInterrupt):
                self._session.close()
            self._session = None


def _asks_for_more(turn: Invocation) -> bool:
    """Whether the agent asks the user for a confirmation or for credentials by a call of ADK's own."""
    names = {call.name for call in tool_calls(turn.intermediate_data)}
    return bool(names & {"adk_request_credential", "adk_request_confirmation", "adk_request_input"})


def failure_lines(failure: AgentFailure) -> list[str]:
    """A failure of the agent as lines: kind, message, the end of its log or traceback, what to do."""
    lines = [f"! {failure.kind}: {failure.message}"]
    detail = failure.traceback or failure.log_tail or ""
    lines += [f"    {line}" for line in detail.rstrip().splitlines()[-_LOG_LINES:]]
    lines += [f"  hint: {line}" for line in (failure.hint or "").splitlines()]
    return [visible(line) for line in lines]
