"""Eval files: found, read, checked."""
