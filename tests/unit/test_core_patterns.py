"""Patterns as in a .gitignore, compared with git itself."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from agent_eval.core.patterns import PathPatterns, bounded

PIECES = ("a", "b", "*", "?", "/", "/**/", "[ab]", "[!a]", "[^b]", "[a-c]", "\\a", "x.json", "!", ".", "-")
NAMES = ("a", "b", "ab", "x.json", "a.b", "c", "-a")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("patterns")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.mark.parametrize("seed", range(100))
def test_match__agrees_with_git(seed: int, repository: Path) -> None:
    chance = random.Random(seed)
    paths = ["/".join(chance.choices(NAMES, k=chance.randint(1, 4))) for _ in range(60)]
    lines = ["".join(chance.choices(PIECES, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 3))]
    # What git makes of empty names, and of three stars and more, is of no use to anyone.
    lines = [line for line in lines if "//" not in line and "***" not in line and line.strip("/!")]
    (repository / ".gitignore").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(repository), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(paths), capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    patterns = PathPatterns(lines)
    assert {path for path in paths if patterns.match(path)} == {path for path in done.stdout.split("\0") if path}, lines


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("evals/", ["evals/a", "x/evals/a/b"], ["evals", "evals2/a"]),
        ("/a/**", ["a/b", "a/b/c"], ["a", "x/a/b"]),
        ("**", ["a", "a/b"], []),
        ("[z-a]", [], ["a", "z", "-"]),
        ("[a", ["[a", "x/[a"], ["a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[\\]-a]", ["]", "`", "a"], ["b", "\\"]),
        ("# comment", [], ["# comment"]),
        ("\\#a \\ ", ["#a  "], ["#a"]),
        ("a  ", ["a"], ["a  "]),
        ("!a", [], ["a"]),
    ],
)
def test_match__cases(pattern: str, matching: list[str], others: list[str]) -> None:
    patterns = PathPatterns([pattern])
    assert [path for path in [*matching, *others] if patterns.match(path)] == matching


@pytest.mark.parametrize("pattern", ["!", "/", "//", "a\\", "!a\\"])
def test_path_patterns__not_a_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"names nothing|ends in a backslash"):
        PathPatterns(["fine", pattern])


@pytest.mark.parametrize(
    "pattern", ["*a" * 60 + "b", "**/a*" * 60 + "/b", "a*" * 2000 + "b", "**/*a" * 60 + "/**/b", "[ab]*?" * 80 + "b"]
)
def test_match__takes_no_exponential_time(pattern: str) -> None:
    begun = time.monotonic()
    assert not PathPatterns([pattern]).match("/".join(["a" * 200] * 40))
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "pattern",
    [
        r"Today is .{1,40}\.",
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?([+-]\d{2}:\d{2}|Z)?",
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        r"(?i)session (?P<id>[\w-]{1,64})(?=;)",
        # As slow as any may be:
        r".{1,28}.{1,28}x",
        r"(?:a?){9}x",
        r"(a|a){4}(a|aa){3}x",
        r"(a)(?>\1{1,20})b",
    ],
)
def test_bounded__no_text_takes_long(pattern: str) -> None:
    expression = bounded(pattern)
    began = time.process_time()
    for text in ("a" * 20_000, "2026-01-01T00:00:00." * 1_000, "Today is " * 2_200, "0123abcd-" * 2_200):
        expression.sub("", text)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[", "is no regular expression: unterminated"),
        ("a{99999999999}", "is no regular expression: "),
        (".*", "would match the empty text"),
        ("(?=a)", "would match the empty text"),
        (".+", "could take too long"),
        ("(a{1,9}){1,9}", "could take too long"),
        ("(?:a?){10}x", "could take too long"),
        ("(?:a|a){10}x", "could take too long"),
        ("(?=(?:x?){9}y)a{1,9}", "could take too long"),
        ("(a)?(?(1)b{1,30}|c{1,900})x", "could take too long"),
        ("a{1001}", "could take too long"),
    ],
)
def test_bounded__refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        bounded(pattern)
