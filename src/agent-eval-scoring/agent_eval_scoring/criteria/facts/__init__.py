"""The facts of a text without a model: numbers, dates, times, amounts, codes, addresses, quoted strings, names, states.

Pure functions of texts, below the gate and the report. No library reads all of it better: `benchmarks/RESULTS.md`
compares eight.
"""

from agent_eval_scoring.criteria.facts._changing import changed
from agent_eval_scoring.criteria.facts._fact import Fact, Kind
from agent_eval_scoring.criteria.facts._reading import Comparison, Difference, compare, differences, facts_of

__all__ = ["Comparison", "Difference", "Fact", "Kind", "changed", "compare", "differences", "facts_of"]
