"""Finds the eval files of a repository."""

from agent_eval.evalset.discovery._listing import git_lines
from agent_eval.evalset.discovery.files import SUFFIXES, Discovery, FoundFile, discover, selectors_of
