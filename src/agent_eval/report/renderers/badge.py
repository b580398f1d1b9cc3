"""The badge: the result of a run as a small picture for a README."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_eval.results import RunReport

_LABEL = "evals"
_COLORS = {"passed": "#176f2c", "failed": "#b3261e"}
_UNKNOWN = "#59636e"
"""Every colour has a contrast of at least 4.5 to the white text."""
_HEIGHT, _MARGIN = 20, 6
_WIDTHS = {" ": 3.6, "i": 3.1, "l": 3.1, "f": 3.9, "t": 4.4, "r": 4.7, "m": 10.7, "w": 9.0, "s": 5.8, "/": 5.0}
"""Widths of letters of Verdana at 11 pixels; every other letter takes 7. The text is fitted to the sum of them."""

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{title}">
<title>{title}</title>
<clipPath id="r"><rect width="{width}" height="{height}" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="{height}" fill="#3d444d"/>
<rect x="{left}" width="{right}" height="{height}" fill="{color}"/>
</g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{margin}" y="14" textLength="{label_width}">{label}</text>
<text x="{text_at}" y="14" textLength="{text_width}">{text}</text>
</g>
</svg>
"""


def badge_svg(report: RunReport) -> str:
    """The badge of a run: passed cases of all cases, in the colour of the verdict. It has no text of the report."""
    text = badge_text(report)
    label_width, text_width = _width(_LABEL), _width(text)
    left, right = label_width + 2 * _MARGIN, text_width + 2 * _MARGIN
    return _SVG.format(
        width=left + right,
        height=_HEIGHT,
        left=left,
        right=right,
        color=_color(report),
        margin=_MARGIN,
        label=_LABEL,
        label_width=label_width,
        text=text,
        text_at=left + _MARGIN,
        text_width=text_width,
        title=f"{_LABEL}: {text}",
    )


def _color(report: RunReport) -> str:
    """Green only if a case passed: an advisory gate passes although nothing was evaluated."""
    if report.verdict == "passed" and not report.totals.passed:
        return _UNKNOWN
    return _COLORS.get(report.verdict, _UNKNOWN)


def badge_text(report: RunReport) -> str:
    """The words of the badge: `48/50 passed`, and the verdict where it is neither passed nor failed."""
    totals = report.totals
    if report.verdict == "invalid" or not totals.cases:
        return "invalid" if report.verdict == "invalid" else "no cases"
    counts = f"{totals.passed}/{totals.cases} passed"
    return counts if report.verdict in _COLORS else f"{report.verdict}, {counts}"


def _width(text: str) -> int:
    return round(sum(_WIDTHS.get(letter, 7.0) for letter in text))
