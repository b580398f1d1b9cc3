"""Weights of rubrics that no file has. Only all files of a run together show it: cases and turns may bring rubrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_eval.core.invocation import Rubric
from agent_eval.core.problem import Problem
from agent_eval.evalset.json import read_document
from agent_eval.evalset.models import METRICS, CriterionConfig, LoadedFile
from agent_eval.evalset.parse import did_you_mean


def idle_weights(files: Sequence[LoadedFile], root: Path) -> Iterator[Problem]:
    """Warnings for weights that weigh nothing: most probably a rubric's id is misspelt, and weighs 1.

    Args:
        files: All files of a run, none of which has an error; of each every case counts, selected or not.
        root: What the names of configs are relative to.
    """
    groups: dict[str, list[LoadedFile]] = {}
    for file in files:
        if file.config.source is not None:
            groups.setdefault(file.config.source, []).append(file)
    for source, group in groups.items():
        config = group[0].config
        for criterion in config.criteria:
            if criterion.options.get("rubric_weights") and criterion.metric not in config.custom_metrics:
                yield from _idle(source, criterion, group, root)


def _idle(source: str, criterion: CriterionConfig, files: Sequence[LoadedFile], root: Path) -> Iterator[Problem]:
    rubric_type = METRICS[criterion.metric].rubric_type
    there = [rubric.rubric_id for rubric in criterion.options.get("rubrics", ())]
    there += [rubric.rubric_id for file in files for rubric in _brought(file) if rubric.type == rubric_type]
    idle = [weighed for weighed in criterion.options["rubric_weights"] if weighed not in there]
    # Read again for the place alone: configs are many, and this is rare.
    document = read_document(root / source, source)[0] if idle else None
    if document is None:
        return
    known = list(dict.fromkeys(there))
    for weighed in idle:
        yield document.warning(
            "idle-rubric-weight",
            f"`rubric_weights` has a weight for `{weighed}`, and no rubric of this criterion or of the cases that it "
            "applies to has that id.",
            path=("criteria", criterion.metric, "rubric_weights", weighed),
            key=True,
            hint=did_you_mean(weighed, known) if known else "Correct it, or remove it.",
        )


def _brought(file: LoadedFile) -> Iterator[Rubric]:
    for case in file.eval_set.eval_cases:
        yield from case.rubrics or ()
        for turn in case.conversation or ():
            yield from turn.rubrics or ()
