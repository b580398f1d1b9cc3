"""Draws the pictures of docs/statistics.md from the numbers in RESULTS.md.

python benchmarks/draw_statistics.py       # after benchmarks/gate_error_rates.py
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
GREY, RED, GREEN, BLUE, INK = "#8c959f", "#cf222e", "#1a7f37", "#0969da", "#57606a"
FONT = "font-family='-apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


def rows(text: str, name: str) -> list[list[str]]:
    """The cells of the table between the marks of that name, without its head."""
    table = text.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("**", "") for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def number(cell: str) -> float:
    """The first number of a cell."""
    match = re.search(r"\d+\.\d+|\d+", cell)
    assert match is not None, cell
    return float(match.group())


def words(
    x: float, y: float, text: str, *, size: int = 13, anchor: str = "start", fill: str = INK, bold: bool = False
) -> str:
    weight = " font-weight='600'" if bold else ""
    style = f"font-size='{size}' text-anchor='{anchor}' fill='{fill}'{weight}"
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0.5):.1f}' height='{height:.1f}' fill='{fill}'/>"


def line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    dash = " stroke-dasharray='4 4'" if dashed else ""
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{GREY}'{dash}/>"


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A picture that is readable on a light and on a dark page."""
    size = f"viewBox='0 0 {width} {height}' width='{width}'"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img' {FONT}>",
            f"<title>{escape(title)}</title>",
            f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
            *parts,
            "</svg>",
            "",
        ]
    )


def rules_picture(text: str) -> str:
    """Two bars for each rule: alarms when nothing changed, and when three cases got worse."""
    table = rows(text, "other rules")
    left, width, top, step = 320, 320, 66, 46
    parts = [
        words(
            20, 26, "Failed pull requests, in percent: when nothing changed, and when three cases got worse", bold=True
        ),
        box(20, 40, 12, 12, RED),
        words(38, 51, "nothing changed: these are false alarms"),
        box(320, 40, 12, 12, GREEN),
        words(338, 51, "three cases pass half as often or less: caught"),
    ]
    for index, row in enumerate(table):
        y = top + index * step
        quiet, three = number(row[1]), number(row[4])
        ours = row[0] == "this gate"
        parts.append(words(left - 10, y + 22, row[0], anchor="end", bold=ours))
        for offset, value, colour in ((3, quiet, RED), (19, three, GREEN)):
            parts.append(box(left, y + offset, width * value, 14, colour))
            parts.append(words(left + width * value + 6, y + offset + 11, f"{100 * value:.1f}", size=12))
    bottom = top + len(table) * step
    parts += [line(left + width * 0.05, top - 4, left + width * 0.05, bottom, dashed=True)]
    parts += [words(left + width * 0.05, bottom + 16, "5", size=12, anchor="middle")]
    return svg(720, bottom + 28, "False alarms and caught regressions by rule", parts)


def frontier_picture(text: str) -> str:
    """Power against runs paid, by setting."""
    table = rows(text, "settings")
    left, top, width, height = 60, 50, 420, 330
    dear = max(float(re.findall(r"\((\d+\.\d+)\)", row[1])[0]) for row in table) + 0.2
    parts = [words(20, 26, "Caught when three cases got worse, and what a quiet pull request pays", bold=True)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - share)
        parts += [line(left, y, left + width, y), words(left - 8, y + 4, f"{100 * share:.0f}%", anchor="end", size=12)]
    for tick in range(1, int(dear) + 1):
        x = left + width * (tick - 0.8) / (dear - 0.8)
        parts += [words(x, top + height + 18, f"{tick}", anchor="middle", size=12)]
    middle = left + width / 2
    label = "runs paid when nothing changed, in runs of the whole suite"
    parts.append(words(middle, top + height + 38, label, anchor="middle"))
    legend = left + width + 40
    for place, row in enumerate(table, start=1):
        paid = float(re.findall(r"\((\d+\.\d+)\)", row[1])[0])
        x, y = left + width * (paid - 0.8) / (dear - 0.8), top + height * (1 - number(row[4]))
        ours = row[0] == "default"
        colour = BLUE if ours else INK
        parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='{colour}'/>")
        # To the right, to the left and above in turn, so that neighbours don't cover each other.
        side, up, anchor = ((8, -4, "start"), (-8, -4, "end"), (0, 8, "middle"))[place % 3]
        parts.append(words(x + side, y - up, str(place), size=12, fill=colour, bold=True, anchor=anchor))
        row_y = top + 12 + 26 * (place - 1)
        parts.append(words(legend, row_y, f"{place}", fill=colour, bold=True, anchor="end"))
        parts.append(words(legend + 8, row_y, row[0].replace("`", ""), fill=colour, bold=ours))
    return svg(760, top + height + 54, "Power against runs paid", parts)


def pictures() -> dict[str, str]:
    """All pictures by file name."""
    text = Path(__file__).with_name("RESULTS.md").read_text(encoding="utf-8")
    return {
        "error-rates.svg": rules_picture(text),
        "frontier.svg": frontier_picture(text),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (DOCS / "images" / name).write_text(picture, encoding="utf-8")
