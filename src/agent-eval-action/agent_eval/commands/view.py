"""`agent-eval view`: makes the report page of stored results again, and opens it in the browser."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.baseline.reader import StoredResults, UnreadableError, open_results
from agent_eval.commands import CliIO
from agent_eval.commands.compare import with_base
from agent_eval.gate.history import excerpt, extend, join, unfit
from agent_eval_results import (
    BASE_RECORDINGS,
    BASELINE_RECORDINGS,
    DEFAULT,
    FILES,
    VIEW_PAGE,
    HistoryReport,
    Origin,
    RunReport,
)
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.report.html import MEGABYTE, folder_source, write_page
from agent_eval_results.report.views import Links, known_commit
from agent_eval_scoring.core.text import harmless

_UNLIMITED = 1_000_000
"""A history limit above any number of runs."""
_GITHUB = "https://github.com"


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    results: list[Path] = arguments.results or [Path(DEFAULT)]
    output: Path | None = arguments.output
    if output is not None and _belongs_to(output, [*results, *([arguments.base] if arguments.base else [])]):
        io.log(
            f"agent-eval: {harmless(str(output))} belongs to the results, which stay as they are. Name another file."
        )
        return 2
    try:
        with _opened(results, arguments.base) as view:
            page = _write(view, arguments, io)
    except UnreadableError as error:
        io.log(f"agent-eval: {error}")
        return 2
    except OSError as error:
        io.log(
            f"agent-eval: {harmless(str(error.filename or 'The page'))} can't be written: {error.strerror or error}."
        )
        return 2
    if view.report.caution:
        io.log(f"agent-eval: {harmless(str(view.shown.path))} is {view.report.caution}")
    io.print_result(harmless(str(page)))
    if arguments.open and io.terminal_width is not None and not io.environ.get("CI"):
        _open(page, io)
    return 0


def _belongs_to(output: Path, results: Iterable[Path]) -> bool:
    """Whether the output would replace a file of the results, other than their page."""
    names = {*FILES.values(), BASE_RECORDINGS, BASELINE_RECORDINGS} - {FILES["report-file"]}
    kept = set()
    for path in results:
        folder = path if path.is_dir() else path.parent
        kept |= {path.resolve(), *((folder / name).resolve() for name in names)}
    return output.resolve() in kept


@dataclass(frozen=True, kw_only=True)
class _View:
    """What the page shows."""

    shown: StoredResults
    report: RunReport
    """Of `shown`; with the comparison with `base` if there is one."""
    base: StoredResults | None
    history: HistoryReport | None
    """None: the report's own."""


@contextlib.contextmanager
def _opened(paths: Sequence[Path], base_path: Path | None) -> Iterator[_View]:
    with contextlib.ExitStack() as stack:
        results = [stack.enter_context(open_results(path)) for path in paths]
        base = None if base_path is None else stack.enter_context(open_results(base_path))
        shown = max(results, key=lambda stored: stored.report.started_at)
        report, history = shown.report, None
        if base is not None:
            report = _compared(report, base)
            history = base.report.history or extend(None, base.report, _UNLIMITED)
        if len(results) > 1:
            history = _joined([stored.report for stored in results], report, history)
        if history is not None:
            stored = pair_up(report.cases, (), history=history.cases).stored
            history = excerpt(history, stored, with_scores=stored.keys())
        yield _View(shown=shown, report=report, base=base, history=history)


def _compared(report: RunReport, base: StoredResults) -> RunReport:
    """The report with another run as its base, and without what it has of its own base branch."""
    compared = with_base(report, base.report, base.path).model_copy(update={"base_runs": [], "base_history": None})
    if compared.baseline is not None and not (base.folder / FILES["recordings-file"]).exists():
        compared.baseline.recordings_note = "There is no recordings.jsonl.gz beside the base's results."
    return compared


def _joined(reports: Sequence[RunReport], shown: RunReport, history: HistoryReport | None) -> HistoryReport | None:
    """The histories of several results; the run that is shown is only part of it if it has recorded itself."""
    for report in sorted(reports, key=lambda report: report.started_at):
        own = report.history or report.base_history
        if report is not shown and report.started_at != shown.started_at and unfit(report) is None:
            own = extend(report.history, report, _UNLIMITED)
        if own is not None:
            history = own if history is None else join(history, own)
    return history


def _write(view: _View, arguments: argparse.Namespace, io: CliIO) -> Path:
    page: Path = arguments.output or _beside(view.shown.path)
    page.parent.mkdir(parents=True, exist_ok=True)
    with folder_source(
        view.report,
        view.shown.folder,
        links=_links(view.report.origin, io.environ),
        history=view.history,
        baseline_folder=None if view.base is None else view.base.folder,
    ) as source:
        write_page(page, source, arguments.report, round(arguments.size * MEGABYTE))
    return page.absolute()


def _beside(results: Path) -> Path:
    """The page of results for which no other file is named; `report.html` is the run's own."""
    return (results if results.is_dir() else results.parent) / VIEW_PAGE


def _links(origin: Origin | None, environ: Mapping[str, str]) -> Links:
    """Links to the repository that was tested, on GitHub or the server of this environment: the results are untrusted,
    and could name any other.
    """
    server = environ.get("GITHUB_SERVER_URL") or _GITHUB
    if origin is None or not origin.repository:
        return Links()
    links = Links(server_url=server, repository=origin.repository)
    run_url, commit = links.own(origin.run_url), known_commit(origin.head_commit or origin.commit)
    if run_url is None:
        return Links()
    source_url = f"{server.rstrip('/')}/{origin.repository}/blob/{commit}" if commit else None
    return Links(server_url=server, repository=origin.repository, run_url=run_url, source_url=source_url)


def _open(page: Path, io: CliIO) -> None:
    import webbrowser

    if not webbrowser.open(page.as_uri()):
        io.log("agent-eval: no browser could be opened; open the file yourself")
