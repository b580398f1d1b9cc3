"""Models of eval files, configs and criteria as in ADK, and of the loaded suite."""

from agent_eval.evalset.models.criteria import (
    CRITERION_MODELS,
    INFORMATIONAL_METRICS,
    JUDGED_METRICS,
    METRICS,
    ConfigFile,
    Family,
    LlmAudioUserSimulatorConfig,
    LlmBackedUserSimulatorConfig,
    MetricSpec,
)
from agent_eval.evalset.models.criterion_options import (
    DEFAULT_JUDGE,
    BaseCriterion,
    JudgeModelOptions,
    RubricLevel,
    RubricsBasedCriterion,
    SimilarityAlgorithm,
)
from agent_eval.evalset.models.packaged import GROUP, is_packaged
from agent_eval.evalset.models.personas import PERSONAS
from agent_eval.evalset.models.schema import (
    PERSONA_IDS,
    ConversationScenario,
    EvalCase,
    EvalSet,
    SessionInput,
    UserPersona,
)
from agent_eval.evalset.models.suite import CriterionConfig, EvalConfig, LoadedFile, MatchType, SelectedCase, Suite

__all__ = [
    "CRITERION_MODELS",
    "DEFAULT_JUDGE",
    "GROUP",
    "INFORMATIONAL_METRICS",
    "JUDGED_METRICS",
    "METRICS",
    "PERSONAS",
    "PERSONA_IDS",
    "BaseCriterion",
    "ConfigFile",
    "ConversationScenario",
    "CriterionConfig",
    "EvalCase",
    "EvalConfig",
    "EvalSet",
    "Family",
    "JudgeModelOptions",
    "LlmAudioUserSimulatorConfig",
    "LlmBackedUserSimulatorConfig",
    "LoadedFile",
    "MatchType",
    "MetricSpec",
    "RubricLevel",
    "RubricsBasedCriterion",
    "SelectedCase",
    "SessionInput",
    "SimilarityAlgorithm",
    "Suite",
    "UserPersona",
    "is_packaged",
]
