"""Escaping for each place of a text, and the environment of the Markdown templates."""

from agent_eval.report.markup.escape import EMPTY, html_prose, link, prose
from agent_eval.report.markup.markdown import MARKS, environment, linked
