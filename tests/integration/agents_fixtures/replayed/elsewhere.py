"""What tools.py uses of another file."""

CONSTANT = "on"


def helper():
    return "on"
