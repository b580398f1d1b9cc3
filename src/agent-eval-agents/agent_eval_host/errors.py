"""The data of an error response: what was raised, where, and whether a model call raised it."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from agent_eval_host.frames import is_framework, is_ours, is_own, own_place, trimmed
from agent_eval_host.turns import ModelCall, Turn
from agent_eval_host.values import LONGEST_MESSAGE, cut, text_of

_LONGEST_TRACEBACK = 40_000
_LONGEST_NAME = 200
_CLIENTS = re.compile(
    r"/(?:httpx2?|httpcore2?|aiohttp|urllib3|requests|grpc|openai|anthropic|litellm|botocore|google/(?:genai|auth|api_core))/"
    r"|/(?:socket|ssl|http/client|urllib/request)\.py$"
)
"""Files of libraries that make requests: what they raise comes of one, also where a thread of their own makes it."""
_NO_KEY = re.compile(
    r"missing credentials|missing [\w .]*\bapi.?key|\bno (?:\w+ )?(?:api.?)?key (?:is|was|provided|found|set)|api.?key "
    r"[\w ]*must be set|missing key inputs|unable to locate credentials|default credentials were not found",
    re.IGNORECASE,
)
"""What LiteLLM 1.110.2 says without a key, for its providers."""


class UnusableEnvironment(Exception):
    """The interpreter lacks something; the agent's code is not the cause."""


def causes(error: BaseException | None) -> Iterable[BaseException]:
    """The error, its causes and contexts, and the members of exception groups."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [*getattr(cause, "exceptions", ()), cause.__cause__, cause.__context__]


def _traceback(error: BaseException) -> str:
    """The traceback for the agent's author: without frames and errors of the framework."""
    report = traceback.TracebackException.from_exception(error)
    waiting: list[Any] = [report]
    while waiting:
        part = waiting.pop()
        if part is None:
            continue
        context = part.__context__
        if context is not None and all(is_framework(frame.filename) for frame in context.stack):
            part.__context__ = None  # raised by ADK while handling the error
        part.stack = traceback.StackSummary.from_list(trimmed(list(part.stack)))
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
    text = "".join(report.format())
    if len(text) <= _LONGEST_TRACEBACK:
        return text
    # Starts with a whole line, for the reason in `cut`.
    return "[...]\n" + text[-_LONGEST_TRACEBACK:].partition("\n")[2]


def _is_external(error: BaseException) -> bool:
    """Whether an error was raised outside of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, SyntaxError) or any(not is_ours(frame.filename) for frame in frames)


def has_no_key(error: BaseException) -> bool:
    """Whether LiteLLM had no key for a model's provider. It gives such an error any status, and makes no request."""
    return type(error).__module__.startswith("litellm.") and _NO_KEY.search(text_of(error)) is not None


def http_status(error: BaseException) -> int | None:
    """The HTTP status of a failed model call in errors of google-genai, LiteLLM, OpenAI and httpx."""
    if has_no_key(error):
        return 401
    for value in (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(getattr(error, "response", None), "status_code", None),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
            return value
    return None


def error_data(error: BaseException, turn: Turn | None = None) -> dict[str, Any]:
    """The data of an error response. `origin` is `model` if a model call raised the error."""
    main = error
    while getattr(main, "exceptions", ()):  # an exception group
        main = main.exceptions[0]  # type: ignore[attr-defined]
    model_errors = {id(model_error) for model_error in turn.model_errors} if turn is not None else set()
    of_models = (cause for cause in causes(error) if id(cause) in model_errors or _is_api_error(cause))
    of_requests = turn.of_requests if turn is not None else {}
    culprit = next((cause for cause in of_models if id(cause) in of_requests or not _is_made_up(cause)), None)
    shown = main if culprit is None else culprit
    behind = of_requests.get(id(shown), [shown])  # A model class may say it in its own words.
    return {
        "type": type(shown).__name__,
        "classes": [f"{cls.__module__}.{cls.__qualname__}" for each in behind for cls in type(each).__mro__[:-1]],
        "message": cut(text_of(shown), LONGEST_MESSAGE),
        "traceback": _traceback(error) if _is_external(error) else None,
        "raised": raised_by(shown),
        "origin": "agent" if culprit is None else "model",
        "status": None if culprit is None else http_status(culprit) or _status_of(turn, culprit),
        "nearest": nearest_name(main),
        "no_login": _lacks_login(main),
        "lacks_key": _lacks_key(main),
        "exit": _exit_code(main) if isinstance(main, SystemExit) else None,
        "call": turn.failed_call.facts() if culprit is not None and turn is not None and turn.failed_call else None,
    }


def _lacks_key(error: BaseException) -> bool:
    """Whether google-genai or OpenAI's library itself had no key to make a client with, and no key at all is set."""
    of_openai = type(error).__module__.partition(".")[0] == "openai"
    place = _raised_in(error)
    if is_own(place) or not ("/openai/" in place if of_openai else "/google/genai/" in place):
        return False
    if not (of_openai or type(error) is ValueError) or _NO_KEY.search(text_of(error)) is None:
        return False
    return not any(value and name.endswith("_API_KEY") for name, value in os.environ.items())


def _lacks_login(error: BaseException) -> bool:
    """Whether google-auth itself found no credentials: what others raise in its name is theirs."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return name == "google.auth.exceptions.DefaultCredentialsError" and "/google/auth/" in _raised_in(error)


def nearest_name(error: BaseException) -> str | None:
    """The name that an import, or an argument of one of pydantic's models, most likely misspells; None: no idea."""
    with suppress(Exception):  # A module may answer anything to `dir`, and this is only a guess.
        return _nearest_name(error)
    return None


def _nearest_name(error: BaseException) -> str | None:
    import difflib
    import pkgutil

    package, wanted, names = "", "", []
    text = text_of(error)
    if isinstance(error, ModuleNotFoundError) and "." in (error.name or ""):
        package, dot, wanted = str(error.name).rpartition(".")
        names = [module.name for module in pkgutil.iter_modules(getattr(sys.modules.get(package), "__path__", []))]
        package += dot
    elif isinstance(error, ImportError) and (match := re.match(r"cannot import name '(\w+)'", text)):
        wanted, names = match[1], dir(sys.modules.get(error.name or ""))
    elif match := re.search(r"^(\w+)\n  Extra inputs are not permitted", text, re.MULTILINE):
        made = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        wanted, names = match[1], [name for each in made for name in getattr(type(each), "model_fields", ())]
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.6)
    return f"{package}{close[0]}" if close else None


def _status_of(turn: Turn | None, culprit: BaseException) -> int | None:
    """The status that the repository's own model class got, and does not hold in its exception."""
    call = turn.failed_call if turn is not None and id(culprit) in turn.of_requests else None
    last = None if call is None else call.exchanges.last
    return last.status if last is not None and last.failed else None


def is_made_up(error: BaseException, call: ModelCall) -> bool:
    """Whether no request of a model call led to its error: neither names of classes nor words are evidence of one."""
    if any(_CLIENTS.search(_raised_in(cause)) for cause in causes(error)):
        return False
    return (not call.remote or is_own(_raised_in(error))) and not call.has_failed(list(causes(error)))


def raised_by(error: BaseException) -> dict[str, Any]:
    """The type of an exception, and the innermost line of the repository in its traceback."""
    place = own_place(list(traceback.extract_tb(error.__traceback__)))
    return {"type": cut(type(error).__name__, _LONGEST_NAME), **(place or {})}


def _is_api_error(error: BaseException) -> bool:
    module = sys.modules.get("google.genai.errors")
    return module is not None and isinstance(error, module.APIError)


def _is_made_up(error: BaseException) -> bool:
    """Whether the repository's own code raised an error of a model call, and no request was made.

    After a request the error or one of its causes holds the response or is the system's, or a library has raised it.
    """
    if http_status(error) is not None:
        if any(isinstance(cause, OSError) or getattr(cause, "response", None) is not None for cause in causes(error)):
            return False
    elif not isinstance(error, ConnectionError) or error.errno is not None or _causes_of_others(error):
        return False
    return is_own(_raised_in(error))


def _causes_of_others(error: BaseException) -> list[BaseException]:
    """The causes of an error, without those that ADK adds when it passes the error on."""
    return [cause for cause in causes(error) if cause is not error and not is_framework(_raised_in(cause))]


def _raised_in(error: BaseException) -> str:
    """The file that raised an error; empty if none did."""
    return ["", *(frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))][-1]


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1
