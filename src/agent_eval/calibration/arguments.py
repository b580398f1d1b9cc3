"""The flags of `agent-eval calibrate` that are no settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds them."""
    parser.add_argument(
        "labels", nargs="?", type=Path, metavar="LABELS", help="JSON Lines: responses and what people think of them."
    )
    parser.add_argument(
        "--criterion",
        metavar="NAME|CONFIG",
        help="A judged metric (METRIC or METRIC=THRESHOLD; its options come from --config), or a config with one.",
    )
    parser.add_argument(
        "--min-kappa",
        type=_number(-1, 1),
        metavar="K",
        help="What kappa must reach. Below it the exit code is 1; 3 if the judge could not be asked enough to tell.",
    )
    parser.add_argument(
        "--weights",
        choices=("none", "linear", "quadratic"),
        help="What a near miss counts. Default: none for pass and fail, quadratic for scores.",
    )
    parser.add_argument(
        "--show", type=_count, default=10, metavar="N", help="Disagreements to print, the worst first. Default: 10."
    )
    parser.add_argument(
        "--suggest-thresholds",
        nargs="+",
        type=Path,
        metavar="RESULTS",
        help="Instead: results.json of recorded runs (or their directories), from which thresholds are suggested.",
    )
    parser.add_argument(
        "--pass-probability",
        type=_number(0, 1, open_ends=True),
        default=0.95,
        metavar="P",
        help="With which the present agent should hold a suggested threshold. Default: 0.95.",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _number(low: float, high: float, *, open_ends: bool = False) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low - 1
        if not (low < value < high if open_ends else low <= value <= high):
            between = f"between {low:g} and {high:g}" if open_ends else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"must be a number {between}, not {text!r}")
        return value

    return parse


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)
