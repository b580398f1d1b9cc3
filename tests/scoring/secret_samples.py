"""Secrets, and the spellings in which programs write them. Agents of tests import it, too."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Callable, Mapping

SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False),
    "JSON of Go": lambda secret: json.dumps(secret).replace("<", "\\u003c").replace("&", "\\u0026"),
    "JSON of PHP": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "JSON in a body": lambda secret: json.dumps(json.dumps({"error": f"refused {secret}"})),
    "JSON in a repr": lambda secret: repr({"body": json.dumps({"error": secret})}),
    "repr": repr,
    "repr of a text with both quotes": lambda secret: repr(f'it\'s {secret}, "it"'),
    "repr of a dict": lambda secret: repr({"a": [secret], "b": "it's"}),
    "repr of a repr": lambda secret: repr(ValueError(repr(secret))),
    "repr of bytes": lambda secret: repr(secret.encode()),
    "ascii": ascii,
    "URL": lambda secret: urllib.parse.quote(secret, safe=""),
    "path": urllib.parse.quote,
    "form": lambda secret: urllib.parse.urlencode({"p": secret}),
    "URL in a URL": lambda secret: urllib.parse.quote(urllib.parse.quote(secret, safe=""), safe=""),
    "JSON in a URL": lambda secret: urllib.parse.quote(json.dumps({"p": secret}), safe=""),
    "form with JSON": lambda secret: urllib.parse.urlencode({"q": json.dumps([secret])}),
    "JSON of a URL with JSON": lambda secret: json.dumps(f"/?q={urllib.parse.quote(json.dumps(secret))}"),
    "HTML": html.escape,
    "HTML of HTML": lambda secret: html.escape(html.escape(secret)).replace("&amp;", "&#38;"),
    "HTML of JSON": lambda secret: html.escape(json.dumps(secret)),
    "JSON of HTML": lambda secret: json.dumps(html.escape(secret)),
    "XML": lambda secret: secret.encode("ascii", "xmlcharrefreplace").decode(),
}
IN_BASE64: Mapping[str, Callable[[str], bytes]] = {
    "base64": lambda secret: base64.b64encode(secret.encode()),
    "basic auth": lambda secret: base64.b64encode(f"me:{secret}".encode()),
    "URL-safe base64": lambda secret: base64.urlsafe_b64encode(f"{secret}:x".encode()),
    "base64 of JSON": lambda secret: base64.b64encode(json.dumps({"password": secret}).encode()),
}
SECRETS = (
    "pass-word-1234",
    'pa"ssword1234',
    "it's'a'key",
    "both\"and'quotes",
    "C:\\new\\table",
    '\\\\server\\sha"re\\',
    "ab\tcd\nefgh",
    'Server=db;Password="a\'b";',
    "<key&more>'x'",
    "gr\u00fc\u00dfe \u65e5\u672c \U0001f600",
    "a+b/c=d&e%2F",
    "50%5Coff\\%5c100%",
    '{"private": "it\'s\\n"}',
)
