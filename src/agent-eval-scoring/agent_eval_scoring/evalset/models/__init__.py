"""Models of eval files, configs and criteria as in ADK, and of the loaded suite."""

from agent_eval_scoring.evalset.models.criteria import (
    CALL_METRICS,
    CRITERION_MODELS,
    GROUP,
    INFORMATIONAL_METRICS,
    JUDGED_METRICS,
    METRICS,
    ConfigFile,
    Family,
    LlmAudioUserSimulatorConfig,
    LlmBackedUserSimulatorConfig,
    MetricSpec,
    is_packaged,
)
from agent_eval_scoring.evalset.models.criterion_options import (
    DEFAULT_JUDGE,
    PROMPT_VALUES,
    BaseCriterion,
    JudgeModelOptions,
    RubricLevel,
    RubricsBasedCriterion,
    SimilarityAlgorithm,
)
from agent_eval_scoring.evalset.models.personas import PERSONAS
from agent_eval_scoring.evalset.models.schema import (
    PERSONA_IDS,
    ConversationScenario,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalSet,
    LoadedFile,
    MatchType,
    SeededEvent,
    SessionInput,
    Suite,
    UserPersona,
)
