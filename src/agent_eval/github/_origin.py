"""Addresses: whose they are, and where a link in an answer leads."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from agent_eval.github.errors import GitHubError


def checked_api_url(api_url: str) -> str:
    """The address without a slash at its end.

    Raises:
        GitHubError: `rejected` if it is none, or holds a password.
    """
    try:
        parts = urlsplit(api_url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query or parts.fragment):
        return api_url.rstrip("/")
    # Not shown: it may have a password in it.
    hint = "It should be https://api.github.com, or https://HOST/api/v3 on GHES."
    raise GitHubError("rejected", "GITHUB_API_URL is no address of GitHub's API.", hint=hint)


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses are of one server, so that what may be sent to one may be sent to the other."""
    a, b = urlsplit(one), urlsplit(other)
    return (a.scheme, a.netloc.casefold()) == (b.scheme, b.netloc.casefold())


def joined(address: str, link: str, asked: str) -> str:
    """Where a link in the answer from an address leads.

    Args:
        address: What was asked.
        link: Absolute or relative.
        asked: The request for people, for the error.

    Raises:
        GitHubError: `malformed` if it leads nowhere.
    """
    try:
        found = urljoin(address, link)
        urlsplit(found)
    except ValueError:
        found = ""
    if not found:
        raise GitHubError("malformed", f"{asked}: GitHub's answer leads to an address that is none.")
    return found


def check_encrypted(address: str, api_url: str, asked: str) -> None:
    """Refuses to leave encryption on the way to a store of files.

    Raises:
        GitHubError: `malformed` if the address is neither encrypted nor as open as the API's own is.
    """
    scheme = urlsplit(address).scheme
    if scheme != "https" and scheme != urlsplit(api_url).scheme:
        raise GitHubError("malformed", f"{asked}: GitHub redirects to an address without encryption.")
