"""Reads label files: JSON Lines, each line a response with human labels. Reports all mistakes with their positions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from agent_eval_scoring.core.content import model_message, text_of, user_message
from agent_eval_scoring.core.files import MAX_TEXT, read_regular
from agent_eval_scoring.core.invocation import Invocation, Rubric, RubricContent
from agent_eval_scoring.core.problem import Problem, has_error
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.criteria import Conversation
from agent_eval_scoring.criteria.judged import RUBRIC_SCALE, level_scale, verdict_scale
from agent_eval_scoring.evalset.json import ONE_DOCUMENT, Document, JsonPath, parse_document
from agent_eval_scoring.evalset.models import METRICS, EvalCase
from agent_eval_scoring.evalset.parse import shape_problems
from agent_eval_scoring.evalset.paths import absolute, name_of
from agent_eval_workbench.calibration.target import TargetCriterion, Vocabulary

Kind = Literal["verdict", "score"]
"""Whether labels are pass or fail, or numbers on the metric's scale."""


_LINE = 'Write one object per line: {"prompt": "...", "response": "...", "reference": "...", "label": "pass"}.'


class LabelLine(WireModel):
    """One labelled response: `prompt` and `response`, or ADK's `invocations`."""

    id: str | None = None
    """For the report."""
    prompt: str | None = None
    response: str | None = None
    """Empty if the agent gave no answer."""
    reference: str | None = None
    """The correct answer."""
    invocations: list[Invocation] | None = None
    """A conversation with its tool calls, as in recordings.jsonl.gz."""
    expected: list[Invocation] | None = None
    """The expected invocations, as in an eval file."""
    label: Any = None
    """A word of the criterion, `pass` or `fail`, or a number."""
    rubric: str | None = None
    """The rubric that the label is about: its id, or its text."""
    labels: dict[str, Any] | None = None
    """Several labels, by rubric."""
    note: str = ""
    """The reason for the label, printed with disagreements."""

    def conversation(self) -> tuple[list[Invocation], list[Invocation]]:
        """The actual and the expected invocations, equally many.

        Raises:
            ValueError: The line has neither form or both; the message is a clause.
        """
        if self.invocations is None:
            if self.prompt is None or self.response is None:
                missing = "response" if self.prompt is not None else "prompt"
                raise ValueError(f"`{missing}` is missing; a line has `prompt` and `response`, or `invocations`")
            if self.expected is not None:
                raise ValueError("`expected` belongs to `invocations`; write the correct answer as `reference`")
            user, answer = user_message(self.prompt), model_message(self.response) if self.response else None
            reference = None if self.reference is None else model_message(self.reference)
            return [Invocation(user_content=user, final_response=answer)], [
                Invocation(user_content=user, final_response=reference)
            ]
        flat = next((name for name in ("prompt", "response", "reference") if getattr(self, name) is not None), None)
        if flat is not None:
            raise ValueError(f"`{flat}` can't be combined with `invocations`")
        actual = self.invocations
        if not actual:
            raise ValueError("`invocations` is empty")
        expected = self.expected
        if expected is None:
            # Criteria read the rubrics of the expected turn.
            expected = [Invocation(user_content=turn.user_content, rubrics=turn.rubrics) for turn in actual]
        if len(actual) != len(expected):
            raise ValueError(f"there are {len(actual)} `invocations` but {len(expected)} in `expected`")
        return actual, expected


@dataclass(frozen=True, kw_only=True)
class Label:
    """One human label."""

    line: int
    """1-based, in the label file."""
    id: str | None
    rubric: str
    """The rubric's id; "" for the response as a whole."""
    word: str
    """As written."""
    verdict: float | None
    """1 for pass, 0 for fail; None if the label is only a score."""
    score: float | None
    """On the metric's scale; None if the label is only pass or fail."""
    note: str = ""

    def value(self, kind: Kind) -> float:
        """The value to compare with the judge's."""
        value = self.verdict if kind == "verdict" else self.score
        assert value is not None
        return value


@dataclass(kw_only=True)
class LabelledResponse:
    """A response with all its labels. It is judged once."""

    line: int
    """The first line about it."""
    actual: Sequence[Invocation]
    expected: Sequence[Invocation]
    labels: list[Label] = field(default_factory=list)
    rubrics: dict[str, Rubric] = field(default_factory=dict)
    """Rubrics that the lines add to the criterion's, by id."""

    def conversation(self, file: str) -> Conversation:
        """Builds the `Conversation` that a criterion scores."""
        case_id = f"{file}:{self.line}"
        case = EvalCase(eval_id=case_id, conversation=list(self.expected), rubrics=list(self.rubrics.values()) or None)
        return Conversation(case=case, actual=self.actual, expected=self.expected, case_id=case_id)

    @property
    def prompt(self) -> str:
        """The user's last message."""
        return text_of(self.actual[-1].user_content)

    @property
    def answer(self) -> str:
        """The agent's last answer."""
        return text_of(self.actual[-1].final_response)


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """A valid label file."""

    file: str
    responses: tuple[LabelledResponse, ...]
    kind: Kind
    by_rubric: bool
    """Whether the labels are about rubrics."""

    @property
    def labels(self) -> list[Label]:
        """All labels, in the order of the responses."""
        return [label for response in self.responses for label in response.labels]


def read_labels(path: Path, root: Path, target: TargetCriterion) -> tuple[LabelSet | None, list[Problem]]:
    """Reads a label file.

    Args:
        path: The file.
        root: The directory that problems name the file relative to.
        target: The criterion to calibrate. It determines which labels are allowed.

    Returns:
        The labels, or None if the problems have an error.
    """
    name = name_of(absolute(path), absolute(root))
    try:
        data = read_regular(path, MAX_TEXT)
    except OSError as error:
        hint = f"Name a file of labels. {_LINE}"
        return None, [_file_error(name, "unreadable-file", f"Can't read the file: {error.strerror or error}.", hint)]
    return parse_labels(data, name, target)


def parse_labels(data: bytes, name: str, target: TargetCriterion) -> tuple[LabelSet | None, list[Problem]]:
    """Reads the content of a label file; see `read_labels`."""
    # Not splitlines(): JSON may have U+2028 in a string, and bytes have more line breaks than JSON Lines.
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        return None, [_file_error(name, "no-labels", "The file has no labels.", _LINE)]
    # Said once, instead of an error for each line of a list that is written over many.
    if len(lines) > 1 and parse_document(lines[0][1], name)[0] is None and parse_document(data, name)[0] is not None:
        hint = "Write one object per line, without commas between them, e.g. with `jq -c '.[]'`."
        return None, [_file_error(name, "labels-not-lines", "The file is one JSON document, not JSON Lines.", hint)]
    reader = _Reader(name, target)
    for number, line in lines:
        reader.read(number, line)
    return reader.finish(), reader.problems


def _file_error(file: str, code: str, message: str, hint: str) -> Problem:
    return Problem(code=code, message=message, hint=hint, file=file)


class _Reader:
    """Collects responses and problems line by line."""

    def __init__(self, name: str, target: TargetCriterion) -> None:
        self._name = name
        self._target = target
        self._configured = [rubric.rubric_id for rubric in target.config.options.get("rubrics", ())]
        self._labels: list[tuple[Label, Document, JsonPath]] = []
        self._responses: dict[str, LabelledResponse] = {}
        self.problems: list[Problem] = []

    def read(self, number: int, text: bytes) -> None:
        """Reads one line of the label file."""
        document, problems = parse_document(text.rstrip(b"\r"), self._name)
        if document is not None:
            try:
                line = LabelLine.model_validate(document.value)
                problems += self._read_line(number, line, document)
            except ValidationError as error:
                problems += shape_problems(document, error, LabelLine, ())
        for problem in problems:
            message = problem.message.replace("The file is", "The line is")
            # The hints are for eval files, which hold a single document.
            hint = _LINE if problem.hint == ONE_DOCUMENT or "not JSON but" in message else problem.hint
            self.problems.append(replace(problem, line=number, message=message, hint=hint))

    def finish(self) -> LabelSet | None:
        """Checks that all labels are of one kind. Returns None if there is an error in any line."""
        labels = [label for label, _, _ in self._labels]
        by_rubric = any(label.rubric for label in labels)
        # Words that are both, e.g. `yes` with a score of 1, count as what all others are.
        kind: Kind = "verdict" if all(label.verdict is not None for label in labels) else "score"
        mixed = self._mixed_labels()
        if mixed is not None:
            self.problems.append(mixed)
        elif kind == "verdict" and self._target.threshold is None and not by_rubric and labels:
            metric, (low, high) = self._target.metric, self._target.span
            message = f"The labels are pass or fail, and it is unknown which score of `{metric}` passes."
            hint = f"Write e.g. `--criterion {metric}={low + 0.75 * (high - low):g}`, or give the config as `--config`."
            self.problems.append(_file_error(self._name, "label-needs-threshold", message, hint))
        if has_error(self.problems):
            return None
        return LabelSet(file=self._name, responses=tuple(self._responses.values()), kind=kind, by_rubric=by_rubric)

    def _mixed_labels(self) -> Problem | None:
        about = [(entry, "about a rubric" if entry[0].rubric else "about the whole response") for entry in self._labels]
        kinds = [
            (entry, "a score" if entry[0].verdict is None else "pass or fail")
            for entry in self._labels
            if entry[0].verdict is None or entry[0].score is None
        ]
        for group in (about, kinds):
            for (label, document, path), kind in group:
                (first, _, _), first_kind = group[0]
                if kind != first_kind:
                    message = f"This label is {kind}, the label on line {first.line} is {first_kind}."
                    hint = "They can't be counted together: split the file in two."
                    problem = document.error("labels-mixed", message, path=path, hint=hint)
                    return replace(problem, line=label.line)
        return None

    def _read_line(self, number: int, line: LabelLine, document: Document) -> Iterator[Problem]:
        try:
            actual, expected = line.conversation()
        except ValueError as error:
            text = str(error)
            hint = 'Write e.g. {"prompt": "...", "response": "...", "label": "pass"}.'
            yield document.error("label-without-response", f"{text[:1].upper()}{text[1:]}.", hint=hint)
            return
        needs_reference = METRICS[self._target.metric].needs_final_response
        if needs_reference and not all(text_of(turn.final_response) for turn in expected):
            message = f"`{self._target.metric}` needs the correct answer, and this line has none."
            yield document.error("label-needs-reference", message, hint='Add "reference": "...".')
        # Lines about the same response belong together.
        key = json.dumps([turn.model_dump(mode="json", exclude_none=True) for turn in (*actual, *expected)])
        response = self._responses.setdefault(key, LabelledResponse(line=number, actual=actual, expected=expected))
        entries: list[tuple[str | None, Any, JsonPath, JsonPath]] = []
        if line.label is not None:
            entries.append((line.rubric, line.label, ("label",), ("rubric",)))
        entries += [(name, raw, ("labels", name), ("labels", name)) for name, raw in (line.labels or {}).items()]
        for name, raw, path, rubric_path in entries:
            rubric = "" if name is None else self._rubric_id(name, response, document, rubric_path)
            if isinstance(rubric, Problem):
                yield rubric
                continue
            label = self._label(number, line, document, response, rubric, raw, path)
            if isinstance(label, Problem):
                yield label
            else:
                response.labels.append(label)
                self._labels.append((label, document, path))
        if not entries:
            words = '"yes" or "no"' if line.rubric else '"pass" or "fail"'
            yield document.error("missing-field", "The line has no label.", hint=f'Add "label": {words}.')
        elif self._target.takes_rubrics and not (self._configured or response.rubrics or expected[-1].rubrics):
            hint = "Name one in `rubric`, or give the config with the criterion's rubrics as `--config`."
            yield document.error("no-rubrics", "No rubric applies to this line.", hint=hint)

    def _label(
        self,
        number: int,
        line: LabelLine,
        document: Document,
        response: LabelledResponse,
        rubric: str,
        raw: Any,
        path: JsonPath,
    ) -> Label | Problem:
        vocabulary = self._vocabulary(rubric)
        meaning = vocabulary.read(raw)
        if meaning is None:
            shown = repr(raw) if isinstance(raw, str | int | float) else f"of type {type(raw).__name__}"
            return document.error(
                "label-unknown", f"A label {shown} is not allowed here.", path=path, hint=vocabulary.hint
            )
        earlier = next((label for label in response.labels if label.rubric == rubric), None)
        if earlier is not None:
            what = f"Rubric `{rubric}` of this response" if rubric else "This response"
            return document.error(
                "label-repeated",
                f"{what} already has a label, on line {earlier.line}.",
                path=path,
                hint="Keep one. Where people disagree, let them settle it first: no judge can agree with both.",
            )
        verdict, score = meaning
        word = raw if isinstance(raw, str) else f"{raw:g}"
        return Label(line=number, id=line.id, rubric=rubric, word=word, verdict=verdict, score=score, note=line.note)

    def _vocabulary(self, rubric: str) -> Vocabulary:
        """The labels that are allowed for a rubric, or for the response as a whole ("")."""
        if not rubric:
            low, high = self._target.span
            return Vocabulary(words=verdict_scale(self._target.metric), low=low, high=high)
        levels = self._target.config.options.get("rubric_levels", {}).get(rubric)
        words = RUBRIC_SCALE if levels is None else level_scale(levels)
        return Vocabulary(words=words, low=0.0, high=1.0, fractions=False, graded=levels is not None)

    def _rubric_id(self, name: str, response: LabelledResponse, document: Document, path: JsonPath) -> str | Problem:
        """The id of the rubric that a line names. A text other than an id becomes a rubric of the response."""
        metric = self._target.metric
        if not self._target.takes_rubrics:
            message, hint = f"`{metric}` has no rubrics.", "Remove it: the label is about the whole response."
            return document.error("label-rubric-unknown", message, path=path, hint=hint)
        # One word is an id that is misspelt; a sentence is a rubric of its own.
        if name not in self._configured and len(name.split()) < 2:
            close = nearby(name, self._configured) or self._configured
            ids = f"The criterion has {', '.join(f'`{rubric}`' for rubric in close[:10])}. " if close else ""
            hint = f"{ids}To use another rubric, write its text."
            return document.error("label-rubric-unknown", f"There is no rubric `{name}`.", path=path, hint=hint)
        if name not in self._configured:
            content = RubricContent(text_property=name)
            response.rubrics[name] = Rubric(rubric_id=name, rubric_content=content, type=METRICS[metric].rubric_type)
        return name
