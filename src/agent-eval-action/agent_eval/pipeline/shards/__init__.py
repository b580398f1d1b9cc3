"""A run in parts (`--shard I/N`), each by a job of its own, and the merge that makes one verdict of them.

Settings: `shard`, `shard-plan`, `shards`, and `mode: merge` or `merge-and-run`. Facts: `shard`, `merged_from`. In the
crossing tables: the values `a part` and `without a part` of the axis `run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_eval.pipeline.features import Feature

if TYPE_CHECKING:
    from agent_eval.settings import Settings


def shards_of(settings: Settings) -> Feature:
    """The feature for a part, for a merge, or for a run of all cases."""
    if settings.merges:
        from agent_eval.pipeline.shards.merge import Merge

        return Merge()
    if settings.shard is not None:
        from agent_eval.pipeline.shards._part import Part

        return Part(settings.shard)
    if settings.shard_plan is not None:
        from agent_eval.pipeline.shards.split import Weighed

        return Weighed()
    return Feature()
