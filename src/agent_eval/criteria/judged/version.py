"""The version of the questions to judges."""

from __future__ import annotations

QUESTIONS_VERSION = 3
"""Incremented whenever the questions about the same answer change, since scores are then not comparable."""
