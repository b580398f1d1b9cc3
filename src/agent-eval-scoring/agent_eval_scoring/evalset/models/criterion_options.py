"""The options of each criterion: the object form in a config, as in google-adk 2.13.0, and fields of agent-eval.

Criteria keep unknown keys, as in ADK. Validation reports those that look like mistakes.
"""

from __future__ import annotations

import enum
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from agent_eval_scoring.core.invocation import Rubric
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.evalset.models.argument_rules import ArgumentRules, KeyRules, ToolRule
from agent_eval_scoring.evalset.models.schema import MatchType

KEEP_UNKNOWN = ConfigDict(
    alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", defer_build=True
)
"""Config of models that keep unknown keys."""


def parse_match_type(value: Any) -> MatchType:
    """Parses every spelling that ADK accepts: a name in any case with `_`, `-` or spaces, or its number.

    Raises:
        ValueError: For anything else.
    """
    if isinstance(value, MatchType):
        return value
    if isinstance(value, str):
        name = value.strip().upper().replace("-", "_").replace(" ", "_")
        if name in MatchType.__members__:
            return MatchType[name]
    # ADK's enum is numbered, and pydantic takes 1.0 and true for 1 there: such files run, so they must mean the same
    # here.
    elif isinstance(value, int | float) and value in (0, 1, 2):
        return MatchType(value)
    raise ValueError(f"must be EXACT, IN_ORDER or ANY_ORDER, not {value!r}")


_MATCH_TYPE_SCHEMA = {
    "anyOf": [
        {"enum": ["EXACT", "IN_ORDER", "ANY_ORDER", 0, 1, 2]},
        {
            "type": "string",
            "pattern": r"^\s*([eE][xX][aA][cC][tT]|([iI][nN]|[aA][nN][yY])[-_ ][oO][rR][dD][eE][rR])\s*$",
        },
        # In JSON Schema `true` is not 1, in Python it is: without these two an editor would mark what the gate
        # accepts.
        {"type": "boolean", "const": True},
        {"type": "boolean", "const": False},
    ]
}
AnyMatchType = Annotated[MatchType, BeforeValidator(parse_match_type), WithJsonSchema(_MATCH_TYPE_SCHEMA)]


class SimilarityAlgorithm(enum.StrEnum):
    """How two texts are compared."""

    EXACT = "exact"
    CONTAINS = "contains"
    LEVENSHTEIN = "levenshtein"
    JACCARD = "jaccard"
    ROUGE1 = "rouge1"
    ROUGE2 = "rouge2"
    ROUGE_L = "rougeL"


def parse_algorithm(value: Any) -> SimilarityAlgorithm:
    """Parses the name of an algorithm in any case, also with `_` or `-` after `rouge`.

    Raises:
        ValueError: For anything else.
    """
    if isinstance(value, str):
        # adk-rust calls it `rouge_l`; its configs should not need another spelling.
        plain = re.sub(r"(?<=^rouge)[_-]", "", value.lower())
        for algorithm in SimilarityAlgorithm:
            if plain == algorithm.lower():
                return algorithm
    names = ", ".join(SimilarityAlgorithm)
    raise ValueError(f"must be one of {names}, not {value!r}")


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in word)


_PLAIN_WORDS = "|".join(map(_any_case, ("exact", "contains", "levenshtein", "jaccard")))
_ALGORITHM_SCHEMA = {
    "anyOf": [
        {"enum": [str(algorithm) for algorithm in SimilarityAlgorithm]},
        {"type": "string", "pattern": f"^({_PLAIN_WORDS}|{_any_case('rouge')}[-_]?[12lL])$"},
    ]
}
AnyAlgorithm = Annotated[SimilarityAlgorithm, BeforeValidator(parse_algorithm), WithJsonSchema(_ALGORITHM_SCHEMA)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


DEFAULT_JUDGE = "gemini-2.5-flash"
"""The default of google-adk 2.13.0."""


class JudgeModelOptions(WireModel):
    """The judge model, and the number of its votes."""

    judge_model: str = DEFAULT_JUDGE
    judge_model_config: dict[str, Any] | None = None
    """Generation settings for the judge, e.g. `temperature`."""
    # ADK's default: with fewer votes, close cases would be decided otherwise than by `adk eval`.
    num_samples: int = Field(default=5, ge=1)
    """Number of votes on each turn."""
    # Read and unused: one limit for the whole run (`concurrency`) replaces ADK's limit for each metric.
    parallelism_limit: int = Field(default=1, ge=1)
    """Number of concurrent votes."""


class BaseCriterion(WireModel):
    """The fields of every criterion."""

    model_config = KEEP_UNKNOWN

    # Without default: a criterion that forgot it would pass everything.
    threshold: float
    """The minimum score that passes."""
    include_intermediate_responses_in_final: bool = False
    """Also judge the intermediate responses."""


class _CallsCriterion(BaseCriterion):
    args: ArgumentRules = Field(default_factory=dict)
    """How args are compared, by tool and argument. Not in ADK."""
    depth: Literal["outer", "all"] | Annotated[list[str], Field(min_length=1)] = "outer"
    """`all`: calls of the agents of AgentTools count, too; or globs of their paths, e.g. `weather > *`. Not in ADK."""


class ToolTrajectoryCriterion(_CallsCriterion):
    """Compares tool calls with the expected ones."""

    match_type: AnyMatchType = MatchType.EXACT
    """EXACT: the same calls in the same order; IN_ORDER and ANY_ORDER: additional calls are allowed."""
    ignore_args: bool = False
    """Compare only the names."""
    args_match: Literal["exact", "subset"] = "exact"
    """`subset`: the actual args may have keys that the expected args lack, at any depth. Not in ADK."""


class PartialTrajectoryCriterion(_CallsCriterion):
    """The share of calls that match the expected ones. Not in ADK."""

    strict_order: bool = True
    """Calls match only in the order of the eval file."""
    strict_args: bool = False
    """The args must be equal; otherwise the actual args may have further keys."""
    args_credit: bool = False
    """A call with other args counts by the share of those that are equal."""


class ResponseSimilarityCriterion(BaseCriterion):
    """The similarity of texts, by one of several algorithms. Not in ADK."""

    algorithm: AnyAlgorithm = SimilarityAlgorithm.JACCARD
    """exact, contains, levenshtein, jaccard, rouge1, rouge2 or rougeL."""
    normalize: bool = True
    """Ignore differences in white space."""
    ignore_case: bool = True
    """Ignore differences between upper and lower case."""
    ignore_punctuation: bool = False
    """Ignore punctuation and symbols. jaccard and rouge always do."""
    direction: Literal["actual_contains_expected", "expected_contains_actual", "either"] = "actual_contains_expected"
    """Of `contains`."""


class ResponseFactsCriterion(BaseCriterion):
    """The share of the expected answer's facts that the answer has. Not in ADK."""

    names: bool = False
    """Also look for names."""
    states: bool = False
    """Also look for states, such as open and closed."""
    negation: bool = False
    """Also compare whether a sentence denies."""
    extra: Literal["allow", "forbid"] = "allow"
    """`forbid`: numbers that the expected answer lacks lower the score."""


class TrajectoryShareCriterion(_CallsCriterion):
    """The share of calls that were expected (precision), or of expected calls that were made (recall)."""

    ignore_args: bool = False
    """Compare only the names."""


class SingleToolUseCriterion(BaseCriterion):
    """Whether one tool was called at all."""

    tool_name: str
    """The tool's name."""


class ToolRulesCriterion(BaseCriterion):
    """Rules of order and absence of tool calls. Not in ADK."""

    rules: list[ToolRule] = Field(min_length=1)
    """What must hold in the whole conversation."""


class FinalStateCriterion(BaseCriterion):
    """The session's state at the end. Not in ADK."""

    match: Literal["subset", "exact"] = "subset"
    """`exact`: keys that the case lacks are wrong, at any depth."""
    keys: KeyRules = Field(default_factory=dict)
    """How values are compared, by key."""


class LlmAsAJudgeCriterion(BaseCriterion):
    """Judged by a model."""

    judge_model_options: JudgeModelOptions = Field(default_factory=JudgeModelOptions)


class RubricLevel(WireModel):
    """One level of a graded rubric."""

    score: float = Field(allow_inf_nan=False)
    """0 for the lowest level, 1 for the highest."""
    text: str
    """The description that the judge reads."""


class RubricsBasedCriterion(LlmAsAJudgeCriterion):
    """Judged by a model, one rubric after the other."""

    rubrics: list[Rubric] = Field(default_factory=list)
    """Rubrics for every case; cases and turns may add others."""
    rubric_weights: dict[str, Weight] = Field(default_factory=dict)
    """Weight by rubric id. Default: 1; 0: judged, but without effect on the score. Not in ADK."""
    # Checked in parse/criteria.py, whose messages can show how levels are written.
    rubric_levels: dict[str, list[RubricLevel]] = Field(default_factory=dict)
    """Levels by rubric id, the lowest first: 2 to 7, with rising scores from 0 to 1. Others: yes or no. Not in ADK."""


class HallucinationsCriterion(LlmAsAJudgeCriterion):
    """A model checks every sentence against the agent's context."""

    evaluate_intermediate_nl_responses: bool = False
    """Also check the intermediate responses."""
    only_context: bool = False
    """Check against the `context` of a dataset's case, and nothing else. Not in ADK."""


class LlmBackedUserSimulatorCriterion(LlmAsAJudgeCriterion):
    """A model judges the simulated user."""

    stop_signal: str = "</finished>"
    """The text with which the simulated user ends the conversation."""


PROMPT_VALUES = ("prompt", "response", "reference", "agent_data", "context")
"""What a `prompt_template` can name as `{NAME}`, besides keys of a dataset's case."""


def _template(value: str) -> str:
    if "{response}" not in value and "{agent_data}" not in value:
        # A misspelt placeholder is the likely reason, e.g. `{answer}`, so the message quotes the first one.
        others = [name for name in re.findall(r"\{(\w+)\}", value) if name not in PROMPT_VALUES]
        has = f", and has {{{others[0]}}}" if others else ""
        raise ValueError(f"must contain {{response}} or {{agent_data}}{has}: the judge would not see the answer")
    return value


def _rising(value: list[float]) -> list[float]:
    # `[5, 1]` would refuse every vote as outside of the scale, and the case would never have a score.
    if value[0] >= value[1]:
        raise ValueError("must begin with the lowest score, e.g. [1, 5]")
    return value


class JudgePromptCriterion(LlmAsAJudgeCriterion):
    """Judged by a model with a prompt of the repository's. Not in ADK."""

    prompt_template: Annotated[str, AfterValidator(_template)]
    """The task, with `{response}` or `{agent_data}`, and at will `{prompt}`, `{reference}`, `{context}`."""
    system_instruction: str = ""
    """Put before the task."""
    # Null is "any number": agents-cli has prompts without a scale.
    scale: Annotated[list[float], Field(min_length=2, max_length=2), AfterValidator(_rising)] | None = None
    """The lowest and the highest score that counts; a vote outside is none. Default: any number."""
    direction: Literal["higher", "lower"] = "higher"
    """Which scores are better."""


class ServiceBackedCriterion(LlmAsAJudgeCriterion):
    """Judged by a judge model, or by Vertex AI's evaluation service as in ADK."""

    # The judge is the default, so that a gate needs no Google Cloud project; ADK has Vertex AI only.
    backend: Literal["judge", "vertex"] = "judge"
    """`judge` or `vertex`. Not in ADK, which always uses Vertex AI."""
