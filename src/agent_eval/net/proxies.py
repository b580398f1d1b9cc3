"""The proxy of a request, as the variables of the environment name it."""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Mapping


def proxy_of(address: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The proxy for an address, and the variable that names it; "" for none.

    Lower-case names have precedence, as in curl.
    """
    parts = urllib.parse.urlsplit(address)
    proxies: dict[str, str] = {}
    variables: dict[str, str] = {}
    for name, value in sorted(environ.items()):  # Upper case sorts first.
        if name.lower().endswith("_proxy"):
            proxies[name.lower().removesuffix("_proxy")] = value.strip()
            variables[name.lower().removesuffix("_proxy")] = name
    if urllib.request.proxy_bypass_environment(parts.netloc, proxies):  # type: ignore[attr-defined]
        return "", ""
    kind = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(kind) or ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}", variables.get(kind, "")


def proxy_name(proxy: str, variable: str) -> str:
    """Names a proxy in a message, without its credentials: `the proxy http://proxy.example:3128 (HTTPS_PROXY)`."""
    scheme, _, rest = proxy.partition("://")
    # Not urlsplit: of a password with a slash, it takes the beginning for the host.
    return f"the proxy {scheme}://{rest.rpartition('@')[2].partition('/')[0]} ({variable})"
