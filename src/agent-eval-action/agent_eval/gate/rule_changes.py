"""What a pull request changes about the gate, the criteria that apply to it, and what that means for the run. Pure.

For a case that the base branch has, each of the base branch's criteria holds as well as the pull request's own: the
stricter one decides. A lower threshold is replaced, a removed criterion is put back, and one with other options is
scored by both definitions. What the code of a custom metric gave on the base branch can't be found out with the pull
request's code: such a change has to be accepted.

A case that has another id and another content asks the same as before if its prompts have the same words; the base
branch's criteria hold for it too. Where none of the base branch's cases is left, or most of them are gone and criteria
are changed as well, its rules hold for next to nothing: that always has to be accepted.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Any

from agent_eval.gate.policy import AS_HERE, Policy, PolicyReader
from agent_eval_agents.fingerprints import case_fingerprint, metric_identity
from agent_eval_results import (
    ABSENT,
    CASES_REMOVED,
    CASES_REPLACED,
    CaseReport,
    MetricReport,
    Reason,
    Removal,
    RemovedCases,
    RuleChange,
    RuleChangeKind,
    RuleChangesReport,
)
from agent_eval_results.data.pairing import Pairing, pair_up
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.models import (
    INFORMATIONAL_METRICS,
    METRICS,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    LoadedFile,
)

MIN_REPLACED = 3
"""Replaced and removed cases from which on their share counts: a small suite may be edited as a whole."""
_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True)
class Side:
    """The eval files of one side with their criteria."""

    files: Sequence[LoadedFile]
    code: Callable[[str, str], str] = lambda file, function: ""
    """A hash of the code of a custom metric, by eval file and function; "" where it is not in the repository."""
    tapes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """A hash of each tape by eval file and eval id; empty unless models are replayed."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """One change of one criterion in one config, and the cases that it holds for."""

    kind: RuleChangeKind
    metric: str
    """Its name in reports."""
    config: str | None
    base: str
    head: str
    base_threshold: float
    head_threshold: float | None
    """None: there is no such criterion here."""
    ordered: bool
    """Whether the higher threshold is the stricter one, so that one score says what either makes of it."""
    case_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuleChanges:
    """Everything that a pull request changes about the gate."""

    files: tuple[LoadedFile, ...]
    """The head's cases with the criteria that hold if nothing is accepted. A file of which not all cases have the same
    criteria is in it several times."""
    changes: tuple[Changed, ...] = ()
    removed: tuple[RemovedCases, ...] = ()
    base_cases: int = 0
    renamed: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    """By the head's id, file and eval id on the base branch of each case whose content had another id there."""
    replaced: tuple[RemovedCases, ...] = ()
    """By file of the base branch, the cases whose content is another one here, if these are so many that acceptance is
    needed: more than half of those that are left."""
    removal_blocks: bool = False
    """Whether so many cases are gone that the base branch's rules hold for next to nothing: all, or most of them beside
    changed criteria."""

    @property
    def removed_cases(self) -> int:
        """How many cases of the base branch are gone."""
        return sum(file.removed for file in self.removed)


def rule_changes(head: Side, base: Side, *, default_judge: str) -> RuleChanges:
    """Compares the rules of both sides.

    Args:
        head: The pull request's.
        base: The base branch's, with the same selection of files.
        default_judge: The judge of criteria that name none.
    """
    configs = {file.path: file.config for file in base.files}
    pairing = pair_up(_stubs(head.files), base_stubs := _stubs(base.files))
    base_file_of = {new.case_id: old.file for new, old in (*pairing.pairs, *pairing.changed)}
    prompts = _Prompts.of(head.files, base.files)
    # A case whose prompts moved to another id is held to its old criteria: a rename must not loosen them.
    followed = prompts.pairs(pairing.added, pairing.removed)
    base_file_of |= {new: old.file for new, old in followed.items()}
    followed_ids = {old.case_id for old in followed.values()}
    gone = [case for case in pairing.removed if case.case_id not in followed_ids]
    merger = _Merger(head=head, base=base, default_judge=default_judge)
    files: list[LoadedFile] = []
    cases: dict[Changed, list[str]] = {}
    for file in head.files:
        origins = [base_file_of.get(_id(file, case.eval_id)) for case in file.cases]
        # By neighbours, so that the cases keep their order: it is that of the report.
        for origin, group in groupby(zip(file.cases, origins, strict=True), key=lambda pair: pair[1]):
            selected = tuple(case for case, _ in group)
            config, changes = (
                (file.config, ()) if origin is None else merger.merged(file.path, file.config, origin, configs[origin])
            )
            files.append(dataclasses.replace(file, config=config, cases=selected))
            for change in changes:
                cases.setdefault(change, []).extend(_id(file, case.eval_id) for case in selected)
    replaced = {case.file for case in gone}
    loosened = bool(cases) or any(
        merger.merged(file.path, file.config, path, configs[path])[1]
        for file in head.files
        if any(_id(file, case.eval_id) not in base_file_of for case in file.cases)
        for path in ({file.path} if file.path in configs else replaced) & replaced
    )
    return RuleChanges(
        files=tuple(files),
        changes=tuple(dataclasses.replace(change, case_ids=tuple(ids)) for change, ids in cases.items()),
        removed=_removed(gone, base_stubs),
        base_cases=len(base_stubs),
        renamed=prompts.renamed(pairing),
        replaced=_replaced([*(old for _, old in pairing.changed), *followed.values()], base_stubs, removed=len(gone)),
        removal_blocks=bool(gone) and (len(gone) == len(base_stubs) or (loosened and 2 * len(gone) > len(base_stubs))),
    )


@dataclass(frozen=True, kw_only=True)
class _Prompts:
    """The words of the prompts of each case, by its id, on both sides."""

    head: Mapping[str, tuple[str, ...]]
    base: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, head: Iterable[LoadedFile], base: Iterable[LoadedFile]) -> _Prompts:
        here, there = (
            {_id(file, case.eval_id): _words(case) for file in files for case in file.cases} for files in (head, base)
        )
        return cls(head=here, base=there)

    def pairs(self, new: Iterable[CaseReport], old: Iterable[CaseReport]) -> dict[str, CaseReport]:
        """By the id of a new case, the old case whose prompts have the same words."""
        remaining: dict[tuple[str, ...], list[CaseReport]] = {}
        for case in old:
            remaining.setdefault(self.base[case.case_id], []).append(case)
        matched = {}
        for case in new:
            words = self.head[case.case_id]
            # Cases without a word are all alike, and pair with nothing.
            if any(words) and remaining.get(words):
                matched[case.case_id] = remaining[words].pop(0)
        return matched

    def renamed(self, pairing: Pairing) -> dict[str, tuple[str, str]]:
        """By the head's id, file and eval id on the base branch of each case that had another id there.

        Cases that swap their ids count too: each has the id of another case, and prompts that another case had.
        """
        swapped = [(new, old) for new, old in pairing.changed if self.head[new.case_id] != self.base[old.case_id]]
        new = [*pairing.added, *(new for new, _ in swapped)]
        old = [*pairing.removed, *(old for _, old in swapped)]
        matched = {case.case_id: other for case, other in pairing.pairs if case.case_id != other.case_id}
        matched |= self.pairs(new, old)
        return {case_id: (case.file, case.eval_id) for case_id, case in matched.items()}


def _words(case: EvalCase) -> tuple[str, ...]:
    """The prompts of a case without what changes nothing about them: blanks, punctuation, capitals."""
    scenario = case.conversation_scenario
    texts = [text_of(turn.user_content) for turn in case.conversation or ()]
    texts += [scenario.starting_prompt, scenario.conversation_plan] if scenario is not None else []
    return tuple(" ".join(re.findall(r"\w+", text.casefold())) for text in texts)


def _id(file: LoadedFile, eval_id: str) -> str:
    return f"{file.path}:{eval_id}"


def _stubs(files: Iterable[LoadedFile]) -> list[CaseReport]:
    """Cases in the form that `pair_up` matches: reports without results."""
    return [
        CaseReport(
            case_id=_id(file, case.eval_id),
            file=file.path,
            eval_set_id=file.eval_set.eval_set_id,
            eval_id=case.eval_id,
            status="not_run",
            fingerprint=case_fingerprint(
                case, file.config.user_simulator_config, compares_state=file.config.compares_state
            ),
        )
        for file in files
        for case in file.cases
    ]


def _replaced(replaced: Sequence[CaseReport], base: Sequence[CaseReport], *, removed: int) -> tuple[RemovedCases, ...]:
    """By file, the replaced cases, if they are more than half of the cases that are left."""
    # A few edited cases are everyday work; most of a suite rewritten is another suite.
    many = len(replaced) * 2 > len(base) - removed and len(replaced) + removed >= MIN_REPLACED
    return _removed(replaced, base) if many else ()


def _removed(gone: Iterable[CaseReport], base: Iterable[CaseReport]) -> tuple[RemovedCases, ...]:
    counts, all_of = Counter(case.file for case in gone), Counter(case.file for case in base)
    return tuple(RemovedCases(file=file, base=all_of[file], removed=counts[file]) for file in sorted(counts))


@dataclass(frozen=True, kw_only=True)
class _Merger:
    head: Side
    base: Side
    default_judge: str

    def merged(
        self, file: str, config: EvalConfig, base_file: str, base: EvalConfig
    ) -> tuple[EvalConfig, Sequence[Changed]]:
        """The criteria of both sides for a file, and what differs."""
        # By the name in reports: several of agents-cli's metrics can be one criterion with different options.
        own = {criterion.name: criterion for criterion in config.criteria}
        criteria = dict(own)
        functions = dict(config.custom_metrics)
        changes: list[Changed] = []
        for rule in base.criteria:
            here = own.get(rule.name)
            function = _function(base, rule)
            here_code, there_code = (
                None if function is None else _code(side, name, config_, rule, function)
                for side, name, config_ in ((self.head, file, config), (self.base, base_file, base))
            )
            # Before everything else: whatever the thresholds say, the scores are of other code.
            if here_code != there_code:
                changes.append(_changed("code", rule, here, config, base="its code", head=_code_here(config, here)))
                continue
            kind = self._kind(rule, here, function, _function(config, here))
            if kind is None:
                continue
            if kind == "both":
                assert here is not None
                name = rule.name + AS_HERE
                criteria[rule.name] = rule
                criteria[name] = dataclasses.replace(here, label=name)
                if (own_function := config.custom_metrics.get(here.name)) is not None:
                    functions[name] = own_function
            else:
                criteria[rule.name] = rule
            if function is not None:
                functions[rule.name] = base.custom_metrics[rule.name]
            elif kind == "both":
                # The base branch's rule has this name now, and is no custom metric.
                functions.pop(rule.name, None)
            changes.append(_described(rule, here, config, base))
        if not changes:
            return config, ()
        merged = dataclasses.replace(config, criteria=tuple(criteria.values()), custom_metrics=functions)
        return merged, changes

    def _kind(
        self, rule: CriterionConfig, here: CriterionConfig | None, function: str | None, own_function: str | None
    ) -> str | None:
        """How to apply a rule of the base branch: `replace`, `both`, or None if it already applies."""
        if here is None:
            return "replace"
        # Two ways of measuring can't be ordered: the case has to pass both.
        if function != own_function or self._identity(rule) != self._identity(here):
            return "both"
        if rule.direction != here.direction:
            return "both"
        if rule.threshold == here.threshold:
            return None
        if function is not None or not _is_ordered(rule):
            return "both"  # A higher threshold need not be stricter.
        # A pull request may always be stricter.
        return "replace" if rule.bound > here.bound else None

    def _identity(self, rule: CriterionConfig) -> str:
        return metric_identity(rule, self.default_judge).fingerprint


def _is_ordered(rule: CriterionConfig) -> bool:
    """Whether a higher threshold is a stricter one."""
    return rule.metric in METRICS and rule.direction == "higher"


def _function(config: EvalConfig, rule: CriterionConfig | None) -> str | None:
    metric = config.custom_metrics.get(rule.name) if rule is not None else None
    return None if metric is None else metric["code_config"]["name"]


def _code(side: Side, file: str, config: EvalConfig, rule: CriterionConfig, function: str) -> str:
    """The code of a rule's function on a side, or a hash of it."""
    source = config.custom_metrics.get(rule.name, {}).get("code")
    return side.code(file, function) if source is None else str(source)


def _code_here(config: EvalConfig, here: CriterionConfig | None) -> str:
    return ABSENT if here is None else "other code" if _function(config, here) is not None else "another metric"


def _changed(
    kind: RuleChangeKind,
    rule: CriterionConfig,
    here: CriterionConfig | None,
    config: EvalConfig,
    *,
    base: str,
    head: str,
) -> Changed:
    return Changed(
        kind=kind,
        metric=rule.name,
        ordered=_is_ordered(rule),
        config=config.source,
        base=base,
        head=head,
        base_threshold=rule.bound,
        head_threshold=here.bound if here is not None else None,
    )


def _described(rule: CriterionConfig, here: CriterionConfig | None, config: EvalConfig, base: EvalConfig) -> Changed:
    if here is None:
        return _changed("removed", rule, here, config, base=_number(rule.threshold), head=ABSENT)
    olds, news = _options(rule, base), _options(here, config)
    names = [name for name in olds | news if olds.get(name) != news.get(name)]
    if not names:
        ours, theirs = _number(rule.threshold), _number(here.threshold)
        return _changed("threshold", rule, here, config, base=ours, head=theirs)
    if rule.threshold != here.threshold:
        olds["threshold"], news["threshold"] = rule.threshold, here.threshold
        names.insert(0, "threshold")
    shown = [(name, _shown(olds.get(name)), _shown(news.get(name))) for name in names[:_MOST_NAMES]]
    ours = ", ".join(f"{name} {old}" for name, old, _ in shown)
    # Other rubrics, as many as before: the same words would say that nothing has changed.
    theirs = ", ".join(f"{name} {new if new != old else 'changed'}" for name, old, new in shown)
    return _changed("options", rule, here, config, base=ours, head=theirs)


def _options(rule: CriterionConfig, config: EvalConfig) -> dict[str, Any]:
    function = _function(config, rule)
    direction = {} if rule.direction == "higher" else {"direction": rule.direction}
    return {**rule.options, **direction, **({"function": function} if function is not None else {})}


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _shown(value: Any) -> str:
    """A value of an option in a word or two."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return value if len(value) <= 40 else "(a text)"
    if isinstance(value, Mapping | Sequence):
        return f"({plural(len(value), 'entry', 'entries')})"
    return "(set)"


def not_scorable(
    changes: RuleChanges, policy: PolicyReader, cases: Iterable[CaseReport], base_name: str
) -> list[Reason]:
    """Reasons to fail until a maintainer accepts: the base branch's rule decides about a case and can't be applied."""
    policy_entries = {case.case_id: policy.of_case(case.file, case.eval_id) for case in cases}
    reasons = []
    for change in changes.changes:
        blocked = [
            case_id
            for case_id in change.case_ids
            if case_id in policy_entries
            and policy.blocks(policy_entries[case_id])
            and policy.metric(change.metric, policy_entries[case_id]).blocking
        ]
        if change.kind == "code" and blocked:
            reasons.append(Reason.of("rule-changed", metric=change.metric, count=len(blocked), base=base_name))
    return reasons


def loosened_by_renaming(policy: Policy, files: Iterable[LoadedFile]) -> dict[str, str]:
    """By the new id, the base branch's id of each renamed case whose policy would be looser by the new name alone.

    Args:
        policy: With its `renamed`.
        files: The head's.
    """
    reader = PolicyReader(policy)
    return {
        case_id: ":".join(policy.renamed[case_id])
        for file in files
        for case in file.cases
        if (case_id := f"{file.path}:{case.eval_id}") in policy.renamed
        and reader.loosened(
            file.path, case.eval_id, [*(rule.name for rule in file.config.criteria), *INFORMATIONAL_METRICS]
        )
    }


def cases_removed(changes: RuleChanges, base_name: str) -> list[Reason]:
    """The reason for a run to fail that removes cases, where that blocks."""
    count = changes.removed_cases
    if not count:
        return []
    files = [removed.file for removed in changes.removed]
    return [Reason.of(CASES_REMOVED, count=count, base=base_name, files=files)]


def cases_replaced(changes: RuleChanges, base_name: str) -> list[Reason]:
    """The reason to fail a run in which most cases of the base branch have another content."""
    if not changes.replaced:
        return []
    count, files = sum(file.removed for file in changes.replaced), [file.file for file in changes.replaced]
    return [Reason.of(CASES_REPLACED, count=count, total=changes.base_cases, base=base_name, files=files)]


def rule_changes_report(
    rules: RuleChanges,
    cases: Iterable[CaseReport],
    *,
    base_ref: str,
    accepted: str,
    removal: Removal = "reported",
) -> RuleChangesReport:
    """The changes with what they mean for the cases of this run.

    Args:
        rules: The changed rules.
        cases: The head's, as they were judged.
        base_ref: The base branch's name.
        accepted: Who or what accepted it; "" if the stricter rules decided.
        removal: What becomes of removed cases.
    """
    metrics_by_case = {case.case_id: {metric.name: metric for metric in case.metrics} for case in cases}
    only_here: dict[str, None] = {}
    changes = []
    for change in rules.changes:
        words = [
            (case_id, _only_here(change, metrics_by_case[case_id], accepted=bool(accepted)))
            for case_id in change.case_ids
            if case_id in metrics_by_case
        ]
        measured = [word for _, word in words if word is not None]
        only_here |= dict.fromkeys(case_id for case_id, word in words if word)
        changes.append(
            RuleChange(
                kind=change.kind,
                metric=change.metric,
                config=change.config,
                cases=len(change.case_ids),
                base=change.base,
                head=change.head,
                fails=sum(measured) if measured else None,
            )
        )
    return RuleChangesReport(
        base_ref=base_ref,
        decides="head" if accepted else "base",
        accepted=accepted,
        changes=changes,
        only_here=list(only_here),
        removed=list(rules.removed),
        removal=removal,
        base_cases=rules.base_cases,
    )


def _only_here(change: Changed, metrics: Mapping[str, MetricReport], *, accepted: bool) -> bool | None:
    """Whether a case fails by the base branch's rule and not by the pull request's; None: unknown."""
    metric = metrics.get(change.metric)
    if change.kind == "code" or metric is None or metric.score is None:
        return None
    if change.kind == "threshold" and change.ordered:
        assert change.head_threshold is not None
        if metric.threshold not in {change.base_threshold, change.head_threshold}:
            return False  # The policy has a threshold of its own for it.
        return change.head_threshold <= metric.score < change.base_threshold
    if accepted:
        return None  # Only the pull request's definition was scored.
    if not metric.failed:
        return False
    here = metrics.get(change.metric + AS_HERE)
    return here is None or here.passed
