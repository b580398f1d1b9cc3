"""Records eval cases: conversations with an agent, and those that something else has recorded. Import the modules."""
