"""`agent-eval show`: what the agent did in a case, from the files of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent_eval.baseline import UnreadableError, read_file
from agent_eval.core.files import read_lines
from agent_eval.core.selectors import matches, nearby, parse_selector
from agent_eval.core.text import harmless, plural
from agent_eval.evalset.models import EvalCase
from agent_eval.report.renderers import RunView, case_text
from agent_eval.results import FILES, CaseReport, ConversationReport, Recording, RunReport, RunResult

DEFAULT_RESULTS = "agent-eval-results"
_EVAL_FILES = (".test.json", ".evalset.json")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to show."""

    results: Path
    cases: Sequence[str] = ()
    """Selectors as `run` takes them; none for the cases that did not pass."""
    every: bool = False
    """Show all cases, whatever `cases` says."""


def read_request(words: Sequence[str], root: Path) -> Request:
    """Tells the results from the cases: the first word is the results if it is a directory of them, or such a file.

    Args:
        words: What was written on the command line.
        root: What paths are relative to.
    """
    if words:
        path = root / words[0]
        is_file = path.is_file() and not words[0].endswith(_EVAL_FILES)
        if is_file or (path / FILES["results-file"]).exists():
            return Request(results=path, cases=words[1:])
    return Request(results=root / DEFAULT_RESULTS, cases=words)


def show(request: Request, root: Path, *, run: int | None = None, width: int = 100, color: bool = False) -> str:
    """The cases as text for a terminal.

    Args:
        request: Which results and which cases.
        root: The repository: eval files that have not changed since the run say in full what was expected.
        run: Which run of each case, 1-based; None for the first that failed, else the first.
        width: Columns.
        color: Whether to write ANSI colours.

    Raises:
        UnreadableError: The results or the recordings can't be read, or have no such case or run.
    """
    report = _read(request.results)
    where = harmless(str(request.results))
    cases = list(report.cases) if request.every else _selected(report, request.cases, where)
    if request.every and not cases:
        return ""
    if not cases:
        passed = plural(report.totals.passed, "case")
        return f"No case of {where} failed or could not be judged; {passed} passed. Name the cases to show.\n"
    chosen = {case.case_id: _run_of(case, report, run) for case in cases}
    recordings = read_recordings(_folder(request.results), {one.run_id for one in chosen.values() if one is not None})
    expected = _eval_cases(cases, root)
    texts = []
    for case in cases:
        result = chosen[case.case_id]
        recording = recordings.get(result.run_id) if result is not None else None
        texts.append(_text(case, report, result, recording, expected.get(case.case_id), width=width, color=color))
    return "\n".join(texts)


def _read(path: Path) -> RunReport:
    if not (path / FILES["results-file"]).exists() and path.name == DEFAULT_RESULTS:
        raise UnreadableError(
            f"{harmless(str(path / FILES['results-file']))} does not exist.",
            "Run `agent-eval run` first, or name a run's output directory: `agent-eval show DIRECTORY [CASE ...]`.",
        )
    return read_file(path)


def _folder(results: Path) -> Path:
    return results if results.is_dir() else results.parent


def _selected(report: RunReport, words: Sequence[str], where: str) -> list[CaseReport]:
    if not words:
        red = {"failed", "errored"}
        return [case for case in report.cases if case.status in red or case.case_id in report.blocking]
    paths = {case.file for case in report.cases}
    paths |= {str(folder) for file in paths for folder in PurePosixPath(file).parents}
    taken: set[str] = set()
    for word in words:
        takes = _selector(word.removeprefix("./"), paths)
        found = {case.case_id for case in report.cases if takes(case)}
        if not found:
            raise UnreadableError(f"{where} has no case {harmless(word)!r}.", _instead(word, report))
        taken |= found
    return [case for case in report.cases if case.case_id in taken]


def _selector(word: str, paths: Collection[str]) -> Callable[[CaseReport], bool]:
    """What a word takes: an eval id, a case id, FILE:ID,ID, a file, a directory, or a glob of ids.

    Args:
        word: As it was written.
        paths: The files of the results, and the directories above them.
    """
    chosen = parse_selector(word.rstrip("/"), paths.__contains__)
    path = chosen.path if chosen.path in paths else None

    def takes(case: CaseReport) -> bool:
        if matches(word, case.eval_id) or matches(word, case.case_id):
            return True
        in_path = path is not None and (path in {case.file, "."} or case.file.startswith(f"{path}/"))
        return in_path and (not chosen.ids or any(matches(one, case.eval_id) for one in chosen.ids))

    return takes


def _instead(word: str, report: RunReport) -> str:
    names = [name for case in report.cases for name in (case.eval_id, case.case_id)]
    if close := nearby(word, names):
        return f"Did you mean {harmless(' or '.join(map(repr, close)))}?"
    some = ", ".join(case.eval_id for case in report.cases[:5]) + (", …" if len(report.cases) > 5 else "")
    return harmless(f"It has {plural(len(report.cases), 'case')}: {some}") if some else "It has no cases."


def _runs(case: CaseReport, report: RunReport) -> list[RunResult]:
    """The runs of a case, and those that were added to tell a change from noise."""
    return [*case.runs, *(run for part in report.confirmations if part.case_id == case.case_id for run in part.runs)]


def _run_of(case: CaseReport, report: RunReport, number: int | None) -> RunResult | None:
    runs = _runs(case, report)
    if number is None:
        return next((run for run in runs if run.status == "failed"), None) or next(iter(runs), None)
    found = next((run for run in runs if run.run == number - 1), None)
    if found is None:
        known = ", ".join(str(run.run + 1) for run in runs) or "none"
        raise UnreadableError(f"{harmless(case.case_id)} has no run {number}.", f"Its runs: {known}.")
    return found


def read_recordings(folder: Path, run_ids: Collection[str]) -> dict[str, Recording]:
    """The recordings of these runs, by run id; nothing if the folder has no recordings.

    Raises:
        UnreadableError: The recordings can't be read to their end.
    """
    path = folder / FILES["recordings-file"]
    if not path.exists():
        return {}
    found: dict[str, Recording] = {}
    number = 0
    try:
        for line in read_lines(path):
            number += 1
            recording = _recording(line, run_ids)
            if recording is not None:
                found[recording.run_id] = recording
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        reason = harmless(said.splitlines()[0])
        raise UnreadableError(
            f"{harmless(str(path))} can't be read (line {max(number, 1)}): {reason}.",
            "Fetch the artifact again. Without this file `show` prints what results.json keeps.",
        ) from None
    return found


def _recording(line: bytes, run_ids: Collection[str]) -> Recording | None:
    from pydantic_core import from_json

    content = from_json(line)
    if not isinstance(content, dict) or not isinstance(content.get("run_id"), str):
        raise ValueError("it is no recording of a run")
    return Recording.model_validate(content) if content["run_id"] in run_ids else None


def _eval_cases(cases: Sequence[CaseReport], root: Path) -> Mapping[str, EvalCase]:
    """What was asked and expected, of cases whose eval file is still as it was when they ran."""
    from agent_eval.evalset.loading import load_suite
    from agent_eval.runner import case_fingerprint

    files = [file for file in dict.fromkeys(case.file for case in cases) if _inside(file) and (root / file).is_file()]
    if not files:
        return {}
    fingerprints = {case.case_id: case.fingerprint for case in cases}
    return {
        f"{file.path}:{one.case.eval_id}": one.case
        for file in load_suite(root, files).files
        for one in file.cases
        if case_fingerprint(one.case, file.config.user_simulator_config)
        == fingerprints.get(f"{file.path}:{one.case.eval_id}")
    }


def _inside(file: str) -> bool:
    """Whether a path that some results name stays in the repository."""
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in file


def _text(
    case: CaseReport,
    report: RunReport,
    result: RunResult | None,
    recording: Recording | None,
    expected: EvalCase | None,
    *,
    width: int,
    color: bool,
) -> str:
    view = RunView(
        case=case,
        runs=_runs(case, report),
        shown=result,
        conversation=_conversation(case, result, recording, expected),
        is_whole=recording is not None,
        added=[part for part in report.confirmations if part.case_id == case.case_id],
    )
    return case_text(view, width=width, color=color)


def _conversation(
    case: CaseReport, result: RunResult | None, recording: Recording | None, expected: EvalCase | None
) -> ConversationReport | None:
    from agent_eval.runner import conversation_of

    kept = case.conversation
    kept = kept if kept is not None and result is not None and kept.run == result.run else None
    if recording is None:
        return kept
    made = conversation_of(recording, expected)
    if expected is None and kept is not None:
        # The eval file is gone or has changed: results.json has excerpts of what was expected then.
        excerpts = {turn.turn: turn for turn in kept.turns}
        for turn in made.turns:
            if (excerpt := excerpts.get(turn.turn)) is not None:
                turn.expected_calls, turn.expected_answer = excerpt.expected_calls, excerpt.expected_answer
    return made
