"""Escapes untrusted text: what agents, models and pull requests wrote.

Each function escapes for one place; its result is not safe anywhere else:

* `visible`: any plain text (terminal, XML, JSON, and the first step of all the others);
* `text`: prose in Markdown, on one line, also in a table cell or a heading;
* `prose`: the same, with text between backticks as code;
* `code`: one line of code in Markdown, also in a table cell or a heading;
* `html_code`: one line of code inside an HTML block such as `<summary>`, where Markdown is not read;
* `html_text`: prose inside an HTML block;
* `fence`: a block of code in Markdown;
* `link`: a link to an address of ours; `linked`, `place` and `commit`: a name, a line and a commit as such links.

The Markdown ones return `Markup`, so that the templates do not escape them again.

GitHub makes links of mentions, issue numbers, commit ids and bare addresses after Markdown is rendered, so a backslash
doesn't prevent them. A zero-width space inside the token does (Dependabot and Renovate use it too). There are no links
inside code, so a commit id, which people copy, is shown as code.

Text in a right-to-left script is isolated, so that numbers and punctuation beside it keep their place.
"""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from markupsafe import Markup

from agent_eval_results import BaselineReport
from agent_eval_results.report.phrases.diff import no_baseline_reason
from agent_eval_results.report.views import Detail, Links, Reference, known_commit, one_line, visible
from agent_eval_results.report.views.links import file_reference
from agent_eval_scoring.core.text import carriable

EMPTY = "(empty)"
"""Shown for blank text."""

_BREAK = "&#8203;"
"""A zero-width space, written visibly."""

_SPECIAL = re.compile(
    r"(?P<scheme>:)(?=//)"
    r"|(?P<www>www)(?=\.)"
    r"|(?P<mention>@)"
    r"|(?P<issue>\#)(?=\d)"
    r"|(?P<tracker>(?<![0-9a-z])(?:GH|GHSA|CVE))(?=-)"
    r"|(?P<commit>(?<![0-9a-z])(?=[0-9]*[a-f])[0-9a-f]{7,40}(?![0-9a-z]))"
    r"|(?P<emoji>:)(?=[\w+-]+:)"
    r"|(?P<dollar>\$)"
    r"|(?P<html>[&<>|])"
    r"|(?P<mark>[\\`*\[\]~#])"
    r"|(?P<under>_)"
    r"|(?P<start>\A(?:[-+=:]|\d{1,9}(?=[.)](?:\s|\Z))))",
    re.IGNORECASE | re.ASCII,
)


def _defused(match: re.Match[str]) -> str:
    token = match.group()
    kind = match.lastgroup
    if kind in {"scheme", "www", "mention", "tracker", "emoji"}:
        return token + _BREAK
    if kind == "commit":  # Seven hexadecimal digits in a row are enough for a link.
        return f"<code>{token}</code>"
    if kind == "issue":
        return "\\#" + _BREAK
    if kind == "dollar":
        return "<span>$</span>"  # How GitHub's documentation keeps it from starting a formula.
    if kind == "html":
        return f"&#{ord(token)};"
    if kind == "under":
        around = match.string[match.start() - 1 : match.start()] + match.string[match.end() : match.end() + 1]
        inside_word = len(around) == 2 and around.isalnum()
        return token if inside_word else "\\_"
    if kind == "start" and token.isdigit():
        return token + _BREAK
    return "\\" + token


_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")


_BEGIN, _END = '<span dir="auto">', "</span>"


def _isolated(escaped: str) -> str:
    """Escaped text in which words from right to left don't reorder the text beside them."""
    if not _RIGHT_TO_LEFT.search(escaped):
        return escaped
    words = re.split(r"(\s+)", escaped)
    shown: list[str] = []
    for at in range(0, len(words), 2):
        gap = words[at - 1] if at else ""
        if not _RIGHT_TO_LEFT.search(words[at]):
            shown += [gap, words[at]]
        elif shown and shown[-1] == _END:  # Consecutive words are isolated together, to keep their order.
            shown[-1:] = [gap, words[at], _END]
        else:
            shown += [gap, _BEGIN, words[at], _END]
    return "".join(shown)


def text(value: str) -> Markup:
    """Prose for Markdown, on one line: it reads as written, without any markup."""
    return Markup(_isolated(_SPECIAL.sub(_defused, one_line(value))))  # noqa: S704 - escaped for Markdown


_CODE = re.compile(r"(?<!`)`([^`]{1,500})`(?!`)")


def prose(value: str) -> Markup:
    """The same, with text between single backticks as code, as our own messages quote settings."""
    parts = _CODE.split(one_line(value))
    return Markup("").join(
        code(part) if number % 2 else Markup(_isolated(_SPECIAL.sub(_defused, part)))  # noqa: S704 - escaped
        for number, part in enumerate(parts)
    )


_TICKS = 80
"""The most backticks that cmark-gfm takes for the delimiter of a code span (its MAXBACKTICKS); more are text."""
_FENCE = 200
"""The most backticks in a row that a block of code may hold: cmark-gfm counts a fence's up to 255, and a longer run
inside would end it."""
_TOO_MANY = re.compile(f"`{{{_FENCE + 1},}}")


def code(value: str) -> Markup:
    """One line of code for Markdown. Blank text is shown as `(empty)`."""
    shown = one_line(value)
    if not shown:
        return Markup(f"*{EMPTY}*")  # noqa: S704 - a constant
    return Markup(_isolated_code(_code_span(shown)))  # noqa: S704 - escaped for Markdown


def _code_span(shown: str) -> Markup:
    if "|" in shown or _longest_run(shown) >= _TICKS:
        # Renderers disagree about a backslash before a pipe in a table; entities leave no doubt.
        return Markup(f"<code>{_SPECIAL.sub(_defused_in_code, shown)}</code>")  # noqa: S704 - escaped
    ticks = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return Markup(f"{ticks}{pad}{shown}{pad}{ticks}")  # noqa: S704 - a code span longer than any run inside


def _defused_in_code(match: re.Match[str]) -> str:
    if match.lastgroup in {"mark", "under", "html", "dollar"}:
        return f"&#{ord(match.group())};"
    return match.group() if match.lastgroup == "commit" else _defused(match)


def html_code(value: str) -> Markup:
    """One line of code inside an HTML block. Blank text is shown as `(empty)`."""
    shown = one_line(value)
    if not shown:
        return Markup(f"<em>{EMPTY}</em>")  # noqa: S704 - a constant
    return Markup(_isolated_code(f"<code>{html.escape(shown)}</code>"))  # noqa: S704 - escaped for HTML


def _isolated_code(escaped: str) -> str:
    return f"{_BEGIN}{escaped}{_END}" if _RIGHT_TO_LEFT.search(escaped) else escaped


def html_text(value: str) -> Markup:
    """Prose inside an HTML block, on one line: without any markup or link."""
    return Markup(_isolated(_SPECIAL.sub(_defused_in_html, one_line(value))))  # noqa: S704 - escaped for HTML


def html_prose(value: str) -> Markup:
    """The same, with text between single backticks as code."""
    parts = _CODE.split(one_line(value))
    return Markup("").join(
        html_code(part) if number % 2 else Markup(_isolated(_SPECIAL.sub(_defused_in_html, part)))  # noqa: S704
        for number, part in enumerate(parts)
    )


def _defused_in_html(match: re.Match[str]) -> str:
    if match.lastgroup == "issue":
        return "&#35;" + _BREAK
    if match.lastgroup == "start":
        return match.group()
    return _defused(match) if match.lastgroup in {"commit", "dollar"} else _defused_in_code(match)


def _longest_run(value: str, char: str = "`") -> int:
    return max((len(run) for run in re.findall(re.escape(char) + "+", value)), default=0)


def fence(value: str, lang: str = "") -> Markup:
    """A block of code for Markdown, without a newline at its end. It must begin at the beginning of a line.

    Args:
        value: The code; newlines at its end are dropped. Of hundreds of backticks in a row, 200 are shown.
        lang: GitHub's name of a language, `diff` for example; letters only.

    Raises:
        ValueError: If `lang` is not a plain word.
    """
    # It is on the line of the fence, where anything else could begin markup.
    if lang and not lang.isalpha():
        raise ValueError(f"{lang!r} is not the name of a language")
    shown = _TOO_MANY.sub("`" * _FENCE + "…", visible(value).rstrip("\n"))
    ticks = "`" * max(3, _longest_run(shown) + 1)
    return Markup(f"{ticks}{lang}\n{shown}\n{ticks}")  # noqa: S704 - a fence longer than any run inside


def link(label: Markup, url: str) -> Markup:
    """A link for Markdown.

    Args:
        label: Safe Markdown, without a link in it.
        url: An absolute http or https address; characters with a meaning in Markdown are percent-encoded.

    Raises:
        ValueError: If the address has another scheme or no host.
    """
    parts = urlsplit(url)
    # E.g. `javascript:`, or a relative one, which would be a page of the forge.
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError(f"{url!r} is not a web address")
    target = quote(carriable(url), safe=":/?#@!&=+,;%~")
    return Markup(f"[{label}]({target.replace('&', '&amp;')})")  # noqa: S704 - both sides escaped


def linked(reference: Reference, links: Links) -> Markup:
    """A name or a place as code, as a link if its page is known."""
    url = links.case_url(reference.case_id, reference.turn) if reference.case_id is not None else None
    if reference.changed and reference.file is not None:
        url = links.change_url(reference.file, reference.line)
    url = url or links.line_url(reference.file, reference.line)
    label = code(reference.text)
    return label if url is None else link(label, url)


def place(file: str | None, line: int | None, links: Links) -> Markup:
    """A line of a file, as a link if its page is known; empty without a file."""
    reference = file_reference(file or None, line)
    return Markup("") if reference is None else linked(reference, links)


def commit(sha: str | None, links: Links) -> Markup:
    """The short id of a commit, as a link if its page is known; empty for other texts."""
    if not (sha := known_commit(sha)):
        return Markup("")
    url = links.commit_url(sha)
    label = code(sha[:7])
    return label if url is None else link(label, url)


def baseline_sentence(baseline: BaselineReport, detail: Detail, links: Links) -> Markup:
    """The sentence about the baseline, in which each commit is linked once; the rest follows in brackets."""
    available = baseline.found
    sentence = prose(detail.shorten_message(baseline.message if available else no_baseline_reason(baseline)))
    for sha in (baseline.commit, baseline.wanted_commit):
        sentence = _with_commit(sentence, known_commit(sha), links)
    if not available:
        return sentence
    rest: list[Markup] = []
    if (shown := commit(baseline.commit, links)) and shown not in sentence:
        rest.append(Markup("commit ") + shown)
    if url := links.own(baseline.run_url):
        rest.append(link(Markup("its run"), url))
    if baseline.recorded_at is not None:
        rest.append(Markup("recorded ") + _day(baseline.recorded_at))
    if not rest:
        return sentence
    return Markup(f"{sentence.removesuffix('.')} ({', '.join(rest)}).")  # noqa: S704 - made of what is escaped


def _day(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _with_commit(sentence: Markup, sha: str, links: Links) -> Markup:
    """An escaped sentence in which the first mention of a commit is a link."""
    shown = commit(sha, links)
    for mention in (f"<code>{sha[:7]}</code>", f" {sha[:7]}"):
        before, separator, after = sentence.partition(mention)
        if shown and separator and shown not in sentence:
            space = " " * mention.startswith(" ")
            sentence = Markup(f"{before}{space}{shown}{after}")  # noqa: S704 - made of what is escaped
    return sentence
