"""Findings as text, JSON and workflow commands."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import case, eval_set, load
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.commands.start import render_github, render_json, render_text, summary_line
from agent_eval.core.problem import Problem, Severity

PROBLEMS = [
    Problem(
        severity=Severity.WARNING, code="misspelt-key",
        message="`x` is not a known key here.", hint="Did you mean `y`?",
        file="b.test.json", line=2, column=1, path="eval_cases[0].x",
    ),
    Problem(severity=Severity.ERROR, code="no-eval-files", message="No eval file was found."),
    Problem(
        severity=Severity.ERROR, code="wrong-type", message="100% wrong:\nno, really", hint="Fix it.",
        file="a,b:c.test.json", line=12, column=7,
    ),
    Problem(severity=Severity.NOTICE, code="legacy-format", message="Old.", file="b.test.json", line=1, column=1),
]  # fmt: skip


def test_render_text__format() -> None:
    assert render_text(PROBLEMS) == (
        """  error [no-eval-files] No eval file was found.

a,b:c.test.json
  12:7: error [wrong-type] 100% wrong: no, really
      hint: Fix it.

b.test.json
  1:1: notice [legacy-format] Old.
  2:1: warning [misspelt-key] `x` is not a known key here. (eval_cases[0].x)
      hint: Did you mean `y`?
"""
    )
    assert render_text([]) == ""


def test_text__a_hint_to_copy_keeps_its_lines() -> None:
    hint = 'Write into agent-eval.toml:\n    [agents]\n    "evals/**" = "a"\n::error::mine'
    problem = Problem(severity=Severity.ERROR, code="agent-ambiguous", message="Two agents.", hint=hint)
    assert render_text([problem]).splitlines() == [
        "  error [agent-ambiguous] Two agents.",
        "      hint: Write into agent-eval.toml:",
        "          [agents]",
        '          "evals/**" = "a"',
        "      :\u200b:error:\u200b:mine",
    ]


def test_render_json__format() -> None:
    loaded = json.loads(render_json(PROBLEMS))
    assert [{**each, "stands_for": 1} for each in loaded] == [asdict(PROBLEMS[number]) for number in (1, 2, 3, 0)]
    assert json.loads(render_json([])) == []


def test_render_github__format() -> None:
    assert render_github(PROBLEMS).splitlines() == [
        "::error title=no-eval-files::No eval file was found.",
        "::error file=a%2Cb%3Ac.test.json,line=12,col=7,title=wrong-type::100%25 wrong:%0Ano, really%0AFix it.",
        "::warning file=b.test.json,line=2,col=1,title=misspelt-key::`x` is not a known key here.%0ADid you mean `y`?"
        "%0A(at eval_cases[0].x)",
        "::notice file=b.test.json,line=1,col=1,title=legacy-format::Old.",
    ]
    assert render_github([]) == ""


HOSTILE = st.text() | st.sampled_from(
    [
        "::error::x",
        "##[error]x",
        "a\n::error::x",
        "\r::stop-commands::x",
        "\x1b[2J",
        "###[[x",
        "# #[x",
        "\u2028::x",
        "%0A::",
    ]
)


@given(message=HOSTILE, hint=HOSTILE, file=HOSTILE, path=HOSTILE)
def test_render__no_text_becomes_a_command(message: str, hint: str, file: str, path: str) -> None:
    problem = Problem(
        severity=Severity.ERROR, code="c", message=message, hint=hint, file=file, line=1, column=1, path=path
    )
    text = render_text([problem])
    # .NET, which the runner is written in, ends lines at \r, \n and \r\n.
    for line in re.split("\r\n|\r|\n", text):
        assert not re.match("::[a-z]", line.strip(), re.IGNORECASE)
        assert "##[" not in line
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    commands = re.split("\r\n|\r|\n", render_github([problem]))
    assert len(commands) == 2
    assert commands[1] == ""
    assert commands[0].startswith("::error file=")
    assert "##[" not in commands[0]


LEGACY = [{"query": "q", "reference": "r"}]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "{", "b": []}, "2 files (2 with errors), 2 errors, 0 warnings"),
        ({"a": "{", "b": LEGACY}, "2 files (1 with errors), 1 case in the others, 1 error, 0 warnings, 1 notice"),
        ({"a": eval_set(case())}, "1 file, 1 case, 0 errors, 0 warnings"),
    ],
)
def test_summary_line__counts(files: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert summary_line(load(tmp_path, **files)) == expected
