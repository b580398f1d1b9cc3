"""No text of an agent may become anything but text, judged by two Markdown implementations.

cmarkgfm is GitHub's own parser (cmark-gfm, as a C library); markdown-it-py is an independent second opinion. What
GitHub does after rendering (mentions, issues, commits, bare addresses, formulas) is imitated on text outside of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_pages import Page, by_github, by_markdown_it

from agent_eval_results.report import markup as escape
from agent_eval_results.report.views.detail import one_line, visible
from agent_eval_scoring.core.text import without_commands

ZWSP = "\u200b"
READABLE = "expected turn_on(device='lamp'), got \"nothing\" - 50 % of 1.5!"

NASTY = [
    "<", ">", "&", "&lt;", "&#64;", "&#x40;", "`", "``", "```", "~~~", "|", "\\", "\\|", "\n", "\r", "\r\n",
    "\n\n", "\n    ", "[", "]", "(", ")", "![", "](", "](javascript:alert(1))", "[x]: http://a.b", "*", "**",
    "_", "__", "~~", "#", "# ", "- ", "1. ", "1) ", "+ ", "> ", "===", "---", ":-:", "|--|",
    "http://evil.example", "https://github.com/o/r/issues/1", "HTTPS://A.B", "ftp://a.b", "www.evil.example",
    "WWW.evil.example", "mailto:a@b.example", "a@b.example", "xmpp:a@b.c", "@octocat", "@org/team", "#123",
    "o/r#5", "GH-12", "gh-12", "fixes #1", "GHSA-aaaa-bbbb-cccc", "CVE-2024-1234", "deadbeef", "0123abc",
    "a" * 40, "o/r@deadbeef", ":smile:", ":+1:", "$x$", "$`x`$", "$$", "<script>", "</details>", "<!--", "-->",
    "<a href=x>", "<img src=x>", "</code>", "<summary>", "</td>", "\x1b[31m", "\x1b]0;t\x07", "\u202e",
    "\u200b", "\u2066", "\ud800", "\x00", "\x85", "\u2028", "%0A", "::error::x", "##[error]x", "[!NOTE]",
    "[^1]", "[ ]", " ", "  ", "\t", "a", "Z", "0", "é", "日本", "👩‍👩‍👧", "١",
]  # fmt: skip

hostile = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=5)), max_size=12).map("".join)


RENDERERS = [by_github, by_markdown_it]
Render = Callable[[str], Page]

LINKED_BY_GITHUB = re.compile(
    r"(?<![\w`])@[a-z0-9][\w/-]*"  # mention
    r"|\#\d+"
    r"|(?<![a-z0-9])gh-\d+"
    r"|(?<![a-z0-9])(?:GHSA-\w|CVE-\d)"
    r"|\w@[\w.-]+"  # mail, commit of a repository
    r"|(?:https?|ftp)://\S|www\.\S"
    r"|(?<![a-z0-9])(?=\d*[a-f])[0-9a-f]{7,40}(?![a-z0-9])"  # commit
    r"|:[\w+-]+:"  # emoji
    r"|\$[^$]+\$",
    re.IGNORECASE | re.ASCII,
)


def nothing_to_link(page: Page) -> None:
    for piece in page.prose:
        assert not LINKED_BY_GITHUB.search(piece), piece


def plain(value: str) -> str:
    """How a one-line text reads once white space is collapsed, as browsers do."""
    return " ".join(one_line(value).split())


@pytest.mark.parametrize("render", RENDERERS)
@given(hostile)
@example("</td></tr></table><img src=x onerror=alert(1)>")
@example("a\\")
@example("_www.evil.example _GH-1 _deadbeef")
@example("1. x")
@example("\\`code\\`")
def test_text__is_nothing_but_text(render: Render, value: str) -> None:
    page = render(f"{escape.text(value)}")
    assert set(page.tags) <= {"p", "span", "code"}
    nothing_to_link(page)
    assert " ".join(page.text.replace(ZWSP, "").split()) == plain(value)


def table(value: str) -> str:
    row = f"| {escape.text(value)} | {escape.code(value[::-1])} | {escape.prose(value)} |"
    return f"| a | b | c |\n|---|---|---|\n{row}\n| 1 | 2 | 3 |\n\nafter"


FRAMES: Mapping[str, tuple[Callable[[str], str], list[str]]] = {
    "prose": (lambda value: f"x {escape.prose(value)}", ["p"]),
    "heading": (lambda value: f"before\n\n### x {escape.text(value)}\n\nafter", ["p", "h3", "p"]),
    "table": (table, ["table", "thead", "tr", *["th"] * 3, "tbody", *["tr", *["td"] * 3] * 2, "p"]),
    "summary of code": (
        lambda value: f"<details><summary>{escape.html_code(value)} more</summary>\n\ninside\n\n</details>\n\nafter",
        ["details", "summary", "p", "p"],
    ),
    "summary of prose": (
        lambda value: f"<details><summary>{escape.html_prose(value)}</summary>\n\n</details>",
        ["details", "summary"],
    ),
    "fence": (
        lambda value: f"<details><summary>s</summary>\n\n{escape.fence(value, 'diff')}\n\n</details>\n\nafter",
        ["details", "summary", "pre", "p"],
    ),
    "link": (
        lambda value: f"x {escape.link(escape.code(value), 'https://github.com/o/r/blob/' + value)} y",
        ["p", "a"],
    ),
}
"""Where a text stands in a page, and the elements around it."""


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("frame", FRAMES)
@given(hostile)
@example("Give `--agent-env` and `` ` `` or ` `")
@example("`a``b` 0123abc`c`")
@example("\\`x`")
@example("```\n</details>\n````\n@octocat")
def test_frames__hold_any_text(render: Render, frame: str, value: str) -> None:
    make, tags = FRAMES[frame]
    page = render(make(value))
    assert [tag for tag in page.tags if tag not in {"span", "code", "em"}] == tags
    nothing_to_link(page)
    if frame == "fence":
        assert page.code[0].rstrip("\n") == visible(value).rstrip("\n")
    elif frame == "summary of code" and plain(value):
        assert " ".join(page.code[0].split()) == plain(value)


def test_text__as_it_is_written() -> None:
    assert escape.prose("Raise `max`, or `x|y`") == "Raise `max`, or <code>x&#124;y</code>"
    assert escape.prose("a ` b") == "a \\` b"
    assert escape.text("at deadbeef") == "at <code>deadbeef</code>", "a commit can be copied"
    assert escape.text(READABLE) == READABLE


@pytest.mark.parametrize("make", [escape.text, escape.prose, escape.html_text, escape.code, escape.html_code])
def test_text__words_from_right_to_left_are_isolated(make: Callable[[str], str]) -> None:
    """Without that the number behind a name would move to its other side."""
    shown = make("price_عربي")
    assert shown.startswith('<span dir="auto">')
    assert shown.endswith("</span>")
    assert '<span dir="auto">עברית</span> 0 of 6' in escape.text("price עברית 0 of 6")


@pytest.mark.parametrize("render", RENDERERS)
@given(hostile)
@example("a|b`c\\|")
@example("`")
@example(" ` ")
def test_code__shows_what_was_written(render: Render, value: str) -> None:
    page = render(f"x {escape.code(value)} y")
    if plain(value):
        assert [tag for tag in page.tags if tag != "span"] == ["p", "code"]
        assert " ".join(page.code[0].replace(ZWSP, "").split()) == plain(value)
    else:
        assert page.tags == ["p", "em"]
    assert "".join(page.prose).split()[0] == "x"
    assert "".join(page.prose).split()[-1] == "y"


def test_link_and_fence__refuse_other_addresses_and_what_is_not_a_word() -> None:
    for url in ("javascript:alert(1)", "//host/x", "data:text/html,x", "/relative", "http://"):
        with pytest.raises(ValueError, match="not a web address"):
            escape.link(escape.text("x"), url)
    with pytest.raises(ValueError, match="not the name of a language"):
        escape.fence("x", "diff\n```")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two\r\nlines\rthree\n", "two\nlines\nthree\n"),
        ("tab\there", "tab\there"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "red link"),
        ("\x9b31mred", "red"),
        ("bell\x07 and a lone \x1b", "bell␇ and a lone ␛"),
        ("a\u202eb\u2066c", "a[U+202E]b[U+2066]c"),
        ("zero\u200bwidth\ufeff", "zero[U+200B]width[U+FEFF]"),
        ("tag\U000e0041", "tag[U+E0041]"),
        ("family 👩\u200d👩\u200d👧 می\u200cخواهم", "family 👩\u200d👩\u200d👧 می\u200cخواهم"),
        ("❤\ufe0f a\u200db", "❤\ufe0f a[U+200D]b"),
        ("x\ufe00\ufe01\ufe02", "x\ufe00[U+FE01][U+FE02]"),
        ("lone \ud83d surrogate \ufffe", "lone \ufffd surrogate \ufffd"),
        ("e" + "\u0301" * 40 + "!", "e" + "\u0301" * 4 + "!"),
        ("日本語 中文 한국어 ไทย हिन्दी", "日本語 中文 한국어 ไทย हिन्दी"),
    ],
)
def test_escape__visible(value: str, shown: str) -> None:
    assert visible(value) == shown


@given(hostile)
def test_visible__leaves_nothing_that_acts(value: str) -> None:
    shown = visible(value)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode("utf-8")
    assert visible(shown) == shown


def test_visible__plain_text_is_as_it_is_among_other_text() -> None:
    for char in filter(str.isprintable, map(chr, range(0x3000))):
        assert visible(f"a{char}b") + "\N{SYMBOL FOR BELL}" == visible(f"a{char}b\a")


def test_without_commands__breaks_both_forms() -> None:
    shown = without_commands("a ##[error]b ###[x] ::error::y ::stop-commands::t")
    assert "##[" not in shown
    assert not re.search("::[a-z]", shown)
    assert shown.replace(ZWSP, "") == "a ##[error]b ###[x] ::error::y ::stop-commands::t"
    assert without_commands("## [ok] #[ok] a[::2] ::") == "## [ok] #[ok] a[::2] ::"
