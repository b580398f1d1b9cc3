"""What problems of eval files say: as text, as JSON, as commands of a workflow."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from agent_eval_scoring.core.problem import Problem, Severity, alike
from agent_eval_scoring.core.text import carriable, plural, without_commands, workflow_command
from agent_eval_scoring.evalset.models import Suite

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTICE: 2}


def summary_line(suite: Suite) -> str:
    """E.g. `12 files, 80 cases, 0 errors, 1 warning`. The cases of files with errors are unknown, which is said."""
    counts = [plural(suite.file_count, "file"), plural(sum(len(file.cases) for file in suite.files), "case")]
    if invalid := suite.file_count - len(suite.files):
        counts[0] += f" ({invalid:,} with errors)"
        counts[1:] = [f"{counts[1]} in the others"] if suite.files else []
    return ", ".join([*counts, *_counts(suite.problems)])


def _counts(problems: Iterable[Problem]) -> list[str]:
    severities = [problem.severity for problem in problems]
    counts = [plural(severities.count(Severity.ERROR), "error"), plural(severities.count(Severity.WARNING), "warning")]
    return counts + [plural(severities.count(Severity.NOTICE), "notice")] * (Severity.NOTICE in severities)


def render_text(problems: Sequence[Problem]) -> str:
    """Problems grouped by file, each with its hint; "" for none. Safe to print to a CI log."""
    blocks = []
    for file, group in groupby(alike(_sorted(problems)), key=lambda each: each[0].file or ""):
        lines = [_plain(file)] if file else []
        for problem, others in group:
            numbers = [str(number) for number in (problem.line, problem.column) if number is not None]
            where = f"{':'.join(numbers)}: " if numbers else ""
            inside = f" ({_plain(problem.path)})" if problem.path else ""
            lines.append(f"  {where}{problem.severity} [{problem.code}] {_plain(problem.message + others)}{inside}")
            for number, line in enumerate((problem.hint or "").splitlines()):
                lines.append(f"      {_plain(line)}" if number else f"      hint: {_plain(line)}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def render_json(problems: Sequence[Problem]) -> str:
    """A JSON list of problems with all fields, sorted by place; ends with a line break."""
    items = [dataclasses.asdict(problem) for problem in _sorted(problems)]
    for item in items:
        del item["stands_for"]
    return json.dumps(items, indent=2) + "\n"


def render_github(problems: Sequence[Problem]) -> str:
    """A workflow command for each problem, errors first, because GitHub shows ten of each kind; "" for none.

    Commands: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
    """
    ordered = sorted(_sorted(problems), key=lambda problem: _ORDER[problem.severity])
    return "".join(
        workflow_command(
            problem.severity.value,
            problem.message + (f"\n{problem.hint}" if problem.hint else "") + _inside(problem),
            {"file": problem.file, "line": problem.line, "col": problem.column, "title": problem.code},
        )
        + "\n"
        for problem in ordered
    )


def _inside(problem: Problem) -> str:
    return f"\n(at {problem.path})" if problem.path else ""


def _sorted(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(
        problems, key=lambda problem: (problem.file or "", problem.line or 0, problem.column or 0, problem.code)
    )


def _plain(value: str) -> str:
    """The text on one line, without terminal sequences and workflow commands."""
    return without_commands(_CONTROL.sub(" ", carriable(value)))
