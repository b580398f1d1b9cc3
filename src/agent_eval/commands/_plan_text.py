"""Ranges, costs and columns of the text of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval.core.text import harmless, plural
from agent_eval.runner.cost_estimate import Range

Row = tuple[str, str, str]


def between(count: Range, noun: str, many: str | None = None) -> str:
    """`1 call`, `6 to 10 calls`, `6 calls or more`."""
    if count.most is None:
        return f"{plural(count.least, noun, many)} or more"
    if count.most == count.least:
        return plural(count.least, noun, many)
    return f"{count.least:,} to {plural(count.most, noun, many)}"


def dollars(cost: tuple[float, float | None]) -> str:
    """`about $0.0012 to $0.0020`."""
    least, most = cost
    if most is None:
        return f"about ${least:.4f} or more"
    return f"about ${least:.4f}" if least == most else f"about ${least:.4f} to ${most:.4f}"


def columns(rows: Sequence[Row]) -> Iterator[str]:
    """Aligned rows, safe to print to a CI log."""
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    for row in rows:
        yield harmless(f"  {row[0]:<{first}}  {row[1]:<{second}}  {row[2]}".rstrip())
