"""Checks the policy against the cases: entries without effect, ranges, end and number of quarantines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from agent_eval.gate.policy import (
    MOST_DAYS,
    NOTICE_DAYS,
    PASS_METRIC,
    Policy,
    PolicyEntry,
    QuarantineEntry,
    case_matcher,
    names_metric,
    quarantined,
)
from agent_eval_scoring.core.problem import Problem, Severity
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS, METRICS, Suite
from agent_eval_scoring.evalset.parse import within

_EPSILON = 1e-9
"""Three of thirty are 0.1, whatever binary fractions say."""


@dataclass(frozen=True, kw_only=True)
class KnownCase:
    """What an entry can mean."""

    file: str
    eval_id: str
    metrics: frozenset[str]
    """Names of the configured metrics; the informational ones every case has."""


def known_cases(suite: Suite) -> list[KnownCase]:
    """The cases of a suite."""
    cases = []
    for file in suite.files:
        metrics = frozenset(criterion.name for criterion in file.config.criteria)
        cases += [KnownCase(file=file.path, eval_id=case.eval_id, metrics=metrics) for case in file.cases]
    return cases


def check_policy(
    policy: Policy,
    cases: Sequence[KnownCase],
    *,
    today: date,
    everything: Callable[[], Sequence[KnownCase]] | None = None,
) -> list[Problem]:
    """Finds what is wrong with a policy for these cases.

    Args:
        policy: As the file says. If it is the base branch's and replaces the checkout's own, its mistakes are warnings,
            and those of the own one are errors.
        cases: Those of this run.
        today: In UTC.
        everything: Gives all cases of the repository, if the run has only some. Asked only when an entry means none of
            the run's cases, or too many of those are quarantined.

    Returns:
        Errors and warnings, by line.
    """
    own = policy.replaces
    problems = _check(policy, cases, today, everything)
    if own is not None:
        problems = [_of_base(problem) for problem in problems]
        problems += _check(own, cases, today, everything)
    return sorted(problems, key=lambda problem: problem.line or 0)


def _of_base(problem: Problem) -> Problem:
    """A mistake in the base branch's file becomes a warning: a pull request can't fix it there, and may fix it here."""
    where = f"{problem.file} of the base branch, line {problem.line}"
    return replace(problem, severity=Severity.WARNING, file=None, line=None, message=f"{where}: {problem.message}")


def _check(
    policy: Policy,
    cases: Sequence[KnownCase],
    today: date,
    everything: Callable[[], Sequence[KnownCase]] | None,
) -> list[Problem]:
    entries, patterns = _Findings(), _Findings()
    for entry in policy.entries:
        entries.ranges(entry, cases)
    for quarantine in (*policy.quarantine, *policy.ended):
        entries.expiry(quarantine, today)
    patterns.by_cases(policy, cases)
    # A pattern may match a case that is not part of this run: read the other cases only if it matters.
    if patterns.problems and everything is not None and len(whole := everything()) > len(cases):
        patterns = _Findings()
        patterns.by_cases(policy, whole)
    return [*entries.problems, *patterns.problems]


def _allowed(policy: Policy, cases: int) -> int:
    return int(policy.max_quarantined * cases + _EPSILON)


class _Findings:
    """Collects problems of agent-eval.toml."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, severity: Severity, code: str, message: str, hint: str, line: int | None) -> None:
        file = "agent-eval.toml" if line is not None else None
        self.problems.append(Problem(severity=severity, code=code, message=message, hint=hint, file=file, line=line))

    def error(self, code: str, message: str, hint: str, line: int | None) -> None:
        self.add(Severity.ERROR, code, message, hint, line)

    def warning(self, code: str, message: str, hint: str, line: int | None) -> None:
        self.add(Severity.WARNING, code, message, hint, line)

    def by_cases(self, policy: Policy, cases: Sequence[KnownCase]) -> None:
        """Patterns that mean no case, metrics that none of their cases has, too many quarantines."""
        empty = self._patterns(policy, cases)
        for entry in policy.entries:
            if entry.metric not in {None, PASS_METRIC} and not empty.intersection(entry.cases):
                self._metric(entry, _meant(entry, cases))
        self._share(policy, cases)

    def _patterns(self, policy: Policy, cases: Sequence[KnownCase]) -> set[str]:
        patterns = [(pattern, entry.line) for entry in policy.entries for pattern in entry.cases]
        patterns += [(entry.case, entry.line) for entry in policy.quarantine]
        empty = set()
        for pattern, line in patterns:
            if not any(map(_meant_by(pattern), cases)):
                empty.add(pattern)
                self.error("policy-matches-nothing", f"`{pattern}` means no case.", _near_cases(pattern, cases), line)
        return empty

    def _metric(self, entry: PolicyEntry, here: Sequence[KnownCase]) -> None:
        if any(names_metric(entry.metric, name) for name in _metrics(here)):
            return
        configured = sorted({name for case in here for name in case.metrics})
        near = nearby(entry.metric or "", [*configured, *INFORMATIONAL_METRICS, PASS_METRIC], count=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"They have: {', '.join(configured) or 'none'}."
        holds = "that this [[policy]] holds for " if entry.line is not None else ""  # None: it is a `--threshold`.
        of_flag = " of `--threshold`" if entry.line is None else ""
        message = f"No case {holds}has the metric `{entry.metric}`{of_flag}."
        self.error("policy-matches-nothing", message, hint, entry.line)

    def _share(self, policy: Policy, cases: Sequence[KnownCase]) -> None:
        matched = quarantined(policy.quarantine, ((case.file, case.eval_id) for case in cases))
        if not cases or len(matched) <= policy.max_quarantined * len(cases) + _EPSILON:
            return
        message = (
            f"{len(matched):,} of {plural(len(cases), 'case')} {'is' if len(matched) == 1 else 'are'} quarantined; "
            f"max-quarantined allows {policy.max_quarantined:.1%}, which is {_allowed(policy, len(cases)):,}."
        )
        hint = "A gate that ignores more cases than that says little. Fix cases, or raise max-quarantined."
        self.error("quarantine-too-many", message, hint, policy.quarantine[0].line)

    def ranges(self, entry: PolicyEntry, cases: Sequence[KnownCase]) -> None:
        """A threshold that no score, or every score, reaches; a direction of a metric that has one."""
        if entry.threshold is None and entry.direction is None:
            return
        for name in sorted(_metrics(_meant(entry, cases))):
            spec = METRICS.get(name)
            if spec is None or not names_metric(entry.metric, name):
                continue
            if entry.threshold is not None and not spec.low <= entry.threshold <= spec.high:
                bounds = f"from {spec.low:g} to {spec.high:g}" if spec.high < 1e308 else f"at least {spec.low:g}"
                # Without a line, the entry is of the flag.
                what = "`threshold`" if entry.line else "`--threshold`"
                message = f"{what} of {name} must be {bounds}, not {entry.threshold:g}."
                hint = f"Write {within(spec.low, spec.high, entry.threshold)}."
                self.error("policy-invalid", message, hint, entry.threshold_line)
            if entry.direction == "lower" and name not in INFORMATIONAL_METRICS:
                message = f"`direction` can't be lower for {name}: its scores are better when they are higher."
                hint = f"It is for metrics without a threshold: {', '.join(INFORMATIONAL_METRICS)}."
                self.error("policy-invalid", message, hint, entry.line)

    def expiry(self, entry: QuarantineEntry, today: date) -> None:
        """A quarantine that has ended, or soon will."""
        left = (entry.expires - today).days
        what = f"The quarantine of `{entry.case}` ({entry.owner}: {entry.reason})"
        if left < 0:
            message = f"{what} ended on {entry.expires.isoformat()}."
            hint = "Fix the case and remove the entry, or give it a new end that its owner agrees to."
            self.error("quarantine-expired", message, hint, entry.line)
        elif left > MOST_DAYS:
            until = f"{entry.expires.isoformat()}, {plural(left, 'day')} from today"
            message = f"{what} holds until {until}; at most {MOST_DAYS} days are allowed."
            hint = "Give it an earlier end, and renew it then if the case still needs it."
            self.error("quarantine-too-long", message, hint, entry.line)
        elif entry.expires <= today + timedelta(days=NOTICE_DAYS):
            when = f"in {plural(left, 'day')}" if left else "today"
            message = f"{what} ends {when}, on {entry.expires.isoformat()}."
            hint = "From the next day on it is an error. Fix the case and remove the entry."
            self.warning("quarantine-ends-soon", message, hint, entry.line)


def _meant_by(pattern: str) -> Callable[[KnownCase], bool]:
    matcher = case_matcher(pattern)
    return lambda case: matcher(case.file, case.eval_id)


def _meant(entry: PolicyEntry, cases: Sequence[KnownCase]) -> list[KnownCase]:
    if not entry.cases:
        return list(cases)
    matchers = [_meant_by(pattern) for pattern in entry.cases]
    return [case for case in cases if any(matcher(case) for matcher in matchers)]


def _metrics(cases: Iterable[KnownCase]) -> set[str]:
    return {name for case in cases for name in case.metrics} | set(INFORMATIONAL_METRICS)


def _near_cases(pattern: str, cases: Sequence[KnownCase]) -> str:
    near = nearby(pattern, dict.fromkeys(name for case in cases for name in (f"{case.file}:{case.eval_id}", case.file)))
    if any(case.eval_id == pattern for case in cases):
        near = [f":{pattern}"]  # An id alone would be the pattern of a file.
    if near:
        return f"Did you mean `{near[0]}`?"
    return "Patterns work as in .gitignore and start at the root; `FILES:CASES` means some of their cases."
