"""Finds the eval files of a repository."""

from agent_eval_scoring.evalset.discovery._listing import git_lines
from agent_eval_scoring.evalset.discovery.files import SUFFIXES, Discovery, FoundFile, discover, selectors_of
