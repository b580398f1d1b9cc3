"""For the tests against google-adk; the fixture is in adk_reference.py."""

from adk_reference import reference

__all__ = ["reference"]
