"""Finds weights and levels without a rubric.

This needs all files of a run, because cases and turns can have rubrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_eval.core.invocation import Rubric
from agent_eval.core.problem import Problem
from agent_eval.evalset.json import read_document
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
            if criterion.metric in config.custom_metrics:
                continue
            for field, code in _CODES.items():
                if criterion.options.get(field):
                    yield from _idle(source, criterion, field, code, group, root)


_CODES = {"rubric_weights": "idle-rubric-weight", "rubric_levels": "idle-rubric-levels"}


def _idle(
    source: str, criterion: CriterionConfig, field: str, code: str, files: Sequence[LoadedFile], root: Path
) -> Iterator[Problem]:
    rubric_type = METRICS[criterion.metric].rubric_type
    rubric_ids = [rubric.rubric_id for rubric in criterion.options.get("rubrics", ())]
    rubric_ids += [
        rubric.rubric_id for file in files for rubric in _rubrics_of_cases(file) if rubric.type == rubric_type
    ]
    idle = [rubric_id for rubric_id in criterion.options[field] if rubric_id not in rubric_ids]
    # Read again only for the position, because such problems are rare.
    document = read_document(root / source, source)[0] if idle else None
    if document is None:
        return
    names = list(dict.fromkeys(rubric_ids))
    for rubric_id in idle:
        yield document.warning(
            code,
            f"`{field}` has an entry for `{rubric_id}`, but no rubric of this criterion or of its cases has that id.",
            path=("criteria", criterion.metric, field, rubric_id),
            key=True,
            hint=did_you_mean(rubric_id, names) if names else "Correct it, or remove it.",
        )


def _rubrics_of_cases(file: LoadedFile) -> Iterator[Rubric]:
    for case in file.eval_set.eval_cases:
        yield from case.rubrics or ()
        for turn in case.conversation or ():
            yield from turn.rubrics or ()
