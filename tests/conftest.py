"""For all tests."""

import os

import hypothesis

# A busy machine is not a bug of ours; pytest's own limits catch what never ends.
hypothesis.settings.register_profile("full", deadline=None, max_examples=50)
hypothesis.settings.register_profile("fast", deadline=None, max_examples=30)
hypothesis.settings.load_profile("full" if os.environ.get("CI") else "fast")
