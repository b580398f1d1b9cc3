"""What the user says and the state at the beginning, as given on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.core.content import Content, user_message
from agent_eval.core.files import MAX_SETTINGS, read_regular
from agent_eval.evalset.json import parse_value
from agent_eval_workbench.recording._refused import error

_CODE = "record-input"


def said(texts: Sequence[str]) -> list[Content]:
    """The messages of `--say`.

    Raises:
        Refused: One is empty.
    """
    if any(not text.strip() for text in texts):
        raise error(_CODE, "--say has an empty text.", "Write what the user says.")
    return [user_message(text) for text in texts]


def read_messages(name: str, stdin: Callable[[], bytes]) -> list[Content]:
    """The messages of `--messages`: a line each, or a JSON list of texts or contents of ADK.

    Args:
        name: A file, or `-` for the standard input.
        stdin: Reads the standard input.

    Raises:
        Refused: The file can't be read, or has no messages.
    """
    try:
        data = stdin() if name == "-" else read_regular(Path(name), MAX_SETTINGS)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise error(_CODE, f"The messages in `{name}` can't be read: {reason}.") from problem
    where = "the standard input" if name == "-" else f"`{name}`"
    if text.lstrip().startswith("["):
        messages = _json_messages(text, where)
    else:
        messages = [user_message(line) for line in text.splitlines() if line.strip()]
    if not messages:
        raise error(_CODE, f"There are no messages in {where}.", "Write a line for each message of the user.")
    return messages


def _json_messages(text: str, where: str) -> list[Content]:
    try:
        items = parse_value(text)
    except ValueError as problem:
        raise error(_CODE, f"The messages in {where} are not JSON: {problem}.") from problem
    messages = []
    for number, item in enumerate(items, 1):
        try:
            message = user_message(item) if isinstance(item, str) else Content.model_validate(item)
        except ValidationError as problem:
            reason = problem.errors(include_url=False)[0]["msg"]
            raise error(
                _CODE, f"Message {number} in {where} is neither a text nor a content of ADK: {reason}."
            ) from problem
        if not message.parts or all(part.text is not None and not part.text.strip() for part in message.parts):
            raise error(_CODE, f"Message {number} in {where} is empty.")
        messages.append(message if message.role else message.model_copy(update={"role": "user"}))
    return messages


def read_state(text: str) -> dict[str, Any]:
    """The state of `--state`: JSON, or `@FILE`.

    Raises:
        Refused: It is no JSON object.
    """
    try:
        source = read_regular(Path(text[1:]), MAX_SETTINGS).decode("utf-8") if text.startswith("@") else text
        state = parse_value(source)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise error(_CODE, f"--state can't be read: {reason}.", """E.g. --state '{"user_name": "Mina"}'""") from problem
    if not isinstance(state, dict):
        raise error(_CODE, "--state is not a JSON object.", """E.g. --state '{"user_name": "Mina"}'""")
    return state
