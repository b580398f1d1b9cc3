"""The stand-in itself: it notices what GitHub would not accept, and what GitHub would not say."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from fake_github import FakeGitHub
from fake_github.shapes import Shapes


def call(fake: FakeGitHub, method: str, path: str, **more: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {fake.token}", "User-Agent": "test"}
    return requests.request(method, fake.api_url + path, headers=headers, timeout=10, **more)


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("GET", "/repos/octo/shop/issues/7/reactions", None, "not in GitHub's description"),
        ("DELETE", "/repos/octo/shop/issues/7/comments", None, "not in GitHub's description"),
        ("POST", "/repos/octo/shop/issues/7/comments", None, "body"),
        ("POST", "/repos/octo/shop/issues/7/comments", {"text": "hello"}, "'body' is a required property"),
        ("POST", "/repos/octo/shop/issues/7/comments", {"body": 7}, "7 is not of type 'string'"),
        ("GET", "/repos/octo/shop/pulls?state=merged", None, "'merged' is not one of"),
        ("GET", "/repos/octo/shop/pulls?author=me", None, "no parameter author"),
        ("GET", "/repos/octo/shop/pulls/seven", None, "invalid literal for int()"),
    ],
)
def test_fake__requests_that_github_does_not_know(
    method: str, path: str, body: dict[str, Any] | None, words: str
) -> None:
    with FakeGitHub(strict=False) as fake:
        fake.state.pull(7)
        call(fake, method, path, json=body)

        assert words in "\n".join(fake.violations)


def test_fake__answers_that_github_would_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Shapes.comment

    def without_url(self: Shapes, comment: Any) -> dict[str, Any]:
        return {key: value for key, value in whole(self, comment).items() if key != "html_url"}

    monkeypatch.setattr(Shapes, "comment", without_url)
    with FakeGitHub(strict=False) as fake:
        fake.state.pull(7)
        fake.state.comment(7, "hello")
        call(fake, "GET", "/repos/octo/shop/issues/7/comments")

        assert "'html_url' is a required property" in "\n".join(fake.violations)


def test_fake__a_violation_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="not in GitHub's description"), FakeGitHub() as fake:
        call(fake, "GET", "/nothing")


def test_fake__the_token_is_not_for_the_store() -> None:
    with FakeGitHub(strict=False) as fake:
        artifact = fake.state.artifact(fake.state.run(fake.state.commit(branch="main")), b"zip")
        url = f"{fake.store_url}/store/{artifact.id}?sig=1"
        requests.get(url, headers={"Authorization": "Bearer x"}, timeout=10)

        assert fake.violations == ["the token was sent to the store of artifacts"]
