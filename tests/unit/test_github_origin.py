"""Whose an address is, and where a link leads."""

from __future__ import annotations

import pytest

from agent_eval.github.client import check_encrypted, checked_api_url, resolve_link, same_origin
from agent_eval.github.errors import GitHubError

API = "https://api.github.com"


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("https://api.github.com/repos", True),
        ("https://API.github.com/repos", True),
        ("http://api.github.com/repos", False),
        ("https://api.github.com:8443/repos", False),
        ("https://api.github.com.example/repos", False),
        ("https://api.github.com@example.test/repos", False),
        ("//api.github.com/repos", False),
    ],
)
def test_origin__origins(address: str, same: bool) -> None:
    assert same_origin(address, API) == same


@pytest.mark.parametrize("address", ["http://store.example/1", "ftp://store.example/1", "file:///etc/passwd", "x"])
def test_origin__encryption_is_not_left(address: str) -> None:
    with pytest.raises(GitHubError, match="without encryption"):
        check_encrypted(address, API, "GET /x")


def test_origin__a_store_may_be_as_open_as_the_api_itself() -> None:
    check_encrypted("https://store.example/1", API, "GET /x")
    check_encrypted("https://store.example/1", "http://ghes.example/api/v3", "GET /x")
    check_encrypted("http://store.example/1", "http://ghes.example/api/v3", "GET /x")


def test_origin__links() -> None:
    assert resolve_link(f"{API}/repos/a", "/repos/b?page=2", "GET /x") == f"{API}/repos/b?page=2"
    with pytest.raises(GitHubError, match="invalid link"):
        resolve_link(API, "http://[x", "GET /x")


def test_origin__an_api_url_loses_its_last_slash() -> None:
    assert checked_api_url("https://ghes.example/api/v3/") == "https://ghes.example/api/v3"
