"""For all tests."""

import gc
import os
import signal
from collections.abc import Iterator

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

OLDER_ADKS = {"1.18.0", "1.39.1"}
"""A host with one of them takes 2 s to 8 s to start."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of an older google-adk are slow, whatever file they are in."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if item.path.parent.name == "integration" and OLDER_ADKS & {each for each in parameters if isinstance(each, str)}:
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Imports all tests without collecting garbage.

    What is imported stays. Looking through it again and again takes a quarter of the time, and in each full collection
    of a test as well.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
