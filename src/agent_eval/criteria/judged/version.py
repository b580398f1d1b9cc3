"""The version of what judges are asked."""

from __future__ import annotations

QUESTIONS_VERSION = 2
"""Rises whenever a judge is asked something else about the same answer: its scores then are others' scores."""
