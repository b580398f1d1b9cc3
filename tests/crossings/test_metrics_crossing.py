"""Each criterion x each google-adk x each driver gives the same scores of the same conversation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crossing_table import Cell, Impossible, Row, Table
from newsroom_runs import INSTRUCTIONS, PYTHON_METRICS, Newsroom, Outcome

from agent_eval.evalset.models import METRICS

VERSIONS = ("2.13.0", "2.10.0", "2.7.1", "2.5.0", "1.39.1", "1.18.0")
DRIVERS = ("in process", "replay", "replay all", "recorded", "adk:", "a2a:")

ALL_BUT_THE_LAST = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
REFERENCE: dict[str, Outcome] = {
    "tool_trajectory_avg_score": ALL_BUT_THE_LAST,
    "response_match_score": (0.923, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.222),
    "trajectory_precision": ALL_BUT_THE_LAST,
    "trajectory_recall": ALL_BUT_THE_LAST,
    "trajectory_single_tool_use": (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "tool_trajectory_partial": ALL_BUT_THE_LAST,
    "response_similarity": (0.833, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.323),
    "intermediate_response_similarity": (1.0, None, None, None, 1.0, None, 1.0, 1.0, None),
    "response_evaluation_score": (4.0, 4.0, 4.0, 5.0, 5.0, 5.0, 4.0, 4.0, 4.0),
    "safety_v1": (0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0),
    "final_response_match_v2": ALL_BUT_THE_LAST,
    "rubric_based_final_response_quality_v1": (0.143, 0.143, 0.143, 0.143, 0.143, 0.0, 0.143, 0.143, 0.0),
    "rubric_based_tool_use_quality_v1": (0.143, 0.143, 0.143, 0.143, 0.143, 0.0, 0.143, 0.143, 0.0),
    "rubric_based_multi_turn_trajectory_quality_v1": (*[None] * 8, 0.857),
    "hallucinations_v1": (0.5, 0.0, 1.0, None, 0.0, 0.0, 0.667, 0.5, 0.0),
    "per_turn_user_simulator_quality_v1": (1.0, 1.0),
    "multi_turn_task_success_v1": (*[None] * 8, 1.0),
    "multi_turn_trajectory_quality_v1": (*[None] * 8, 0.25),
    "multi_turn_tool_use_quality_v1": (*[None] * 8, 0.25),
    "tool_call_count_v1": (3.0, 1.0, 1.0, 1.0, 1.0, 0.0, 2.0, 2.0, 0.0),
    "inference_call_count_v1": (3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 4.0, 3.0, 1.0),
    "token_usage_v1": (390.0, 260.0, 260.0, 260.0, 260.0, 130.0, 520.0, 390.0, 130.0),
    "invocation_duration_v1": "measured",
    INSTRUCTIONS: (0.667, 0.667),
    "custom: calls": ALL_BUT_THE_LAST,
    "custom: texts": ALL_BUT_THE_LAST,
    "custom: state": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 0.0),
    "custom: deepeval": ALL_BUT_THE_LAST,
}
"""The turns' scores, in process on google-adk 2.13.0. The eval file expects another call and answer in the last turn
than the agent gives; the first and the fourth answer have a thought, and no text."""

ANONYMOUS: dict[str, Outcome] = {
    "intermediate_response_similarity": (0.0, None, None, None, 0.0, None, 0.0, 0.0, None),
    "hallucinations_v1": (0.5, 1.0, 0.5, None, 0.0, 0.0, 0.667, 0.5, 0.0),
    "inference_call_count_v1": (0.0,) * 9,
    "token_usage_v1": "no score",
}
"""What differs if events have neither author nor usage."""

TABLE = Table(
    name="metrics",
    axes={"criterion": (*METRICS, INSTRUCTIONS, *PYTHON_METRICS), "version": VERSIONS, "driver": DRIVERS},
    rows=(
        Row(
            where={"criterion": INSTRUCTIONS, "driver": "adk:", "version": "1.39.1"},
            expect=(0.0, 0.0),
            cause="its server has no app-info",
        ),
        Row(
            where={"criterion": INSTRUCTIONS, "driver": "adk:"},
            expect=(0.333, 0.333),
            cause="the server shows instructions without the session's state",
        ),
        Row(
            where={"criterion": INSTRUCTIONS, "driver": "a2a:"},
            expect=(0.0, 0.0),
            cause="A2A does not show instructions and tools",
        ),
        *(
            Row(
                where={"criterion": name, "driver": "a2a:", "version": "1.18.0"},
                expect=scores,
                cause="its A2A server shows no authors and no usage, and not which event is a part of another",
            )
            for name, scores in ANONYMOUS.items()
        ),
        *(Row(where={"criterion": name}, expect=scores) for name, scores in REFERENCE.items()),
    ),
    impossible=(
        Impossible(
            where={"version": "1.18.0", "driver": "adk:"},
            why="its `adk api_server` breaks off: it opens an MCP server in one request and uses it in the next ones",
        ),
        Impossible(
            where={"criterion": tuple(PYTHON_METRICS), "version": "1.18.0"},
            why="google-adk has custom metrics since 1.24; with an older one, the case is not run",
        ),
        Impossible(
            where={"criterion": tuple(PYTHON_METRICS), "driver": ("recorded", "adk:", "a2a:")},
            why="custom metrics run in the agent's environment, which only the gate's own host has",
        ),
    ),
)


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newsroom]:
    runs = Newsroom(tmp_path_factory.mktemp("newsroom"))
    yield runs
    runs.close()


def test_metrics_crossing__table() -> None:
    TABLE.check()


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=("version",)))
def test_metrics_crossing(cell: Cell, newsroom: Newsroom) -> None:
    assert newsroom.outcome(cell["version"], cell["driver"], cell["criterion"]) == TABLE.expected(cell)
