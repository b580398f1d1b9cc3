"""Applies the base branch's criteria to a pull request, unless a maintainer accepted the change."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.baseline import GitError, describe, sentence
from agent_eval.pipeline._tapes import tape_digests
from agent_eval.pipeline.ci_context import CIContext
from agent_eval.pipeline.context import default_model
from agent_eval_results import ACCEPT_RULES
from agent_eval_scoring.core.text import first_line
from agent_eval_scoring.evalset.models import LoadedFile, Suite

if TYPE_CHECKING:
    from agent_eval.baseline.rerun import BaseWorktree
    from agent_eval.gate.policy import Policy
    from agent_eval.gate.rule_changes import RuleChanges, Side
    from agent_eval.settings import Settings
    from agent_eval_agents.discovery import AgentChoices
    from agent_eval_agents.tape_rules import Mode
    from agent_eval_results import CaseReport, Reason, Removal, RuleChangesReport

Find = Callable[["Settings"], tuple["Suite", "AgentChoices"]]
"""Reads the eval files of a checkout and finds their agents."""
_InCheckout = Callable[[Path, Callable[[str], str]], "Settings"]
"""`Settings.in_checkout`."""


@dataclass(frozen=True, kw_only=True)
class HeldRules:
    """The criteria that apply to this run."""

    files: tuple[LoadedFile, ...]
    """The files to plan."""
    changes: RuleChanges | None = None
    """None: there is no base branch, or its rules can't be read."""
    base_ref: str = ""
    accepted: str = ""
    """Who or what accepted the pull request's own rules; "": the stricter rules apply."""
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """By its id, the base branch's id of each renamed case whose policy is looser under the new id."""
    policy: Policy
    """The policy that applies: it knows the renamed cases, unless their looser policy is accepted."""
    removal: Removal = "reported"
    """How removed cases are treated."""
    unread: str = ""
    """Why the base branch's rules can't be read, as a sentence."""
    not_accepted: str = ""
    """Why the label that accepts them does not count, as a sentence."""
    tapes: int = 0
    """How many cases have a tape that is not the base branch's, accepted or not."""
    changed_tapes: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    """The cases (file, eval id) whose tape is not the base branch's, with a clause that says so: models are not
    replayed from it. Empty if the change is accepted."""

    def reasons(self, cases: list[CaseReport]) -> list[Reason]:
        """Reasons to fail whatever the cases did."""
        from agent_eval.gate.policy import PolicyReader
        from agent_eval.gate.rule_changes import cases_removed, cases_replaced, not_scorable

        if self.changes is None:
            return []
        base = self.base_ref
        unscorable = [] if self.accepted else cases_replaced(self.changes, base)
        unscorable += [] if self.accepted else not_scorable(self.changes, PolicyReader(self.policy), cases, base)
        return [*unscorable, *(cases_removed(self.changes, base) if self.removal == "blocked" else [])]

    def report(self, cases: list[CaseReport]) -> RuleChangesReport | None:
        """The report of the changed rules; None where there is no base branch."""
        from agent_eval.gate.rule_changes import rule_changes_report
        from agent_eval_results import RuleChangesReport

        if self.changes is None:
            return RuleChangesReport(base_ref=self.base_ref, unread=self.unread) if self.unread else None
        report = rule_changes_report(
            self.changes, cases, base_ref=self.base_ref, accepted=self.accepted, removal=self.removal
        )
        report.not_accepted, report.tapes, report.renamed = self.not_accepted, self.tapes, dict(self.renamed)
        report.replaced = sum(file.removed for file in self.changes.replaced)
        return report


async def held_rules(settings: Settings, ci: CIContext, suite: Suite, choices: AgentChoices, find: Find) -> HeldRules:
    """Compares the criteria of this checkout with those of the base branch's commit.

    Args:
        settings: The effective settings.
        ci: The run's CI context.
        suite: This checkout's eval files.
        choices: Their agents.
        find: Reads another checkout's.
    """
    own = HeldRules(files=suite.files, policy=settings.policy)
    if suite.errors or not (ci.compares or ci.activity.pull_request is not None):
        return own
    from agent_eval.baseline.rerun import NotOnBase
    from agent_eval.gate.rule_changes import loosened_by_renaming, rule_changes

    base_ref = ci.activity.base_ref or (ci.baseline_request.base_ref if ci.baseline_request is not None else "")
    head = _side(settings.tape_mode, settings.root, suite, choices)
    unread = dict.fromkeys(head.tapes, f"the tapes of {base_ref or 'the base branch'} can't be read")
    own = dataclasses.replace(own, base_ref=base_ref, changed_tapes=unread)
    if not ci.compares:  # A pull request with `mode: gate`.
        return own
    try:
        base = await _base_side(settings.in_checkout, ci, find)
    except (GitError, NotOnBase, OSError) as error:
        return dataclasses.replace(own, unread=first_line(sentence(error), 300))
    tapes = {
        case: f"it is not the tape of {base_ref or 'the base branch'}"
        for case, tape in head.tapes.items()
        if base.tapes.get(case) != tape
    }
    changes = await asyncio.to_thread(rule_changes, head, base, default_judge=default_model(settings.judge_model))
    policy = dataclasses.replace(settings.policy, renamed=changes.renamed)
    renamed = loosened_by_renaming(policy, changes.files)
    by, why_not = await asyncio.to_thread(_accepted_by, settings.rule_changes, ci, changes, bool(renamed or tapes))
    accepted = by or (_reported(settings.sources) if settings.rule_changes == "report" else "")
    removal: Removal = "reported"
    if settings.rule_changes == "block-removals" and changes.removed:
        removal = "accepted" if by else "blocked"
    elif changes.removal_blocks:
        removal = "accepted" if accepted else "blocked"
    return dataclasses.replace(
        own,
        files=suite.files if accepted else changes.files,
        changes=changes,
        renamed=renamed,
        policy=settings.policy if accepted else policy,
        accepted=accepted,
        removal=removal,
        not_accepted=why_not,
        tapes=len(tapes),
        changed_tapes={} if accepted else tapes,
    )


async def _base_side(there: _InCheckout, ci: CIContext, find: Find) -> Side:
    """The base branch's eval files, criteria and hashes of code.

    Raises:
        GitError, NotOnBase, OSError: They can't be read.
    """
    from agent_eval.baseline.rerun import open_base

    if isinstance(ci.git, GitError):
        raise ci.git
    if ci.baseline_request is None:
        raise GitError(describe(ci.no_baseline) if ci.no_baseline else "The base branch's commit is not known.")
    async with open_base(ci.git, ci.baseline_request.commit, remote=ci.remote, complete=False) as checkout:
        return await asyncio.to_thread(_read_base, there, checkout, find)


def _read_base(there: _InCheckout, checkout: BaseWorktree, find: Find) -> Side:
    base_settings = there(checkout.root, checkout.corresponding)
    if base_settings.config is not None and not (checkout.root / base_settings.config).is_file():
        raise GitError(f"The base branch has no file {base_settings.config}, which `config` names.")
    suite, choices = find(base_settings)
    return _side(base_settings.tape_mode, base_settings.root, suite, choices, keep=True)


def _side(tape_mode: Mode, root: Path, suite: Suite, choices: AgentChoices, *, keep: bool = False) -> Side:
    from agent_eval.gate.rule_changes import Side
    from agent_eval_agents.fingerprints import function_source

    def code(file: str, function: str) -> str:
        choice = choices.by_file.get(file)
        return function_source(function, root, None if choice is None else choice.directory(root))

    tapes = tape_digests(tape_mode, root, suite.files)
    if not keep:
        return Side(files=suite.files, code=code, tapes=tapes)
    # The checkout is deleted before the functions are compared.
    sources = {
        (file.path, function): code(file.path, function)
        for file in suite.files
        for function in (metric["code_config"]["name"] for metric in file.config.custom_metrics.values())
    }
    return Side(files=suite.files, code=lambda file, function: sources.get((file, function), ""), tapes=tapes)


def _reported(sources: Mapping[str, str]) -> str:
    """The setting that accepts every change, and its source."""
    source = sources.get("rule-changes", "")
    return f"`rule-changes` is `report`{f' ({source})' if source else ''}"


def _accepted_by(rule_changes: str, ci: CIContext, changes: RuleChanges, others: bool) -> tuple[str, str]:
    """Who accepts the changes, and why a label that is set does not count.

    Args:
        rule_changes: The setting.
        ci: The run's CI context.
        changes: The changed criteria and cases.
        others: Whether there is anything else to accept.
    """
    rules = (others or bool(changes.changes or changes.replaced) or changes.removal_blocks) and rule_changes != "report"
    removal = bool(changes.removed) and rule_changes == "block-removals"
    about = ci.activity
    if not rules and not removal:
        return "", ""
    if about.kind == "compare" and about.pull_request is None:
        return "the checks of the pull requests in this merge group have decided about it", ""
    if about.pull_request is None or ci.forge is None or not ci.forge.has_token:
        return "", ""

    label = ci.forge.acceptance(
        about.pull_request.number, run_id=ci.event.run_id, started_by_label=about.started_by_label
    )
    return (f"{label.by} set the label `{ACCEPT_RULES}`" if label.by else ""), label.why_not
