"""Cases of `adk conformance record`: directories with a spec.yaml and the session that was recorded for it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from agent_eval.core.content import Content, text_of
from agent_eval.core.files import read_regular
from agent_eval.core.problem import Problem, Severity
from agent_eval.core.text import first_line
from agent_eval.evalset.json import parse_value
from agent_eval_workbench.sources.conversation import Conversation, Place, UnusableConversation
from agent_eval_workbench.sources.sessions import conversation_of, is_session, session_of

if TYPE_CHECKING:
    from ruamel.yaml import YAML

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
    from ruamel.yaml.error import YAMLError

    try:
        text = read_regular(path, LARGEST).decode("utf-8")
        return parse_value(json.dumps(_yaml().load(text), allow_nan=False))
    except OSError as error:
        raise UnusableConversation(place, f"It can't be read: {error.strerror}.") from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = place if mark is None else replace(place, line=mark.line + 1)
        raise UnusableConversation(at, f"It is not YAML: {getattr(error, 'problem', None) or error}.") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnusableConversation(place, f"It has a value that JSON can't have: {first_line(str(error))}.") from error


def _yaml() -> YAML:
    """Reads YAML as PyYAML does, which wrote it: ruamel.yaml takes `y`, `n`, `1e3` and dates for something else."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer, ComposerError
    from ruamel.yaml.resolver import VersionedResolver
    from ruamel.yaml.tag import Tag

    class Texts(VersionedResolver):
        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
            tag = super().resolve(kind, value, implicit)
            name = str(tag).rpartition(":")[2]
            text = {"timestamp": ".", "bool": ".$", "float": r"[^.]*$|.*[eE]\d"}.get(name)
            return Tag(suffix="tag:yaml.org,2002:str") if text and re.match(text, value) else tag

    class NoAliases(Composer):
        def return_alias(self, a: Any) -> Any:
            """A few aliases of aliases make terabytes."""
            raise ComposerError(None, None, "anchors and aliases are not read", a.start_mark)

    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    yaml.Resolver, yaml.Composer = Texts, NoAliases
    return yaml
