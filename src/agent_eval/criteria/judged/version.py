"""The version of the questions to judges."""

from __future__ import annotations

QUESTIONS_VERSION = 2
"""Incremented whenever the questions about the same answer change, since scores are then not comparable."""
