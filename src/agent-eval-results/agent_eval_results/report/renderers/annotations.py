"""The result as annotations in a pull request: workflow commands that GitHub Actions reads from the log.

Sources of the numbers and of the escaping: actions/runner (`ActionCommand.cs`, `ExecutionContext.cs`) and
actions/toolkit (`docs/problem-matchers.md`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval_results import CaseReport, CauseReport, ProblemReport, RunReport
from agent_eval_results.report import phrases, views
from agent_eval_results.report.views.examples import shared_causes
from agent_eval_scoring.core.text import listed, plural, shorten, without_commands, workflow_command

MOST_PER_TYPE = 10
"""GitHub shows ten errors, ten warnings and ten notices of a step, and silently drops the rest."""
LONGEST_MESSAGE = 4_000
"""The runner cuts a message at 4,096 characters."""
LONGEST_TITLE = 255
_LINES = 8
"""Lines of an explanation: an annotation is shown between the lines of a diff."""

_MOST_NAMES = 20

Level = Literal["error", "warning", "notice"]


@dataclass(frozen=True, kw_only=True)
class _Annotation:
    level: Level
    title: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None


def annotation_commands(
    of: RunReport | views.View, *, limit: int = MOST_PER_TYPE, more: str = "the job summary"
) -> list[str]:
    """Workflow commands, each on one line, the most useful first.

    Args:
        of: What to show.
        limit: How many of a type GitHub shows; where there are more, the last one counts the rest.
        more: Where the rest can be read.

    Returns:
        Lines without a line break, to be printed to the log outside of `stop_commands`.

    Raises:
        ValueError: If `limit` is less than 2.
    """
    if limit < 2:
        raise ValueError("a limit below 2 leaves no annotation to count the rest")
    view = views.view_of(of)
    annotations = [*map(_problem_annotation, view.report.problems), *_case_annotations(view)]
    commands = []
    for kind in ("error", "warning", "notice"):
        of_kind = [annotation for annotation in annotations if annotation.level == kind]
        shown = of_kind if len(of_kind) <= limit else of_kind[: limit - 1]
        commands += [_command(annotation) for annotation in shown]
        if left := len(of_kind) - len(shown):
            message = f"{phrases.headline(view)}. {plural(left, f'more {kind}')} in {more}."
            commands.append(
                _command(_Annotation(level=kind, title=f"and {plural(left, f'more {kind}')}", message=message))
            )
    return commands


def notice_command(title: str, message: str) -> str:
    """A workflow command for a notice that belongs to no file."""
    return _command(_Annotation(level="notice", title=title, message=message))


def _case_annotations(view: views.View) -> Iterator[_Annotation]:
    report, groups = view.report, view.groups
    sections = (
        (groups.worse, ""),
        (groups.failed, ""),
        (groups.still, f"as on {view.branch}"),
        (groups.flaky, phrases.as_often(view.branch)),
        (groups.errored, "could not be evaluated"),
        (groups.quarantined, "is quarantined"),
    )
    levels: Sequence[tuple[Level, bool]] = (("error", True), ("warning", False))
    for (section, how), (level, counts) in itertools.product(sections, levels):
        what = "without blocking" if section is groups.failed and not counts else how
        cases = [case for case in section if view.outcomes[case.case_id].counts is counts]
        found, left = shared_causes(report, cases, view.branch)
        for shared_cause, members, example in found:
            yield _shared_annotation(shared_cause, members, example.case, level, view)
        shared = [cause for cause in views.causes(report, left) if len(cause.cases) > 1]
        for cause in shared:
            yield _cause_annotation(cause, level)
        grouped = {case.case_id for cause in shared for case in cause.cases}
        for case in left:
            if case.case_id not in grouped:
                yield _case_annotation(case, level, _what(case, what, view), view)
    lines = {case.case_id: case.line for case in report.cases}
    for case_id, changed in view.answers.items():
        name = views.case_name(changed)
        yield _Annotation(
            level="notice",
            title=f"{name} {phrases.changed_verb(view, changed)}",
            message="\n".join(phrases.changed_lines(changed, _LINES)),
            file=changed.file,
            line=lines.get(case_id),
        )
    for reason, cases in views.not_run_groups(report):
        yield _Annotation(level="warning", title=f"{plural(len(cases), 'case')} did not run", message=reason)


_FORMS: Mapping[str, str] = {
    **dict.fromkeys(("added", "changed"), "{failed} ({word})"),
    **{f"{often}-fails{suspected}": "{word}" for often in ("always", "sometimes") for suspected in ("", "-suspected")},
}
"""How a title says that a case failed and how it compares with the base branch, by `Outcome.label`."""


def _what(case: CaseReport, what: str, view: views.View) -> str:
    """What follows the name of a case."""
    if not case.is_judged:
        return what
    failed = views.failed_word(case)
    word, _ = phrases.change_label(case, view)
    if case.passed:  # A score of it got worse.
        return word or "is worse"
    if what:
        return f"{failed}, {what}"
    form = _FORMS.get(view.outcomes[case.case_id].label, "{failed}, {word}" if word else "{failed}")
    return form.format(failed=failed, word=word)


def _shared_annotation(
    cause: CauseReport, cases: Sequence[CaseReport], example: CaseReport, level: Level, view: views.View
) -> _Annotation:
    """One annotation for what several cases share: at the line that the pull request changes, else at its example."""
    place = next(iter(cause.changed_here), None)
    names = listed([views.case_name(case) for case in cases], _MOST_NAMES)
    lines = [
        phrases.cause_sentence(cause, view.branch),
        phrases.cause_evidence(cause, view.branch),
        phrases.changed_here(cause),
        names,
    ]
    return _Annotation(
        level=level,
        title=f"{plural(len(cases), 'case')}: {phrases.cause_line(cause)}",
        message="\n".join(views.one_line(line) for line in lines if line),
        file=example.file if place is None else place.file,
        line=example.line if place is None else place.first,
    )


def _cause_annotation(cause: views.Cause, kind: Level) -> _Annotation:
    """One annotation for a cause of several cases: at its line in the agent's code, else at the first case."""
    first = cause.cases[0]
    lines = [cause.message, cause.hint, listed([views.case_name(case) for case in cause.cases], _MOST_NAMES)]
    file, line = (cause.file, cause.line) if cause.file else (first.file, first.line)
    return _Annotation(
        level=kind,
        title=f"{plural(len(cause.cases), 'case')}: {views.one_line(cause.kind)}",
        message="\n".join(views.one_line(line) for line in lines if line),
        file=file,
        line=line,
    )


def _case_annotation(case: CaseReport, kind: Level, what: str, view: views.View) -> _Annotation:
    name = views.case_name(case)
    _, evidence = phrases.change_label(case, view)
    notes = phrases.metric_base_notes(view.changes.get(case.case_id), view.branch)
    lines = [evidence, *views.reason_lines(case, _LINES, notes)]
    message = "\n".join(views.one_line(line) for line in lines if line) or what
    return _Annotation(level=kind, title=f"{name} {what}", message=message, file=case.file, line=case.line)


def _problem_annotation(problem: ProblemReport) -> _Annotation:
    lines = [problem.message, problem.path and f"at {problem.path}", problem.hint]
    return _Annotation(
        level=problem.severity,
        title=problem.code,
        message="\n".join(views.one_line(line) for line in lines if line),
        file=problem.file,
        line=problem.line,
        column=problem.column,
    )


def _command(annotation: _Annotation) -> str:
    properties = {
        "file": annotation.file and views.visible(annotation.file),
        "line": annotation.line,
        "col": annotation.column if annotation.line else None,
        "title": shorten(without_commands(views.one_line(annotation.title)), LONGEST_TITLE),
    }
    message = shorten(without_commands(views.visible(annotation.message)), LONGEST_MESSAGE)
    return workflow_command(annotation.level, message, properties)


_TOKEN = re.compile(r"[0-9A-Za-z_-]{16,}")


def stop_commands(text: str, token: str) -> str:
    """Text for the log of GitHub Actions in which no line acts as a workflow command.

    Args:
        text: What an agent, a model or another program wrote.
        token: Random, new for each run and unknown to the author of the text; at least 16 letters, digits, `-`
            or `_`. The runner masks it in the log.

    Returns:
        The text between the command that stops the reading of commands and the one that resumes it.

    Raises:
        ValueError: If the token is too short or occurs in the text.
    """
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token needs at least 16 letters, digits, - or _")
    if token in text:
        raise ValueError("the token occurs in the text: take another one")
    end = "" if text.endswith("\n") else "\n"
    return f"::stop-commands::{token}\n{text}{end}::{token}::\n"
