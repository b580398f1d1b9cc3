"""`agent-eval calibrate`: how well an LLM judge agrees with human labels."""
