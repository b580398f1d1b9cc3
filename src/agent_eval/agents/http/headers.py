"""The headers that the workflow gives for a remote agent (`agent-headers`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""
_OURS = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_SCHEME_ONLY = frozenset({"", "bearer", "basic", "digest", "token"})


def parse_headers(text: str) -> dict[str, str]:
    """Reads headers, one `Name: value` on each line.

    A header without a value, or with an authentication scheme only, is left out: that is what a workflow writes if the
    secret in it is empty, e.g. for a pull request from a fork.

    Raises:
        ValueError: A line is no header. The message does not contain the value, which may be a secret.
    """
    headers: dict[str, str] = {}
    names = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _NAME.fullmatch(name):
            raise ValueError(f"line {number} is not a header of the form `Name: value`")
        if name.lower() in _OURS:
            raise ValueError(f"line {number} sets `{name}`, which agent-eval sets itself")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of `{name}` has characters that a header can't have")
        if name.lower() in names:
            raise ValueError(f"`{name}` is set twice")
        names.add(name.lower())
        if value.lower() not in _SCHEME_ONLY:
            headers[name] = value
    return headers


def header_secrets(headers: Mapping[str, str]) -> list[str]:
    """The texts to mask: each value, and the credentials in it without their scheme."""
    secrets = []
    for value in headers.values():
        secrets += [value, value.rpartition(" ")[2]]
    return list(dict.fromkeys(secrets))
