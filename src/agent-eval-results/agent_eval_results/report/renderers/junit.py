"""The result as JUnit XML, for Jenkins, GitLab and everything else that reads test reports.

A suite is a file and a test case is an eval case. A `failure` is a score that was too low, an `error` a case without a
score (the agent crashed, its provider was down). Cases that were not run are `skipped`, and so are those that did not
pass and do not block; their `system-out` says what went wrong.

Only the attributes of Jenkins' own schema are used. It has no `file` and no `line` for a test case, so the texts begin
with the place. Times have milliseconds, as the schema requires.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from agent_eval_results import CaseReport, FileReport, MetricReport, ProblemReport, RunReport
from agent_eval_results.report import views
from agent_eval_results.report.phrases import answer_lines, cause_evidence, change_label, headline
from agent_eval_scoring.core.text import plural, shorten

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_LONGEST_NAME = 250
_LONGEST_MESSAGE = 500
_LONGEST_SIDE = 4_000
"""Characters of an expected or actual text."""
_LONGEST_TEXT = 30_000
"""Characters of one element: GitLab fails on a report with huge texts."""
_SETTINGS = "settings"
"""The suite of problems that belong to no file."""


def junit_xml(of: RunReport | views.View) -> str:
    """The report as an XML document to be written in UTF-8, ending with a newline.

    The test cases of an invalid run are the errors in files and settings: a CI system would reject or overlook a report
    without test cases.
    """
    return "".join(junit_pieces(of))


def junit_pieces(of: RunReport | views.View) -> Iterator[str]:
    """The same, a piece for each suite. Each becomes a text when it is made: its elements take ten times as much."""
    from xml.etree import ElementTree

    view = views.view_of(of)
    report = view.report
    by_file: dict[str, list[CaseReport]] = {}
    for case in report.cases:
        by_file.setdefault(case.file, []).append(case)
    about = {file.file: file for file in report.files}
    suites = (_file_suite(view, file, cases, about.get(file)) for file, cases in by_file.items())
    errors = [problem for problem in report.problems if problem.is_error and report.is_invalid]
    problems = (_problem_suite(view, file, errors) for file in dict.fromkeys(error.file for error in errors))
    root = ElementTree.Element("testsuites", {"name": "agent-eval"})
    counts: Counter[str] = Counter(tests=0, failures=0, errors=0)
    texts = []
    for suite in chain(suites, problems):
        element = _as_in_schema(suite.build_xml_doc())
        counts.update({name: int(element.get(name, "0")) for name in counts})
        ElementTree.indent(element, level=1)
        texts.append(f"\n  {ElementTree.tostring(element, encoding='unicode')}")
    for name, count in counts.items():
        root.set(name, str(count))
    root.set("time", _seconds(sum(case.duration for case in report.cases)))
    root.text = "\n" if texts else None
    first, inside, last = ElementTree.tostring(root, encoding="unicode").partition("\n")
    yield from ('<?xml version="1.0" encoding="utf-8"?>\n', first, *texts, inside, last, "\n")


def _seconds(value: float) -> str:
    return f"{max(value, 0):.3f}"


def _as_in_schema(suite: Element) -> Element:
    """junit-xml's tree in the form of Jenkins' schema, which has no `disabled` and at most three decimals in times."""
    suite.attrib.pop("disabled", None)
    total = 0.0
    for case in suite.iter("testcase"):
        seconds = float(case.get("time", "0"))
        total += seconds
        case.set("time", _seconds(seconds))
    suite.set("time", _seconds(total))
    return suite


def _class_name(file: str) -> str:
    """A dotted name, of which Jenkins shows the last part as the class and the rest as its package."""
    stem = file.removesuffix(".json")
    parts = [re.sub(r"[.\s]+", "_", views.one_line(part)) for part in stem.split("/") if part not in {"", "."}]
    return shorten(".".join(parts), _LONGEST_NAME) or "_"


def _suite(report: RunReport, name: str, cases: Sequence[Any], properties: dict[str, str] | None = None) -> Any:
    from junit_xml import TestSuite

    started = datetime.datetime.fromtimestamp(report.started_at, datetime.UTC)
    return TestSuite(
        shorten(views.one_line(name), _LONGEST_NAME),
        cases,
        timestamp=started.strftime("%Y-%m-%dT%H:%M:%S"),
        properties={views.one_line(key): views.one_line(value) for key, value in (properties or {}).items()},
    )


def _file_suite(view: views.View, file: str, cases: Sequence[CaseReport], about: FileReport | None) -> Any:
    report = view.report
    properties = {}
    if about is not None:
        properties = {
            "agent": about.agent,
            "config": about.config or "google-adk's defaults",
            **{f"threshold.{name}": views.threshold_text(threshold) for name, threshold in about.criteria.items()},
        }
        changes = [change.message for change in report.agent_changes if change.path == about.agent]
        properties |= {
            f"agent-change.{number}": shorten(message, _LONGEST_MESSAGE)
            for number, message in enumerate(changes, start=1)
        }
    # A case may pass without the tools that its agent should have.
    lost = {each.toolset: each.error for case in cases for run in case.runs for each in run.lost_toolsets}
    properties |= {
        f"lost-toolset.{number}": shorten(f"{toolset}: {error}", _LONGEST_MESSAGE)
        for number, (toolset, error) in enumerate(lost.items(), start=1)
    }
    properties |= {reason.code: reason.message for reason in report.reasons if reason.code == "nothing-gated"}
    excused = [case.eval_id for case in cases if view.outcomes[case.case_id].excused]
    if excused:
        properties["not-blocking"] = shorten(", ".join(excused), _LONGEST_MESSAGE)
    causes: dict[str, str] = {}
    for number, cause in enumerate(report.causes, start=1):
        here = set(cause.cases).intersection(case.case_id for case in cases)
        names = [case.eval_id for case in cases if case.case_id in here]
        if names:  # Jenkins' schema has no properties for a test case.
            properties[f"cause.{number}"] = shorten(f"{cause.message}: {', '.join(names)}", _LONGEST_MESSAGE)
            causes |= dict.fromkeys(here, f"Cause: {cause.message}, {cause_evidence(cause, view.branch)}")
    class_name = _class_name(file)
    tests = [_test_case(case, class_name, view, causes.get(case.case_id, "")) for case in cases]
    return _suite(report, file, tests, properties)


def _test_case(case: CaseReport, class_name: str, view: views.View, cause: str) -> Any:
    from junit_xml import TestCase

    outcome = view.outcomes[case.case_id]
    explain = case.is_quarantined or outcome.excused
    lines = [*score_lines(case), *answer_lines(view, case.case_id)]
    test = TestCase(
        shorten(views.one_line(case.eval_id), _LONGEST_NAME) or "_",
        class_name,
        elapsed_sec=max(case.duration, 0),
        # A skipped case has no text of its own, so the explanation follows the scores.
        stdout=_bounded(chain(lines, ("",), explanation_lines(case)) if explain else lines),
    )
    if case.passed and not outcome.blocks:
        return test
    explanation = _bounded(chain(explanation_lines(case), ("", cause) if cause else ()))
    word, evidence = change_label(case, view)
    listed = views.findings(case)
    kinds = ", ".join(dict.fromkeys(finding.subject for finding in listed))
    message = shorten(views.one_line("; ".join(views.lines_of(listed, 2))) or case.status, _LONGEST_MESSAGE)
    kind = shorten(views.one_line(kinds), _LONGEST_NAME) or case.status
    if outcome.excused:
        since = ", ".join(part for part in (word, evidence) if part) or "it does not gate"
        test.add_skipped_info(shorten(views.one_line(f"Not blocking ({since}): {message}"), _LONGEST_MESSAGE))
    # JUnit's difference: a failure is a result that is wrong, an error is none.
    elif case.errored or (case.failed and views.has_crashed(case)):
        test.add_error_info(message, explanation, kind)
    elif case.failed:
        test.add_failure_info(message, explanation, kind)
    elif case.passed:
        worse = ": ".join(part for part in (word or "worse than on the base branch", evidence) if part)
        message = shorten(views.one_line(worse), _LONGEST_MESSAGE)
        # It passes its threshold and blocks: as a passed test, no reader would find why the job is red.
        test.add_failure_info(message, explanation, "regression")
    else:
        reason = views.one_line(case.reason.message) if case.reason else ""
        test.add_skipped_info(shorten(reason or case.status.replace("_", " "), _LONGEST_MESSAGE))
    return test


def _bounded(lines: Iterable[str]) -> str:
    return shorten(views.visible("\n".join(lines)), _LONGEST_TEXT)


def _problem_suite(view: views.View, file: str | None, problems: Sequence[ProblemReport]) -> Any:
    from junit_xml import TestCase

    cases = []
    for number, problem in enumerate((problem for problem in problems if problem.file == file), start=1):
        # Names must be unique within a suite: a code may turn up many times in a file.
        test = TestCase(f"{views.one_line(problem.code)} {number}", _class_name(file or _SETTINGS))
        details = [problem.location, problem.message, problem.path and f"at {problem.path}", problem.hint]
        text = _bounded(detail for detail in details if detail)
        test.add_error_info(
            shorten(views.one_line(problem.message), _LONGEST_MESSAGE) or problem.code, text, problem.code
        )
        cases.append(test)
    return _suite(view.report, file or _SETTINGS, cases, {"verdict": headline(view)})


# A case as plain lines, also for the pytest plugin and the Python API.


def score_lines(case: CaseReport) -> Iterator[str]:
    """The place of the case and its scores, one line each."""
    yield views.location(case.file, case.line)
    yield from views.answered_notes(case)
    if len(case.runs) > 1:
        yield plural(len(case.runs), "run")
    for metric in case.metrics:
        yield f"{metric.name}: {_score(metric)}"


def _score(metric: MetricReport) -> str:
    if metric.only_measures:
        return views.measurement_text(metric.name, metric.score)
    needs = views.threshold_text(metric.threshold, at_most=metric.lower_is_better)
    return f"{views.score_text(metric.score, metric.threshold)} ({metric.status.replace('_', ' ')}, needs {needs})"


def explanation_lines(case: CaseReport) -> Iterator[str]:
    """The place of the case, what went wrong, and its turns. Neither bounded as a whole nor escaped."""
    yield views.location(case.file, case.line)
    view = views.case_view(case)
    for finding in views.findings(case) if view is None else view.findings:
        yield ""
        yield finding.summary
        yield from (f"  {line}" for line in finding.lines)
        if finding.log:
            yield shorten(finding.log, _LONGEST_SIDE * 2)
    for turn in view.turns if view is not None else ():
        yield ""
        yield view.title(turn) if view is not None else ""
        yield from _turn(turn)
    if view is not None and view.turns_left_out:
        yield f"and {plural(view.turns_left_out, 'more turn')}"


def _turn(turn: views.TurnView) -> Iterator[str]:
    """A turn as text: each paragraph after its label, its other lines indented."""
    for row in views.rows(turn, text=_LONGEST_SIDE):
        first, *others = views.visible(row.text).strip("\n").split("\n")
        yield f"  {views.LABELS[row.kind]:<8} {first}"
        yield from (f"           {line}" for line in others)
