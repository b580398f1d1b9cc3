"""`report.html`: the report that people open, one file that needs no server and no network."""

from agent_eval.report.html._assets import BUDGET, SCRIPTS, STYLES, policy, script, style
from agent_eval.report.html._packing import unpacked
from agent_eval.report.html._page import MEGABYTE, Written, write_page
from agent_eval.report.html._source import Detail, PageSource, folder_source
