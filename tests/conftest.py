"""For all tests."""

import hypothesis

# A machine that is busy is no bug of ours; pytest's own limits catch what never ends.
hypothesis.settings.register_profile("ours", deadline=None)
hypothesis.settings.load_profile("ours")
