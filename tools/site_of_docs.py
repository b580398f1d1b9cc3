"""Copies docs/ to .site/docs for the site generator: links to files outside of docs/ lead to GitHub there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOB = "https://github.com/org/agent-eval-action/blob/v1/"


def outside(text: str) -> str:
    """A page whose links to other folders of the repository are addresses."""
    return re.sub(r"\]\(\.\./([^)]+)\)", rf"]({BLOB}\1)", text)


def main() -> None:
    target = ROOT / ".site" / "docs"
    shutil.rmtree(target.parent, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target)
    for page in target.glob("*.md"):
        page.write_text(outside(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
