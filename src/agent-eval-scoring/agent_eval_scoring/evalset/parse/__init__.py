"""Parses eval files, configs, criteria and scenarios, and reports every problem with its line."""

from agent_eval_scoring.evalset.parse.config import CONFIG_NAMES, ConfigFinder, read_config
from agent_eval_scoring.evalset.parse.criteria import EMPTY_RUBRIC, criterion, hint_for_metric, within
from agent_eval_scoring.evalset.parse.dataset import in_dataset_folder, is_dataset, is_dataset_text
from agent_eval_scoring.evalset.parse.eval_files import EvalFile, read_eval_file
from agent_eval_scoring.evalset.parse.foreign import foreign_eval_file
from agent_eval_scoring.evalset.parse.legacy import Converted, LegacySession, read_session
from agent_eval_scoring.evalset.parse.scenarios import (
    STOP_SIGNAL,
    check_scenario,
    check_scenario_with_config,
    ends_the_conversation,
)
from agent_eval_scoring.evalset.parse.shape import did_you_mean, keys_of, shape_problems
