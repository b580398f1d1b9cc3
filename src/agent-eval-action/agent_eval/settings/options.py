"""How a setting is declared: as a field of `Settings`. Its flag, action input and key in agent-eval.toml follow.

The name of the field is the input's with underscores, and its parser follows from its type, unless one is given.
"""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from agent_eval.settings import parsers

FILES = "eval files"
AGENT = "agent"
RUNS = "execution"
JUDGES = "judges and simulated users"
VERDICT = "verdict"
BASELINE = "baseline"
RESULTS = "output"
CI = "CI only"
GROUPS = (FILES, AGENT, RUNS, JUDGES, VERDICT, BASELINE, RESULTS, CI)
"""In the order of `agent-eval run --help`."""

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting: its names, type, default and help."""

    input: str
    """Name of the action input and of the key in agent-eval.toml; the flag is `--NAME`."""
    group: str
    """The heading above it in `agent-eval run --help`."""
    help: str
    """One or two sentences, shown in `--help`, action.yml and docs/configuration.md."""
    default: str = ""
    """As a user writes it; "" for none."""
    parse: Callable[[str], Any]
    """Converts the text to a value. Raises ValueError: `ExpectedError`, or a clause."""
    metavar: str = "VALUE"
    choices: tuple[str, ...] = ()
    """All values it can have; empty if the set is open."""
    basic: bool = False
    """Whether most users need it. `--help` and README show the basic ones, `--help-all` all."""
    in_file: bool = True
    """False if agent-eval.toml must not set it. A pull request can change that file, and these settings name a command
    that runs outside the sandbox, variables that the agent gets, directories we write to, and where keys are sent."""
    secret: str | None = None
    """The environment variable that sets it on the command line. Secrets are not flags, because every user of a machine
    can read the arguments of a process."""

    @property
    def field(self) -> str:
        """Name of the field in Settings."""
        return self.input.replace("-", "_")

    def parsed_default(self) -> Any:
        """The value if no source sets it."""
        return self.parse(self.default)

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.parse is parsers.switch


_OF_TYPE: Mapping[type | types.UnionType | types.GenericAlias, Mapping[str, Any]] = {
    bool: {"parse": parsers.switch, "default": "false", "metavar": "BOOL"},
    int: {"parse": parsers.count(1), "metavar": "N"},
    int | None: {"parse": parsers.optional(parsers.count(1)), "metavar": "N"},
    float: {"parse": parsers.seconds, "metavar": "SECONDS"},
    str | None: {"parse": parsers.text},
    Path | None: {"parse": parsers.path, "metavar": "FILE"},
    tuple[str, ...]: {"parse": parsers.words, "metavar": "PATTERN"},
}
"""How a field of a type is written, if its declaration doesn't say something else."""


def option(group: str, help: str, **more: Any) -> Any:
    """Declares a setting: the group, the help, and what else `Setting` has."""
    return partial(Setting, group=group, help=help, **more)


def declare(cls: type[Settings]) -> type[Settings]:
    """Makes fields of a dataclass of the `option`s of a class; each field's metadata has its `Setting`."""
    for name, type in cls.__annotations__.items():
        declared = cls.__dict__.get(name)
        if isinstance(declared, partial):
            setting = declared(input=name.replace("_", "-"), **{**_from_type(type), **declared.keywords})
            metadata = {"setting": setting}
            value = field(default_factory=setting.parsed_default, repr=setting.secret is None, metadata=metadata)
            setattr(cls, name, value)
    return cls


def _from_type(type: Any) -> dict[str, Any]:
    """The parser of a type, and what follows from it."""
    if typing.get_origin(type) is Literal:
        choices = typing.get_args(type)
        return {"parse": partial(parsers.choice, choices), "choices": choices}
    return dict(_OF_TYPE.get(type, {}))
