"""A run in parts (`--shard I/N`), each by a job of its own, and the merge that makes one verdict of them.

Settings: `shard`, `shard-plan`, `shards`, and `mode: merge` or `merge-and-run`. Facts: `shard`, `merged_from`. In the
crossing tables: the values `a part` and `without a part` of the axis `run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_eval.pipeline.features import Feature

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.settings.parsers import Shard


def shards_of(part: Shard | None, durations: Path | None, *, merges: bool) -> Feature:
    """The feature for a merge, for a part, or for a run of all cases, whose durations may be in a file."""
    if merges:
        from agent_eval.pipeline.shards.merge import Merge

        return Merge()
    if part is not None:
        from agent_eval.pipeline.shards._part import Part

        return Part(part)
    if durations is not None:
        from agent_eval.pipeline.shards.split import Weighed

        return Weighed()
    return Feature()
