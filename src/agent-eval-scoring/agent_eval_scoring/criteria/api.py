"""The public API for packages with their own criteria (docs/custom-metrics.md), and for scoring in a program
(examples/score_messages). These names are stable.

The entry point's name, in the group `agent_eval.criteria`, is the name of the metric. Its value is a function that
takes the `CriterionConfig` and returns a `Criterion`, or raises ValueError if the config is invalid.
"""

from agent_eval_scoring.core.content import Content as Content
from agent_eval_scoring.core.content import FunctionCall as FunctionCall
from agent_eval_scoring.core.content import Part as Part
from agent_eval_scoring.core.content import text_of as text_of
from agent_eval_scoring.core.invocation import IntermediateData as IntermediateData
from agent_eval_scoring.core.invocation import Invocation as Invocation
from agent_eval_scoring.core.invocation import tool_calls as tool_calls
from agent_eval_scoring.core.invocation import tool_responses as tool_responses
from agent_eval_scoring.criteria.base import Conversation as Conversation
from agent_eval_scoring.criteria.base import Criterion as Criterion
from agent_eval_scoring.criteria.base import NotEvaluated as NotEvaluated
from agent_eval_scoring.criteria.base import Result as Result
from agent_eval_scoring.criteria.base import Scored as Scored
from agent_eval_scoring.criteria.base import TurnFinding as TurnFinding
from agent_eval_scoring.criteria.registry import build as build
from agent_eval_scoring.evalset.models import CriterionConfig as CriterionConfig
from agent_eval_scoring.evalset.models import EvalCase as EvalCase
