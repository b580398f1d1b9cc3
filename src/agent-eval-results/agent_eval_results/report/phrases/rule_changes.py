"""What a pull request changes about the gate, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval_results import ABSENT, ACCEPT_RULES, RuleChange, RuleChangesReport, RunReport
from agent_eval_scoring.core.text import listed, plural, short_name, shorten

_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One row of the table."""

    what: str
    file: str | None
    base: str
    head: str
    effect: str
    """The result of the cases by the base branch's rule."""
    fails: bool = False
    """Whether cases fail by that rule."""


def base_name(rules: RuleChangesReport) -> str:
    """The name of the base branch."""
    return shorten(rules.base_ref, 60) or "the base branch"


def rule_rows(report: RunReport) -> list[RuleRow]:
    """The changes: criteria, then eval files with removed cases."""
    rules = report.rule_changes
    return [] if rules is None else list(_rows(rules))


def _rows(rules: RuleChangesReport) -> Iterator[RuleRow]:
    for change in rules.changes:
        yield RuleRow(
            what=f"{_WHAT[change.kind]} {change.metric} ({plural(change.cases, 'case')})",
            file=change.config,
            base=change.base,
            head="not a criterion" if change.head == ABSENT else change.head,
            effect=_effect(change, rules),
            fails=bool(change.fails),
        )
    for gone in rules.removed:
        left = gone.base - gone.removed
        # If no case is left, the file may be gone as well, so it is not linked.
        what, file = ("cases removed", gone.file) if left else (f"cases removed: {gone.file}", None)
        yield RuleRow(what=what, file=file, base=str(gone.base), head=str(left), effect=_would_run(gone.removed))


def _would_run(count: int) -> str:
    return f"{plural(count, 'case')} would run"


_WHAT = {
    "threshold": "threshold of",
    "removed": "criterion removed:",
    "options": "options of",
    "code": "code of the custom metric",
}


def _effect(change: RuleChange, rules: RuleChangesReport) -> str:
    if change.kind == "code" and rules.decides == "base":
        return "can't be scored by it: needs to be accepted"
    if change.fails is None:
        return "not scored by it"
    if not change.fails:
        return "no case fails"
    verb = "would fail" if rules.decides == "head" else "fails" if change.fails == 1 else "fail"
    return f"{plural(change.fails, 'case')} {verb}"


def rule_sentences(report: RunReport) -> list[str]:
    """Sentences about changes that the table does not show; empty without changes."""
    rules = report.rule_changes
    if rules is None:
        return []
    base = base_name(rules)
    if rules.unread:
        return [f"The criteria of this {report.change} decide, since those of {base} can't be read: {rules.unread}"]
    loosened = bool(rules.changes or rules.renamed or rules.replaced)
    sentences = []
    if loosened and rules.decides == "head":
        sentences.append(f"The rules of this {report.change} decide: {rules.accepted}.")
    elif rules.tapes and rules.decides == "head":
        what = "tape" if rules.tapes == 1 else f"{rules.tapes:,} tapes"
        sentences.append(f"This {report.change}'s {what} may be replayed: {rules.accepted}.")
    elif rules.changes:
        sentences.append(f"For cases that {base} has, the stricter rule decides.")
    if rules.renamed and rules.decides == "base":
        sentences.append(_renamed(rules, base))
    if rules.replaced and rules.decides == "base":
        sentences.append(f"Most cases of {base} have another content here, which somebody has to accept.")
    if rules.removal == "blocked":
        sentences.append(_why_removal_blocks(rules, base, report.change))
    elif rules.removal == "accepted" and not loosened:
        sentences.append(f"The removal of cases of {base} is accepted: {rules.accepted}.")
    if _acceptance_matters(report, rules):
        sentences.append(_way_out(report, rules))
    return [" ".join(sentences)] * bool(sentences) + [rules.not_accepted] * bool(rules.not_accepted)


def _renamed(rules: RuleChangesReport, base: str) -> str:
    names = [f"{short_name(new)} (on {base}: {short_name(old)})" for new, old in rules.renamed.items()]
    return f"For renamed cases, the stricter policy of both ids decides: {listed(names, _MOST_NAMES, 'case')}."


def _why_removal_blocks(rules: RuleChangesReport, base: str, change: str) -> str:
    if rules.removed_cases == rules.base_cases:
        return f"No case of {base} is left to hold this {change} to, which somebody has to accept."
    if rules.removed_cases * 2 > rules.base_cases and rules.changes:
        return f"Most cases of {base} are gone and rules are changed, which somebody has to accept."
    return f"Somebody has to accept that cases of {base} are gone."


def _acceptance_matters(report: RunReport, rules: RuleChangesReport) -> bool:
    """Whether the result could be another one if the rules of the pull request decided."""
    if report.passed and not report.is_advisory:
        return False
    if rules.removal == "blocked":
        return True
    unmeasured = any(change.fails is None for change in rules.changes)
    return rules.decides == "base" and bool(rules.only_here or rules.renamed or rules.replaced or unmeasured)


def _way_out(report: RunReport, rules: RuleChangesReport) -> str:
    """How to accept the changes."""
    if report.origin is not None and report.origin.pull_request is not None:
        what = f"the rules of this {report.change}" if rules.changes or rules.renamed or rules.replaced else "that"
        return f"To accept {what}, set the label `{ACCEPT_RULES}` and start this job again."
    return "To use the rules of this checkout, set `rule-changes` to `report`."
