"""Prompts that separate data from instructions: what an agent wrote is fenced off from the instructions to the model.

A fence is a pair of tags with a 128-bit code. The code is a SHA-256 over the fenced text itself (and all data before
it), so a text that closes its own fence would have to contain its own hash. The fence needs no secret and no random
number. Therefore equal questions make equal prompts, which the cache depends on, and questions about one conversation
share their beginning, for which providers charge less.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Data:
    """Text from outside: an agent, a tool, a user, an eval file."""

    label: str
    """What it is, in our words."""
    text: str


Draft = Sequence[str | Data]
"""A prompt in pieces: our own words, and data."""

Render = Callable[[Draft], str]
"""Makes the prompt of a draft."""


def fenced(draft: Draft) -> str:
    """The prompt, with a fence around each piece of data.

    No code of the prompt occurs in any of its data.
    """
    salt = 0
    while True:
        codes = _codes(draft, salt)
        texts = [piece.text for piece in draft if isinstance(piece, Data)]
        if not any(code in text for code in codes for text in texts):
            break
        salt += 1  # An agent that knows what it was told can compute an earlier piece's code; not the next one's too.
    rest = iter(codes)
    return "\n".join(piece if isinstance(piece, str) else _tagged(piece, next(rest)) for piece in draft)


def _codes(draft: Draft, salt: int) -> list[str]:
    running = hashlib.sha256(f"agent-eval fence {salt}".encode())
    codes = []
    for piece in draft:
        if isinstance(piece, Data):
            for text in (piece.label, piece.text):
                raw = text.encode("utf-8", "replace")
                running.update(len(raw).to_bytes(8, "big") + raw)
            codes.append(running.hexdigest()[:32])
    return codes


def _tagged(piece: Data, code: str) -> str:
    text = piece.text.encode("utf-8", "replace").decode("utf-8")  # A lone surrogate can't be sent.
    return f"{piece.label}:\n<data-{code}>\n{text}\n</data-{code}>"
