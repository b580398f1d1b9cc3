"""For the tests in a browser; the fixtures are in chromium.py, since mypy reads only one module called conftest."""

from pathlib import Path

import pytest
from chromium import axe, browser, functions, visit

__all__ = ["axe", "browser", "functions", "visit"]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)
