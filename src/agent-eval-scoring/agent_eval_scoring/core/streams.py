"""The standard streams, before anything else is imported."""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Opens /dev/null for standard streams that are closed (`>&-`).

    Otherwise Python has no stream to print to, and the next file that is opened gets the number of the closed stream
    and the output that others print to it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    # Open until the process ends.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
