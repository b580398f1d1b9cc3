"""Which files of the repository are eval files, and which config applies to each."""

from agent_eval.evalset.discovery.files import SUFFIXES, Discovery, FoundFile, discover, selectors_of

__all__ = ["SUFFIXES", "Discovery", "FoundFile", "discover", "selectors_of"]
