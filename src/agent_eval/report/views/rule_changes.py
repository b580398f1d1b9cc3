"""What a pull request changes about the gate, as the texts show it. Plain text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval.core.text import plural, shorten
from agent_eval.github import ACCEPT_RULES
from agent_eval.results import RuleChange, RuleChangesReport, RunReport


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One row of the table."""

    what: str
    file: str | None
    base: str
    head: str
    effect: str
    """What the base branch's rule means for the cases."""
    fails: bool = False
    """Whether cases fail by it."""


def base_name(found: RuleChangesReport) -> str:
    """What to call the base branch."""
    return shorten(found.base_ref, 60) or "the base branch"


def rule_rows(report: RunReport) -> list[RuleRow]:
    """What is changed: criteria, then eval files with removed cases."""
    found = report.rule_changes
    return [] if found is None else list(_rows(found))


def _rows(found: RuleChangesReport) -> Iterator[RuleRow]:
    for change in found.changes:
        yield RuleRow(
            what=f"{_WHAT[change.kind]} {change.metric} ({plural(change.cases, 'case')})",
            file=change.config,
            base=change.base,
            head=change.head,
            effect=_effect(change, found),
            fails=bool(change.fails),
        )
    for gone in found.removed:
        left = gone.base - gone.removed
        # A file without cases may be gone as well: no link leads there.
        what, file = ("cases removed", gone.file) if left else (f"cases removed: {gone.file}", None)
        yield RuleRow(what=what, file=file, base=str(gone.base), head=str(left), effect="no longer run")


_WHAT = {
    "threshold": "threshold of",
    "removed": "criterion removed:",
    "options": "options of",
    "code": "code of the custom metric",
}


def _effect(change: RuleChange, found: RuleChangesReport) -> str:
    if change.kind == "code" and found.decides == "base":
        return "can't be scored by it: needs to be accepted"
    if change.fails is None:
        return "not scored by it"
    if not change.fails:
        return "no case fails"
    verb = "would fail" if found.decides == "head" else "fails" if change.fails == 1 else "fail"
    return f"{plural(change.fails, 'case')} {verb}"


def rule_sentences(report: RunReport) -> list[str]:
    """What the table does not say, a sentence each; empty where nothing is changed."""
    found = report.rule_changes
    if found is None:
        return []
    base = base_name(found)
    if found.unread:
        return [f"The criteria of this pull request decide, since those of {base} can't be read: {found.unread}"]
    said = []
    if found.changes and found.decides == "base":
        said.append(f"For cases that {base} has, the stricter rule decides.")
    elif found.changes:
        said.append(f"The rules of this pull request decide: {found.accepted}.")
    if found.removal == "blocked":
        said.append(_why_removal_blocks(found, base))
    elif found.removal == "accepted" and not found.changes:
        said.append(f"That cases of {base} are gone is accepted: {found.accepted}.")
    if (found.changes and found.decides == "base") or found.removal == "blocked":
        said.append(_way_out(report, found))
    return [" ".join(said)] * bool(said) + [found.not_accepted] * bool(found.not_accepted)


def _why_removal_blocks(found: RuleChangesReport, base: str) -> str:
    if found.removed_cases == found.base_cases:
        return f"No case of {base} is left to hold this pull request to, which somebody has to accept."
    if found.removed_cases * 2 > found.base_cases and found.changes:
        return f"Most cases of {base} are gone and rules are changed, which somebody has to accept."
    return f"Somebody has to accept that cases of {base} are gone."


def _way_out(report: RunReport, found: RuleChangesReport) -> str:
    """How to accept what is changed."""
    if report.origin is not None and report.origin.pull_request is not None:
        what = "the rules of this pull request" if found.changes else "that"
        return f"To accept {what}, set the label `{ACCEPT_RULES}` and start this job again."
    return "To use the rules of this checkout, set `rule-changes` to `report`."
