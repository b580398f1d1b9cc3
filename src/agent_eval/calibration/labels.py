"""Reads a label file: JSON Lines, each a response that people have judged. All mistakes at once, each in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.calibration.choosing import Chosen
from agent_eval.calibration.lines import LabelLine, material_key
from agent_eval.calibration.meaning import Kind, Label, odd_one_out, vocabulary
from agent_eval.core.content import text_of
from agent_eval.core.files import MAX_TEXT, read_regular
from agent_eval.core.invocation import Invocation, Rubric, RubricContent
from agent_eval.core.problem import Problem, Severity, has_error
from agent_eval.core.selectors import nearby
from agent_eval.criteria import Conversation
from agent_eval.evalset.json import Document, JsonPath, parse_document
from agent_eval.evalset.models import METRICS, EvalCase
from agent_eval.evalset.parse import shape_problems
from agent_eval.evalset.paths import absolute, name_of


@dataclass(kw_only=True)
class LabelledResponse:
    """A response, and all labels on it; it is judged once."""

    line: int
    """Where it stands first."""
    actual: Sequence[Invocation]
    expected: Sequence[Invocation]
    labels: list[Label] = field(default_factory=list)
    rubrics: dict[str, Rubric] = field(default_factory=dict)
    """Those that the lines bring themselves, by id."""

    def conversation(self, file: str) -> Conversation:
        """As a criterion sees it."""
        case_id = f"{file}:{self.line}"
        case = EvalCase(eval_id=case_id, conversation=list(self.expected), rubrics=list(self.rubrics.values()) or None)
        return Conversation(case=case, actual=self.actual, expected=self.expected, case_id=case_id)

    @property
    def prompt(self) -> str:
        """The last thing that the user said."""
        return text_of(self.actual[-1].user_content)

    @property
    def answer(self) -> str:
        """The last thing that the agent said."""
        return text_of(self.actual[-1].final_response)


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """A label file, read."""

    file: str
    responses: tuple[LabelledResponse, ...]
    kind: Kind
    by_rubric: bool
    """Whether the labels are about rubrics."""

    @property
    def labels(self) -> list[Label]:
        """All of them, in the order of the responses."""
        return [label for response in self.responses for label in response.labels]


def read_labels(path: Path, root: Path, chosen: Chosen) -> tuple[LabelSet | None, list[Problem]]:
    """Reads a label file.

    Args:
        path: Where it is.
        root: What findings call it relative to.
        chosen: The criterion that will be calibrated: it says what labels can mean.

    Returns:
        The labels, or None when an error is among the findings.
    """
    name = name_of(absolute(path), absolute(root))
    try:
        data = read_regular(path, MAX_TEXT)
    except OSError as error:
        hint = "Give the path of a file with a JSON object on each line."
        message = f"The file can't be read: {error.strerror or error}."
        return None, [_about_file(name, "unreadable-file", message, hint)]
    return parse_labels(data, name, chosen)


def parse_labels(data: bytes, name: str, chosen: Chosen) -> tuple[LabelSet | None, list[Problem]]:
    """Reads the bytes of a label file; see `read_labels`."""
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        return None, [_about_file(name, "no-labels", "The file has no labels.", "Write a JSON object on each line.")]
    if len(lines) > 1 and parse_document(lines[0][1], name)[0] is None and parse_document(data, name)[0] is not None:
        hint = "Write one object per line, without commas between them, e.g. with `jq -c '.[]'`."
        return None, [_about_file(name, "labels-not-lines", "The file is one JSON document, not JSON Lines.", hint)]
    reader = _Reader(name, chosen)
    for number, line in lines:
        reader.read(number, line)
    reader.look_back()
    if has_error(reader.problems):
        return None, reader.problems
    return (
        LabelSet(
            file=name,
            responses=tuple(reader.responses.values()),
            kind=reader.kind,
            by_rubric=reader.by_rubric,
        ),
        reader.problems,
    )


def _about_file(file: str, code: str, message: str, hint: str) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, hint=hint, file=file)


class _Reader:
    """Collects responses, labels and findings."""

    def __init__(self, name: str, chosen: Chosen) -> None:
        self._name = name
        self._chosen = chosen
        self._configured = [rubric.rubric_id for rubric in chosen.config.options.get("rubrics", ())]
        self._labels: list[tuple[Label, Document, JsonPath]] = []
        self.responses: dict[str, LabelledResponse] = {}
        self.problems: list[Problem] = []

    @property
    def by_rubric(self) -> bool:
        """Whether the labels are about rubrics."""
        return any(label.subject for label, _, _ in self._labels)

    @property
    def kind(self) -> Kind:
        """What all labels say."""
        return "verdict" if all(label.verdict is not None for label, _, _ in self._labels) else "score"

    def read(self, number: int, text: bytes) -> None:
        """Reads a line."""
        document, problems = parse_document(text.rstrip(b"\r"), self._name)
        if document is not None:
            try:
                line = LabelLine.model_validate(document.value)
                problems += self._take(number, line, document)
            except ValidationError as error:
                problems += shape_problems(document, error, LabelLine, ())
        self.problems += [_on_line(number, problem) for problem in problems]

    def look_back(self) -> None:
        """Checks what only all lines together show."""
        found = odd_one_out([label for label, _, _ in self._labels])
        if found is not None:
            label, document, path = self._labels[found[0]]
            hint = "They can't be counted together: make two files of them."
            self.problems.append(_on_line(label.line, document.error("labels-mixed", found[1], path=path, hint=hint)))
        elif self.kind == "verdict" and self._chosen.threshold is None and not self.by_rubric:
            metric, (low, high) = self._chosen.metric, self._chosen.span
            message = f"The labels say pass or fail, and nothing says which score of `{metric}` passes."
            hint = f"Write e.g. `--criterion {metric}={low + 0.75 * (high - low):g}`, or give the config as `--config`."
            self.problems.append(_about_file(self._name, "label-needs-threshold", message, hint))

    def _take(self, number: int, line: LabelLine, document: Document) -> Iterator[Problem]:
        try:
            actual, expected = line.conversation()
        except ValueError as error:
            text = str(error)
            hint = 'Write e.g. {"prompt": "...", "response": "...", "label": "pass"}.'
            yield document.error("label-without-response", f"{text[:1].upper()}{text[1:]}.", hint=hint)
            return
        needs = METRICS[self._chosen.metric].needs_final_response
        if needs and not all(text_of(turn.final_response) for turn in expected):
            message = f"`{self._chosen.metric}` compares with the right answer, and this line has none."
            yield document.error("label-needs-reference", message, hint='Add "reference": "...".')
        response = LabelledResponse(line=number, actual=actual, expected=expected)
        response = self.responses.setdefault(material_key(actual, expected), response)
        given: list[tuple[str | Rubric | None, Any, JsonPath]] = []
        if line.label is not None:
            given.append((line.rubric, line.label, ("label",)))
        given += [(subject, raw, ("labels", subject)) for subject, raw in (line.labels or {}).items()]
        for about, raw, path in given:
            at: JsonPath = ("rubric",) if path == ("label",) else path
            rubric = None if about is None else self._rubric(about, response, document, at)
            if isinstance(rubric, Problem):
                yield rubric
            else:
                yield from self._label(number, line, document, response, rubric, raw, path)
        if not given:
            words = '"yes" or "no"' if line.rubric else '"pass" or "fail"'
            yield document.error("missing-field", "The line has no label.", hint=f'Add "label": {words}.')
        elif self._chosen.takes_rubrics and not (self._configured or response.rubrics or expected[-1].rubrics):
            hint = "Name one with `rubric`, or give the config with the criterion's rubrics as `--config`."
            yield document.error("no-rubrics", "No rubric applies to this line.", hint=hint)

    def _label(
        self,
        number: int,
        line: LabelLine,
        document: Document,
        response: LabelledResponse,
        rubric: Rubric | None,
        raw: Any,
        path: JsonPath,
    ) -> Iterator[Problem]:
        words = vocabulary(self._chosen, rubric=rubric is not None)
        meaning = words.read(raw)
        if meaning is None:
            shown = repr(raw) if isinstance(raw, str | int | float) else f"of this type ({type(raw).__name__})"
            yield document.error("label-unknown", f"A label {shown} means nothing here.", path=path, hint=words.hint)
            return
        subject = rubric.rubric_id if rubric is not None else ""
        before = next((one for one in response.labels if one.subject == subject), None)
        if before is not None:
            what = f"Rubric `{subject}` of this response" if subject else "This response"
            yield document.error(
                "label-repeated",
                f"{what} has a label already, on line {before.line}.",
                path=path,
                hint="Keep one. Where people disagree, let them settle it first: no judge can agree with both.",
            )
            return
        verdict, score = meaning
        word = raw if isinstance(raw, str) else f"{raw:g}"
        label = Label(line=number, id=line.id, subject=subject, word=word, verdict=verdict, score=score, note=line.note)
        response.labels.append(label)
        self._labels.append((label, document, path))

    def _rubric(
        self, about: str | Rubric, response: LabelledResponse, document: Document, path: JsonPath
    ) -> Rubric | Problem:
        """The rubric that a line names; one of its own is added to the response."""
        metric, name = self._chosen.metric, about if isinstance(about, str) else about.rubric_id
        if not self._chosen.takes_rubrics:
            message, hint = f"`{metric}` has no rubrics.", "Remove it: the label is about the whole response."
            return document.error("label-rubric-unknown", message, path=path, hint=hint)
        if isinstance(about, str) and about in response.rubrics:
            return response.rubrics[about]
        if isinstance(about, str) and about not in self._configured and len(about.split()) < 2:
            close = nearby(about, self._configured) or self._configured
            ids = f"The criterion has {', '.join(f'`{one}`' for one in close[:10])}. " if close else ""
            hint = f'{ids}A rubric of the line\'s own is its text, or {{"rubric_id": ..., "rubric_content": ...}}.'
            return document.error("label-rubric-unknown", f"There is no rubric `{about}`.", path=path, hint=hint)
        content = RubricContent(text_property=about) if isinstance(about, str) else about.rubric_content
        rubric = Rubric(rubric_id=name, rubric_content=content, type=METRICS[metric].rubric_type)
        if name in self._configured:
            if isinstance(about, Rubric):
                message = f"The criterion has a rubric `{name}` already."
                hint = f'Write "rubric": "{name}" to mean that one; give another one an id of its own.'
                return document.error("duplicate-rubric-id", message, path=path, hint=hint)
            return rubric
        if response.rubrics.setdefault(name, rubric).rubric_content != content:
            message = f"Rubric `{name}` of this response has another text on an earlier line."
            return document.error("duplicate-rubric-id", message, path=path, hint="Give it an id of its own.")
        return rubric


def _on_line(number: int, problem: Problem) -> Problem:
    """A finding in the text of a line, as one in the file."""
    # Files of eval sets hold one document; these hold one on each line.
    hint = "Write one object per line." if "JSON Lines are not read" in (problem.hint or "") else problem.hint
    return replace(problem, line=number, hint=hint)
