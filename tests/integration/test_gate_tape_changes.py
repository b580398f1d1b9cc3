"""`--replay all` after a change: nothing that changes a request or an answer is green, nothing else needs a model.

`python benchmarks/model_tapes.py --only changes` tries the other changes of journey_changes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import host_forks
import journey_runs
import pytest
from adk_envs import REFERENCE, packages_python
from fake_gemini import FakeGemini, Fault
from gate_runs import Repository, repository_in
from journey_changes import ALTERS, HARMLESS, TAPES, changed, outcome

pytestmark = pytest.mark.slow  # test_gate_replay.py and test_adk_model_answers.py have some of each kind.

ALTERING = (
    "instruction: a file",
    "state: a default",
    "model: class",
    "model: temperature that the class keeps",
    "model: extra body",
    "tool: order",
    "tool: body",
    "tool: the list of a server that nobody calls",
    "tool: how a server is started that nobody calls",
    "agent: order of two",
    "agent: a field of the output",
    "callback: a tool's answer",
    "artifact",
    "initial state that only a tool might read",
    "the last call is left out",
)
KEEPING = ("a callback is split", "a label", "timeout", "retries", "order of arguments", "line ends of a tool's file")


@pytest.fixture(scope="module")
def python() -> list[str]:
    return host_forks.command(packages_python(f"adk-{REFERENCE}-mcp", f"google-adk=={REFERENCE}", "mcp<2"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, python: Sequence[str]) -> Iterator[Repository]:
    with repository_in(tmp_path_factory.mktemp("journey")) as made:
        done = journey_runs.record(made, ("first", "other"), python)
        assert done.code == 0, done.out
        yield made


@pytest.mark.parametrize("name", ALTERING + KEEPING)
def test_replay_all__after_a_change(name: str, recorded: Repository, python: Sequence[str], tmp_path: Path) -> None:
    """It is not green if the change alters something, and asks no model if it does not."""
    alters = name in ALTERING
    met, said = outcome(changed(recorded, {**ALTERS, **HARMLESS}[name], tmp_path / "repo"), python, alters=alters)
    assert met, said


def test_missing_live__names_the_tapes_of_a_model_that_is_gone(
    recorded: Repository, python: Sequence[str], tmp_path: Path
) -> None:
    repository = changed(recorded, (), tmp_path / "repo")
    (repository.root / TAPES / "other.tape.json").unlink()
    with FakeGemini(lambda _: Fault(kind=404)) as model:
        live = {"GOOGLE_GEMINI_BASE_URL": model.url, "GOOGLE_API_KEY": "any", "RUNS_FILE": journey_runs.RUNS}
        done = journey_runs.run(repository, python, "--replay", "missing-live", environment=live)
    assert {case.eval_id: case.replayed for case in done.report.cases} == {"first": True, "other": False}
    [notice] = [line for line in done.report.notices if "404" in line]
    assert notice == (
        "The provider does not know gemini-2.5-flash-assistant (404). 1 replayed case was recorded with it: "
        "journey/journey.evalset.json:first"
    )
