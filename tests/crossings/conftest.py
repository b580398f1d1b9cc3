"""Spreads the cells of the tables over the processes of pytest-xdist.

Not with its marker `xdist_group`, which xdist 3.8 ignores under pytest 9.2.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class ByGroup(LoadScopeScheduling):
    """Runs the tests of a group in one process: those with the same id up to `@`."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("@")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    return ByGroup(config, log)
