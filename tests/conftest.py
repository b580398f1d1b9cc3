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

# A busy machine is not a bug of ours; pytest's own limits catch what never ends.
hypothesis.settings.register_profile("full", deadline=None, max_examples=50)
hypothesis.settings.register_profile("fast", deadline=None, max_examples=30)
hypothesis.settings.load_profile("full" if os.environ.get("CI") else "fast")


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
