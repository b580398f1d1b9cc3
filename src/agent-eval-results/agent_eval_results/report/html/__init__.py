"""`report.html`: the report that people open, one file that needs no server and no network."""

from agent_eval_results.report.html._packing import unpacked
from agent_eval_results.report.html._page import (
    BUDGET,
    MEGABYTE,
    SCRIPTS,
    STYLES,
    Written,
    policy,
    script,
    style,
    write_page,
)
from agent_eval_results.report.html._source import Detail, PageSource, folder_source
