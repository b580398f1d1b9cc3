"""docs/authoring.md: every command is accepted by the parser, and the tables agree with the source."""

from __future__ import annotations

import re
import shlex

import pytest
from docs_pages import blocks, page

from agent_eval.cli import _parser
from agent_eval.evalset.models import METRICS
from agent_eval_workbench.authoring.prospects import FIELD_OF
from agent_eval_workbench.authoring.review import _HELP

PAGE = page("authoring.md")
COMMANDS = [
    line.partition("#")[0].strip()
    for block in blocks(PAGE, "(?:console|sh)")
    for line in block.splitlines()
    if line.startswith("agent-eval ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands__are_understood(command: str) -> None:
    parser, _ = _parser()
    _, rest = parser.parse_known_args(shlex.split(command)[1:])
    assert not [word for word in rest if word.startswith("-")]


def test_metrics__each_that_needs_a_reference_is_offered() -> None:
    assert set(FIELD_OF) == {name for name, spec in METRICS.items() if spec.needs_reference}
    table = PAGE[PAGE.index("| failed metric |") : PAGE.index("Only turns whose")]
    assert set(re.findall(r"`([a-z_0-9]+_[a-z_0-9]+)`", table)) >= set(FIELD_OF)


def test_keys__of_the_review_are_those_of_the_help() -> None:
    table = PAGE[PAGE.index("| key |") : PAGE.index("The files are written")]
    assert set(re.findall(r"`([a-zA-Z])`", table)) == set(re.findall(r"(?:^|\s{2,})([a-zA-Z])(?=,|\s{2,})", _HELP))
