"""Suspicious cases: left-out arguments, missing references, unused rubrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation, Rubric, RubricContent, intermediate_responses, tool_calls
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.evalset.json import JsonPath, read_document
from agent_eval_scoring.evalset.models import METRICS, CriterionConfig, EvalCase, EvalConfig, LoadedFile, MetricSpec
from agent_eval_scoring.evalset.models.dataset import DatasetRubric
from agent_eval_scoring.evalset.parse import EvalFile, did_you_mean
from agent_eval_scoring.evalset.parse.dataset import GROUP_KEY

_INTERMEDIATE = "intermediate_response_similarity"


def turns_without_references(
    file: EvalFile,
    turns: Sequence[Invocation],
    path: JsonPath,
    builtin: Sequence[tuple[MetricSpec, CriterionConfig]],
    where: str,
) -> Iterator[Problem]:
    """Turns without the text that a criterion compares with.

    Args:
        file: The file.
        turns: The expected turns of a case.
        path: The path of the case.
        builtin: The built-in criteria of the case.
        where: Where the criteria are configured, for messages.
    """
    # One turn with them is enough: the criterion leaves the others out.
    if any(spec.name == _INTERMEDIATE for spec, _ in builtin) and not any(map(intermediate_responses, turns)):
        yield file.error(
            "needs-reference",
            f"No turn of the case has intermediate responses with text, but `{_INTERMEDIATE}` ({where}) compares with "
            "them.",
            path,
            'Add them to a turn, e.g. "intermediate_data": {"intermediate_responses": '
            '[["agent_name", [{"text": "..."}]]]}, or remove the criterion.',
        )
    compared = [(spec, criterion) for spec, criterion in builtin if spec.needs_final_response and _can_fail(criterion)]
    needing = [spec for spec, _ in compared]
    if not needing:
        return
    without = [number for number, turn in enumerate(turns) if not text_of(turn.final_response)]
    names = " and ".join(f"`{spec.name}`" for spec in needing)
    compare = f"{names} ({where}) {'compares' if len(needing) == 1 else 'compare'}"
    # An error only if no turn has one: then no run could pass, whatever the agent answers.
    if len(without) == len(turns):
        yield file.error(
            "needs-reference",
            f"No turn of the case has a `final_response` with text, but {compare} with it.",
            path,
            "Add the expected answers, or use a test_config.json without this criterion: else no answer can pass.",
        )
        return
    effects = " ".join(dict.fromkeys(_effect(criterion) for _, criterion in compared))
    for number in without:
        yield file.warning(
            "turn-without-reference",
            f"The turn has no `final_response` with text, but {compare} with it.",
            (*path, "conversation", number),
            f"{effects} Add the expected answer.",
        )


_SCORES_NOTHING = {"response_facts", "response_similarity"}
"""Without a reference they have no score. Those of ADK score 0."""


def _can_fail(criterion: CriterionConfig) -> bool:
    """Whether an answer without a reference fails: not where 0 is enough, as authors turn a criterion of ADK off."""
    return criterion.metric in _SCORES_NOTHING or criterion.threshold is None or criterion.threshold > 0


def _effect(criterion: CriterionConfig) -> str:
    """The effect of a turn without a reference on a criterion."""
    if criterion.metric == "response_facts":
        return "`response_facts` leaves the turn out."
    if criterion.metric not in _SCORES_NOTHING:
        return "As in ADK, any answer scores 0 in this turn."
    return "Any answer in this turn leaves `response_similarity` without a score."


def omitted_args(
    file: EvalFile, turns: Sequence[Invocation], path: JsonPath, builtin: Sequence[tuple[MetricSpec, CriterionConfig]]
) -> Iterator[Problem]:
    """A finding for each turn with such calls.

    Args:
        file: The file.
        turns: The expected turns of a case.
        path: The path of the case.
        builtin: The built-in criteria of the case.
    """
    permissive = [spec.name for spec, criterion in builtin if _allows_any_args(criterion)]
    if not permissive:
        return
    names = " and ".join(f"`{metric}`" for metric in permissive)
    accept = "accepts" if len(permissive) == 1 else "accept"
    for number, turn in enumerate(turns):
        # Omitted `args` are not `{}` (Q14).
        calls = [call for call in tool_calls(turn.intermediate_data) if call.args is None]
        if not calls:
            continue
        at: JsonPath = (*path, "conversation", number)
        message = f"An expected call of `{calls[0].name}` has no `args`."
        hint = 'For a call without arguments write "args": {}.'
        yield file.notice("omitted-args", f"{message} {names} {accept} any arguments for it.", at, hint)


def _allows_any_args(criterion: CriterionConfig) -> bool:
    if criterion.metric == "tool_trajectory_partial":
        return True
    # With `ignore_args` the author has said that arguments don't count.
    return criterion.options.get("args_match") == "subset" and not criterion.options.get("ignore_args")


def is_idle(criterion: CriterionConfig, case: EvalCase) -> bool:
    """Whether a criterion has nothing to score in a case, which the others decide.

    A rubric metric without a rubric, neither its own nor one in the case or in its turns; that of the state in a case
    that expects none.
    """
    spec = METRICS.get(criterion.metric)
    if spec is not None and spec.needs_state:
        return not case.expected_state
    if spec is None or spec.rubric_type is None or criterion.options.get("rubrics"):
        return False
    of_turns = [rubric for turn in case.conversation or () for rubric in turn.rubrics or ()]
    return not any(rubric.type == spec.rubric_type for rubric in [*(case.rubrics or ()), *of_turns])


def criteria_of(config: EvalConfig, case: EvalCase) -> list[CriterionConfig]:
    """The criteria that judge a case: not those that are idle. In a dataset, not those for which it has no reference
    either, unless these are all.
    """
    judging = [criterion for criterion in config.criteria if not is_idle(criterion, case)]
    if case.dataset_case is None:
        return judging
    # agents-cli scores each case with what it has; if that is nothing, a finding has to say so.
    return [criterion for criterion in judging if not _lacks_reference(criterion, case)] or judging


def _lacks_reference(criterion: CriterionConfig, case: EvalCase) -> bool:
    spec = METRICS.get(criterion.metric)
    if spec is None or not spec.needs_reference:
        return False
    if case.conversation is None:
        return True
    # A dataset's case has one turn to run.
    turn = case.conversation[0]
    return turn.intermediate_data is None if not spec.needs_final_response else not text_of(turn.final_response)


def add_rubrics(file: EvalFile, criteria: Sequence[CriterionConfig]) -> Iterator[Problem]:
    """Gives the cases of a dataset the rubrics of the groups that its criteria select; says what can't be selected."""
    for index, case in file.cases.items():
        groups = (case.dataset_case.rubric_groups if case.dataset_case is not None else None) or {}
        names = ", ".join(f"`{name}`" for name in groups)
        taken: dict[str, str] = {}
        for criterion in criteria:
            spec = METRICS.get(criterion.metric)
            if GROUP_KEY not in criterion.options or spec is None or not groups:
                continue
            # With one group there is nothing to choose.
            key = criterion.options[GROUP_KEY] or (next(iter(groups)) if len(groups) == 1 else "")
            # Both would have the rubrics of both, since a case's rubrics are found by the type of the metric alone.
            if taken.setdefault(criterion.metric, key) != key:
                message = f"`{criterion.name}` needs the group of the others that `{criterion.metric}` scores."
                yield file.error("metric-unsupported", message, ("eval_cases", index), "Select one group for all.")
            elif key not in groups:
                what = f"names the group `{key}`" if key else f"does not say which group of `{case.eval_id}` it scores"
                message = f"`{criterion.name}` {what}. Its groups: {names}."
                hint = f"Write `metric_spec_parameters: {{{GROUP_KEY}: ...}}` for it in `custom_metrics`."
                yield file.error("no-rubrics", message, ("eval_cases", index), hint)
            else:
                rubrics = [_rubric(number, rubric, spec) for number, rubric in enumerate(groups[key].rubrics or ())]
                # Several criteria may select one group.
                case.rubrics = [*(case.rubrics or ()), *(each for each in rubrics if each not in (case.rubrics or ()))]


def _rubric(number: int, rubric: DatasetRubric, spec: MetricSpec) -> Rubric:
    text = rubric.content and rubric.content.property and rubric.content.property.description
    content = RubricContent(text_property=text)
    return Rubric(rubric_id=rubric.rubric_id or str(number), rubric_content=content, type=spec.rubric_type)


def idle_weights(files: Sequence[LoadedFile], root: Path) -> Iterator[Problem]:
    """Warnings for weights and levels without a rubric.

    The id is probably misspelt, and the rubric has the weight 1, or is judged with yes or no.

    Args:
        files: All files of a run, without errors. Cases that are not selected count, too.
        root: The directory that the names of configs are relative to.
    """
    for source, group in by_config(files).items():
        config = group[0].config
        for criterion in config.criteria:
            spec = METRICS.get(criterion.metric)
            if criterion.metric not in config.custom_metrics and spec is not None and spec.rubric_type is not None:
                yield from _idle(source, criterion, group, root)


def by_config(files: Sequence[LoadedFile]) -> dict[str, list[LoadedFile]]:
    """The files of each config."""
    groups: dict[str, list[LoadedFile]] = {}
    for file in files:
        # ADK's defaults have no weights and no rules.
        if file.config.source is not None:
            groups.setdefault(file.config.source, []).append(file)
    return groups


def _idle(source: str, criterion: CriterionConfig, files: Sequence[LoadedFile], root: Path) -> Iterator[Problem]:
    rubric_type = METRICS[criterion.metric].rubric_type
    rubric_ids = [rubric.rubric_id for rubric in criterion.options.get("rubrics", ())]
    rubric_ids += [
        rubric.rubric_id for file in files for rubric in _rubrics_of_cases(file) if rubric.type == rubric_type
    ]
    idle = [
        (field, rubric_id)
        for field in ("rubric_weights", "rubric_levels")
        for rubric_id in criterion.options[field]
        if rubric_id not in rubric_ids
    ]
    # Read again only for the position, because such problems are rare.
    document = read_document(root / source, source)[0] if idle else None
    if document is None:
        return
    names = list(dict.fromkeys(rubric_ids))
    for field, rubric_id in idle:
        message = f"`{field}` has an entry for `{rubric_id}`, but no rubric of the criterion or of its cases has it."
        path: JsonPath = ("criteria", criterion.metric, field, rubric_id)
        hint = did_you_mean(rubric_id, names) if names else "Correct it, or remove it."
        if field == "rubric_weights":
            yield document.warning("idle-rubric-weight", message, path=path, key=True, hint=hint)
        else:
            yield document.warning("idle-rubric-levels", message, path=path, key=True, hint=hint)


def _rubrics_of_cases(file: LoadedFile) -> Iterator[Rubric]:
    for case in file.eval_set.eval_cases:
        yield from case.rubrics or ()
        for turn in case.conversation or ():
            yield from turn.rubrics or ()
