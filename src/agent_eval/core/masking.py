"""Keeps secrets out of everything that we write."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Iterable

MASK = "***"
_SHORTEST = 6
"""A shorter value is no secret, and masking it ("1", "true") would mangle ordinary text."""
_SHORTEST_BASE64 = 8
"""Shorter inner parts of base64 could be ordinary text."""


def _spellings(secret: str) -> Iterable[str]:
    """The forms in which a secret appears in logs, JSON, URLs, XML and basic-auth headers."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
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
        # Longest first: a secret that contains another one must go as a whole.
        self._texts = sorted(forms, key=lambda form: (-len(form), form))
        self._bytes = [form.encode("utf-8", "surrogatepass") for form in self._texts]

    @property
    def longest(self) -> int:
        """Bytes of the longest form: how much a reader of chunks must hold back."""
        return max((len(form) for form in self._bytes), default=0)

    def text(self, value: str) -> str:
        """The text with every secret replaced."""
        for form in self._texts:
            if form in value:
                value = value.replace(form, MASK)
        return value

    def data(self, value: bytes) -> bytes:
        """The same for raw bytes in UTF-8."""
        for form in self._bytes:
            if form in value:
                value = value.replace(form, MASK.encode())
        return value

    def beginning(self, value: bytes) -> bytes:
        """The same for bytes whose end was cut off: what may be the first part of a secret goes with it."""
        masked = self.data(value)
        return masked[: len(masked) - max(self.longest - 1, 0)] if len(masked) >= self.longest else b""

    def ending(self, value: bytes) -> bytes:
        """The same for bytes whose beginning was cut off: what may be the last part of a secret goes with it."""
        return self.data(value)[max(self.longest - 1, 0) :]


def _forms(secret: str) -> Iterable[str]:
    stripped = secret.strip()
    if len(stripped) < _SHORTEST:
        return ()
    return _spellings(stripped)
