"""What happened to a run: reasons and notices of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_eval_results.report.phrases._words import MOST_NAMES
from agent_eval_scoring.core.text import every, listed, plural

_MOST_AGENTS = 5


SENTENCES: Mapping[str, str] = {
    "part-throttled": "The model provider refused requests of this part (429 or 503). All parts together make up to "
    "{count:,} runs at once: lower `concurrency`",
    "no-confirmation": "The runs to confirm suspected regressions have no result: {because}",
    "base-not-run": "The base branch could not be run to confirm a regression: {message}",
    "journal-damaged": "{file} could not be read from line {line:,} on: runs are repeated",
    "answers-not-compared": "The answers could not be compared with the base branch's ({kind})",
    "causes-unknown": "What the failing cases have in common could not be determined ({kind})",
    "journal-kept": "{file} keeps the finished runs: the next run continues from there with --resume",
    "fail-fast-compared": "`fail-fast` had no effect: whether a failed case blocks depends on the comparison with the "
    "base branch",
    "fail-fast-alone": "`fail-fast` had no effect: a comparison with the base branch was to decide, and there turned "
    "out to be none",
    "run-ended-otherwise": "The results say passed, but the run ended with {conclusion}",
}


def invalid(count: int) -> str:
    return f"{plural(count, 'error')} in the eval files or the configuration"


def part(part: int, total: int, runs: int, count: int, remedy: str) -> str:
    if not runs:
        state = "it has no cases, since there are more parts than cases"
    elif count:
        do = "record their tools again" if remedy == "tools" else "run this job again"
        state = f"{count:,} of {plural(runs, 'run')} could not be judged: {do}"
    else:
        state = f"{every(runs, 'run')} {'was' if runs == 1 else 'were'} judged"
    return f"part {part} of {total}; `agent-eval merge` decides; {state}"


def unpriced(models: Sequence[str]) -> str:
    names = listed([name or "a model without a name" for name in models], _MOST_AGENTS)
    what = "whose price is unknown: add it" if len(models) == 1 else "whose prices are unknown: add them"
    return f"`max-cost` does not include {names}, {what} to `[prices]`"


def part_repeated(part: int, total: int, count: int) -> str:
    return (
        f"Part {part} of {total} was repeated: {plural(count, 'run')} that its first attempt could not "
        f"judge {'was' if count == 1 else 'were'} taken from a later one. A judged run is never replaced"
    )


def replayed(count: int, total: int, calls: int, cost: float = 0.0) -> str:
    cases = every(total, "case") if count == total else f"{count:,} of {plural(total, 'case')}"
    price = f" (about ${cost:.2f})" if cost >= 0.005 else ""
    were = "was" if count == 1 else "were"
    saved = f"{plural(calls, 'model call')} saved{price}"
    return f"{cases[0].upper()}{cases[1:]} {were} replayed from recordings: {saved}"


def answered_by_hand(count: int, cases: Sequence[str]) -> str:
    where = f"{plural(len(cases), 'case')} ({listed(cases, MOST_NAMES)})"
    return f"{plural(count, 'tool call')} in {where} answered by hand: no tool ran"


RAN_LIVE = " ran live ("
RAISED = ", which raised "


def not_replayed(cases: Sequence[str], message: str = "") -> str:
    why = f": {message}" if message else ", for other reasons"
    return f"{plural(len(cases), 'case')}{RAN_LIVE}{listed(cases, MOST_NAMES)}){why}"


def tapes_old(cases: Sequence[str], days: int) -> str:
    which = f"The tape of {cases[0]} is" if len(cases) == 1 else f"{len(cases):,} tapes are old: that of {cases[0]} is"
    return f"{which} {plural(days, 'day')} old. Record again, models change"


def tapes_of_unknown_model(models: Sequence[str], cases: Sequence[str]) -> str:
    recorded = f"{plural(len(cases), 'replayed case was', 'replayed cases were')} recorded with it"
    return f"The provider does not know {models[0]} (404). {recorded}: {listed(cases, MOST_NAMES)}"


def attempts_counted(count: int) -> str:
    return (
        f"What {plural(count, 'earlier attempt')} to test this commit measured counts as well: starting the job again "
        "does not erase a regression"
    )


def history_unread(message: str) -> str:
    return f"The history of earlier runs could not be read, so it begins again with this run: {message.rstrip('.')}"


def attempts_unknown(message: str) -> str:
    return (
        f"Whether this job has earlier attempts can't be read: {message.rstrip('.')}. So every case runs twice more, "
        "as far as `max-extra-runs` allows"
    )


def attempts_missing(message: str = "") -> str:
    why = f" ({message.rstrip('.')})" if message else ": upload results, and let the token read artifacts"
    return (
        f"The results of this job's earlier attempts are unavailable{why}. So every case runs twice more, "
        "as far as `max-extra-runs` allows"
    )


def uncommitted(subject: str, files: Sequence[str]) -> str:
    return f"Tested with changes that are not in the commit {subject}: {listed(files, MOST_NAMES)}"


def queue_taken(message: str) -> str:
    return (
        f"The merge queue has tested these files ({message}): its results are the record. Nothing ran again; what it "
        "cost was paid there"
    )


def queue_unread(message: str) -> str:
    return f"Whether the merge queue has tested these files could not be read, so everything ran: {message}"


def queue_not_taken(message: str) -> str:
    return f"The merge queue has tested these files, and everything ran again since its run does not fit: {message}"


def runs_reused(count: int) -> str:
    return f"{plural(count, 'run')} taken from the journal of an earlier run"


def toolset_lost(owner: str, subject: str, message: str, cases: Sequence[str] = ()) -> str:
    runs = f"{listed(cases, MOST_NAMES)}; " if cases else ""
    return f"{owner or 'The agent'} ran without the tools of {subject}{RAISED}{message} ({runs}see its log)"


def died_with_others(cases: Sequence[str], before: Sequence[str]) -> str:
    runs = plural(len(cases), "run that does not end it alone", "runs that do not end it alone")
    return (
        f"The agent's process died or hung in {runs}: {listed(cases, MOST_NAMES)}. What ran there before or beside it, "
        f"the latest first: {listed(before, MOST_NAMES)}"
    )


def tool_rule_misspelt(wanted: str, got: str, line: int = 0) -> str:
    where = f"agent-eval.toml:{line}" if line else "agent-eval.toml"
    return f"{where}: the `[[tool]]` `{wanted}` holds for no tool that an agent has. Did you mean `{got}`?"


def tool_misspelt(wanted: str, got: str, cases: Sequence[str]) -> str:
    where = f"{plural(len(cases), 'case')} ({listed(cases, MOST_NAMES)})"
    return f"Rules or expected calls name the tool `{wanted}`, which no agent seen in {where} has: write `{got}`?"
