"""What `[[tool]]` of agent-eval.toml says about tools, and `[[volatile]]` about texts that models get."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

_LONGEST_TEXT = 20_000
"""Characters of a text up to which volatile parts of it are looked for."""

Mode = Literal["live", "record", "record-missing", "replay", "all"]
"""How calls are answered, by the settings `replay` and `record`. `replay` answers tools, `all` models, too."""
Miss = Literal["error", "live"]
"""What happens to a call that is not on the tape: the run of its case ends, or the tool runs."""
Stale = Literal["error", "warn", "live"]
"""What happens to a call of a tool that has changed: the run of its case ends, the old answer counts, or the tool runs.
If models are replayed, only an answer that is equal to the old one continues the conversation then."""


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """One `[[tool]]`. What is None says nothing."""

    name: str
    """A glob of tool names."""
    match: tuple[str, ...] | None = None
    """Dotted paths of the arguments that decide which recorded call answers."""
    ignore: tuple[str, ...] | None = None
    """Dotted paths of arguments that don't."""
    mask: tuple[str, ...] | None = None
    """Dotted paths in arguments and responses that are replaced by `***`."""
    replay: bool | None = None
    """False: the tool always runs."""
    answers: Literal["case"] | None = None
    """`case`: it never runs; the `tool_responses` of the eval case answer."""
    miss: Miss | None = None
    stale: Stale | None = None
    depends: tuple[str, ...] | None = None
    """Patterns of further files whose change makes the tool's recorded answers stale."""
    args: Mapping[str, Any] | None = None
    """How criteria compare arguments, by their paths: a default for `args` of the trajectory criteria."""
    line: int | None = None
    """Its line in agent-eval.toml, 1-based."""


@dataclass(frozen=True, kw_only=True)
class ToolPolicy:
    """What holds for one tool."""

    match: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    replay: bool = True
    answers: Literal["", "case"] = ""
    miss: Miss = "error"
    stale: Stale = "error"
    depends: tuple[str, ...] = ()

    @property
    def is_taped(self) -> bool:
        """Whether calls are recorded and replayed."""
        return self.replay and not self.answers


@dataclass(frozen=True, kw_only=True)
class VolatileRule:
    """One `[[volatile]]`: what it matches in what a model is asked is another text in each run."""

    pattern: re.Pattern[str]
    """A bounded expression; see `core.patterns`."""
    agent: str = "*"
    """A glob of the names of the agents that ask."""
    place: Literal["instruction", "contents"] = "instruction"

    @functools.cached_property
    def mark(self) -> str:
        """Stands for what it matches. Another rule has another mark: no tape that was made without it has this one."""
        text = "\0".join((self.agent, self.place, self.pattern.pattern))
        return f"‹volatile {hashlib.sha256(text.encode()).hexdigest()[:8]}›"


@dataclass(frozen=True, kw_only=True)
class ToolRules:
    """All entries. Of several that match a tool and have a key, the last one counts."""

    rules: tuple[ToolRule, ...] = ()
    volatile: tuple[VolatileRule, ...] = ()
    _policies: dict[str, ToolPolicy] = field(default_factory=dict, compare=False, repr=False)

    @property
    def any_by_hand(self) -> bool:
        """Whether answers of a tool are written by hand."""
        return any(rule.answers for rule in self.rules)

    def of(self, tool: str) -> ToolPolicy:
        """What holds for a tool."""
        policy = self._policies.get(tool)
        if policy is None:
            policy = self._policies[tool] = ToolPolicy(**self._values(tool))
        return policy

    def _values(self, tool: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for rule in self.rules:
            if fnmatchcase(tool, rule.name):
                keys = ("match", "ignore", "mask", "replay", "answers", "miss", "stale", "depends")
                values |= {key: value for key in keys if (value := getattr(rule, key)) is not None}
        return values

    def as_json(self) -> object:
        """For a fingerprint: everything that decides which answer a call gets."""
        keys = ("name", "match", "ignore", "mask", "replay", "answers", "miss", "stale")
        return [*([getattr(rule, key) for key in keys] for rule in self.rules), *(rule.mark for rule in self.volatile)]


def steady(value: Any, rules: tuple[VolatileRule, ...], *, whole: bool = False) -> Any:
    """JSON with the marks of rules instead of what they match in its texts.

    Args:
        value: The JSON.
        rules: The rules that hold for its place.
        whole: Whether they may match all letters and digits of a text. A text of which nothing else would be left stays
            as it is.
    """
    if isinstance(value, list):
        return [steady(item, rules, whole=whole) for item in value]
    if isinstance(value, dict):
        return {key: steady(item, rules, whole=whole) for key, item in value.items()}
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        return value
    marked = functools.reduce(lambda text, rule: rule.pattern.sub(rule.mark, text), rules, value)
    rest = functools.reduce(lambda text, rule: text.replace(rule.mark, ""), rules, marked)
    return marked if whole or any(map(str.isalnum, rest)) else value
