"""The cases of a run whose expectations may be changed, and the new expectations. Reads files, writes none."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_eval.baseline.reader import StoredResults
from agent_eval_agents.fingerprints import case_fingerprint
from agent_eval_results import CaseReport, Recording, RunReport
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.text import listed, plural
from agent_eval_scoring.evalset.discovery import discover
from agent_eval_scoring.evalset.json import read_document
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_workbench.authoring.expectation import Field
from agent_eval_workbench.authoring.proposals import CallsFrom, Proposal, propose, what_would_hold
from agent_eval_workbench.authoring.prospects import (
    CaseRefused,
    OpenFile,
    Prospect,
    cases_as_run,
    in_order,
    prospect,
    recordings_of,
    refuse,
)
from agent_eval_workbench.authoring.review_text import safe, tool_trouble


@dataclass(frozen=True, kw_only=True)
class WorkingTree:
    """Where the eval files are, and how they are found: settings as for `agent-eval run`."""

    root: Path
    exclude: Sequence[str] = ()
    config: Path | None = None
    skip: Sequence[Path] = ()


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command."""

    only: frozenset[str] = frozenset()
    """Fields and metrics; empty for all."""
    run: int | None = None
    """1-based; None for the most typical run of each case."""
    calls_from: CallsFrom | None = None
    rescore: bool = True


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Cases that may be accepted, and refusals of others."""

    prospects: tuple[Prospect, ...] = ()
    refusals: tuple[CaseRefused, ...] = ()


@dataclass(kw_only=True)
class Decisions:
    """Accepted proposals and refusals."""

    accepted: list[Proposal] = field(default_factory=list)
    refusals: list[Problem] = field(default_factory=list)


def find_prospects(
    stored: StoredResults, cases: Iterable[CaseReport], tree: WorkingTree, named: Collection[str], options: Options
) -> Offer:
    """Finds the cases of the results that may be accepted.

    Args:
        stored: The run.
        cases: Cases of its report.
        tree: The eval files.
        named: Files that the user named. The others have to be found by discovery: a path of an artifact is no reason
            to open a file.
        options: What the user asked for.

    Raises:
        UnreadableError: The recordings can't be read.
    """
    ordered = in_order(cases, stored.report)
    files, invalid = _open_files([case.file for case in ordered], tree, named)
    recordings = recordings_of(stored, {case.case_id for case in ordered})
    prospects, refusals = [], []
    for case in ordered:
        try:
            item = prospect(
                case,
                stored.report,
                files.get(case.file),
                recordings[case.case_id],
                only=options.only,
                has_errors=case.file in invalid,
            )
            prospects.append(item)
        except CaseRefused as refusal:
            refusals.append(refusal)
    changed = {refused.case.case_id for refused in refusals if refused.problem.code == "accept-changed"}
    as_run = cases_as_run(stored, changed) if changed else {}
    for place, refused in enumerate(refusals):
        case = refused.case
        before = as_run.get(case.case_id)
        if before is not None and _is_accepted(
            case, stored.report, files[case.file], before, recordings[case.case_id], options
        ):
            hint = "Run it again to see its new scores."
            refusals[place] = refuse("accept-done", case, "has been accepted already.", hint, Severity.NOTICE)
    return Offer(prospects=tuple(prospects), refusals=tuple(refusals))


def _is_accepted(
    case: CaseReport,
    report: RunReport,
    file: OpenFile,
    before: EvalCase,
    recordings: Sequence[Recording],
    options: Options,
) -> bool:
    """Whether the case in the file equals the result of accepting the run."""
    present = next(item for item in file.loaded.cases if item.eval_id == case.eval_id)
    simulated = file.loaded.config.user_simulator_config
    raw = before.model_dump(mode="json", exclude_unset=True)
    loaded = replace(file.loaded, cases=(before,))
    as_run = OpenFile(loaded=loaded, text="", value={"eval_cases": [raw]})
    try:
        item = prospect(case, report, as_run, recordings, only=options.only)
        proposal = asyncio.run(propose_for(item, replace(options, rescore=False)))
    except CaseRefused:
        return False
    return case_fingerprint(proposal.case, simulated) == case_fingerprint(present, simulated)


def accept_all(prospects: Iterable[Prospect], options: Options) -> Decisions:
    """Accepts everything that is offered and holds: the runs pass with the new expectation, and no tool has
    returned nothing or an error, or the user has chosen the run.
    """
    return asyncio.run(_accept_all(prospects, options))


async def _accept_all(prospects: Iterable[Prospect], options: Options) -> Decisions:
    decisions = Decisions()
    for item in prospects:
        try:
            proposal = await propose_for(item, options)
            if refusal := _unseen(proposal, options):
                raise refusal
            decisions.accepted.append(proposal)
        except CaseRefused as refusal:
            decisions.refusals.append(refusal.problem)
    return decisions


async def propose_for(item: Prospect, options: Options, *, fields: Collection[Field] = ()) -> Proposal:
    """The proposal that the options describe; see `propose`."""
    return await propose(item, fields=fields, run=options.run, calls_from=options.calls_from, rescore=options.rescore)


def _unseen(proposal: Proposal, options: Options) -> CaseRefused | None:
    """Why a proposal must not be accepted unless someone has looked at it; None if it may."""
    case, runs = proposal.prospect.report, len(proposal.prospect.runs)
    if options.run is not None:
        return None
    if not proposal.holds:
        message = f"would fail again: {proposal.passing} of {runs} runs would pass with the most typical run expected."
        return refuse("accept-varies", case, message, what_would_hold(proposal))
    if trouble := tool_trouble(proposal):
        turns = listed([str(number) for number in next(iter(trouble.values()))], 5)
        what = next(iter(trouble))
        message = f"needs a look: {what[0].lower()}{what[1:]} in turn {turns}."
        hint = f"If that is right, accept it on a terminal or with --run {proposal.run.run + 1}."
        return refuse("accept-tools", case, message, hint)
    return None


def _open_files(
    files: Iterable[str], tree: WorkingTree, named: Collection[str]
) -> tuple[Mapping[str, OpenFile], set[str]]:
    """The valid files, and the names of the invalid ones. Others are in neither."""
    requested = set(files)
    discovery = discover(tree.root, exclude=tree.exclude, skip=tree.skip)
    allowed = {file.name for file in discovery.files} | set(named)
    targets = [name for name in dict.fromkeys(files) if name in allowed]
    if not targets:
        return {}, set()
    opened = {}
    for loaded in load_suite(tree.root, targets, config=tree.config).files:
        document, _ = read_document(tree.root / loaded.path, loaded.path)
        if document is not None and loaded.path in requested:
            opened[loaded.path] = OpenFile(loaded=loaded, text=document.text, value=document.value)
    return opened, set(targets) - set(opened)


def listing(offer: Offer, options: Options) -> Iterator[str]:
    """Lists for each case what would be accepted, or why nothing would be."""
    offered: list[str] = []
    refused = [refusal.problem for refusal in offer.refusals]
    for item in offer.prospects:
        try:
            proposal = asyncio.run(propose_for(item, options))
            if refusal := _unseen(proposal, options):
                raise refusal
            offered += _lines(proposal)
        except CaseRefused as refusal:
            refused.append(refusal.problem)
    count = len(offer.prospects) + len(offer.refusals) - len(refused)
    if not offered and not refused:
        yield "There is nothing to accept."
        return
    yield f"{plural(count, 'case')} may be accepted, {len(refused)} not."
    yield ""
    yield from offered
    for problem in refused:
        yield f"- {safe(problem.file or '')}: {safe(problem.message)} [{problem.code}]"
        yield f"    {safe(problem.hint or '')}"


def _lines(proposal: Proposal) -> Iterator[str]:
    item, runs = proposal.prospect, len(proposal.prospect.runs)
    parts = [safe(item.report.case_id), *([item.label] if item.label else []), ", ".join(proposal.fields)]
    if runs > 1:
        parts.append(f"run {proposal.run.run + 1}, {proposal.alike} of {runs} runs alike")
    yield "+ " + " · ".join(parts)
    passing = f", {proposal.passing} of {runs} runs pass" if runs > 1 else ""
    for old, new in zip(proposal.before, proposal.after, strict=True):
        before, after = ("no score" if mean is None else f"{mean:.2f}" for mean in (old.mean, new.mean))
        yield f"    {new.name} {before} → {after}{passing}"
