"""Cases of `adk conformance record`: directories with a spec.yaml and the session that was recorded for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from agent_eval_agents.traces import Place, UnusableConversation
from agent_eval_scoring.core.content import Content, text_of
from agent_eval_scoring.core.files import read_regular
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_workbench.sources.conversation import Conversation
from agent_eval_workbench.sources.sessions import conversation_of, is_session, session_of

SPEC = "spec.yaml"
SESSIONS = ("generated-session.yaml", "generated-session-sse.yaml")
"""What is recorded without and with streaming; the first one that exists is read."""
LARGEST = 10_000_000
"""Bytes of a YAML file: the reader needs a second for 200,000."""


class _Message(BaseModel):
    text: str | None = None
    content: Content | None = None
    state_delta: dict[str, Any] | None = None


class _Spec(BaseModel):
    initial_state: dict[str, Any] = {}
    user_messages: Annotated[list[_Message], Field(min_length=1)]


def specs_below(folder: Path) -> list[Path]:
    """The specifications of the cases in a directory, which may be that of one case."""
    return sorted(path for path in folder.rglob(SPEC) if path.is_file())


def conversation_of_spec(path: Path, name: str) -> tuple[Conversation, list[Problem]]:
    """The conversation that was recorded for a specification.

    Args:
        path: A spec.yaml.
        name: Its name in problems.

    Raises:
        UnusableConversation: Nothing was recorded for it as it is now, or a file is malformed.
        ImportError: ruamel.yaml is not installed.
    """
    again = "Record it with `adk conformance record`."
    place = Place(file=name)
    try:
        spec = _Spec.model_validate(_read(path, place))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UnusableConversation(place, f"The specification is malformed: `{where}`: {first['msg']}.") from error
    file = next((path.with_name(file) for file in SESSIONS if path.with_name(file).exists()), None)
    if file is None:
        raise UnusableConversation(place, "There is no recorded session for it.", again)
    recorded = replace(place, file=name.removesuffix(SPEC) + file.name)
    value = _read(file, recorded)
    if not is_session(value):
        raise UnusableConversation(recorded, "It is not a session of ADK.", again)
    # What the session says of its state is the end of it; the specification has the beginning.
    session = replace(session_of(value, recorded), state=None)
    conversation, problems = conversation_of(session, eval_id=path.resolve().parent.name)
    asked = [text_of(turn.user_content) for turn in conversation.turns]
    if (
        asked
        != [item.text if item.content is None else text_of(item.content) for item in spec.user_messages][: len(asked)]
    ):
        raise UnusableConversation(place, "Its messages are not those that were recorded.", again)
    first_change, *changes = (item.state_delta or {} for item in spec.user_messages)
    if any(changes):
        message = "Later messages change the state (`state_delta`), which a case can't do."
        problems.append(place.problem(Severity.WARNING, "source-state-unknown", message))
    return replace(conversation, state={**spec.initial_state, **first_change}), problems


def _read(path: Path, place: Place) -> Any:
    from agent_eval_scoring.evalset.json.yaml import NotYaml, parse_yaml

    try:
        return parse_yaml(read_regular(path, LARGEST).decode("utf-8"))
    except OSError as error:
        raise UnusableConversation(place, f"It can't be read: {error.strerror}.") from error
    except NotYaml as error:
        raise UnusableConversation(replace(place, line=error.line or place.line), f"It {error}.") from error
    except UnicodeDecodeError as error:
        raise UnusableConversation(place, "It is not UTF-8.") from error
