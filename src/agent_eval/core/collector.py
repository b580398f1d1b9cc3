"""The garbage collector, while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 100_000
"""Objects. A freeze also keeps garbage that has not been collected yet, so it has to be worth it."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disables the garbage collector, for work that makes no cycles: it would scan the same objects again and again.

    Many new objects are then kept from later collections, too; reference counts still free them. Loading 1,000 files of
    10 cases takes 0.7 s instead of 2.6 s, and the first collection after it would take another 0.5 s (measured, Python
    3.11).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] >= _MANY:
                gc.freeze()
            gc.enable()
