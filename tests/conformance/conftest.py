"""The reference of all these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from adk_reference import Reference, running_reference


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    with running_reference(tmp_path_factory.mktemp("adk") / "worker.log") as running:
        yield running
