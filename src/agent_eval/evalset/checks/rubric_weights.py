"""Finds weights and levels without a rubric.

This needs all files of a run, because cases and turns can have rubrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_eval.core.invocation import Rubric
from agent_eval.core.problem import Problem
from agent_eval.evalset.json import JsonPath, read_document
from agent_eval.evalset.models import METRICS, CriterionConfig, LoadedFile
from agent_eval.evalset.parse import did_you_mean


def idle_weights(files: Sequence[LoadedFile], root: Path) -> Iterator[Problem]:
    """Warnings for weights and levels without a rubric.

    The id is probably misspelt, and the rubric has the weight 1, or is judged with yes or no.

    Args:
        files: All files of a run, without errors. Cases that are not selected count, too.
        root: The directory that the names of configs are relative to.
    """
    groups: dict[str, list[LoadedFile]] = {}
    for file in files:
        if file.config.source is not None:
            groups.setdefault(file.config.source, []).append(file)
    for source, group in groups.items():
        config = group[0].config
        for criterion in config.criteria:
            spec = METRICS.get(criterion.metric)
            if criterion.metric not in config.custom_metrics and spec is not None and spec.rubric_type is not None:
                yield from _idle(source, criterion, group, root)


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
