"""For all tests."""

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# A shell without job control ignores Ctrl-C in its background jobs, and the processes of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Under nohup they would inherit that of SIGHUP. What a handler does not do is not inherited.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# A busy machine is not a bug of ours; pytest's own limits catch what never ends.
hypothesis.settings.register_profile("full", deadline=None, max_examples=50)
hypothesis.settings.register_profile("fast", deadline=None, max_examples=30)
hypothesis.settings.load_profile("full" if os.environ.get("CI") else "fast")

_COLLECTOR = (100_000, 50, 100)
"""Thresholds, as agent-eval has them. With Python's own, unit tests take a twelfth more CPU."""

OLDER_ADKS = {"1.18.0", "1.39.1"}
"""A host with one of them takes 2 s to 8 s to start."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of an older google-adk are slow, whatever file they are in."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if item.path.parent.name == "integration" and OLDER_ADKS & {each for each in parameters if isinstance(each, str)}:
        item.add_marker(pytest.mark.slow)


def import_own_share(config: pytest.Config) -> None:
    """Imports other files first than the other workers.

    Each worker has to import all, and compiles what no one has compiled yet. In the same order, all would compile all.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    files = [path for folder in config.args for path in sorted(Path(folder).rglob("test_*.py"))]
    for path in files[number :: worker["workercount"]]:
        if (folder := str(path.parent.resolve())) not in sys.path:
            sys.path.insert(0, folder)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # Whoever collects the file reports it.
            importlib.import_module(path.stem)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Imports all tests without collecting garbage.

    What is imported stays. Looking through it again and again takes a quarter of the time, and in each full collection
    of a test as well.
    """
    gc.disable()
    import_own_share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*_COLLECTOR)
