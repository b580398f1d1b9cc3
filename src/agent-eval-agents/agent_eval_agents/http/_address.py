"""Addresses of remote agents: which ones may be named, and which ones are never connected to. And the headers that the
workflow gives for them (`agent-headers`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_eval_scoring.core.errors import AgentEvalError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",  # link-local (RFC 3927): AWS, Azure, Google, OpenStack, DigitalOcean, Oracle
            "fe80::/10",  # link-local (RFC 4291)
            "fd00:ec2::/32",  # AWS: IMDS at ::254, EKS Pod Identity at ::23
            "fd20:ce::254/128",  # Google
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "100.100.100.200/32",  # Alibaba
            "192.0.0.192/32",  # Oracle, older instances
            "168.63.129.16/32",  # Azure, the host's agent
        ),
    )
)
"""Addresses at which a cloud gives credentials to anyone who asks, as their documentation lists them."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class AddressRefused(AgentEvalError):
    """An address that must not be used. The message is a clause without a full stop."""


class NameNotResolved(AgentEvalError):
    """A host name without an address. The message is a clause without a full stop."""


@dataclass(frozen=True, kw_only=True)
class RemoteUrl:
    """The address of a remote agent."""

    base: str
    """Scheme, host, port and path, without a slash at the end."""
    origin: str
    """Scheme, host and port (RFC 6454), lower case and without a default port: what headers are bound to."""
    fragment: str = ""
    """The text after `#`: the app."""

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine by its name."""
        return is_loopback(urllib.parse.urlsplit(self.base).hostname or "")

    def join(self, path: str) -> str:
        """The URL of a path below the base.

        Args:
            path: Begins with a slash; already escaped.
        """
        return self.base + path


def parse_url(text: str) -> RemoteUrl:
    """Reads the address of a remote agent.

    Raises:
        ValueError: It is no http(s) URL, or has a part that an agent's address can't have. The message is a clause
            without a full stop, and does not repeat credentials.
    """
    if re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise ValueError("it contains a space, a control character or a backslash")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError as error:
        if "@" not in text and "ort" in str(error):  # Else what Python takes for a port may be a password.
            raise ValueError("it has a port that is not a number from 0 to 65535") from None
        raise ValueError("it is not a URL" + ("" if "@" in text else f" ({error})")) from None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError("it must begin with http://HOST or https://HOST")
    if "@" in parts.netloc:
        raise ValueError(
            "it contains a user name or a password; write `Authorization: Basic ...` in `agent-headers` instead, on "
            "the command line in the variable AGENT_EVAL_AGENT_HEADERS"
        )
    if parts.query:
        raise ValueError("it has a query (?...)")
    host = parts.hostname.lower()
    try:
        host = host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError:
        raise ValueError("its host name is invalid") from None
    host = f"[{host}]" if ":" in host else host
    shown_port = "" if port is None or port == _DEFAULT_PORTS[scheme] else f":{port}"
    origin = f"{scheme}://{host}{shown_port}"
    return RemoteUrl(
        base=f"{origin}{parts.path.rstrip('/')}", origin=origin, fragment=urllib.parse.unquote(parts.fragment)
    )


def origin_of(url: str) -> str:
    """The origin of a URL; see `RemoteUrl.origin`.

    Raises:
        ValueError: As `parse_url`.
    """
    parts = urllib.parse.urlsplit(url)
    return parse_url(urllib.parse.urlunsplit(parts._replace(query="", fragment=""))).origin


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of this machine."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_metadata(address: str) -> bool:
    """Whether an IP address is link-local or one of a cloud's metadata services, in any IPv6 form of it."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return any(form in network for form in _forms(parsed) for network in _METADATA if form.version == network.version)


def _forms(address: IPAddress) -> Iterable[IPAddress]:
    """The address, and the IPv4 address that an IPv6 address embeds."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        value = int(address)
        if address in _NAT64 or value >> 32 == 0:  # the well-known prefix (RFC 6052), IPv4-compatible (RFC 4291)
            embedded.append(ipaddress.IPv4Address(value & 0xFFFFFFFF))
        yield from (form for form in embedded if form is not None)


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, none of which is a metadata address.

    Args:
        host: A name, or an address in any form that the system's resolver accepts, e.g. `2852039166`.
        port: The port.

    Raises:
        AddressRefused: One of its addresses is a metadata address.
        NameNotResolved: It has no address.
    """
    host = host.strip("[]")
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NameNotResolved(f"the host name {host} can't be resolved ({error})") from error
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    for address in addresses:
        if is_metadata(address):
            named = host if host == address else f"{host} ({address})"
            raise AddressRefused(f"{named} is link-local or a cloud's metadata service")
    return addresses


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


def header_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """The names of the texts to mask: of each value, and of the credentials in it without their scheme."""
    values = {value: f"{name}.2" for name, value in headers.items()}
    return values | {value.rpartition(" ")[2]: name for name, value in headers.items()}
