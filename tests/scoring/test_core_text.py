"""Text of files, tools and services."""

from __future__ import annotations

import base64
import os
import random
import re
import subprocess
import sys
import time
import tomllib
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from golden_files import check
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval_scoring.core.masking import MASK, Masker, first_line, shorten
from agent_eval_scoring.core.patterns import PathPatterns, bounded
from agent_eval_scoring.core.process import Begun
from agent_eval_scoring.core.text import every, harmless, listed, short_name
from agent_eval_scoring.core.text import shorten as shortened
from agent_eval_scoring.core.toml_lines import TomlError, lines_of, read_toml
from agent_eval_scoring.core.tracebacks import exception_of, frames_of

# Text in a log that acts on neither terminals nor runners; names and counts in sentences.


@given(st.text(alphabet=":#[ \n\r\ta\u2028\x85\x0b") | st.text(st.characters(categories=["L", "N", "P", "Zs"])))
def test_text_harmless__no_line_is_a_command_and_ordinary_text_stays(value: str) -> None:
    for line in harmless(value).splitlines():
        assert not re.match(r"\s*::[a-z]", line)
        assert "##[" not in line
    if not re.search(r"##\[|::|[\r\u2028\x85\x0b]", value):
        assert harmless(value) == value


@given(st.integers(0, 200_000), st.sampled_from([40, 60, 61, 300]))
@example(61, 60)
@example(1_099, 60)
def test_shorten__counts_what_it_leaves_out(length: int, limit: int) -> None:
    shown = shortened("x" * length, limit)
    said = re.search(r"…([0-9,]+) more", shown)
    left_out = int(said.group(1).replace(",", "")) if said else 0
    assert len(shown) == min(length, limit)
    assert left_out == length - shown.count("x")


def test_listed__of_long_names_is_short() -> None:
    long = [f"evals/{'x' * 5_000}.json:{number}" for number in range(5)]
    assert len(listed(long, 3)) < 1_600
    assert len(short_name(long[0])) == 400
    assert short_name(long[0]).startswith("evals/") and short_name(long[0]).endswith(":0")


# Every spelling of a secret goes, as a whole.


def test_masker__a_secret_that_contains_another_goes_as_a_whole() -> None:
    """Shortest first would leave the tail of the longer one."""
    for secrets, text in (
        (["token-1", "token-1-and-its-tail"], "use token-1-and-its-tail now"),
        (["s3cret-of-the-job", "of-the-job-and-more"], "use s3cret-of-the-job-and-more now"),  # they overlap
    ):
        assert Masker(secrets).text(text) == f"use {MASK} now"
        assert Masker(secrets).data(text.encode()) == f"use {MASK} now".encode()
    assert Masker(["s3cret-of-the-job"]).text("s3cret-of-the-jobs3cret-of-the-job") == MASK * 2


@given(before=st.integers(0, 500), after=st.integers(0, 500), limit=st.integers(60, 400))
@example(before=66, after=200, limit=200)
def test_shorten__takes_masked_text_alone_and_leaves_no_part_of_a_secret(before: int, after: int, limit: int) -> None:
    secret = "S" * 3 + "".join(chr(ord("A") + number % 26) for number in range(61))
    masked = Masker([secret]).text("x" * before + secret + "y" * after)
    for text in (shorten(masked, limit), first_line(masked, limit)):
        assert not any(letter in text.replace("more characters", "") for letter in "ABCDEF")
    # mypy checks that this comment is needed: a text that nobody has masked can't be shortened here.
    assert shorten("no Masker has read this", 60)  # type: ignore[arg-type]


def test_masker__percent_encoding_form_encoding_and_json_of_other_languages() -> None:
    secret = "key/with<&more 1"
    encoded = [urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret), urllib.parse.quote_plus(secret)]
    for spelling in (*encoded, r"key\/with<&more 1", r"key/with\u003c\u0026more 1"):
        assert Masker([secret]).text(f"?k={spelling}") == f"?k={MASK}"
    ordinary = "VGhpcyBpcyBub3QgYSBzZWNyZXQ="
    assert Masker(["abcdef"]).text(ordinary) == ordinary


def test_masker__what_was_cut_off_leaves_no_part_of_a_secret() -> None:
    masker = Masker(["s3cret-value-of-the-job"])
    beginning = masker.beginning(b"a s3cret-value-of-the-job" + b"." * 40 + b"s3cret-value")
    assert beginning.startswith(b"a ***....") and b"s3cret" not in beginning
    assert b"the-job" not in masker.ending(b"value-of-the-job, then s3cret-value-of-the-job" + b"." * 40)
    assert Masker().beginning(b"abc") == Masker().ending(b"abc") == b"abc"


@pytest.mark.parametrize("before", ["", "u", "user", "me:", "a-long-name:"])
@pytest.mark.parametrize("after", ["", "!", "@host", "\n"])
@pytest.mark.parametrize("secret", ["s3cret-value-of-the-job", "s3cret/with+signs?", "p\u00e4ssword-long"])
def test_masker__base64_of_a_text_around_a_secret(before: str, after: str, secret: str) -> None:
    encoded = base64.b64encode(f"{before}{secret}{after}".encode()).decode()

    masked = Masker([secret]).text(f"Basic {encoded}.")

    assert MASK in masked
    assert (
        Masker([secret]).text(encoded.rstrip("=")).startswith(masked.removeprefix("Basic ").partition(MASK)[0] + MASK)
    )
    longest = max(len(part) for part in masked.removeprefix("Basic ").split(MASK))
    assert longest <= len(base64.b64encode(f"{before}{after}".encode())) + 4, "what is left belongs to its neighbours"


# Patterns as in a .gitignore, compared with git itself.

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
    "pattern", ["*a" * 60 + "b", "**/a*" * 60 + "/b", "a*" * 2000 + "b", "**/*a" * 60 + "/**/b", "[ab]*?" * 80 + "b"]
)
def test_match__takes_no_exponential_time(pattern: str) -> None:
    begun = time.monotonic()
    assert not PathPatterns([pattern]).match("/".join(["a" * 200] * 40))
    assert time.monotonic() - begun < 20


def test_bounded__no_text_takes_long() -> None:
    texts = ("a" * 20_000, "2026-01-01T00:00:00." * 1_000, "Today is " * 2_200, "0123abcd-" * 2_200)
    slowest = (r".{1,28}.{1,28}x", r"(?:a?){9}x", r"(a|a){4}(a|aa){3}x", r"(a)(?>\1{1,20})b")
    for pattern in (
        r"Today is .{1,40}\.",
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?([+-]\d{2}:\d{2}|Z)?",
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        r"(?i)session (?P<id>[\w-]{1,64})(?=;)",
        *slowest,
    ):
        expression = bounded(pattern)
        began = time.process_time()
        for text in texts:
            expression.sub("", text)
        assert time.process_time() - began < 10, pattern


# Where the tables and keys of a TOML file stand, however it is written.

TEXT = '''# policy = 1
gate = "both" # [[policy]]
"quoted key" = 1
paths = [
  "a", # "]
  "b]",
]
text = """
[[policy]]
x = "1" ""\\""" # """
last = \'\'\'
[x]''\'\'\'

[[policy]]
metric = "a"
  threshold=0.5
inline = { alpha = 1 }

[ agents ]
"evals/**" = 'x'
a.b.c = 1
[[ policy ]] # second
[[policy]]
metric = "c"
[policy.more]
deep = 1
[[quarantine]]
case = "x"'''


VALUES = st.sampled_from(
    ["1", '"# [x]"', "'\\'", "[1, 2]", "[\n # ]\n 1,\n]", '"""\n[[t]]\n"""', '""""a"""""', "{ a = [1], b = '}' }"]
)


@given(st.lists(st.one_of(st.sampled_from(["# c = 1", "", "[[t]]"]), VALUES), max_size=12), st.booleans())
def test_toml_lines__each_key_is_at_the_line_where_it_was_written(parts: list[str], windows: bool) -> None:
    lines: list[str] = []
    expected: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    tables = 0
    for number, part in enumerate(parts):
        line = len(lines) + 1
        if part == "[[t]]":
            table = ("t", tables)
            expected.setdefault(("t",), line)
            expected[table] = line
            tables += 1
        elif part and not part.startswith("# "):
            expected[*table, f"k{number}"] = line
            part = f"k{number} = {part}"
        lines += part.split("\n")
    text = ("\r\n" if windows else "\n").join(lines)
    tomllib.loads(text)

    assert lines_of(text) == expected


@pytest.mark.nightly
def test_lines_of__many_lines_in_linear_time() -> None:
    text = "".join(f"key{number} = 1\n" for number in range(60_000))
    begun = time.process_time()
    assert lines_of(text)["key59999",] == 60_000
    assert time.process_time() - begun < 10


# Tracebacks: the lines of the repository, and the type of the exception.

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/google/adk/tools.py", line 5, in run
    return await f()
  File "/home/dev/repo/agents/shop/tools.py", line 33, in find
    return lookup(room)
  File "/home/dev/repo/shared/rooms.py", line 7, in lookup
    raise shared.NoSuchRoom(
  File "<string>", line 1, in <module>
shared.rooms.NoSuchRoom: 'kitchen'
  is not a room
ValueError: only a line of the message
"""


# What becomes of odd texts.

PATHS = (
    *("a", "b", "]", "-", "z", "[a", "`", "\\", "a  ", "#a", "#a  ", "# comment", "evals", "evals/a", "evals2/a"),
    *("a/b", "a/b/c", "x/a/b", "x/[a", "x/evals/a/b"),
)


def reading(read: Callable[[str], object], value: str) -> object:
    """What a function returns, or why it refuses."""
    try:
        return read(value)
    except (ValueError, TomlError) as error:
        return f"{type(error).__name__}: {error}, {vars(error)}"


def matching(pattern: str) -> list[str]:
    patterns = PathPatterns([pattern])
    return [path for path in PATHS if patterns.match(path)]


def of_odd_texts() -> Iterator[tuple[str, object]]:
    """What becomes of texts, by function and text."""
    for value in (
        *("::error::no", "fine\n  ::add-mask::x", "a ##[error] b", "a::b", "\x1b[31mred\x1b[0m"),
        *("one\r\ntwo\tthree", "100%\r::error::", "\ud83d"),
    ):
        yield f"harmless {value!r}", harmless(value)
    for names, most in ([], 3), (["a"], 3), (["a", "b", "c"], 3), (["a", "b", "c"], 2), (["a"] * 1_502, 2):
        yield f"{len(names)} names, {most} listed", (listed(names, most), listed(names, most, "file"))
    yield "every", [every(count, "case") for count in (1, 2, 3, 1_000)]
    patterns = ["evals/", "/a/**", "**", "[z-a]", "[a", "[]a]", "[\\]-a]", "# comment", "\\#a \\ ", "a  ", "!a"]
    for pattern in (*patterns, "!", "/", "//", "a\\", "!a\\"):
        yield f"pattern {pattern!r}", reading(matching, pattern)
    for pattern in (
        *("[", "a{99999999999}", ".*", "(?=a)", ".+", "(a{1,9}){1,9}", "(?:a?){10}x", "(?:a|a){10}x"),
        *("(?=(?:x?){9}y)a{1,9}", "(a)?(?(1)b{1,30}|c{1,900})x", "a{1001}", "a{1,9}x"),
    ):
        yield f"expression {pattern!r}", reading(bounded, pattern)
    yield from ((f"line of {path}", line) for path, line in lines_of(TEXT).items())
    yield "lines of what is no TOML", lines_of("a = 1\n= 2\nb = 3")
    hexadecimal = "history = 0x" + "f" * 4_200
    digits, deep = "a = 1\nhistory = " + "9" * 4_400, "a = " + "[" * 100_000
    for text in ("a = 1\nb = \n", digits, hexadecimal, "a = [[{b = 18446744073709551616}]]", deep, "a = 2025-02-30"):
        yield f"TOML {text[:50]!r}", reading(read_toml, text)
    for folder in ("agents/shop", "agents/other", ""):
        yield f"frames of {folder!r}", frames_of(TRACEBACK, folder)
    of_root = '  File "/w/shop/__init__.py", line 1, in <module>\n  File "/w/shop/tools/map.py", line 7, in <module>\n'
    yield "frames of an agent that is the root", frames_of(of_root, ".")
    yield "frames of no traceback", frames_of("no traceback", "agents/shop")
    second = TRACEBACK.replace("shared.rooms.NoSuchRoom", "KeyError")
    during = f"{TRACEBACK}\nDuring handling of that:\n{second}"
    for text in (TRACEBACK, during, "KeyError: without a traceback", '  File "a.py", line 1, in f\n'):
        yield f"exception of {text[-40:]!r}", exception_of(text)


def test_core_text__of_odd_texts() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    check("golden_odd_texts.txt", "".join(f"{name}: {shown!r}\n" for name, shown in of_odd_texts()))


# The garbage collector while many objects are made, and how long something took.

CODE = """
import gc
from agent_eval_scoring.core.process import collector_paused

def collections():
    return sum(generation["collections"] for generation in gc.get_stats())

gc.collect()
frozen = gc.get_freeze_count()  # Python 3.12 freezes some objects itself.
with collector_paused():
    few = [[] for _ in range(1_000)]
print("few", gc.get_freeze_count() - frozen)
before = collections()
with collector_paused():
    many = [[] for _ in range(200_000)]
print("many", gc.get_freeze_count() >= 200_000, collections() - before, gc.isenabled())
del few, many  # Reference counts free what is frozen.
print("freed", gc.get_freeze_count() < 100_000)
gc.disable()
with collector_paused():
    pass
print("stays disabled", not gc.isenabled())
"""


def test_collector_paused__many_new_objects_are_never_scanned_and_a_disabled_one_stays() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["few 0", "many True 0 True", "freed True", "stays disabled True"]


@pytest.mark.parametrize("jump", [400 * 24 * 3600.0, -3600.0])
def test_a_clock_that_is_set__changes_no_duration(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    now = time.time()
    begun = Begun()
    assert abs(begun.at - now) < 60
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert 0 <= begun.duration() < 60
