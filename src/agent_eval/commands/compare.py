"""`agent-eval compare`: two results files side by side, anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agent_eval.baseline import read_file
from agent_eval.core.text import harmless
from agent_eval.gate.diff import compare
from agent_eval.report.views import Links
from agent_eval.results import BaselineReport, RunReport

Format = Literal["text", "markdown", "json"]


def compare_files(head: Path, base: Path) -> RunReport:
    """Reads two results and compares them.

    Args:
        head: `results.json` of the run to tell about, or its output directory.
        base: The same of what it is compared with.

    Returns:
        The head's report with the comparison in it. Whatever it said about another base is gone.

    Raises:
        UnreadableError: A file can't be read or holds no results that could be compared.
    """
    new, old = read_file(head), read_file(base)
    origin = old.origin
    commit = origin.commit or None if origin is not None else None
    baseline = BaselineReport(
        status="found",
        source="file",
        commit=commit,
        run_url=origin.run_url if origin is not None else None,
        recorded_at=old.started_at,
        message=f"The base is {harmless(str(base))}.",
    )
    comparison = compare(new, old)
    return new.model_copy(update={"comparison": comparison, "baseline": baseline, "decision": None})


def render(report: RunReport, format: Format, *, source_url: str | None = None, width: int = 100) -> str:
    """The comparison as text.

    Args:
        report: What `compare_files` gave.
        format: `text` for a terminal, `markdown` as in the comment on a pull request, `json` for programs: the
            `comparison` of results.json.
        source_url: Where the head's files can be browsed.
        width: Columns of the terminal.

    Raises:
        ValueError: `source_url` is no web address.
    """
    if format == "json":
        assert report.comparison is not None
        return report.comparison.model_dump_json(indent=1) + "\n"
    if format == "markdown":
        from agent_eval.report.renderers import comment_markdown

        return comment_markdown(report, links=Links(source_url=source_url))
    from agent_eval.report.renderers import comparison_text

    return comparison_text(report, width=width)
