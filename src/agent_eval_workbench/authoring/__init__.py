"""Eval cases from conversations and from results: written, changed and accepted. Import the modules."""
