"""The datasets of Google's agents-cli: cases with a message, or with a conversation that ends with one.

As in google-cloud-aiplatform 2.7.0 with google-agents-cli 1.11.0: both spellings of a key are read, a case keeps keys
that the format does not have, everything below it is strict.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.wire import WireModel


class DatasetEvent(WireModel):
    """What an agent or the user said."""

    author: str | None = None
    content: Content | None = None
    event_time: datetime | None = None
    state_delta: dict[str, Any] | None = None
    active_tools: list[Any] | None = None


class DatasetTurn(WireModel):
    """Events in their order; `turn_index` orders nothing."""

    turn_index: int | None = None
    turn_id: str | None = None
    events: list[DatasetEvent] | None = None


class AgentData(WireModel):
    """A conversation."""

    agents: dict[str, Any] | None = None
    turns: list[DatasetTurn] | None = None


class Answer(WireModel):
    """A reference, or an answer."""

    response: Content


class RubricProperty(WireModel):
    """What a rubric demands."""

    description: str | None = None


class RubricText(WireModel):
    """The content of a rubric."""

    property: RubricProperty | None = None


class DatasetRubric(WireModel):
    """One property that a judge checks."""

    rubric_id: str | None = None
    content: RubricText | None = None
    type: str | None = None
    importance: str | None = None


class RubricGroup(WireModel):
    """Rubrics that a metric selects by the name of their group."""

    group_id: str | None = None
    display_name: str | None = None
    rubrics: list[DatasetRubric] | None = None


class UserScenario(WireModel):
    """A conversation led by a simulated user."""

    starting_prompt: str
    conversation_plan: str
    test_case_title: str | None = None


class DatasetCase(WireModel):
    """A case. Metrics see it whole, with the keys that the format does not have."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", defer_build=True
    )

    eval_case_id: str | None = None
    prompt: Content | None = None
    agent_data: AgentData | None = None
    reference: Answer | None = None
    responses: list[Answer] | None = None
    rubric_groups: dict[str, RubricGroup] | None = None
    user_scenario: UserScenario | None = None
    reference_trajectory: list[Content] | None = None
    """The calls that are expected: a key that SDK's converter writes, and no metric of the service reads."""
    system_instruction: Content | None = None
    conversation_history: list[Any] | None = None
    intermediate_events: list[Any] | None = None
    agent_info: dict[str, Any] | None = None
    interactions_data_source: dict[str, Any] | None = None


class Dataset(WireModel):
    """A file."""

    eval_cases: list[DatasetCase]
    candidate_name: str | None = None
    bigquery_source: Any = None
    gcs_source: Any = None
    eval_dataset_df: Any = None
