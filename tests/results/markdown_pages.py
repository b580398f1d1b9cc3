"""Markdown as a reader of the rendered page gets it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_samples import EVIL

OURS = {
    "h2", "h3", "h4", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "details", "summary",
    "strong", "a", "sub", "br", "span", "em", "blockquote",
}  # fmt: skip
EMPTY = {"br"}
CODE = {"code", "pre"}
ANY_TEXT = st.one_of(
    st.text(max_size=60), st.sampled_from([EVIL, "```", "|", "x\n\ny", "@a", "</details>", "{{ 7 * 7 }}"])
)
"""Texts of strangers."""


class Page(HTMLParser):
    """What a reader sees of a page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.links: list[str] = []
        self.code: list[str] = []
        """The text of each piece of code."""
        self.prose: list[str] = [""]
        """The other text, in pieces without an element between."""
        self.text = ""
        self.open = ""
        """What is read without a click."""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        if tag in CODE and not CODE & set(self._open):
            self.code.append("")
        self.prose.append("")
        if tag not in EMPTY:
            self._open.append("fold" if tag == "details" and "open" not in dict(attrs) else tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open
        self.prose.append("")
        innermost = self._open.pop()
        assert innermost.replace("fold", "details") == tag, f"{tag} is not the innermost element"

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if "fold" not in self._open or "summary" in self._open:
            self.open += data
        if CODE & set(self._open):
            self.code[-1] += data
        else:
            self.prose[-1] += data


def by_github(markdown: str) -> Page:
    """The page as GitHub's own parser makes it."""
    return Page(cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE))


def by_markdown_it(markdown: str) -> Page:
    """The page as a second parser makes it, which is slow."""
    return Page(MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown))


def rendered(markdown: str, *, second_parser: bool = True) -> Page:
    """The page as GitHub's own parser makes it; the second one must agree about its elements."""
    page = by_github(markdown)
    assert not second_parser or by_markdown_it(markdown).tags == page.tags
    return page


def nothing_of_theirs(markdown: str, links: str | tuple[str, ...], *, second_parser: bool = True) -> Page:
    """The page, after a check that no text acts as anything but text and that all links begin with `links`."""
    page = rendered(markdown, second_parser=second_parser)
    assert set(page.tags) <= OURS
    assert all(link.startswith(links) for link in page.links), page.links
    for piece in page.prose:
        assert not re.search(r"(?<!\w)@\w|#[0-9]|(?<![a-z0-9])GH-[0-9]|https?://|www\.", piece, re.IGNORECASE), piece
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", piece)
    return page
