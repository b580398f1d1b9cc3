"""URLs: origin checks, and resolution of links in responses."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from agent_eval.github.errors import GitHubError


def checked_api_url(api_url: str) -> str:
    """Returns the API's URL without a trailing slash.

    Raises:
        GitHubError: `rejected` if the URL is invalid or contains a password.
    """
    try:
        parts = urlsplit(api_url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query or parts.fragment):
        return api_url.rstrip("/")
    # The URL is not shown: it may contain a password.
    hint = "It should be https://api.github.com, or https://HOST/api/v3 on GHES."
    raise GitHubError("rejected", "GITHUB_API_URL is not the URL of GitHub's API.", hint=hint)


def same_origin(left: str, right: str) -> bool:
    """Whether two URLs have the same origin."""
    a, b = urlsplit(left), urlsplit(right)
    return (a.scheme, a.netloc.casefold()) == (b.scheme, b.netloc.casefold())


def resolve_link(address: str, link: str, operation: str) -> str:
    """Resolves a link in a response.

    Args:
        address: The URL of the response.
        link: Absolute or relative.
        operation: Method and path of the request, for the error.

    Raises:
        GitHubError: `malformed` if the link is invalid.
    """
    try:
        target = urljoin(address, link)
        urlsplit(target)
    except ValueError:
        target = ""
    if not target:
        raise GitHubError("malformed", f"{operation}: GitHub's response has an invalid link.")
    return target


def check_encrypted(address: str, api_url: str, operation: str) -> None:
    """Checks that a redirect to a file store keeps the encryption.

    Raises:
        GitHubError: `malformed` if the URL is not https and its scheme differs from the API's.
    """
    scheme = urlsplit(address).scheme
    if scheme != "https" and scheme != urlsplit(api_url).scheme:
        raise GitHubError("malformed", f"{operation}: GitHub redirects to a URL without encryption.")
