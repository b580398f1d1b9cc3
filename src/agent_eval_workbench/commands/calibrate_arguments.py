"""Arguments of `agent-eval calibrate` that are not settings."""

from __future__ import annotations

import argparse
import math
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds them to the parser."""
    parser.add_argument(
        "labels", nargs="?", type=Path, metavar="LABELS", help="JSON Lines file with responses and human labels."
    )
    parser.add_argument(
        "--criterion",
        metavar="NAME|CONFIG",
        help="Judged metric (METRIC or METRIC=THRESHOLD; options come from --config), or a config file with one.",
    )
    parser.add_argument(
        "--min-kappa",
        type=_kappa,
        metavar="K",
        help="Minimum kappa. Exit code 1 if kappa is lower, 3 if too few labels could be judged to decide.",
    )
    parser.add_argument(
        "--weights",
        choices=("none", "linear", "quadratic"),
        help="How much a near miss counts. Default: none for pass and fail, quadratic for scores.",
    )
    parser.add_argument(
        "--show", type=_count, default=10, metavar="N", help="Number of disagreements to print. Default: 10."
    )
    parser.add_argument(
        "--suggest-thresholds",
        nargs="+",
        type=Path,
        metavar="RESULTS",
        help="Suggest thresholds from results.json files of recorded runs (or their directories) instead.",
    )
    parser.add_argument(
        "--pass-probability",
        type=_probability,
        default=0.95,
        metavar="P",
        help="Probability with which the current agent should pass a suggested threshold. Default: 0.95.",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _kappa(text: str) -> float:
    if not -1 <= (value := _float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from -1 to 1, not {text!r}")
    return value


def _probability(text: str) -> float:
    if not 0 < (value := _float(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, not {text!r}")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)
