"""What is known of earlier runs of the same pull request: attempts at the same commit, or the previous push.

Their artifacts say it. Where those are missing, the pull request's comment does: each attempt leaves there how often
each case passed, in an invisible line. It counts like an artifact, only against the pull request: to edit the
comment gains nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_eval.forge import TO_LINK, ForgeError
from agent_eval_scoring.core.text import plural

if TYPE_CHECKING:
    from agent_eval.gate.regression import Gathered
    from agent_eval.gate.stats import Series
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval_results import RunReport

_LONGEST = 20_000
"""Characters of a memory in a comment of at most 65,536."""
_RUNS = re.compile("[01]{0,999} [01]{0,999} [01]{0,999}")
_MOST_BYTES = 1_000_000
"""Bytes of an unpacked memory: people who can edit the comment may have packed it."""


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """What the comment has of one attempt."""

    usual: str
    """The runs of most cases: passed (1) or failed (0) in the screening, in the extra runs, and in those of the base
    branch, separated by spaces; "" after an attempt that passed."""
    cases: Mapping[str, str]
    """The runs of the others, by hash of the case id."""

    def series_of(self, case_id: str) -> Series | None:
        """The runs of a case, as `earlier_runs` has them; None if nothing was measured."""
        from agent_eval.gate.stats import Series

        screen, confirm, base = (
            tuple(map(float, runs)) for runs in (self.cases.get(_short(case_id), self.usual) or "  ").split(" ")
        )
        if not (screen or confirm or base):
            return None
        return Series(head_screen=screen, head_confirm=confirm, head_rounds=(0,) * len(confirm), base_confirm=base)


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """Results of earlier runs of the pull request."""

    attempts: Sequence[RunReport] = ()
    """Of the same commit, oldest first."""
    remembered: Sequence[Remembered] = ()
    """Where those are missing, what the comment has of them, oldest first."""
    before: Collection[str] = ()
    """Cases that the previous push is held against; empty after an attempt of the same commit."""
    missing: str | None = None
    """Why the results of earlier attempts are unavailable, if there were some; "" if there are simply none."""
    unknown: bool = False
    """Whether it is not known that there were some: `missing` says why."""


def find_earlier(
    ci: CIContext,
    log: Callable[[str], None],
    *,
    case_ids: Iterable[str] = (),
    key: str = "",
    comment_author: str | None = None,
) -> Earlier:
    """Looks for results of earlier runs of the pull request; where they are unavailable, a line of the log says so.

    Args:
        ci: Of this run.
        log: Receives a line for what was found.
        case_ids: The cases of this run. What a comment remembers of others is another job's.
        key: Of the comment of this gate; "" for a gate without one.
        comment_author: Login that the token comments as; None: detected.
    """
    from agent_eval.baseline.artifact import earlier_attempts
    from agent_eval.gate.regression import held_against

    pull_request, forge = ci.activity.pull_request, ci.forge
    if pull_request is None or ci.baseline_request is None:
        return Earlier()
    artifact, why = ci.baseline_request.artifact, "artifacts of forks are not read" if pull_request.is_fork else ""
    attempt = ci.origin.run_attempt or 1
    # On GitLab an attempt has the job's id, which says nothing of the jobs before it: the forge has to know.
    is_retry: bool | None = forge is None and attempt > 1
    try:
        if forge is not None and ci.origin.run_id is not None:
            is_retry = None
            is_retry = forge.is_retry(ci.origin.run_id, attempt)
        reports = earlier_attempts(forge, ci.origin, pull_request, artifact) if forge and forge.has_token else []
    except ForgeError as error:
        reports, why = [], error.message
        log(f"agent-eval: The results of earlier runs are unavailable: {why}")
    attempts = [report for report in reports if report.origin and report.origin.commit == ci.origin.commit]
    if attempts:
        return Earlier(attempts=attempts)
    # Without artifacts it can't be known whether another run has tested this commit, e.g. before it was reopened.
    if (is_retry is not False or why) and key and forge and forge.has_token and not pull_request.is_fork:
        try:
            left = forge.limited(TO_LINK).memories(
                pull_request.number, key, sha=pull_request.head_sha, author=comment_author
            )
        except ForgeError as error:
            left, why = [], why or error.message
        about = _about(ci.origin.commit, case_ids)
        if remembered := [found for data in left if (found := _unpacked(data, about)) is not None]:
            return Earlier(remembered=remembered)
    if is_retry is not False:
        return Earlier(missing=why, unknown=is_retry is None)
    before = held_against(case for report in reports if report.decision for case in report.decision.cases)
    if before:
        log(f"agent-eval: {plural(len(before), 'case')} of the previous push will be checked again")
    return Earlier(before=before)


def runs_remembered(remembered: Iterable[Remembered], case_ids: Iterable[str]) -> dict[str, tuple[Series, ...]]:
    """What earlier attempts measured by the comment, by case id, in their order: `earlier_runs` of their reports."""
    attempts = list(remembered)
    found = {case_id: tuple(filter(None, (each.series_of(case_id) for each in attempts))) for case_id in case_ids}
    return {case_id: series for case_id, series in found.items() if series}


def memory_of(report: RunReport, gathered: Gathered | None) -> str:
    """What the next attempt at this commit has to know of this run (`Comment.memory`); "" if that is too long.

    An attempt that passed leaves only that it was there, as its artifact does (`earlier_runs`).

    Args:
        report: With its decision.
        gathered: The runs that decided; None without a comparison.
    """
    from agent_eval_results import PASS

    cases: dict[str, list[str]] = {}
    if gathered is not None and report.decision is not None and report.decision.outcome != "passed":
        measured = {case.case_id: case.metrics[PASS] for case in gathered.evidence}
        for case in report.cases:
            own = measured.get(case.case_id)
            series = (own.head_screen, own.head_confirm, own.base_confirm) if own is not None else ((), (), ())
            runs = " ".join("".join("1" if run else "0" for run in each) for each in series)
            cases.setdefault(runs, []).append(_short(case.case_id))
    usual = max(cases, key=lambda runs: len(cases[runs]), default="")
    cases.pop(usual, None)
    commit = report.origin.commit if report.origin is not None else ""
    about = _about(commit, (case.case_id for case in report.cases))
    content = json.dumps({"about": about, "usual": usual, "cases": cases}, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
    return packed if len(packed) <= _LONGEST else ""


def _about(commit: str, case_ids: Iterable[str]) -> str:
    """What a memory is about. Jobs of one commit may share a comment by mistake, and have other cases."""
    return hashlib.sha256("\n".join((commit, *sorted(case_ids))).encode()).hexdigest()[:16]


def _unpacked(data: str, about: str) -> Remembered | None:
    """The memory of an attempt; None if it is about something else or not ours."""
    try:
        unpacker = zlib.decompressobj()
        content = json.loads(unpacker.decompress(base64.b64decode(data, validate=True), _MOST_BYTES))
        usual, cases = content["usual"], {short: runs for runs, shorts in content["cases"].items() for short in shorts}
        if content["about"] != about or not all(_RUNS.fullmatch(runs) for runs in (usual or "  ", *cases.values())):
            return None
    except (ValueError, zlib.error, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Remembered(usual=usual, cases=cases)


def _short(case_id: str) -> str:
    return hashlib.sha256(case_id.encode()).hexdigest()[:10]
