"""What to do about an agent that can't be imported: from the exception, and from the files of the repository."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from agent_eval_agents.dotenv import dotenv_of, unread_lines
from agent_eval_agents.sandbox.forwarding import denied_by
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import first_line

_FIELD = re.compile(r"^(\S.*)\n  (\S.*?) \[type=", re.MULTILINE)
"""A field of pydantic's text and what is wrong with it, without its value."""
_UNSET = re.compile(
    r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.{0,40}\b(?:not set|unset|missing|required|not defined|must be set)|"
    r"\b(?:set|missing|export|define)\b.{0,30}?\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
)


_GETENV = re.compile(
    r"(?:getenv|environ\.get)\([\"'](\w+)[\"']\)[^\n]*\n(?:[ ~^]+\n)?(?:AttributeError|TypeError): [^\n]*None"
)
"""The line of a traceback that uses a variable that is not set."""
_SAYINGS = r"""
Context variable not found: `(\w+)` -> Set `{0}` in `session_input.state` of the case, or write `{{{0}?}}`.
Model (\S+) not found -> ADK has no model of this name. Another provider's: `LiteLlm(model="PROVIDER/{0}")`.
asyncio\.run\(\) cannot be -> Make the tool an `async def`, and await there: ADK runs it in its event loop.
unexpected keyword argument '(callback_context|llm_re\w+|tool\w*|args)' -> ADK names callbacks' arguments: write `{0}`.
pip install ['"]?([\w.\[\],-]+) -> Add `{0}` to the agent's requirements.
from 'google\.adk\.tools\.(mcp)_tool' -> Add `google-adk[{0}]` to the agent's requirements.
partially initialized module -> Two modules import each other: import inside of a function, or from a third module.
EOF when reading a line -> There is no standard input here: take the value from a variable (`agent-env`).
tools\.(\d+)\.callable: -> `tools[{0}]` is no tool. Write the function without quotes or a call: `tools=[NAME]`.
is None, not an ADK agent -> Assign an agent: `root_agent = Agent(name=..., model=...)`, or return it in the function.
"""
"""What exceptions say, and what to do. {0} is what the brackets match."""


def known_hint(
    kind: str, message: str, traceback: str | None, root: Path | None = None, agent: Path | None = None
) -> str | None:
    """The hint for an exception whose cause is known by its words; None for others."""
    for pattern, _, hint in (line.partition(" -> ") for line in _SAYINGS.strip().splitlines()):
        if match := re.search(pattern, essence(message)):
            return hint.format(*match.groups())
    name = re.search(r": '([^']+)'$", message) if kind == "FileNotFoundError" else None
    if name is None:
        return unset_variable_hint(kind, message, traceback, root, agent)
    path = Path(name[1])
    if not path.is_absolute():
        folder = agent if agent is not None and agent.is_dir() else agent.parent if agent is not None else None
        if folder is None or (folder / path).exists():
            return (
                f"`{path}` is looked for where the agent's process starts (`agent-cwd`). In code: "
                f'`Path(__file__).parent / "{path}"`.'
            )
        if root is not None and (root / path).exists():
            return f"`{path}` is in the repository's root, where the agent does not start: set `agent-cwd: root`."
        places = [place for place in (folder, root) if place is not None]
        close = [
            (place / path.parent / near).relative_to(root or folder).as_posix()
            for place in places
            for near in nearby(path.name, _names_in(place / path.parent, root), 1)
        ]
        guess = (
            f"Did you mean `{close[0]}`?"
            if close
            else "Commit it, if it is only on your machine, or correct the path; of a file beside the code it is "
            f'`Path(__file__).parent / "{path}"`.'
        )
        return f"Neither the agent's directory nor the repository's root has `{path}`. {guess}"
    shown = path.relative_to(root).as_posix() if root is not None and path.is_relative_to(root) else name[1]
    close = nearby(path.name, _names_in(path.parent, root), 1)
    guess = f"Did you mean `{close[0]}`?" if close else "Commit it, if it is only on your machine, or correct the path."
    return f"`{shown}` does not exist. {guess}"


def _names_in(folder: Path, root: Path | None) -> list[str]:
    """The names in a folder of the repository. The agent may not see others that the gate can read."""
    real = os.path.realpath(folder)
    if root is None or not Path(real).is_relative_to(os.path.realpath(root)):
        return []
    with contextlib.suppress(OSError, ValueError):
        return sorted(os.listdir(real))  # noqa: PTH208
    return []


def essence(message: str) -> str:
    """The first line of an exception's message; of pydantic's errors also what is wrong with the first fields."""
    first = first_line(message, 500)
    found = [(name, text.rstrip(".")) for name, text in _FIELD.findall(message)[:3]]
    fields = [text if name == first else f"{name}: {text}" for name, text in found]
    return first_line(f"{first}: {'; '.join(fields)}" if fields else first, 500)


def unset_variable_hint(
    kind: str, message: str, traceback: str | None, root: Path | None = None, agent: Path | None = None
) -> str | None:
    """The hint for an environment variable that the agent reads and that neither the job nor the `.env` sets."""
    match = _UNSET.search(first_line(message, 500)) or _GETENV.search(traceback or "")
    if kind == "KeyError" and "environ" in (traceback or ""):
        match = re.fullmatch(r"'(\w+)'", message.strip())
    if match is None:
        return None
    name = next(filter(None, match.groups()))
    if root is not None and agent is not None and agent.is_absolute() and (file := dotenv_of(agent, root)) is not None:
        for unread in (line for line in unread_lines(file, root) if line.variable == name):
            shown = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()
            return f"{shown}:{unread.line}: {unread.message}. {unread.hint}"
    if (rule := denied_by(name)) is not None:
        return (
            f"Set `{name}` in the agent's `.env`: {rule} belongs to the CI system, so the job's value is never "
            "passed on. Or read a variable with another name, and pass that on (`agent-env`)."
        )
    return (
        f"Set `{name}` in the agent's `.env`; or in this shell or job, and pass it on: `--agent-env +{name}` "
        f"(`agent-env: +{name}`). It is not set here."
    )


_OF_PARTS = {
    "is the class ": "Make an agent of the class: `root_agent = Agent(name=..., model=...)`.",
    "must be a valid Python identifier": "Write letters, digits and underscores only, and begin with a letter.",
}
"""Hints by what a message contains."""
OF_LOADING = ("not an ADK agent", "there is no agent named", "define no agent", "defines no agent", "defines neither")
"""What is in messages of the host's own about what it has loaded."""


def import_hint(
    kind: str, message: str, traceback: str | None, agent: Path, root: Path, nearest: str | None = None
) -> str:
    """The hint for an exception that the import of an agent raised.

    Args:
        kind: The name of its class.
        message: Its message.
        traceback: Its traceback.
        agent: The agent's directory or file, absolute; or its dotted module.
        root: The repository.
        nearest: The name that was probably meant.
    """
    if (hint := known_hint(kind, message, traceback, root, agent)) is not None:
        return hint
    if nearest is not None and "." not in message.partition("No module named ")[2]:
        return f"Did you mean `{nearest}`?"
    if kind == "ModuleNotFoundError":
        return _missing_module(message, agent, root, nearest)
    if "attempted relative import" in message:
        parts = (agent.parent / agent.stem).relative_to(root).parts if agent.is_relative_to(root) else ()
        module = ".".join(parts[parts[:1] == ("src",) :])
        named = f"`--agent {module}` imports it with the packages above it. Or write" if "." in module else "Write"
        return (
            f"ADK imports `{agent.stem}` as a top-level module. {named} the import without `..`: the agent's parent "
            "directory, the repository's root and `src` are importable."
        )
    if place := re.search(r"from '([\w.]+)' \(unknown location\)", message):
        return (
            f"`{place[1]}` has no `__init__.py`, so it has no names of its own: add the file, or import from its "
            f"modules (`from {place[1]}.MODULE import ...`)."
        )
    if "of type coroutine, not an" in message or "of type function, not an" in message:
        return (
            "Call the function that makes the agent. If it is asynchronous, name it `get_agent_async` (`async def "
            "get_agent_async()`), and define no `root_agent`."
        )
    if tree := re.search(r"there is no agent named '(.*?)' in its tree: (.*)", message):
        names = [path.rpartition("/")[2] for path in tree[2].split(", ")]
        close = nearby(tree[1], names, 1) or names[:1]
        return f"Write `#{close[0]}` after the agent in `--agent` or [agents], or name the root agent without `#`."
    if (hint := next((hint for part, hint in _OF_PARTS.items() if part in message), None)) is not None:
        return hint
    if kind == "LookupError" or "not an ADK agent" in message:
        return "Define `root_agent` or `app` in agent.py, or set another directory with `--agent`."
    if kind == "SystemExit":
        return 'Provide what it asks for, or let it exit only as a program: `if __name__ == "__main__":`.'
    if kind == "PermissionError":
        page = docs_page("security")
        return f"As root, the gate starts the agent as another user ({page}): allow others to read the file."
    if kind in {"SyntaxError", "IndentationError", "TabError"}:
        return "Fix the file, or run the agent with the Python version that it is written for (`--agent-python`)."
    if kind in {"ValidationError", "NameError", "AttributeError", "TypeError", "ImportError", "AssertionError"}:
        return "Fix this line, or install the version of the package that it is written for."
    return (
        "The agent must be importable without network access and without secrets; see the traceback. It only gets the "
        f"job's variables on the default list, and those that `agent-env` adds ({docs_page('agents')})."
    )


def _missing_module(message: str, agent: Path, root: Path, nearest: str | None) -> str:
    """The hint for a module that is not found: misspelt, beside the agent, or of a package that is not installed."""
    match = re.search(r"No module named '([\w.]+)'", message)
    first, *rest = match[1].split(".") if match else ("",)
    dotted = () if agent.is_absolute() else str(agent).split(".")
    folder = root.joinpath(*dotted) if dotted else agent
    package = next((place / first for place in (folder.parent, root, root / "src") if (place / first).is_dir()), folder)
    for part in rest if first in {"agent", package.name} else ():
        if not (package / part).is_dir():
            place = package.relative_to(root) if package.is_relative_to(root) else package
            close = nearby(part, _modules(package), 1)
            todo = f"Write `{close[0]}` instead of `{part}`" if close else f"Add {place / f'{part}.py'} and commit it"
            where = "the root" if place == Path() else f"{place}/"
            return f"{todo}, or correct the import: {where} has no module `{part}`."
        package /= part
    if nearest is not None:
        return f"`{'.'.join([first, *rest[:-1]])}` has no module `{rest[-1]}`. Did you mean `{nearest}`?"
    if not rest and any((folder / beside).exists() for beside in (f"{first}.py", f"{first}/__init__.py")):
        return f"ADK imports `{folder.name}` as a package. `{first}` is in it: write `from .{first} import ...`."
    close = nearby(first, [name for place in (folder, folder.parent, root) for name in _modules(place)], 1, 0.75)
    guess = f"Did you mean `{close[0]}`, which is in the repository? If not: " if close else ""
    if first in dotted[:1]:
        todo = "orrect `--agent`, e.g. `--agent DIRECTORY`, or add the package to the agent's requirements"
        return f"{guess}{'c' if guess else 'C'}{todo}: neither the repository's root nor `src` has `{first}`."
    elif first:
        guess += f"correct the import, or add the package of `{first}` to the agent's requirements. "
        guess += "An interpreter named by `--agent-python` needs it installed. "
    guess += "Importable are the agent's parent directory, the repository's root and `src`."
    return f"{guess[:1].upper()}{guess[1:]}"


def _modules(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*") if path.suffix == ".py" or path.is_dir())
