"""docs/remote-agents.md: its settings are valid, its names of agents are accepted, its table has the code's kinds."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from docs_pages import blocks, page, section

from agent_eval.agents.discovery import AgentChoice
from agent_eval.agents.discovery.finder import Finder
from agent_eval.agents.driver import ServerSpec
from agent_eval.agents.protocol import FailureKind
from agent_eval.settings import read_settings

PAGE = page("remote-agents.md")


def test_page__toml_is_valid(tmp_path: Path) -> None:
    examples = blocks(PAGE, "toml")
    assert len(examples) >= 2
    for text in examples:
        settings, problems = read_settings(tmp_path, text=text)
        assert problems == [] and settings.agents
        for name in settings.agents.values():
            assert Finder(root=tmp_path).named(name, "[agents]", None) == (name, None)


def test_page__commands_name_agents_that_are_accepted(tmp_path: Path) -> None:
    names = re.findall(r"^agent-eval run.* --agent (\S+)$", PAGE, re.MULTILINE)
    names += re.findall(r"^      agent: (adk:\S+)$", PAGE, re.MULTILINE)
    assert len(names) == 4
    for name in names:
        assert Finder(root=tmp_path).named(name, "--agent", None) == (name, None)
        assert AgentChoice(path=name, reason="").driver.remote


def test_page__server_table_has_every_key_and_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.+) \|$", PAGE, re.MULTILINE))
    fields = {field.name: field for field in dataclasses.fields(ServerSpec) if field.name != "name"}
    assert rows.keys() >= fields.keys()
    assert rows["ready_timeout"] == f"{fields['ready_timeout'].default:g}"
    assert rows["url"] == f"`{fields['url'].default}`"


def test_page__kinds_of_failures_exist() -> None:
    table = section(PAGE, "## Who is to blame")
    kinds = set(re.findall(r"\| (?:exit 2, )?`([a-z-]+)`", table)) - {"remote-agent-refused"}
    assert kinds <= set(map(str, FailureKind)) and len(kinds) >= 6
