"""Words of the agents, and helpers that no tool uses."""

ASSISTANT = "You plan journeys for {client}. Seen: {seen?}."


def _tidy(text):
    return text.strip()


def tidy(text):
    return _tidy(text)
