"""Keeps secrets out of everything that we write."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import AnyStr, NewType

from agent_eval.core import text

Masked = NewType("Masked", str)
"""Text in which no known secret is left, because a Masker has read all of it or all that it was made of.

Where text of a service or of an agent enters, only this type can be shortened, because half a secret is not recognised
any more: by `shorten` and `first_line` of this module. Ruff refuses those of `core.text` there (pyproject.toml).
"""

MASK = "***"
_SHORTEST = 6
"""A shorter value is no secret, and masking it ("1", "true") would mangle ordinary text."""
_SHORTEST_BASE64 = 8
"""Shorter inner parts of base64 could be ordinary text."""
_ESCAPED_BY_GO = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def _spellings(secret: str) -> Iterable[str]:
    """The forms in which a secret appears in logs, JSON, URLs, XML and basic-auth headers."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1].replace("/", "\\/")  # PHP
    yield json.dumps(secret)[1:-1].translate(_ESCAPED_BY_GO)
    yield html.escape(secret)
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.quote(secret)  # Leaves slashes, as in a path.
    yield urllib.parse.quote_plus(secret)
    data = secret.encode("utf-8", "surrogatepass")
    yield base64.b64encode(data).decode().rstrip("=")
    yield from _within_base64(data)


def _within_base64(secret: bytes) -> Iterable[str]:
    """What base64 of a longer text, such as `user:secret`, contains of a secret, whatever surrounds it.

    Base64 writes three bytes as four characters, so a secret has three forms. The characters at both ends that also
    depend on the bytes beside the secret are left out.
    """
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret).decode()
        inner = encoded[-(-before * 4 // 3) : (before + len(secret)) * 4 // 3]
        if len(inner) >= _SHORTEST_BASE64:
            yield inner


class Masker:
    """Replaces every known spelling of every secret by `***`.

    Masking happens where text enters (the agent's protocol lines, its log), so that no later step, such as
    shortening a text, can leave half a secret behind.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for line in {secret, *secret.splitlines()} for form in _forms(line)}
        self._texts = sorted(forms)
        self._bytes = [form.encode("utf-8", "surrogatepass") for form in self._texts]

    @property
    def longest(self) -> int:
        """Bytes of the longest form: how much a reader of chunks must hold back."""
        return max((len(form) for form in self._bytes), default=0)

    def text(self, value: str) -> Masked:
        """The text with every secret replaced."""
        return Masked(_without(value, _spans(value, self._texts), MASK))

    def data(self, value: bytes) -> bytes:
        """The same for raw bytes in UTF-8."""
        return _without(value, _spans(value, self._bytes), MASK.encode())

    def decoded(self, value: bytes) -> Masked:
        """The same for raw bytes, as a text."""
        return Masked(self.data(value).decode("utf-8", "replace"))

    def complete(self, value: bytes) -> int:
        """How many bytes at the beginning can be masked, whatever bytes follow.

        The rest may be the beginning of a secret; or it is one that a longer secret begins with.
        """
        # A secret of several lines is masked line by line, too. So whole lines are complete.
        end = max(len(value) - max(self.longest - 1, 0), value.rfind(b"\n") + 1)
        return next((start for start, stop in _spans(value, self._bytes) if start < end < stop), end)

    def beginning(self, value: bytes) -> bytes:
        """The same for bytes whose end was cut off: what may be the first part of a secret goes with it."""
        masked = self.data(value)
        return masked[: len(masked) - max(self.longest - 1, 0)] if len(masked) >= self.longest else b""

    def ending(self, value: bytes) -> bytes:
        """The same for bytes whose beginning was cut off: what may be the last part of a secret goes with it."""
        return self.data(value)[max(self.longest - 1, 0) :]


def shorten(value: Masked, limit: int) -> Masked:
    """At most `limit` characters of a text that has been masked; see `text.shorten`."""
    return Masked(text.shorten(value, limit))


def first_line(value: Masked, limit: int = 200) -> Masked:
    """The first non-blank line of a text that has been masked, in at most `limit` characters."""
    return Masked(text.first_line(value, limit))


def _spans(value: AnyStr, forms: Iterable[AnyStr]) -> list[tuple[int, int]]:
    """Where secrets are; those that overlap, as one."""
    found = []
    for form in forms:
        start = value.find(form)
        while start >= 0:
            found.append((start, start + len(form)))
            start = value.find(form, start + 1)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _without(value: AnyStr, spans: Sequence[tuple[int, int]], mask: AnyStr) -> AnyStr:
    if not spans:
        return value
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(value)]
    return mask.join(value[start:end] for start, end in zip(starts, ends, strict=True))


def _forms(secret: str) -> Iterable[str]:
    stripped = secret.strip()
    if len(stripped) < _SHORTEST:
        return ()
    return _spellings(stripped)
