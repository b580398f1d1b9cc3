"""The registry of drivers: what decides which driver an agent has, and what the pipeline asks of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.agents.discovery import AgentChoice, AgentChoices
from agent_eval.agents.discovery.finder import Finder
from agent_eval.agents.registry import DRIVERS, driver_of


@pytest.mark.parametrize(
    ("path", "source", "runs_here"),
    [
        ("home", "home", True),
        ("package.module", "package.module", True),
        ("/else/where:x", "/else/where:x", True),
        ("recorded:out/", "out/", False),
        ("recorded:", "", False),
    ],
)
def test_choice__is_described_by_the_driver_of_its_prefix(path: str, source: str, runs_here: bool) -> None:
    choice = AgentChoice(path=path, reason="--agent")
    assert (choice.source, choice.runs_here, choice.driver.repeatable) == (source, runs_here, runs_here)
    assert choice.driver.reads_file == (not runs_here)


def test_choices__run_here_if_one_of_them_does() -> None:
    recorded, home = (AgentChoice(path=path, reason="") for path in ("recorded:x", "home"))
    assert not AgentChoices(by_file={}).runs_here
    assert not AgentChoices(by_file={"a": recorded}).runs_here
    assert AgentChoices(by_file={"a": recorded, "b": home}).runs_here


def test_drivers__have_different_prefixes_and_the_last_one_takes_the_rest() -> None:
    prefixes = [driver.prefix for driver in DRIVERS]
    assert len(set(prefixes)) == len(prefixes)
    assert prefixes[-1] == "" and "" not in prefixes[:-1]
    assert driver_of("anything") is DRIVERS[-1]


def test_refuse__nothing_but_recordings_is_checked_by_name() -> None:
    assert driver_of("home").refuse("missing", Path("/"), "--agent") is None
    problem = driver_of("recorded:x").refuse("missing", Path("/nowhere"), "--agent")
    assert problem is not None and problem.code == "recording-not-found"


@pytest.mark.parametrize("name", ["http://h:8000", "https://h/x#app", "adk:h:8000", "adk:http://u:p@h", "adk:"])
def test_agent__address_without_protocol_or_invalid(name: str, tmp_path: Path) -> None:
    path, problem = Finder(root=tmp_path).named(name, "--agent", None)
    assert path is None and problem is not None and problem.code == "remote-agent-url"
    assert "adk:http" in (problem.hint or "")


def test_agent__address_with_protocol(tmp_path: Path) -> None:
    name = "adk:http://127.0.0.1:8000/api#weather"
    assert Finder(root=tmp_path).named(name, "--agent", None) == (name, None)
    choice = AgentChoice(path=name, reason="")
    assert choice.driver.remote and choice.driver.repeatable
    assert not choice.runs_here and not choice.driver.reads_file
    assert choice.source == "http://127.0.0.1:8000/api#weather"
