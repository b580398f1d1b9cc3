"""Who gets what we wrote as root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_eval.results.folder import give_to_owner

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files that are root's")
OWNER = 4242


@pytest.fixture
def root(tmp_path: Path) -> Path:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    os.chown(checkout, OWNER, OWNER)
    return checkout


def reply_in(folder: Path) -> Path:
    (folder / "ab").mkdir(parents=True)
    reply = folder / "ab" / "reply.json"
    reply.touch(mode=0o600)
    return reply


def test_a_folder_in_the_checkout_or_outside__is_the_owners(root: Path) -> None:
    inside, outside = root / "deep" / "cache", root.parent / "temp" / "cache"
    for folder in (inside, outside):
        reply_in(folder)
        give_to_owner(folder, root)
        assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {OWNER}
    assert (root / "deep").stat().st_uid == OWNER
    assert outside.parent.stat().st_uid == 0, "it was there"


def test_a_link_of_the_checkout__gives_nothing_away(root: Path) -> None:
    reply = reply_in(root.parent / "elsewhere")
    (root / "cache").symlink_to(root.parent / "elsewhere")
    (root / "deep").symlink_to(root.parent)

    give_to_owner(root / "cache", root)
    give_to_owner(root / "deep" / "elsewhere", root)

    assert reply.stat().st_uid == 0


def test_a_folder_that_was_never_made__is_nothing_to_give(root: Path) -> None:
    give_to_owner(root / "cache", root)
    assert not (root / "cache").exists()
