"""The header of the page: verdict, problems, baseline, counts; and what lies behind a click: files and spending."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_eval_results import CaseReport, Origin, ProblemReport, RunReport
from agent_eval_results.outcome import change_counts
from agent_eval_results.report import phrases
from agent_eval_results.report.html._packing import number, shown
from agent_eval_results.report.html._source import Facts
from agent_eval_results.report.phrases.diff import no_baseline_reason
from agent_eval_results.report.views import Links, Reference, Reproduction, bill, grouping, location, reproduce
from agent_eval_results.report.views.links import known_commit
from agent_eval_results.report.views.numbers import cost_text
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.simulation import PURPOSE

_NAME, _LINE = 500, 2_000
_MOST_PROBLEMS = 1_000


def header(facts: Facts, ignored: int, *, words: bool) -> dict[str, Any]:
    """The header.

    Args:
        facts: The lookups.
        ignored: Recordings that belong to no run of the report.
        words: Whether texts of agents and tools may appear.
    """
    report = facts.report
    notices = [*report.notices, *phrases.coverage_lines(report), *facts.source.notices()]
    notices += [_note(problem) for problem in report.problems if problem.is_notice][:_MOST_PROBLEMS]
    if ignored:
        verb = "belongs" if ignored == 1 else "belong"
        notices.append(
            f"{plural(ignored, 'recording')} {verb} to another run and {'is' if ignored == 1 else 'are'} not shown."
        )
    return {
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "sentence": shown(phrases.headline(facts.view, brief=True, words=words), _LINE),
        "decided": decided_by(facts),
        "reasons": [shown(line, _LINE) for line in phrases.other_reasons(facts.view, _LINE)],
        "next": _next(facts, words=words),
        "commands": [[shown(label, _NAME), text] for label, text in _commands(facts)],
        "next_label": shown(phrases.next_label(facts.view), _LINE),
        "problems": [_problem(problem) for problem in report.problems if not problem.is_notice][:_MOST_PROBLEMS],
        **{
            name: [shown(each if words else phrases.without_words(each), _LINE) for each in sentences]
            for name, sentences in (("warnings", report.warnings), ("notices", notices))
        },
        "baseline": _baseline(facts),
        "origin": _origin(facts),
        "counts": counts(facts),
        "spent": _spent(facts),
        "source_url": _source_url(facts),
    }


def decided_by(facts: Facts) -> str:
    """Which rule decided the verdict."""
    report, branch = facts.report, facts.view.branch
    if report.is_invalid:
        return "Nothing was run."
    sentences = {
        "thresholds": "The thresholds decide.",
        "regressions": f"Regressions against {branch} decide.",
        "both": f"The thresholds and regressions against {branch} decide.",
        "advisory": "The gate is advisory: it reports, but never fails.",
    }
    return sentences[report.gate]


def _problem(problem: ProblemReport) -> dict[str, Any]:
    return {
        "severity": problem.severity,
        "code": shown(problem.code, _NAME),
        "message": shown(problem.message, _LINE),
        "hint": shown(problem.hint, _LINE),
        "file": shown(problem.file, 1_000) or None,
        "line": problem.line,
    }


def _note(problem: ProblemReport) -> str:
    place = location(problem.file, problem.line)
    return f"{f'{place}: ' if place else ''}{problem.message} {problem.hint}".strip()


def _next(facts: Facts, *, words: bool) -> list[dict[str, Any]]:
    """What a reader does next, in pieces: text in which commands stand in backticks, lines of files, the run."""
    steps = phrases.next_step(facts.view, words=words)
    return [
        {
            "text": shown(step if isinstance(step, str) else step.text, _LINE),
            "file": shown(step.file, 1_000) or None if isinstance(step, Reference) else None,
            "line": step.line if isinstance(step, Reference) else None,
            "run": isinstance(step, phrases.ToRun) and not step.is_waiting,
        }
        for step in steps
    ]


def _commands(facts: Facts) -> Iterator[tuple[str, str]]:
    """What a reader may run next, each with the words of its button."""
    groups = facts.view.groups
    # Not those that fail on the base branch too: a reader is to run what the pull request may have broken.
    cases = [*groups.worse, *groups.failed, *groups.errored]
    made = reproduce(cases, facts.report.options)
    if made.command:
        yield f"Copy the command that runs {_run_by(made, cases, facts.report)}", made.command
    # Only where the next step says that the new behaviour may be right.
    if any(step.code == "accept-answers" for step in facts.view.outcome.next):
        yield "Copy agent-eval accept", "agent-eval accept"


def _run_by(made: Reproduction, cases: Sequence[CaseReport], report: RunReport) -> str:
    """Which cases a command runs that was made for these: maybe fewer of them, and others of their files."""
    asked = "it" if len(cases) == 1 else f"these {len(cases):,}"
    asked = f"{len(cases) - made.left_out:,} of {asked}" if made.left_out else asked
    ids = {case.case_id for case in cases}
    files = {case.file for case in report.cases if case.file in made.whole and case.case_id not in ids}
    return f"{asked} and all other cases of {plural(len(files), 'file')}" if files else asked


def _spent(facts: Facts) -> dict[str, Any]:
    """Tokens of the agent, those of a run on the base branch, and dollars in all."""
    report, comparison = facts.report, facts.report.comparison
    rows = facts.history.trend if facts.history is not None and comparison is not None else []
    cost = None if comparison is None else comparison.cost.base
    return {
        "tokens": sum(usage["input_tokens"] + usage["output_tokens"] for usage in _agent_usage(report)) or None,
        "runs": sum(len(case.runs) for case in [*report.cases, *report.confirmations]),
        "base_tokens": number(rows[-1].tokens, 0) if rows else None,
        "bill": shown(bill(report), _LINE),
        "base_cost": None if cost is None else cost_text(cost),
    }


def _baseline(facts: Facts) -> dict[str, Any] | None:
    baseline, links = facts.report.baseline, facts.source.links
    if baseline is None:
        return None
    if not baseline.found:
        return {"sentence": shown(no_baseline_reason(baseline), _LINE), "url": None, "name": ""}
    commit = known_commit(baseline.commit)
    return {
        "sentence": shown(baseline.message, _LINE),
        "url": links.own(baseline.run_url),
        "name": "" if facts.view.branch == grouping.NO_NAME else shown(facts.view.branch, _NAME),
        "commit": commit[:8],
        "commit_url": links.commit_url(commit) if commit else None,
    }


def _origin(facts: Facts) -> dict[str, Any]:
    report = facts.report
    origin, links = report.origin or Origin(), facts.source.links
    return {
        "repository": shown(origin.repository, _NAME),
        # Not GitHub's merge of it, which people don't know.
        "commit": shown(origin.head_commit or origin.commit or report.provenance.get("commit"), 100),
        "ref": shown(origin.ref, _NAME),
        "event": shown(origin.event, _NAME),
        "pull_request": origin.pull_request,
        "pull_url": _pull_url(origin, links),
        "run_id": origin.run_id,
        "run_attempt": origin.run_attempt,
        "run_url": links.own(origin.run_url),
        "started_at": number(report.started_at, 3),
        "duration": number(report.duration, 3),
        "num_runs": report.num_runs,
        "min_pass_rate": number(report.min_pass_rate),
        "tool_version": shown(report.tool_version, 100),
        "gate": report.gate,
        "for_merge": report.is_for_merge,
    }


def _pull_url(origin: Origin, links: Links) -> str | None:
    if origin.pull_request is None:
        return None
    return links.own(links.pull_url(origin.pull_request))


def counts(facts: Facts) -> dict[str, int]:
    """How many cases are in each state; a case may be in several."""
    report = facts.report
    totals = report.totals
    changes = change_counts(report.comparison)
    outcomes = facts.view.outcomes.values()
    return {
        "passed": totals.passed,
        "failed": totals.failed,
        "errored": totals.errored,
        "not_run": totals.not_run,
        "quarantined": totals.quarantined,
        "newly_failing": changes["newly_failing"],
        "fixed": sum(outcome.is_better for outcome in outcomes),
        "suspected": facts.view.outcome.standings.get("suspected", 0),
        "blocking": sum(outcome.blocks for outcome in outcomes),
        "flaky": sum(outcome.is_flaky for outcome in outcomes),
    }


def _source_url(facts: Facts) -> str | None:
    url = facts.source.links.source_url
    return f"{url.rstrip('/')}/" if url else None


def about(facts: Facts) -> dict[str, Any]:
    """Files, provenance and spending."""
    report = facts.report
    # Where the agent's own calls have a price, they are a row of the models; else their tokens are all that is known.
    is_priced = any(_AGENT in names for names in _roles(report).values())
    return {
        "files": [
            {
                "file": shown(file.file, 1_000),
                "eval_set_id": shown(file.eval_set_id, _NAME),
                "config": shown(file.config, 1_000) or None,
                "agent": shown(file.agent, _NAME),
                "agent_reason": shown(file.agent_reason, _LINE),
                "criteria": {shown(name, _NAME): number(threshold) for name, threshold in file.criteria.items()},
            }
            for file in report.files
        ],
        "provenance": {shown(name, _NAME): shown(value, _LINE) for name, value in report.provenance.items()},
        "usage": [*([] if is_priced else _agent_usage(report)), *_model_usage(report)],
    }


def _agent_usage(report: RunReport) -> list[dict[str, Any]]:
    """What the agent's model calls used in the runs of this report; its model is not recorded."""
    usages = [run.usage for case in [*report.cases, *report.confirmations] for run in case.runs]
    # Unlike a judge's, the output of a run has its thoughts in it (token_usage_v1).
    calls = sum(usage.model_calls for usage in usages)
    if not calls:
        return []
    return [
        {
            "who": "agent",
            "model": "",
            "calls": calls,
            "input_tokens": sum(usage.input_tokens or 0 for usage in usages),
            "output_tokens": sum(usage.output_tokens or 0 for usage in usages),
            "cost": None,
            "cached_replies": 0,
            "saved_votes": 0,
        }
    ]


_AGENT = "agent"


def _roles(report: RunReport) -> Mapping[str, str]:
    """By model, who called it."""
    roles: dict[str, set[str]] = {}
    for usage in report.case_usage:
        name = _AGENT if usage.purpose.startswith(_AGENT) else "user" if usage.purpose == PURPOSE else "judge"
        roles.setdefault(usage.model, set()).add(name)
    return {model: ", ".join(sorted(names)) for model, names in roles.items()}


def _model_usage(report: RunReport) -> list[dict[str, Any]]:
    roles = _roles(report)
    return [
        {
            "who": roles.get(usage.model, "judge"),
            "model": shown(usage.model, _NAME),
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": None if usage.output_tokens is None else usage.output_tokens + (usage.thought_tokens or 0),
            "cost": number(usage.cost, 6),
            "cached_replies": usage.cached_replies,
            "saved_votes": usage.saved_votes,
        }
        for usage in report.model_usage
    ]
