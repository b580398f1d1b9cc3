"""The agent card: where the agent answers, and in which dialect."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_eval.agents.a2a._dialect import ADK_EXTENSION, V03, V1, Dialect, Json
from agent_eval.agents.driver import READY_PATHS
from agent_eval.agents.http import RemoteUrl, parse_url
from agent_eval.core.text import first_line

CARD_PATHS = READY_PATHS["a2a"]
"""The second one is that of servers before 0.3, and of adk-rust."""
_JSON_RPC = "JSONRPC"
_ANY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104 - not bound, only recognised


class BadCard(ValueError):
    """A card that can't be used. The message is a clause without a full stop."""


@dataclass(frozen=True, kw_only=True)
class AgentCard:
    """What we need of a card."""

    name: str
    version: str
    """Of the agent; empty if the card has none."""
    url: str
    """Where requests are sent."""
    dialect: Dialect
    streaming: bool
    shows_calls: bool
    """The card lists ADK's extension."""


def read_card(raw: Any, source: RemoteUrl) -> AgentCard:
    """Reads a card.

    Args:
        raw: The card's JSON.
        source: The address that the user named.

    Raises:
        BadCard: It is no card, or offers no interface that we speak.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        raise BadCard("its agent card is not a JSON object with a `name`")
    interfaces = list(_interfaces(raw))
    usable = [(url, version) for url, binding, version in interfaces if binding == _JSON_RPC and _dialect(version)]
    if not usable:
        offered = ", ".join(f"{binding or 'nothing'} {version}".strip() for _, binding, version in interfaces[:5])
        raise BadCard(
            "its agent card offers no JSON-RPC interface of A2A 0.3 or 1.0 "
            f"(it offers {first_line(offered, 200) or 'none'})"
        )
    # The newest dialect first; of equal ones, the card's first.
    url, version = max(usable, key=lambda interface: _dialect(interface[1]) is V1)
    dialect = _dialect(version)
    assert dialect is not None
    capabilities = raw.get("capabilities")
    capabilities = capabilities if isinstance(capabilities, Mapping) else {}
    extensions = capabilities.get("extensions")
    extensions = extensions if isinstance(extensions, list) else []
    return AgentCard(
        name=first_line(raw["name"], 200),
        version=first_line(str(raw.get("version") or ""), 100),
        url=_reachable(url, source),
        dialect=dialect,
        streaming=capabilities.get("streaming") is True,
        shows_calls=any(isinstance(each, Mapping) and each.get("uri") == ADK_EXTENSION for each in extensions),
    )


def _interfaces(card: Json) -> Iterator[tuple[str, str, str]]:
    """URL, binding and protocol version of each interface."""
    listed = card.get("supportedInterfaces")
    for each in listed if isinstance(listed, list) else ():  # 1.0
        if isinstance(each, Mapping) and isinstance(each.get("url"), str):
            yield each["url"], str(each.get("protocolBinding", "")), str(each.get("protocolVersion", "1.0"))
    version = str(card.get("protocolVersion") or "0.3")
    if isinstance(card.get("url"), str):  # 0.3
        yield card["url"], str(card.get("preferredTransport") or _JSON_RPC), version
    listed = card.get("additionalInterfaces")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and isinstance(each.get("url"), str):
            yield each["url"], str(each.get("transport", "")), version


def _dialect(version: str) -> Dialect | None:
    major, _, rest = version.partition(".")
    if major == "1":
        return V1
    return V03 if major == "0" and rest.partition(".")[0] in {"2", "3"} else None


def _reachable(url: str, source: RemoteUrl) -> str:
    """The interface's URL as it can be reached from here.

    A server doesn't know its outside address: ADK's card says `localhost:8000` unless the code names another host and
    port. So a loopback address in a card, and a path alone, mean the server that sent the card.

    Raises:
        BadCard: The URL is invalid.
    """
    try:
        target = parse_url(urllib.parse.urljoin(f"{source.base}/", url))
    except ValueError as error:
        raise BadCard(f"its agent card names an invalid URL: {error}") from None
    # The path as written: servers answer /a2a and /a2a/ differently, and redirects are not followed.
    path = urllib.parse.urlsplit(urllib.parse.urljoin(f"{source.base}/", url)).path
    if target.is_loopback or urllib.parse.urlsplit(target.base).hostname in _ANY_HOST:
        return source.origin + path if path not in {"", "/"} else source.join("/")
    return target.origin + (path or "/")
