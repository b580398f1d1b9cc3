"""Renders the pictures in this directory, from the reports that the tests use.

    .venv/bin/python docs/images/render.py

The job summary and two comments are rendered by GitHub's Markdown parser and captured by headless Chromium (`--chromium
PATH`); rich converts the console's text to an SVG.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cmarkgfm
from cmarkgfm.cmark import Options
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "tests" / name) for name in ("results", "unit", "scoring")]

from comparison_samples import mixed, one_cause  # noqa: E402 - importable through the path above
from report_samples import failed  # noqa: E402

from agent_eval_results.report.renderers import comment_markdown, summary_markdown  # noqa: E402
from agent_eval_results.report.renderers._console import console as console_text  # noqa: E402
from agent_eval_results.report.views import Links  # noqa: E402

STYLE = """
body { font: 15px/1.5 "DejaVu Sans", "Noto Color Emoji", "WenQuanYi Micro Hei", sans-serif; color: #1f2328; }
body { width: 900px; margin: 0; padding: 20px 28px }
h2 { border-bottom: 1px solid #d1d9e0; padding-bottom: .3em; font-size: 1.4em; margin: 0 0 16px }
h3 { font-size: 1.2em; margin: 20px 0 12px } h4 { font-size: 1em; margin: 16px 0 6px }
p, ul, table, pre, details { margin: 0 0 12px } ul { padding-left: 2em }
table { border-collapse: collapse } td, th { border: 1px solid #d1d9e0; padding: 5px 12px }
code { background: #818b981f; border-radius: 6px; padding: .2em .4em; font: 85% "DejaVu Sans Mono", monospace }
pre { background: #f6f8fa; padding: 12px; border-radius: 6px } pre code { background: none; padding: 0 }
.plus { background: #dafbe1 } .minus { background: #ffebe9 } .plus, .minus { display: inline-block; width: 100% }
a { color: #0969da; text-decoration: none } a code { color: #0969da }
"""


def coloured(match: re.Match[str]) -> str:
    """A diff block with GitHub's colours."""
    marks = {"+": "plus", "-": "minus"}
    lines = [
        f'<span class="{marks.get(line[:1], "")}">{line}</span>' for line in match.group(1).strip("\n").split("\n")
    ]
    return "<pre><code>" + "\n".join(lines) + "</code></pre>"


def pages() -> dict[str, tuple[str, int]]:
    """Markdown and height in pixels, by the name of the picture."""
    comments = {"comment-regression": one_cause(), "comment-mixed": mixed()}
    heights = {"comment-regression": 640, "comment-mixed": 900}
    return {
        "summary": (
            summary_markdown(failed(), links=Links(source_url="https://github.com/example/repo/blob/main")),
            940,
        ),
        **{
            name: (comment_markdown(sample.report, links=sample.links, warnings=sample.warnings), heights[name])
            for name, sample in comments.items()
        },
    }


def page(markdown: str) -> str:
    """Markdown as an HTML page."""
    body = cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    body = re.sub(r'<pre lang="diff"><code>(.*?)</code></pre>', coloured, body, flags=re.DOTALL)
    body = re.sub(r'<pre><code class="language-diff">(.*?)</code></pre>', coloured, body, flags=re.DOTALL)
    return f"<!doctype html><meta charset=utf-8><title>{html.escape('agent-eval')}</title><style>{STYLE}</style>{body}"


def photograph(chromium: str, markdown: str, target: Path, height: int) -> None:
    """Captures the page as a PNG file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        source.write_text(page(markdown), encoding="utf-8")
        subprocess.run(
            [
                *[chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"],
                *["--disable-background-networking", "--disable-component-update", "--disable-sync"],
                *[f"--user-data-dir={folder}/profile", f"--window-size=956,{height}", f"--screenshot={target}"],
                source.as_uri(),
            ],
            check=True,
            timeout=120,
        )


def draw(target: Path) -> None:
    """Writes the console's text as an SVG without external resources."""
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        console = Console(
            file=nowhere, width=100, record=True, force_terminal=True, color_system="truecolor", emoji=False
        )
        console.print(Text.from_ansi(console_text(failed(), width=100, color=True)), end="")
        svg = console.export_svg(title="agent-eval run tests/home_automation")
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, ", "")
    target.write_text(svg, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    options = parser.parse_args()
    for name, (markdown, height) in pages().items():
        photograph(options.chromium, markdown, HERE / f"{name}.png", height)
    draw(HERE / "console.svg")


if __name__ == "__main__":
    main()
