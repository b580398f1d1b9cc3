"""The files that the agents of a base branch's run open, which `only-affected` of later pull requests needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from agent_eval.agents.driver import OpenedFiles
from agent_eval.baseline import Git, GitError
from agent_eval.core.masking import MASK
from agent_eval.pipeline._checkout import Checkout

if TYPE_CHECKING:
    from agent_eval.pipeline._parts import Parts
    from agent_eval.results import CaseReport, OpenedReport, RunReport

_INCOMPLETE = "one of its cases did not complete"
_SUBMODULE = "160000"


def opened_reports(report: RunReport, checkout: Checkout, parts: Parts | None) -> list[OpenedReport]:
    """What each agent with cases in the report opened.

    Args:
        report: The report, with its cases.
        checkout: Its agents have been closed.
        parts: With `mode: merge`: the merged results.
    """
    from agent_eval.results import OpenedReport

    git = checkout.context.ci.git
    if not checkout.opened or not isinstance(git, Git):
        return []
    agents = {file.file: file.agent for file in report.files}
    cases: dict[str, list[CaseReport]] = {}
    for case in report.cases:
        cases.setdefault(agents.get(case.file, ""), []).append(case)
    reports = []
    for agent, own in cases.items():
        if (collector := checkout.opened.get(agent)) is None:
            continue
        entries = list(_of_parts(agent, agents, parts)) if parts is not None else []
        if collector.processes or not entries:
            entries.append(_own(agent, collector, checkout, git))
        unseen = next((entry.unseen for entry in entries if entry.unseen), "")
        unseen = unseen or ("" if all(map(_is_complete, own)) else _INCOMPLETE)
        paths = [] if unseen else sorted({path for entry in entries for path in entry.paths})
        reports.append(OpenedReport(agent=agent, paths=paths, unseen=unseen))
    return reports


def _of_parts(agent: str, agents: Mapping[str, str], parts: Parts) -> Iterator[OpenedReport]:
    """What the agent opened in each part that has cases of it."""
    from agent_eval.results import OpenedReport

    for result in parts.results:
        if any(agents.get(_file_of(case_id, agents)) == agent for case_id in result.shard.cases):
            unknown = OpenedReport(agent=agent, unseen="a part of the run does not say which files it opened")
            yield next((entry for entry in result.report.opened if entry.agent == agent), unknown)


def _file_of(case_id: str, files: Iterable[str]) -> str:
    """The file of a case id; both its parts may have a colon."""
    return max((file for file in files if case_id.startswith(f"{file}:")), key=len, default="")


def _own(agent: str, collector: OpenedFiles, checkout: Checkout, git: Git) -> OpenedReport:
    from agent_eval.results import OpenedReport

    if collector.unseen:
        return OpenedReport(agent=agent, unseen=collector.unseen)
    if not collector.processes:
        return OpenedReport(agent=agent, unseen="it does not run in the job, so its files are unknown")
    if checkout.reused:
        return OpenedReport(agent=agent, unseen="some of its runs were taken from an earlier journal")
    try:
        paths, unseen = _tracked(sorted(collector.paths), git)
    except GitError as error:
        return OpenedReport(agent=agent, unseen=f"git does not list the repository's files: {error.message}")
    return OpenedReport(agent=agent, paths=paths, unseen=unseen)


def _tracked(opened: Sequence[str], git: Git) -> tuple[list[str], str]:
    """The paths that count, and why others may count too.

    A file that git does not track was made by something before the run, from files that are unknown.
    """
    modes = dict(git.files(git.top))
    submodules = tuple(f"{path}/" for path, mode in modes.items() if mode == _SUBMODULE)
    folders = {folder.as_posix() for path in modes for folder in PurePosixPath(path).parents}
    for path in opened:
        name = path.removesuffix("/")
        if MASK in name:
            return [], "it opens a file whose name has a secret"
        if name in modes or name in folders or name.startswith(submodules):
            continue
        if (git.top / name).is_file() or (path.endswith("/") and (git.top / name).is_dir()):
            return [], f"it reads {name}, which is not in git"
    return list(opened), ""


def _is_complete(case: CaseReport) -> bool:
    """Whether every run of the case and its custom metrics came to their end."""
    return all(run.error is None and run.status in {"passed", "failed"} for run in case.runs) and not any(
        score.error for metric in case.metrics for score in metric.runs
    )
