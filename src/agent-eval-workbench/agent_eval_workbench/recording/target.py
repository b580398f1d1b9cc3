"""The eval file that gets a case: what has to hold before the agent is asked, and how the case is written."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import InvocationEvents
from agent_eval_scoring.core.problem import Problem, Severity, errors_of, has_error
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import listed, short_name
from agent_eval_scoring.evalset.checks import check_cases
from agent_eval_scoring.evalset.discovery import SUFFIXES, discover
from agent_eval_scoring.evalset.json import (
    PatchError,
    eval_set_text,
    patched_text,
    read_document,
    replaced,
    with_item,
    write_if_unchanged,
    write_text,
)
from agent_eval_scoring.evalset.models import EvalCase, EvalSet
from agent_eval_scoring.evalset.parse import EvalFile, read_eval_file
from agent_eval_scoring.evalset.paths import absolute, name_of
from agent_eval_workbench.authoring.writing import errors_in


class Refused(AgentEvalError):
    """Nothing is written, for these reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)

    @property
    def text(self) -> str:
        """The reasons with their places and hints."""
        return "\n".join(map(str, self.problems))


def error(code: str, message: str, hint: str | None = None, *, file: str | None = None) -> Refused:
    """The refusal for one reason; see `Problem`."""
    return Refused([Problem(code=code, message=message, hint=hint, file=file)])


def new_set_id(new: Path, root: Path | None) -> tuple[str, list[Problem]]:
    """The id of a new eval set: the stem of its file, because ADK finds an eval set by it.

    Args:
        new: The file.
        root: The directory whose eval files must not have the same id. None skips this check.

    Returns:
        The id, and a notice if it is not the stem because another file has it.
    """
    name = stem(new)
    taken = _set_ids(root, new) if root is not None else {}
    if name not in taken:
        return name, []
    longer = f"{name}_{absolute(new).parent.name}"
    return longer, [
        Problem(
            severity=Severity.NOTICE,
            code="eval-set-id-taken",
            message=f"The id of the eval set is `{longer}`, because `{taken[name]}` has the id `{name}`.",
            hint="`adk web` finds an eval set by the name of its file.",
            file=new.as_posix(),
        )
    ]


def _set_ids(root: Path, exclude: Path) -> dict[str, str]:
    """The ids of the eval sets below a directory, each with the name of a file, except for one file."""
    ids: dict[str, str] = {}
    for file in discover(root).files:
        # By its raw value: a file with errors has its id all the same.
        document = None if file.path == absolute(exclude) else read_document(file.path, file.name)[0]
        set_id = document.value.get("eval_set_id") if document and isinstance(document.value, dict) else None
        if isinstance(set_id, str):
            ids.setdefault(set_id, file.name)
    return ids


def stem(path: Path) -> str:
    """A file's name without the suffix of an eval file."""
    for suffix in (*SUFFIXES, ".json"):
        # `.json` alone would have no name.
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


_FILE = "record-file"
_ID = "record-id"
_CHANGED = "record-changed"
USER_ID = "user"
"""The user of new cases, as in `adk web`."""
_ONE_CASE = ".test.json"
_KEPT = 1_000


@dataclass(frozen=True, kw_only=True)
class Target:
    """An eval file, as it was when the command started."""

    path: Path
    name: str
    """Relative to the root."""
    set_id: str
    text: str | None = None
    """Its content; None if it does not exist."""
    value: Any = None
    eval_set: EvalSet | None = None
    eval_id: str = ""
    """The id of the new case; "" if it is to be derived from the first message."""
    index: int | None = None
    """The index of the case that is replaced."""
    notices: tuple[Problem, ...] = ()

    @property
    def cases(self) -> Sequence[EvalCase]:
        """The cases of the file."""
        return self.eval_set.eval_cases if self.eval_set is not None else ()

    @property
    def taken(self) -> list[str]:
        """Ids that a new case must not have."""
        return [case.eval_id for case in self.cases]

    @property
    def form(self) -> Literal["flat", "events"]:
        """The form of calls in most turns of the file."""
        turns = [turn for case in self.cases for turn in case.conversation or ()]
        forms = [turn.intermediate_data for turn in turns if turn.intermediate_data is not None]
        events = sum(isinstance(form, InvocationEvents) for form in forms)
        return "events" if 2 * events > len(forms) else "flat"


def split_name(text: str) -> tuple[str, str]:
    """Splits `FILE[:EVAL_ID]`. The id may have colons."""
    # At the suffix and not at a colon: ids and, on Windows, paths have colons.
    ends = [at + len(suffix) for suffix in SUFFIXES if (at := text.find(f"{suffix}:")) >= 0]
    end = min(ends, default=len(text))
    return text[:end], text[end + 1 :]


def open_target(root: Path, file: str, eval_id: str = "", *, replace: bool = False) -> Target:
    """Checks that a case can be written, before anything is asked.

    Args:
        root: The repository.
        file: The eval file, relative to the root.
        eval_id: The id of the case; "" to derive it from the first message.
        replace: The case exists, and is replaced.

    Raises:
        Refused: The file or the id can't be used.
    """
    path = absolute(root / file)
    name = name_of(path, root)
    if not name.endswith(SUFFIXES) or path.name in SUFFIXES:
        hint = (
            f"Write `{name.partition('.')[0] or 'evals/new'}{SUFFIXES[-1]}`: commands find eval files by these endings."
        )
        raise error(_FILE, f"`{name}` does not end in {' or '.join(SUFFIXES)}.", hint)
    # A link in a checkout must not lead what is written out of it.
    if not path.resolve().is_relative_to(root.resolve()):
        link = " (through a symbolic link)" if absolute(path).is_relative_to(absolute(root)) else ""
        raise error(
            _FILE, f"`{name}` is outside of the current directory{link}.", "Start the command in the repository."
        )
    _check_writable(path, name)
    if not path.exists():
        if replace:
            hint = "Leave out `--replace` to make the file, or name a file that has the case."
            raise error(_ID, f"`{name}` does not exist, so there is no case to replace.", hint, file=name)
        set_id, notices = new_set_id(path, root)
        return Target(path=path, name=name, set_id=set_id, eval_id=eval_id, notices=tuple(notices))
    text, parsed = _read(path, name)
    assert parsed.eval_set is not None
    target = Target(
        path=path,
        name=name,
        set_id=parsed.eval_set.eval_set_id,
        text=text,
        value=parsed.document.value,
        eval_set=parsed.eval_set,
        eval_id=eval_id,
    )
    index = _index(target, eval_id, replace=replace)
    # ADK's convention: a `.test.json` is one session, a unit test.
    if index is None and target.cases and name.endswith(_ONE_CASE):
        hint = f"Record into {name.removesuffix(_ONE_CASE)}{SUFFIXES[-1]}, or replace the case with --replace."
        raise error(_FILE, f"`{name}` has a case already; a {_ONE_CASE} file takes one.", hint, file=name)
    return dataclasses.replace(target, index=index)


def _check_writable(path: Path, name: str) -> None:
    # Before the agent is asked: a conversation costs minutes and money, and would be lost.
    existing = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    if existing != path and not existing.is_dir():
        raise error(_FILE, f"`{name}` can't be written: {existing} is not a directory.")
    if path.exists() and not os.access(path, os.W_OK):
        raise error(_FILE, f"`{name}` can't be written: it is read-only.", "Check the file's permissions.")
    folder = path.parent if path.exists() else existing
    # The directory, since a file is replaced and not overwritten.
    if not os.access(folder, os.W_OK | os.X_OK):
        raise error(
            _FILE, f"`{name}` can't be written: no permission for {folder}.", "Check the directory's permissions."
        )


def _read(path: Path, name: str) -> tuple[str, EvalFile]:
    document, problems = read_document(path, name)
    file = None
    if document is not None:
        file, file_problems = read_eval_file(document, session=None)
        problems += file_problems
        # Duplicate ids, too: a case that is added to them could not be selected.
        problems += [] if file is None else check_cases(file)
    if document is None or file is None or file.eval_set is None or has_error(problems):
        raise Refused(errors_of(problems))
    if file.converted is not None:
        hint = f"`agent-eval migrate {name} NEW` converts it."
        raise error(_FILE, "The file has an older format, to which no case can be added.", hint, file=name)
    return document.text, file


def _index(target: Target, eval_id: str, *, replace: bool) -> int | None:
    """The index of the case that is replaced; None for a new case."""
    matching = [number for number, case in enumerate(target.cases) if case.eval_id == eval_id]
    shown = short_name(eval_id)
    if replace and not eval_id:
        raise error(_ID, f"Which case of `{target.name}` is meant?", f"Write {target.name}:EVAL_ID.", file=target.name)
    if replace and not matching:
        near = nearby(eval_id, target.taken) or target.taken[:5]
        hint = f"Its cases: {listed([f'`{short_name(name)}`' for name in near], 5)}." if near else "It has no cases."
        raise error(_ID, f"`{target.name}` has no case `{shown}`.", hint, file=target.name)
    if matching and not replace:
        hint = "Choose another id, or replace the case with --replace."
        raise error(_ID, f"`{target.name}` has a case `{shown}` already.", hint, file=target.name)
    return matching[0] if matching else None


def case_value(case: EvalCase, target: Target) -> dict[str, Any]:
    """The JSON of a case, with keys in the spelling of the file's other cases."""
    first: dict[str, Any] = next(iter(target.value["eval_cases"]), {}) if target.value is not None else {}
    value: dict[str, Any] = case.model_dump(
        mode="json", exclude_unset=True, exclude_defaults=True, exclude_none=True, by_alias="evalId" in first
    )
    return value


def checked_text(target: Target, cases: Sequence[EvalCase]) -> str:
    """The text of the file with the cases added, or with one of its cases replaced.

    Args:
        target: The file.
        cases: New cases.

    Raises:
        Refused: The file would be invalid, or can't be changed without rewriting it.
    """
    if target.value is None or target.text is None:
        text = eval_set_text(EvalSet(eval_set_id=target.set_id, eval_cases=list(cases)))
    else:
        value = target.value
        for case in cases:
            if target.index is None:
                value = with_item(value, ("eval_cases",), case_value(case, target))
            else:
                value = replaced(value, ("eval_cases", target.index), case_value(case, target))
        try:
            text = patched_text(target.text, target.value, value)
        except PatchError as problem:
            message = f"No case can be added to `{target.name}`: {problem}."
            raise error(_FILE, message, "Correct the file, then record again.", file=target.name) from problem
    # Read back as `validate` reads it: what is written has to be valid whatever went wrong before.
    if errors := errors_in(text, target.name):
        raise Refused(errors)
    return text


def write_target(target: Target, text: str, cases: Sequence[EvalCase]) -> None:
    """Writes the file if it is what it was when the command started.

    Raises:
        Refused: Another program has changed it. The cases are kept in a file beside it.
        OSError: The file can't be written.
    """
    target.path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.path.parent):
        try:
            if target.text is not None:
                write_if_unchanged(target.path, target.text, text)
                return
            # lexists, since a dangling link is something that is there.
            if not os.path.lexists(target.path):
                write_text(target.path, text)
                return
            reason = "another program has made the file meanwhile"
        except PatchError as problem:
            reason = str(problem)
        kept = _keep(target, cases)
    hint = f"The recording is in {kept.name} beside it. Record again, or copy its case."
    raise error(_CHANGED, f"`{target.name}` is not changed: {reason}.", hint, file=target.name)


def _keep(target: Target, cases: Sequence[EvalCase]) -> Path:
    """Writes the cases to a new file, which the commands do not take for an eval file."""
    text = eval_set_text(EvalSet(eval_set_id=target.set_id, eval_cases=list(cases)))
    for number in range(1, _KEPT):
        path = target.path.with_name(f"{target.path.name}.recorded-{number}.json")
        # "x", so that two commands that fail at once keep both recordings.
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            return path
    raise error(_CHANGED, f"There are {_KEPT:,} recordings beside `{target.name}` already.", "Remove them.")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a directory against other commands that write cases, where the file system can."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Some network file systems have no locks. Then the comparison with the old text alone protects the file.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
