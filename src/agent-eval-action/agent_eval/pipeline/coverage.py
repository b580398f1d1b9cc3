"""Which tools and agents no case reaches. Facts: `coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_eval.pipeline.features import Feature

if TYPE_CHECKING:
    from agent_eval.pipeline._checkout import Checkout
    from agent_eval_results import RunReport


class Coverage(Feature):
    """Adds what the cases reach; every text but the comment says what they leave out. Decides nothing."""

    def after(self, report: RunReport, checkout: Checkout) -> None:
        """Adds what this job's runs reached to what those of merged parts did."""
        from agent_eval_results.data.coverage import joined

        trees = {tree.agent: tree for tree in report.agents}
        own = [reach.report(agent, trees.get(agent)) for agent, reach in checkout.reach.items()]
        report.coverage = joined([*report.coverage, *filter(None, own)])
