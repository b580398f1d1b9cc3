"""How much of a report a text shows, the richest text that fits its medium; and plain text without terminal sequences,
invisible characters and other controls.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_eval_scoring.core.text import carriable, shorten


@dataclass(frozen=True, kw_only=True)
class Detail:
    """How much to show. Counts are of cases, lengths of characters."""

    explained: int
    """Cases with a turn that shows why they did not pass."""
    listed: int
    """Rows of every other list."""
    side: int
    """Length of an expected or an actual text."""
    log: int
    """Length of a traceback with its log."""
    name: int = 200
    """Length of a name and of a line of an explanation; a message may have three times that."""

    def shorten(self, value: str) -> str:
        """The text in the length of a name."""
        return shorten(value, max(self.name, 60))

    def shorten_message(self, value: str) -> str:
        """A message of ours. It says what to do at its end, so it gets more space than a name."""
        return shorten(value, 3 * max(self.name, 60))


def fitting(
    render: Callable[[Detail, bool], str], details: Sequence[Detail], fits: Callable[[str], bool]
) -> str | None:
    """The richest text that fits; None if not even the shortest does.

    A text that is too long is rendered again with less detail, so that nothing is cut inside a code block or a fold.

    Args:
        render: Makes the text, given how much to show and whether that is less than everything.
        details: From everything to next to nothing.
        fits: Whether a text fits.
    """
    for step, detail in enumerate(details):
        text = render(detail, step > 0)
        if fits(text):
            return text
    return None


_TERMINAL = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"  # CSI: colours, cursor movements
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\\\|\x9c)"  # OSC and other strings
    "|\x1b[ -/]{0,4}[0-~]"  # two-character sequences
)
"""Terminal control sequences (ECMA-48), complete ones."""

_NEWLINE = re.compile("\r\n?")
_SUSPECT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
                      "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
                      "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]")  # fmt: skip
"""Controls, and characters that reorder, hide or have no width: bidi controls, joiners, fillers, tags (Unicode 16)."""

_JOINERS = "\u200c\u200d"
_PILE = re.compile("([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{4})"
                   "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")  # fmt: skip
"""More combining marks on one letter than any language uses: they would cover the neighbouring lines."""

_PLAIN = re.compile("[\t\n -~\xa0-\xac\xae-\u02ff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u2bff]*")
"""Text that stays as it is: Latin letters, punctuation, symbols. All of it is tried in a tenth of the time."""


def _shown(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if char in _JOINERS and match.start():
        # Emoji families and Persian, Hindi and Sinhala words need their joiners.
        before = match.string[match.start() - 1]
        if ord(before) > 0x2FF and unicodedata.category(before)[0] in "LMS":
            return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return f"[U+{code:04X}]"


def visible(value: str) -> str:
    """The text with every character either printable or shown by a name.

    Terminal sequences are removed; line ends become newlines; other controls, bidi controls and invisible characters
    are replaced by a visible name; what XML or UTF-8 can't carry becomes U+FFFD. Newlines and tabs stay.
    """
    if _PLAIN.fullmatch(value):
        return value
    value = _NEWLINE.sub("\n", _TERMINAL.sub("", value))
    value = _PILE.sub(r"\1", _SUSPECT.sub(_shown, value))
    return carriable(value)


def folded(value: str) -> str:
    """The visible text on one line: newlines shown as a return arrow, tabs as a blank."""
    return visible(value).replace("\n", "⏎ ").replace("\t", " ")


def one_line(value: str) -> str:
    """The same without blanks and newlines at the ends."""
    if value.isascii() and value.isprintable():
        return value.strip()
    return folded(visible(value).strip())
