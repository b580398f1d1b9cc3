"""A tape: the calls of tools and models of one case with their answers, as in CASE.tape.json. Pure.

And which calls are the same: arguments in canonical form, and what is masked in them.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, FiniteFloat, NonNegativeFloat, NonNegativeInt

from agent_eval_agents.messages import ModelAsked
from agent_eval_agents.tape_rules import ToolPolicy
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import MASK, unnamed
from agent_eval_scoring.core.recording import RecordedScores
from agent_eval_scoring.core.text import listed
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.models import TapedReply

SCHEMA_VERSION: Literal["3"] = "3"
OLDER: tuple[Literal["1"], Literal["2"]] = ("1", "2")
"""Versions that can be read, and not be replayed: nothing says what their answers depend on."""
ABSENT = "absent"
_UNSTEADY = "secrets, paths, times and random values"
NOT_COMPARED = "$"
"""Stands for a value that is another one at each start of the agent or on each machine, and for a secret."""


class ToolHashes(WireModel):
    """What a tool was when its answers were recorded."""

    declaration: str = ""
    """Hash of the declaration that the model sees."""
    source: str = ""
    """Hash of the files of the repository that define the tool and what its code uses; empty if there are none."""
    files: list[str] = Field(default_factory=list)
    """The names of these files, relative to the root; empty if one of them is installed somewhere else."""
    implementation: dict[str, str] = Field(default_factory=dict)
    """The functions and classes behind the tool, and hashes of the values that they hold, by place: `self.url`. What
    their code uses of modules and classes has its full name: `home.settings:URL`. A value `$` is not compared."""
    depends: str = ""
    """Hash of the files that `depends` of `[[tool]]` names; empty without it."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions of the installed packages that its code uses, with what these need; hashes of those that have none. `*`:
    a hash of all that are installed, since the code imports by a name that it makes."""
    read: dict[str, str] = Field(default_factory=dict)
    """What it has read of the repository, in this case or before it in the same process: hashes of `file:NAME` and of
    `folder:NAME` (its list), the kind of `path:NAME`; `absent` where there was none."""
    hidden: list[str] = Field(default_factory=list)
    """What it used and nothing can compare: kinds in docs/tools.md."""

    def merged(self, other: ToolHashes) -> ToolHashes | None:
        """With what the same tool has read in other calls; None if the other one is another tool."""
        # What a tool reads may depend on its arguments; all the rest says what the tool is.
        own = self.model_copy(update={"read": other.read, "hidden": other.hidden})
        if own != other:
            return None
        hidden = sorted({*self.hidden, *other.hidden})
        return self.model_copy(update={"read": {**self.read, **other.read}, "hidden": hidden})

    def changed_packages(self, now: Mapping[str, str]) -> str:
        """What is no longer as recorded, in words; "" if nothing is."""
        changed = [
            f"{'the environment' if name == '*' else name} {self.packages.get(name, 'none')} -> {now.get(name, 'none')}"
            for name in _changed_places(self.packages, now)
        ]
        return f"a package that its code uses ({listed(changed, 3)})" if changed else ""

    def changed_read(self, now: Callable[[str, str], str]) -> str:
        """What is no longer as recorded, in words; "" if nothing is.

        Args:
            now: What is there today, by name.
        """
        changed = changed_files(self.read, now)
        return f"a file that it reads ({changed})" if changed else ""

    def changed_implementation(self, now: Mapping[str, str]) -> str:
        """What is no longer as recorded, in words; "" if nothing is.

        Args:
            now: What `implementation` is today.
        """
        before = self.implementation
        changed = _changed_places(before, now)
        # The place of the function itself: with another one, what it holds is no comparison.
        if "" in changed:
            return f"the function or object behind it (it was {before.get('')}, it is {now.get('')})"
        # Places with a colon are in modules: `home.settings:URL`.
        held = [place for place in changed if ":" not in place]
        if held:
            return f"a value that the function or object behind it holds ({listed(held, 3)})"
        return f"something that its code uses ({listed(changed, 3)})" if changed else ""

    def changed_depends(self, now: str) -> str:
        """What is no longer as recorded, in words; "" if nothing is.

        Args:
            now: What `depends` would be today.
        """
        if self.depends == now:
            return ""
        return "a file that it depends on" if self.depends and now else "`depends` of its [[tool]]"


class CallError(WireModel):
    """The exception that the tool raised."""

    type: str
    """Full name of the class; builtins without their module."""
    message: str = ""


class CallActions(WireModel):
    """What the tool asked of ADK."""

    escalate: bool | None = None
    skip_summarization: bool | None = None
    transfer_to_agent: str | None = None


class RecordedCall(WireModel):
    """A call and its answer."""

    tool: str
    agent: str = ""
    """The agent that called it. For information: a call of another agent gets the same answer."""
    args: dict[str, Any] = Field(default_factory=dict)
    occurrence: NonNegativeInt = 0
    """The number of calls of this tool with the same arguments before it in the session."""
    response: Any = None
    """As the tool returned it."""
    state: dict[str, Any] = Field(default_factory=dict)
    """The keys of the session's state that the tool set."""
    actions: CallActions = Field(default_factory=CallActions)
    error: CallError | None = None
    seconds: NonNegativeFloat = 0.0
    """Duration when it was recorded."""
    seen: NonNegativeInt = 1
    """Number of recorded runs with this call."""
    replayable: bool = True
    reason: str | None = None
    """Why it can't be replayed, e.g. `it saves artifacts`."""
    read: dict[str, str] = Field(default_factory=dict)
    """Of version 2: hashes of the repository's files that it opened."""
    saw: dict[str, str] = Field(default_factory=dict)
    """Hashes of what the answer depends on, too: `state:KEY`, `artifact:NAME`, `memory:QUERY` (`*`: of all),
    `variable:NAME` of the environment, and `value:PLACE` of `ToolHashes.implementation`, if something had changed it.
    `absent`: there was none; `$`: not compared, e.g. a secret."""
    more: dict[str, Any] = Field(default_factory=dict)
    """Facts that later versions record."""
    done: NonNegativeInt | None = None
    """Its position among all answers of the run whose model calls are on the tape; None if that has no such call."""
    after: NonNegativeInt = 0
    """How many of these answers had come when it was made."""
    dealt: NonNegativeInt | None = None
    """See `ModelExchange`."""

    def changed_saw(self, now: Mapping[str, str]) -> str:
        """What is no longer as recorded, in words; "" if nothing is."""
        changed = [place.replace(":", " ", 1).replace("\0", " ") for place in _changed_places(self.saw, now)]
        return f"something that it reads ({listed(changed, 3)})" if changed else ""

    def answers_like(self, other: RecordedCall) -> bool:
        """Whether both calls have the same answer."""
        return equal(self.answer(), other.answer())

    def answer(self) -> dict[str, Any]:
        """What the agent sees of it."""
        return {
            "response": self.response,
            "state": self.state,
            "actions": self.actions.model_dump(exclude_none=True),
            "error": None if self.error is None else self.error.model_dump(),
        }


class ModelExchange(WireModel):
    """A call of a model and its answer."""

    agent: str = ""
    model: str = ""
    """The name in the request."""
    implementation: str = ""
    """Full name of the model's class."""
    code: str = ""
    """Hash of the code behind the model, if it is not the framework's: that makes requests and responses, too."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What its constructor was given and the request does not show."""
    stream: bool = False
    request: dict[str, str] = Field(default_factory=dict)
    """`instruction`, `contents`, `tools`, `config`, ...: keys of `Tape.parts`, `contents` that of the last one."""
    fingerprint: str
    """Hash of all of the above."""
    occurrence: NonNegativeInt = 0
    """The number of calls with this fingerprint before it in the conversation."""
    responses: list[dict[str, Any]] = Field(min_length=1)
    """ADK's LlmResponses: the parts of a stream, and the whole answer."""
    read: dict[str, str] = Field(default_factory=dict)
    """What the repository's code behind the model has read; see `ToolHashes`."""
    seconds: NonNegativeFloat = 0.0
    """Duration when it was recorded."""
    done: NonNegativeInt
    """Its position among all answers of the conversation."""
    after: NonNegativeInt
    """How many of these had come when it was made."""
    dealt: NonNegativeInt | None = None
    """The first of these that came when the agent had dealt with this one, as an event shows; None if nothing did."""


class RecordedRun(WireModel):
    """What became of the run whose model calls are on the tape."""

    status: str = ""
    """`passed` or `failed`."""
    scores: RecordedScores = Field(default_factory=dict)


MAX_MODEL_CALLS = 1_000
"""Of a tape."""


class Tape(WireModel):
    """The recorded calls of one case."""

    schema_version: Literal["1", "2", "3"] = SCHEMA_VERSION
    """Versions 1 and 2 lack `packages`, `read` and `saw`: such tapes are recorded again."""
    eval_set_id: str
    eval_id: str
    recorded_at: FiniteFloat
    """Unix time in seconds."""
    runs: NonNegativeInt = 1
    """Number of recorded runs."""
    adk: str = ""
    """The version of google-adk."""
    tools: dict[str, ToolHashes] = Field(default_factory=dict)
    """By name; a tool of the same name that another agent has is `AGENT/NAME`."""
    calls: list[RecordedCall] = Field(default_factory=list)
    """In the order of their first appearance."""
    toolsets: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    """The tools that MCP servers list, in MCP's own form. By the agent, and its number among the agent's toolsets, with
    a hash of how the server is started or reached, and of its own files: `clerk/2#0c1f0e5b7a6d4c33`."""
    model_calls: list[ModelExchange] = Field(default_factory=list, max_length=MAX_MODEL_CALLS)
    """Those of one run, in the order in which they were asked; none if the runs disagreed: it has no `recorded`."""
    parts: dict[str, Any] = Field(default_factory=dict)
    """The values of their requests, in canonical form and by their hashes. One of `contents` is `{content, after}`: a
    conversation is a chain."""
    given: dict[str, str] = Field(default_factory=dict)
    """Hashes of what the case gives its agent: `session` (ids, initial state), `message 1`, ... The answers hold for
    these."""
    replies: dict[str, TapedReply] = Field(default_factory=dict)
    """What judges and simulated users answered in that run, by hashes of what they were asked (see models/cache.py)."""
    recorded: RecordedRun | None = None
    more: dict[str, Any] = Field(default_factory=dict)
    """Facts that later versions record."""

    @property
    def hidden(self) -> list[str]:
        """Kinds of what its tools used and nothing compares."""
        values = [*(tool.implementation for tool in self.tools.values()), *(call.saw for call in self.calls)]
        kinds = {kind for tool in self.tools.values() for kind in tool.hidden}
        return sorted(kinds | {_UNSTEADY for each in values if NOT_COMPARED in each.values()})

    @property
    def outdated(self) -> str:
        """Why it has to be recorded again, as a clause; "" if it need not."""
        version = self.schema_version
        return f"it has version {version} of the schema, which lacks what answers depend on" if version in OLDER else ""

    def has_models(self, *, may_be_live: bool) -> bool:
        """Whether it answers for the models of a run.

        Also of one that asked none, unless that can run live: only calls by ADK and google-genai are known, and a model
        that other code asks would be asked in a replay, too.
        """
        return not self.outdated and (bool(self.model_calls) or (self.recorded is not None and not may_be_live))

    def flaw(self) -> str | None:
        """What is wrong with the model calls, as a sentence: a merge or an editor has broken the file."""
        # A merge in git can take half of either side without a conflict.
        if altered := next((name for name, value in self.parts.items() if digest(value) != name), None):
            return f"The part `{altered[:40]}` is not what was recorded."
        nodes = {name: value for name, value in self.parts.items() if isinstance(value, dict) and "content" in value}
        needed = [node["after"] for node in nodes.values() if "after" in node]
        for call in self.model_calls:
            if call.fingerprint != fingerprint_of(call, call.request):
                return f"The fingerprint `{call.fingerprint[:40]}` is not that of its model call."
            needed += [node for name, node in call.request.items() if name == "contents"]
            if not self.parts.keys() >= set(call.request.values()):
                return f"`parts` lacks one of the model call `{call.fingerprint[:40]}`."
        if not nodes.keys() >= set(map(str, needed)):
            return "The contents of a model call are not complete."
        if len({(call.fingerprint, call.occurrence) for call in self.model_calls}) < len(self.model_calls):
            return "It has two model calls with one fingerprint and `occurrence`."
        done = [call.done for call in self.model_calls]
        # A replay releases answers by place: with two at one place it would wait for ever.
        done += [call.done for call in self.calls if call.done is not None]
        return "Two of its calls have the same place in `done`." if len(set(done)) < len(done) else None

    @property
    def content_hash(self) -> str:
        """Hash of what agents see whose tools are replayed. Recording the same answers again does not change it."""
        calls = [
            [call.tool, call.args, call.occurrence, call.replayable, call.answer()]
            # Parallel calls are recorded as they end, in another order each time.
            for call in sorted(
                self.calls, key=lambda call: (call.tool, call.occurrence, json.dumps(call.args, sort_keys=True))
            )
        ]
        text = json.dumps([calls, self.toolsets] if self.toolsets else calls, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def other_given(self, now: Mapping[str, str]) -> str:
        """The name of the first value of `given` that is another one now; "" if none is."""
        return next((name for name in {**now, **self.given} if self.given.get(name) != now.get(name)), "")

    def without_models(self) -> Tape:
        """The tape without its model calls."""
        calls = [call.model_copy(update={"done": None, "after": 0, "dealt": None}) for call in self.calls]
        without: dict[str, Any] = {name: {} for name in ("parts", "given", "replies")}
        return self.model_copy(update={**without, "calls": calls, "model_calls": [], "recorded": None})

    @property
    def conversation(self) -> list[object]:
        """What decides about the answers of models, for a hash."""
        calls = [[call.fingerprint, call.occurrence, call.done, call.responses] for call in self.model_calls]
        return [calls, [[call.tool, call.args, call.occurrence, call.done] for call in self.calls]]

    def hashes_of(self, tool: str, agent: str) -> ToolHashes | None:
        """What a tool of an agent was when its answers were recorded; None if it wasn't recorded."""
        return self.tools.get(f"{agent}/{tool}") or self.tools.get(tool)


def _changed_places(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The places whose values differ, unless one of them is not compared."""
    places = sorted(before.keys() | now.keys())
    pairs = {place: (before.get(place), now.get(place)) for place in places}
    return [place for place, pair in pairs.items() if pair[0] != pair[1] and NOT_COMPARED not in pair]


def changed_files(read: Mapping[str, str], now: Callable[[str, str], str]) -> str:
    """The files and directories that are no longer as they were, in words; see `ToolHashes.changed_read`."""
    changed = [place.split(":", 1) for place, before in read.items() if (now(place, "") or ABSENT) != before]
    names = [f"{name} (its list of files)" if kind == "folder" else name for kind, name in changed]
    return listed(list(dict.fromkeys(names)), 3) if names else ""


_SECRET = re.compile(
    r"^_*(authorization|token|(set_*)?cookie)_*$"
    r"|(^|_)((access|auth|id|refresh|session)_*token|(access|api|private|secret)_*key|pass(phrase|word|wd)"
    r"|(client_*)?secret)_*$"
)
"""Names whose values are masked in arguments, responses and state, with `_` between their words: whole names, and ends
of names. Not every `_token` is one: `page_token` decides about the answer."""
DEEPEST = 190
"""Levels of a value: a tape holds it some levels deeper, and pydantic reads 200."""


class TooDeep(AgentEvalError, ValueError):
    """A value is nested more deeply than a tape can hold."""


def masked(value: Any, policy: ToolPolicy) -> Any:
    """A value of a call with everything masked that must not be stored: secret names, and the paths of `mask`."""
    value = _without_secrets(value, 0)
    return _changed(value, policy.mask, lambda _: MASK)


def masked_names(value: Any, path: str = "") -> Iterable[str]:
    """The dotted paths of the values that their names make secret."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            at = f"{path}.{key}" if path else str(key)
            if is_secret(key, item):
                yield at
            else:
                yield from masked_names(item, at)
    elif isinstance(value, list):
        for item in value:
            yield from masked_names(item, path)


def place_of(toolset: str) -> str:
    """The name of a toolset, without the hash of its server's files."""
    return toolset.partition("#")[0]


def facts_of(call: ModelAsked | ModelExchange) -> dict[str, Any]:
    """Who asks which model, which decides about its answer as the request does."""
    return {
        "agent": call.agent,
        "model": call.model,
        "implementation": call.implementation,
        **({"code": call.code} if call.code else {}),
        "settings": call.settings,
        "stream": call.stream,
    }


def fingerprint_of(call: ModelAsked | ModelExchange, references: Mapping[str, str]) -> str:
    """The fingerprint of a model call whose settings are in canonical form."""
    return digest([facts_of(call), references])


def digest(value: Any) -> str:
    """Hash of a value in canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def canonical(args: Mapping[str, Any], policy: ToolPolicy) -> str:
    """The text by which a call is looked up: two calls of a tool with the same text are the same.

    Texts are compared in NFC, numbers by value, objects without regard to the order of their keys.
    """
    value = masked(args, policy)
    if policy.match is not None:
        value = _selected(value, [path.split(".") for path in policy.match])
    for path in policy.ignore:
        value = _without(value, path.split("."))
    return json.dumps(normal(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON."""
    return json.dumps(normal(left), sort_keys=True) == json.dumps(normal(right), sort_keys=True)


def normal(value: Any) -> Any:
    if isinstance(value, str):
        # Older tapes have no names of secrets, and what is replayed may not depend on which job has which variable.
        return unicodedata.normalize("NFC", unnamed(value))
    # Models write 4.0 or 4 for the same argument.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", str(key)): normal(item) for key, item in value.items()}
    return [normal(item) for item in value] if isinstance(value, list | tuple) else value


def is_secret(key: object, value: object) -> bool:
    """Whether a value must not be stored because of its name. `has_password: true` is no secret."""
    # `accessToken`, `access-token` and `ACCESS_TOKEN` are one name.
    words = re.sub(r"\W|(?<=[a-z\d])(?=[A-Z])", "_", str(key)).lower()
    return value not in (None, "", MASK) and not isinstance(value, bool) and _SECRET.search(words) is not None


def _without_secrets(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise TooDeep(f"It is nested more than {DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {key: MASK if is_secret(key, item) else _without_secrets(item, depth + 1) for key, item in value.items()}
    return [_without_secrets(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value


def _changed(value: Any, paths: Iterable[str], change: Callable[[Any], Any]) -> Any:
    for path in paths:
        value = _at(value, path.split("."), change)
    return value


def _at(value: Any, steps: Sequence[str], change: Callable[[Any], Any]) -> Any:
    """The value with a change at a path; lists are passed through."""
    if not steps:
        return change(value)
    if isinstance(value, list):
        return [_at(item, steps, change) for item in value]
    if isinstance(value, Mapping) and steps[0] in value:
        return {**value, steps[0]: _at(value[steps[0]], steps[1:], change)}
    return value


def _without(value: Any, steps: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_without(item, steps) for item in value]
    if not isinstance(value, Mapping) or steps[0] not in value:
        return value
    rest = {key: item for key, item in value.items() if key != steps[0]}
    return rest if len(steps) == 1 else {**value, steps[0]: _without(value[steps[0]], steps[1:])}


def _selected(value: Any, paths: Sequence[Sequence[str]]) -> Any:
    if any(not path for path in paths):
        return value
    if isinstance(value, list):
        return [_selected(item, paths) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: _selected(item, [path[1:] for path in paths if path[0] == key])
        for key, item in value.items()
        if any(path[0] == key for path in paths)
    }
