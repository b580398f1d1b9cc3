"""What the repository wants of the gate: the tables `[[policy]]` and `[[quarantine]]` of agent-eval.toml. Pure.

This module has the shapes and says which entry holds for what; `settings` reads them, `policy_checks` holds them
against the cases, `regression.rescoring` and `evaluation` follow them. It is imported at every start, so it imports
nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, Literal

Gate = Literal["auto", "thresholds", "regressions", "both", "advisory"]
Direction = Literal["higher", "lower"]

PASS_METRIC = "pass"  # noqa: S105 - how an entry names the cases' pass or fail, as gate.stats does
AS_HERE = " (as changed here)"
"""Ends the name of a criterion as a pull request changes it, where the base branch's of the same metric holds too."""
DEFAULT_ALPHA = 0.05
DEFAULT_MAX_QUARANTINED = 0.1
MOST_DAYS = 180
"""Longest quarantine in days: a case that no one fixes for longer should be removed."""
NOTICE_DAYS = 14
"""How long before a quarantine ends it is announced."""

CaseEntries = tuple[tuple[int, ...], ...]
"""The numbers of the `[[policy]]` entries that hold for a case; for a renamed case those of the old name as well."""
CaseMatcher = Callable[[str, str], bool]
"""Whether a case, given by its file and its eval id, is meant."""


@dataclass(frozen=True, kw_only=True)
class PolicyEntry:
    """One `[[policy]]`: for which metrics and cases, and what. What is None says nothing."""

    metric: str | None = None
    """A metric's name or a glob of names; `pass` is the cases' pass or fail; None: the cases as such."""
    cases: tuple[str, ...] = ()
    """Patterns of cases, see `case_matcher`; none for all."""
    threshold: float | None = None
    """What the mean score must reach, instead of the threshold of test_config.json."""
    max_drop: float | None = None
    """A drop from the base up to this size never blocks: in the score's own unit, 0 to 1; for tokens, calls and seconds
    the share of their base, e.g. 0.2 for a fifth."""
    alpha: float | None = None
    """How often it may fail a pull request that changed nothing, above 0 and below 1."""
    blocking: bool | None = None
    """False: reported, never a reason to fail."""
    direction: Direction | None = None
    """Which way is better; for metrics without a threshold of their own."""
    changed_facts: Literal["inform", "block"] | None = None
    """Whether a case that answers otherwise than on the base branch, also when run again, blocks."""
    line: int | None = None
    """Its line in agent-eval.toml, 1-based."""
    threshold_line: int | None = field(default=None, compare=False, repr=False)
    """The line of its threshold there."""


@dataclass(frozen=True, kw_only=True)
class QuarantineEntry:
    """One `[[quarantine]]`: cases that run and are reported, and don't block for a while."""

    case: str
    """A pattern of cases, see `case_matcher`."""
    reason: str
    owner: str
    """Who is responsible for fixing the case."""
    expires: date
    """The last day on which it holds (UTC)."""
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Everything that agent-eval.toml says about the gate, beside its settings."""

    entries: tuple[PolicyEntry, ...] = ()
    """Of several that hold for the same, the last that says something counts."""
    quarantine: tuple[QuarantineEntry, ...] = ()
    max_quarantined: float = DEFAULT_MAX_QUARANTINED
    """The share of the cases that may be quarantined, 0 to 1."""
    ended: tuple[QuarantineEntry, ...] = ()
    """Quarantines that were left out of a policy of another commit, since they are over."""
    replaces: Policy | None = None
    """The policy of the checkout, where this is the base branch's and counts instead of it."""
    jobs: int = 1
    """Jobs that gate the same pull request, each with its own cases: every `alpha` is divided by it (Bonferroni)."""
    renamed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By the id of a renamed case, its file and eval id on the base branch. The stricter policy of both names holds for
    it, or a pull request could rename a broken case to match a quarantine."""

    def instead_of(self, own: Policy, today: date) -> Policy:
        """This policy of the base branch for a checkout that has another one.

        A pull request can't fix the base branch's policy: an entry that no longer fits (a case is gone, a quarantine is
        over) must not stop the pull request that fixes it. The checkout's own policy is checked in full.
        """
        over = tuple(entry for entry in self.quarantine if entry.expires < today)
        active = tuple(entry for entry in self.quarantine if entry.expires >= today)
        return replace(self, quarantine=active, ended=over, replaces=own)

    @property
    def alpha(self) -> float:
        """The error rate of everything in this job: of the last entry that gives one for all metrics and cases."""
        alphas = (entry.alpha for entry in reversed(self.entries) if entry.metric is None and not entry.cases)
        return next((alpha for alpha in alphas if alpha is not None), DEFAULT_ALPHA) / self.jobs


@dataclass(frozen=True, kw_only=True)
class MetricPolicy:
    """What holds for one metric of one case. What is None was not said."""

    threshold: float | None = None
    max_drop: float | None = None
    alpha: float | None = None
    blocking: bool = True
    """Whether the metric may fail the case."""
    direction: Direction | None = None
    named: bool = False
    """Whether an entry wants the metric tested against the base."""
    also_configured: bool = False
    """Whether the threshold of test_config.json holds beside `threshold`."""

    def stricter(self, other: MetricPolicy) -> MetricPolicy:
        """A policy that satisfies both. If both set `direction`, this one's counts."""
        direction = self.direction or other.direction
        thresholds = [policy.threshold for policy in (self, other) if policy.threshold is not None]
        strictest = min if direction == "lower" else max
        # A score that one of the policies does not test is tested by the other one.
        tested = [policy for policy in (self, other) if policy.named] or [self, other]
        drops = [policy.max_drop for policy in tested]
        alphas = [policy.alpha for policy in (self, other) if policy.alpha is not None]
        return MetricPolicy(
            threshold=strictest(thresholds) if thresholds else None,
            max_drop=None if all(drop is None for drop in drops) else min(drop or 0.0 for drop in drops),
            alpha=max(alphas, default=None),
            blocking=self.blocking or other.blocking,
            direction=direction,
            named=self.named or other.named,
            also_configured=self.also_configured or other.also_configured or len(thresholds) == 1,
        )


class PolicyReader:
    """Answers what holds for which case; remembers what it has compared."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._matchers = [tuple(case_matcher(pattern) for pattern in entry.cases) for entry in policy.entries]
        self._quarantine = [case_matcher(entry.case) for entry in policy.quarantine]
        self._metrics: dict[tuple[str, CaseEntries], MetricPolicy] = {}

    def of_case(self, file: str, eval_id: str) -> CaseEntries:
        """The numbers of the entries that hold for a case, to be given to the other methods."""
        return tuple(dict.fromkeys(self._by_name(*name) for name in self._names(file, eval_id)))

    def quarantine(self, file: str, eval_id: str) -> QuarantineEntry | None:
        """The entry that quarantines a case. A renamed case is quarantined only if it is by both names."""
        entries = [self._quarantine_by_name(*name) for name in self._names(file, eval_id)]
        # A pull request could rename a case so that a glob of the quarantine means it.
        return None if None in entries else entries[-1]

    def metric(self, name: str, entries: CaseEntries) -> MetricPolicy:
        """What holds for a metric of a case for which these entries hold."""
        name = name.removesuffix(AS_HERE)
        if (cached := self._metrics.get((name, entries))) is None:
            cached = self._folded(name, entries[0])
            for others in entries[1:]:
                cached = cached.stricter(self._folded(name, others))
            self._metrics[name, entries] = cached
        return cached

    def blocks(self, entries: CaseEntries) -> bool:
        """Whether a case may fail the gate at all."""
        return self.metric(PASS_METRIC, entries).blocking

    def holds_facts(self, entries: CaseEntries) -> bool:
        """Whether a case may not answer otherwise than on the base branch; for a renamed one by either name."""
        said = ([self._policy.entries[number].changed_facts for number in own] for own in entries)
        return any(next((word for word in reversed(words) if word), "inform") == "block" for words in said)

    def loosened(self, file: str, eval_id: str, metrics: Iterable[str]) -> bool:
        """Whether a renamed case would have a looser policy by its new name alone."""
        entries = self.of_case(file, eval_id)
        alone = (self._by_name(file, eval_id),)
        return (
            (self.quarantine(file, eval_id) is None and self._quarantine_by_name(file, eval_id) is not None)
            or any(self.metric(name, entries) != self.metric(name, alone) for name in (PASS_METRIC, *metrics))
            or self.holds_facts(entries) != self.holds_facts(alone)
        )

    def _names(self, file: str, eval_id: str) -> list[tuple[str, str]]:
        """The names of a case: that on the base branch, if it was renamed, and its own."""
        old = self._policy.renamed.get(f"{file}:{eval_id}")
        return [*([old] if old is not None else []), (file, eval_id)]

    def _by_name(self, file: str, eval_id: str) -> tuple[int, ...]:
        return tuple(
            number
            for number, matchers in enumerate(self._matchers)
            if not matchers or any(matcher(file, eval_id) for matcher in matchers)
        )

    def _quarantine_by_name(self, file: str, eval_id: str) -> QuarantineEntry | None:
        entries = [
            entry
            for entry, matcher in zip(self._policy.quarantine, self._quarantine, strict=True)
            if matcher(file, eval_id)
        ]
        return entries[-1] if entries else None

    def _folded(self, name: str, entries: tuple[int, ...]) -> MetricPolicy:
        settings: dict[str, Any] = {}
        named = False
        for number in entries:
            entry = self._policy.entries[number]
            own = entry.metric is not None
            if not names_metric(entry.metric, name):
                continue
            if entry.max_drop is not None:
                settings["max_drop"] = entry.max_drop
            # For all metrics and cases it is the rate of everything together; and cases that don't block still show
            # which of their metrics failed them.
            if entry.alpha is not None and (own or entry.cases):
                settings["alpha"] = entry.alpha / self._policy.jobs
            if entry.blocking is not None and (own or name == PASS_METRIC):
                settings["blocking"] = entry.blocking
            if entry.threshold is not None:
                settings["threshold"] = entry.threshold
            if entry.direction is not None:
                settings["direction"] = entry.direction
            asked = (entry.max_drop, entry.alpha, entry.blocking, entry.direction)
            named = named or (own and any(value is not None for value in asked))
        return MetricPolicy(**settings, named=named)


def names_metric(pattern: str | None, name: str) -> bool:
    """Whether an entry's `metric` means this one. A glob means metrics only, never `pass`."""
    if pattern is None or pattern == name:
        return True
    # `*` with `blocking = false` would else switch the gate off.
    return name != PASS_METRIC and fnmatchcase(name, pattern)


def case_matcher(pattern: str) -> CaseMatcher:
    """Makes a matcher of what a user wrote: `FILES` or `FILES:CASES`.

    `FILES` is a pattern as in .gitignore, relative to the root, `CASES` an eval id or a glob of them; a case's whole id
    always means that case. Without `FILES` any file is meant.

    Raises:
        ValueError: It can't be read.
    """
    from agent_eval_scoring.core.patterns import PathPatterns
    from agent_eval_scoring.core.selectors import matches

    colons = [at for at, character in enumerate(pattern) if character == ":"]
    # Both parts may hold colons; without any, all cases of the files are meant.
    splits = [(pattern[:at], pattern[at + 1 :]) for at in colons] or [(pattern, "*")]
    specs = [(PathPatterns([files]) if files else None, ids) for files, ids in splits]
    file_matches: dict[tuple[int, str], bool] = {}

    def in_file(number: int, file: str) -> bool:
        if (is_match := file_matches.get((number, file))) is None:
            spec = specs[number][0]
            is_match = file_matches[number, file] = spec is None or spec.match(file)
        return is_match

    def matcher(file: str, eval_id: str) -> bool:
        # An id may have brackets or stars, which a glob would read otherwise.
        if pattern == f"{file}:{eval_id}":
            return True
        return any(in_file(number, file) and matches(ids, eval_id) for number, (_, ids) in enumerate(specs))

    return matcher


def quarantined(entries: Iterable[QuarantineEntry], cases: Iterable[tuple[str, str]]) -> Mapping[int, list[int]]:
    """Which entries mean which cases.

    Args:
        entries: Of agent-eval.toml.
        cases: Files and eval ids.

    Returns:
        By the case's number, the numbers of the entries that mean it; cases that none means are left out.
    """
    matchers = [case_matcher(entry.case) for entry in entries]
    entries_by_case: dict[int, list[int]] = {}
    if matchers:
        for number, (file, eval_id) in enumerate(cases):
            if matching := [at for at, matcher in enumerate(matchers) if matcher(file, eval_id)]:
                entries_by_case[number] = matching
    return entries_by_case
