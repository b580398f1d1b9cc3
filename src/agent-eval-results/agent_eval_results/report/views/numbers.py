"""Numbers for people: short, and never rounded across a threshold.

A score of 0.7996 below a threshold of 0.8 must not read "0.80": each number gets as many decimals as it takes to stay
on its side of the threshold, of 0 and of 1.
"""

from __future__ import annotations

import math

NO_SCORE = "–"
_MOST_DECIMALS = 6


def _rounded(value: float, decimals: int, anchors: tuple[float, ...], threshold: float | None) -> str | None:
    """The rounded number if it stays on the right side of everything, else None."""
    shown = f"{value:.{decimals}f}"
    read = float(shown)
    for anchor in anchors:
        if (read == anchor) != (value == anchor):
            return None
    if threshold is not None and (read >= threshold) != (value >= threshold):
        return None
    return shown


def _honest(value: float, *, decimals: int, anchors: tuple[float, ...], threshold: float | None = None) -> str:
    for more in range(decimals, _MOST_DECIMALS + 1):
        shown = _rounded(value, more, anchors, threshold)
        if shown is not None:
            return shown
    # No sensible number of decimals shows the difference: say on which side it is.
    lines = [*anchors, *([] if threshold is None else [threshold])]
    nearest = min(lines, key=lambda line: abs(line - value))
    if value == nearest:
        return _exact(value, decimals)
    side = "<" if value < nearest else ">"
    return side + _exact(nearest, decimals)


def score_text(value: float | None, threshold: float | None = None) -> str:
    """A score, with two decimals or as many as needed; a dash for none.

    Args:
        value: The score; any range.
        threshold: What it is compared with (`value >= threshold` passes).
    """
    if value is None or not math.isfinite(value):
        return NO_SCORE
    return _honest(value, decimals=2, anchors=(0.0, 1.0), threshold=threshold)


def delta_text(value: float | None, *, decimals: int = 2) -> str:
    """A difference with its sign: `+0.05`, `−0.12`; `±0` for none at all, a dash for no difference."""
    if value is None or not math.isfinite(value):
        return NO_SCORE
    if abs(value) < 10**-9:  # A mean of the same numbers in another order.
        return "±0"
    shown = _honest(abs(value), decimals=decimals, anchors=(0.0,))
    sign = "+" if value > 0 else "\N{MINUS SIGN}"
    return f"{sign}{shown.removeprefix('>')}" if not shown.startswith(">") else f"{sign}<0.000001"


def points_text(value: float | None) -> str:
    """A difference of two shares as `+4 points`, `−0.5 points`."""
    if value is None:
        return NO_SCORE
    if abs(value) < 10**-9:
        return "±0"
    points = value * 100
    shown = delta_text(points, decimals=0 if abs(points - round(points)) < 10**-6 else 1)
    return f"{shown} {'point' if shown[1:] == '1' else 'points'}"


def relative_text(head: float, base: float) -> str:
    """By how much a number has changed, as a share of what it was: `+12%`, `−3%`; "" where that says nothing."""
    if base <= 0:
        return ""
    change = round((head - base) / base * 100)
    if not change:
        return "±0%"
    return f"{'+' if change > 0 else chr(0x2212)}{abs(change):,}%"


def cost_text(dollars: float | None) -> str:
    """US dollars with the digits that count: `$0.0042`, `$1.30`; a dash for an unknown sum."""
    if dollars is None or not math.isfinite(dollars):
        return NO_SCORE
    if dollars >= 0.1 or dollars == 0:
        return f"${dollars:,.2f}"
    return f"${dollars:.2g}" if dollars >= 0.0001 else "<$0.0001"


def _exact(value: float, decimals: int) -> str:
    short = f"{value:.{decimals}f}"
    return short if float(short) == value else repr(value)


def threshold_text(value: float | None, *, at_most: bool = False) -> str:
    """A threshold exactly as configured, with at least two decimals; `at most 900.00`; a dash for none."""
    if at_most and value is not None:
        return f"at most {threshold_text(value)}"
    return NO_SCORE if value is None else _exact(value, 2)


def percent_text(value: float | None, *, decimals: int = 0) -> str:
    """A share between 0 and 1 as a percentage: `100%` and `0%` are exact, everything else is between them."""
    if value is None:
        return NO_SCORE
    return _honest(value * 100, decimals=decimals, anchors=(0.0, 100.0)).removesuffix(".0") + "%"


def count_text(value: float | None) -> str:
    """A count or a mean of counts: `3`, `2.5`, `12,345`."""
    if value is None or not math.isfinite(value):
        return NO_SCORE
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}".rstrip("0").rstrip(".") if value >= 0.01 else f"{value:.2g}"


def duration_text(seconds: float) -> str:
    """Seconds as `85 ms`, `1.2 s`, `48 s`, `2 min 5 s`, `1 h 2 min`."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def measurement_text(metric: str, value: float | None) -> str:
    """The score of an informational metric in its own unit: seconds, or a count (google-adk 2.13.0's four)."""
    if value is not None and "duration" in metric:
        return duration_text(value)
    return count_text(value)
