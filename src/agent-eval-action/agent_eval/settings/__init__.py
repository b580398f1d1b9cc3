"""Everything that can be configured: declared once, read from flags, inputs and agent-eval.toml."""

from agent_eval.settings.options import GROUPS, Setting
from agent_eval.settings.parsers import parse_order
from agent_eval.settings.reading import read_settings
from agent_eval.settings.settings import BY_INPUT, SETTINGS, Settings
from agent_eval.settings.toml_file import CONFIG_FILE, FORMER
