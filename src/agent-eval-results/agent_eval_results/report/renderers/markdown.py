"""The Markdown texts: the comment on a pull request, and the job summary (`summary.md`).

Both say the decision and what to do next, the causes, details in folds. A `Detail` bounds what they say until it fits.
The templates say what comes where. Every string that they print is escaped as prose, unless a filter escapes it for
another place (`code`, `fence`, `linked`), addresses included, since it may be the report of a fork. `forge.comments`
adds the marker that identifies the comment.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from agent_eval_results import NO_SECRETS, ComparisonReport, RunReport
from agent_eval_results.outcome import change_counts
from agent_eval_results.report import phrases, views
from agent_eval_results.report.markup import (
    baseline_sentence,
    code,
    commit,
    fence,
    html_prose,
    link,
    linked,
    place,
    prose,
)
from agent_eval_results.report.phrases import diff
from agent_eval_results.report.phrases.rule_changes import base_name, rule_rows, rule_sentences
from agent_eval_results.report.views.examples import acted_before, example_of, shared_causes
from agent_eval_results.report.views.links import case_reference
from agent_eval_scoring.core.text import listed, plural, shorten

if TYPE_CHECKING:
    from jinja2 import Environment

COMMENT_LIMIT = 16_000
"""Characters, counted as UTF-16 does: nobody reads more, and the rest is one click away. GitHub refuses 65,536."""
SUMMARY_LIMIT = 1_000_000
"""Bytes. GitHub refuses a step's summary of more than 1 MiB (documentation of workflow commands)."""
SMALLEST_LIMIT = 2_000
"""Of either text: what its shortest form needs."""
COMMENT_DETAILS: Sequence[views.Detail] = (
    views.Detail(explained=5, listed=50, side=400, log=1_500),
    views.Detail(explained=3, listed=30, side=300, log=1_000),
    views.Detail(explained=1, listed=20, side=200, log=500),
    views.Detail(explained=0, listed=15, side=0, log=0),
    views.Detail(explained=0, listed=8, side=0, log=0, name=100),
    views.Detail(explained=0, listed=3, side=0, log=0, name=60),
    views.Detail(explained=0, listed=0, side=0, log=0, name=60),
)
"""From everything that a comment should hold to next to nothing."""
SUMMARY_DETAILS: Sequence[views.Detail] = (
    views.Detail(explained=50, listed=1_000, side=2_000, log=8_000),
    views.Detail(explained=50, listed=500, side=1_000, log=2_000),
    views.Detail(explained=20, listed=200, side=500, log=1_000),
    views.Detail(explained=5, listed=100, side=300, log=500),
    views.Detail(explained=0, listed=50, side=0, log=0),
    views.Detail(explained=0, listed=20, side=0, log=0, name=100),
    views.Detail(explained=0, listed=5, side=0, log=0, name=60),
    views.Detail(explained=0, listed=0, side=0, log=0, name=60),
)
"""The same for a summary."""
_COMMENT_ROWS, _SUMMARY_ROWS = 10, 50
"""Cases in the table of those that no cause explains."""
_MOST_NAMES = 12
_SEVERITIES = ("error", "warning", "notice")
_MARKS: Mapping[str, str] = {
    "error": "⛔",
    "warning": "⚠️",
    "notice": "ℹ️",
    **{name: look.emoji for name, look in (*phrases.STATUSES.items(), *phrases.VERDICTS.items())},
}


@functools.cache
def environment() -> Environment:
    """The environment, compiled once per process. Templates get a `view`, `links` and `detail`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context

    from agent_eval_results.report.renderers._compiled import beside_modules

    templates = Environment(
        loader=PackageLoader("agent_eval_results.report.renderers"),
        autoescape=True,
        finalize=_escaped,
        bytecode_cache=beside_modules(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "code": code,
        "html_text": html_prose,
        "link": link,
        "fence": fence,
        "linked": pass_context(lambda context, reference: linked(reference, context["links"])),
        "case": pass_context(lambda context, case: linked(case_reference(case), context["links"])),
        "is_odd": views.is_odd,
        "place": pass_context(lambda context, item: place(item.file, getattr(item, "line", None), context["links"])),
        "case_name": pass_context(lambda _, case: views.case_name(case)),
        "name": pass_context(lambda context, text: context["detail"].shorten(text)),
        "message": pass_context(lambda context, text: context["detail"].shorten_message(text)),
        "shorten": shorten,
        "lines": lambda text: [line.strip() for line in text.splitlines()],
        "score": views.score_text,
        "changed_place": phrases.changed_place,
        "sides": phrases.sides,
        "difference": pass_context(lambda context, case: phrases.case_difference(case, context["view"])),
        "why": pass_context(lambda context, case: phrases.why_not_passed(case, context["view"])),
        "sentence": pass_context(lambda context, cause: phrases.cause_sentence(cause, context["view"].branch)),
        "evidence": pass_context(lambda context, cause: phrases.cause_evidence(cause, context["view"].branch)),
        "lead": phrases.changed_lead,
        "change": pass_context(lambda context, place: linked(phrases.place_reference(place), context["links"])),
        "commit": pass_context(lambda context, sha: commit(sha, context["links"])),
        "baseline": pass_context(lambda context, item: baseline_sentence(item, context["detail"], context["links"])),
        "duration": views.duration_text,
        "threshold": views.threshold_text,
        "plural": plural,
    }
    templates.globals |= {"mark": lambda status: Markup(_MARKS[status])}  # noqa: S704 - one of our own emoji
    return templates


def _escaped(value: Any) -> Any:
    """A printed value of a template: prose, unless it is marked as safe."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return prose(value)


def comment_markdown(
    report: RunReport,
    *,
    warnings: Sequence[str] = (),
    links: views.Links | None = None,
    limit: int = COMMENT_LIMIT,
    key: str = "",
    title: str = "",
) -> str:
    """The comment, whose first line is the decision and its cause.

    Args:
        report: What to show.
        warnings: Plain sentences that come before everything else, e.g. that the pull request changes the rules of
            the gate.
        links: Where the text may lead.
        limit: Characters that the text may have, counted in UTF-16 units.
        key: The setting `name`, which identifies one of several comments; "" for the only one.
        title: The first line of a text that reports no verdict.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a comment needs at least {SMALLEST_LIMIT:,} characters, not {limit:,}")
    view, links = views.view_of(report), views.Links() if links is None else links
    no_verdict = bool(title)
    status = "notice" if no_verdict else phrases.headline_status(report)
    title = title or phrases.headline(view)
    if key:
        # Comments of several workflows stand below each other.
        title = f"{title} · {shorten(key, 60)}"
    template, values_of = environment().get_template("comment.md.j2"), _values(view, links, warnings)

    def render(detail: views.Detail, shortened: bool) -> str:
        values = values_of(detail, min(_COMMENT_ROWS, detail.listed))
        values |= {
            "headline": title,
            "headline_status": status,
            "notices": values["notices"][: min(detail.listed, 10)],
            "shortened": shortened,
        }
        return template.render({**values, "next": "" if no_verdict else values["next"]})

    text = views.fitting(render, COMMENT_DETAILS, lambda text: utf16_length(text) <= limit)
    return f"## {_MARKS[status]} {prose(shorten(title, 120))}\n" if text is None else text


def summary_markdown(
    of: RunReport | views.View,
    *,
    limit: int = SUMMARY_LIMIT,
    files: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    links: views.Links | None = None,
) -> str:
    """The result as Markdown, whose first line is the decision and its cause.

    Args:
        of: What to show.
        limit: Bytes in UTF-8 that the text may have.
        files: Paths of written files by what they are, named at the end.
        warnings: Plain sentences that come before everything else.
        links: Where the text may lead.

    Raises:
        ValueError: If `limit` is less than SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a summary needs at least {SMALLEST_LIMIT:,} bytes, not {limit:,}")
    view, links = views.view_of(of), views.Links() if links is None else links
    report = view.report
    title, status = phrases.headline(view), phrases.headline_status(report)
    template, values_of = environment().get_template("summary.md.j2"), _values(view, links, warnings)

    def render(detail: views.Detail, shortened: bool) -> str:
        values = values_of(detail, min(_SUMMARY_ROWS, detail.listed))
        values |= {
            "headline": title,
            "headline_status": status,
            "note": views.run_note(report),
            "low_turns": views.cases_with_low_turns(report),
            "notices": [*values["notices"], *phrases.coverage_lines(report)][: detail.listed],
            "files": report.files[: min(detail.listed, 200)],
            "more_files": max(len(report.files) - min(detail.listed, 200), 0),
            "provenance": _provenance(report)[: min(detail.listed, 10)],
            "written": dict(list((files or {}).items())[: min(detail.listed, 10)]),
            "shortened": shortened,
        }
        return template.render(values)

    text = views.fitting(render, SUMMARY_DETAILS, lambda text: len(text.encode("utf-8")) <= limit)
    return f"## {_MARKS[status]} {prose(shorten(title, 120))}\n" if text is None else text


def _provenance(report: RunReport) -> list[tuple[str, str]]:
    """What the agents run with; what all of several share without their names."""
    agents: dict[tuple[str, str], list[str]] = {}
    for key, value in report.provenance.items():
        name, _, agent = key.partition(" (")
        agents.setdefault((name, value), []).append(agent.removesuffix(")"))
    # The name of an agent is noise where all have the same version.
    count = max(map(len, agents.values()), default=0)
    return [
        (name if len(names) == count or not names[0] else f"{name} ({listed(names, 2)})", value)
        for (name, value), names in agents.items()
    ]


def part_summary(report: RunReport) -> str:
    """The job summary of one part of a run: its headline. The merge shows the cases of all parts."""
    title = phrases.headline(views.view_of(report))
    return "\n".join(f"{prose(line)}\n" for line in (title, *report.notices)) + "\n"


def report_link(links: views.Links) -> str:
    """A paragraph with a link to the report, for the job summary; "" without an address of the repository."""
    url = links.own(links.report_url)
    return "" if url is None else f"{link(Markup('Open the report'), url)}: every case, turn by turn.\n"


def utf16_length(text: str) -> int:
    """Characters as GitHub may count them: an emoji is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def _values(
    view: views.View, links: views.Links, warnings: Sequence[str]
) -> Callable[[views.Detail, int], dict[str, Any]]:
    """What gives the values that both texts have, for a `Detail` and the most cases in the table of those that no cause
    explains. What both say is found once; a `Detail` only bounds it.

    Args:
        view: What to show.
        links: Where the text may lead.
        warnings: Plain sentences that come after what to do next, after those of the report.
    """
    report, groups = view.report, view.groups
    failing = [*groups.worse, *groups.failed]
    again = [*failing, *groups.errored]
    shared, left = shared_causes(report, failing, view.branch)
    alone = [case for case in left if not views.has_cause(case)]
    errors = [*views.causes(report, [case for case in left if views.has_cause(case)]), *view.errors]
    # Why a case ran live matters where one that did is what a reader has to look at.
    is_live = report.failed and any(not case.replayed for case in view.to_look_at())
    reasons = [*phrases.other_reasons(view), *(phrases.live_notices(report.notices) if is_live else ())]
    # An agent that can't be loaded fails in the same way whatever command runs it, so none is offered.
    dead = any(error.never_ran for error in errors)
    deltas = diff.delta_rows(view)

    def values(detail: views.Detail, rows: int) -> dict[str, Any]:
        moves = diff.metric_moves(view, deltas) if failing and detail.listed else []
        helps = detail.explained and report.failed and not dead
        return {
            "report": report,
            "sources": diff.SOURCES,
            "view": view,
            "detail": detail,
            "links": links,
            "next": _next(phrases.next_step(view), links),
            "next_label": phrases.next_label(view),
            "warnings": [
                detail.shorten_message(warning) for warning in [*report.warnings, *warnings][: max(detail.listed, 3)]
            ],
            "changed": detail.shorten_message(phrases.agent_changes(report)) if detail.listed else "",
            "unchanged": phrases.agent_unchanged(report, view.branch) if detail.listed else "",
            "notices": [notice for notice in report.notices if notice not in reasons],
            "reasons": [detail.shorten_message(reason) for reason in reasons] if detail.listed else [],
            "shared": shared[: max(detail.listed, 1)],
            # What to do next names the first place of the only cause.
            "named_places": len(shared) == 1,
            "causes": errors[: detail.listed],
            # A library's log explains nothing.
            "logged": [error for error in errors if error.log and error.by_agent][:3],
            "log_text": _log_text,
            # What a provider needs, the text says at its top.
            "hints": not report.has_reason(NO_SECRETS),
            "advised": next((step.data["hint"] for step in view.outcome.next if "hint" in step.data), ""),
            "alike": len(alone) if phrases.are_alike(alone, view) else 0,
            "table": alone[:rows],
            "examples": [
                example
                for case in [*acted_before(errors)[: detail.explained], *alone[: min(detail.explained, rows)]]
                if (example := example_of(case)).sides or example.remarks
            ],
            "changed_answers": [*view.answers.values()],
            "changed_title": phrases.changed_title(view, [*view.answers.values()]) if view.answers else "",
            "drops": report.comparison.drops[: min(detail.listed, 5)] if report.comparison is not None else [],
            "better_title": f"Better than on {view.branch}" if view.decided else "Newly passing",
            "as_often": phrases.as_often(view.branch),
            "more": alone[rows:],
            "rule_rows": rule_rows(report),
            "rule_sentences": rule_sentences(report),
            "rule_base": base_name(report.rule_changes) if report.rule_changes is not None else "",
            "moves": moves,
            "metrics": _metrics(view, deltas, detail),
            "not_run": views.not_run_groups(report)[: detail.listed],
            "base": _base(view, detail),
            "problems": sorted(report.problems, key=lambda problem: _SEVERITIES.index(problem.severity)),
            "reproduce": views.reproduce(again, report.options) if helps else views.Reproduction(),
            "run_url": links.own(links.run_url),
            "report_url": links.own(links.report_url),
            "artifacts": [detail.shorten(name) for name in links.artifacts[:5]],
            # The head commit of a pull request rather than GitHub's merge of it, which people don't know.
            "tested_commit": None if report.origin is None else report.origin.head_commit or report.origin.commit,
        }

    return values


def _next(steps: Sequence[phrases.Step], links: views.Links) -> Markup:
    run = links.own(links.run_url)
    parts = []
    for step in steps:
        if isinstance(step, str):
            # Escaping removes the blanks at its ends.
            parts.append(Markup(" ") * step.startswith(" ") + prose(step) + Markup(" ") * step.endswith(" "))
        elif isinstance(step, views.Reference):
            parts.append(linked(step, links))
        else:
            label, url = (step.title, step.url) if isinstance(step, phrases.Page) else (step.text, run)
            if isinstance(step, phrases.ToRun) and step.is_waiting:
                url = links.waiting_url
            parts.append(prose(label) if url is None else link(prose(label), url))
    return Markup("").join(parts)


def _metrics(view: views.View, deltas: Sequence[diff.DeltaRow], detail: views.Detail) -> dict[str, Any]:
    """The tables of metrics, with the base branch's numbers (`diff.delta_rows`) if there are any."""
    most = max(detail.listed, 5)
    comparison = view.report.comparison
    means = view.metric_rows
    if not any(row.mean is not None for row in means):
        means = []  # Nothing was measured: the headline says all that a table could.
    # Rows without news hide those that have some.
    compared = [row for row in deltas if row.moved or row.failed or row.not_evaluated or row.note] if means else []
    notes = comparison.notes[: detail.listed] if comparison is not None else []
    return {
        "unevaluated": any(row.not_evaluated for row in compared),
        "deltas": [row for row in compared if row.gates][: most + 1],
        "informational_deltas": [row for row in compared if not row.gates][: min(detail.listed, 20)],
        "means": [row for row in means if row.gates and comparison is None][:most],
        "informational": [row for row in means if not row.gates and comparison is None][: min(detail.listed, 20)],
        "notes": [detail.shorten_message(note.message) for note in notes],
        "base_runs": comparison.base_records if comparison is not None else 1,
        "spending": views.spending(view),
    }


def _base(view: views.View, detail: views.Detail) -> dict[str, Any]:
    """The base branch: cases that are not the same there, and statistics."""
    comparison = view.report.comparison
    changes = diff.other_changes(comparison) if comparison is not None and detail.listed else []
    return {
        "changes": [
            (title, [detail.shorten(name) for name in names[: detail.listed]], max(len(names) - detail.listed, 0))
            for title, names in changes
        ],
        "changes_title": _changes_title(comparison, view.branch) if comparison is not None else "",
        "branch": view.branch,
        "statistics": [detail.shorten_message(line) for line in phrases.suite_lines(view)[: detail.listed]],
        "case_statistics": [
            (views.case_name(case), [shorten(line, 2 * detail.name) for line in lines[:5]])
            for case, lines in phrases.case_details(view)[: min(detail.listed, _MOST_NAMES)]
        ],
    }


def _changes_title(comparison: ComparisonReport, branch: str) -> str:
    counts = change_counts(comparison)
    parts = {
        "new": counts["added"],
        "changed": counts["changed"],
        "removed": counts["removed"],
        "renamed": sum(case.renamed_from is not None for case in comparison.cases),
        "not compared": sum(case.lacks_comparison for case in comparison.cases),
    }
    changes = ", ".join(f"{number:,} {change}" for change, number in parts.items() if number)
    return f"Cases that differ from {branch}: {changes}"


def _log_text(log: str, detail: views.Detail) -> str:
    """The end of a traceback or a log, which says what happened."""
    shown = views.visible(log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return shown if len(shown) <= detail.log else "…" + shown[len(shown) - detail.log :]
