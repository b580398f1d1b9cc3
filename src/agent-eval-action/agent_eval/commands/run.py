"""`agent-eval run` and `agent-eval action`: runs the gate and reports its result."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import importlib
import logging
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.commands import CliIO
from agent_eval.commands.start import log_problems, log_start_directory, settings_of
from agent_eval.pipeline import (
    CIContext,
    RunContext,
    change_warnings,
    deciding_files,
    detect_ci_context,
    for_artifact,
    gating_files_changed,
    rules,
)
from agent_eval.settings import CONFIG_FILE, Settings
from agent_eval_results import DEFAULT, InUse, file_in, link_in, locked, relative, why_unwritable
from agent_eval_scoring.core.problem import Problem, Severity, errors_of, has_error

if TYPE_CHECKING:
    from agent_eval.commands.publish import Published
    from agent_eval.forge import Posted
    from agent_eval.pipeline import Outcome
    from agent_eval.runner import Progress
    from agent_eval.settings.parsers import Shard

_LOG = logging.getLogger(__name__)
_EVERY = 5.0
"""Seconds between lines about the progress."""


_Read = functools.partial[tuple[Settings, list[Problem]]]
"""`settings_of`, which may be asked for another `text` of agent-eval.toml."""


def execute(arguments: argparse.Namespace, io: CliIO) -> int:
    """Runs the command and returns its exit code."""
    if not hasattr(os, "geteuid"):
        io.log("agent-eval: `run` needs Linux or macOS. On Windows, use WSL or the container image (see README.md).")
        io.log("`validate`, `compare` and `flaky` work on Windows.")
        return 2
    if not arguments.from_inputs:
        log_start_directory(io)
    inputs = io.environ if arguments.from_inputs else None
    # A job's later steps and a caller in Python read the files of this run, and must not find those of the one before.
    files_are_read = io.in_ci or io.on_github or getattr(arguments, "from_python", False)
    if getattr(arguments, "threshold", []) and io.in_ci:
        io.log(
            "agent-eval: --threshold is for trials on your machine. In CI, thresholds are those of test_config.json."
        )
        return 2
    read = functools.partial(settings_of, arguments, io, inputs=inputs)
    verbosity = getattr(arguments, "verbose", 0) or (2 if io.environ.get("RUNNER_DEBUG") == "1" else 0)
    if verbosity > 1:
        _log_decisions(io)
    return _gate(read, io, yes=getattr(arguments, "yes", False), verbose=verbosity > 0, files_are_read=files_are_read)


def _log_decisions(io: CliIO) -> None:
    """Prints what the gate's modules log for its maintainers. Texts in it are masked where they enter."""

    class Printed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            io.log(f"{record.name.removeprefix('agent_eval.')}: {record.getMessage()}")

    ours = logging.getLogger("agent_eval")
    ours.handlers[:] = [Printed()]
    ours.setLevel(logging.DEBUG)
    ours.propagate = False


def _gate(read: _Read, io: CliIO, *, yes: bool, verbose: bool, files_are_read: bool) -> int:
    settings, problems = read()
    warned = [each for each in problems if each.severity is Severity.WARNING]
    notes = [
        " ".join(filter(None, (each.location and f"{each.location}:", each.message, each.hint))) for each in warned
    ]
    # Invalid settings, too, are reported in the pull request.
    ci, ci_problems = detect_ci_context(settings, io.environ, io.log)
    problems += ci_problems
    if ci.event.name and settings.mode != "link" and ci.activity.kind != "refuse":  # A refusal is a problem.
        io.log(f"agent-eval: {ci.activity.explanation}")
    if ci.activity.kind == "publish" and settings.mode != "link" and not has_error(problems):
        from agent_eval.commands import publish

        return _published(publish.publish(settings, ci), io, otherwise="Nothing was published")
    settings, problems, warnings = _with_base_rules(read, settings, problems, ci)
    for name, source in settings.sources.items():
        _LOG.debug("setting %s: from %s", name, source)
    request = ci.baseline_request
    _LOG.debug("%s: %s", ci.activity.kind, ci.activity.explanation)
    _LOG.debug("compared with %s", "nothing" if request is None else f"{request.commit} ({request.how})")
    warnings = [*notes, *warnings]
    for warning in warnings:
        io.log(f"agent-eval: {warning}")
    if settings.mode == "link":
        return _link(settings, ci, problems, warnings, io)
    if settings.record != "off" and not yes:
        from agent_eval.pipeline import recording_refused

        problems += recording_refused(settings.record, settings.replay, ci, in_ci=io.in_ci)
    ci = for_artifact(ci, settings.artifact)
    context = dataclasses.replace(_run_context(io, ci), warnings=tuple(warnings), files_are_read=files_are_read)
    parts = settings.shards if settings.merges else ()
    with _exclusive_output(settings.root, settings.output_dir, parts) as (output_dir, output_problems):
        settings = dataclasses.replace(settings, output_dir=output_dir)
        problems += output_problems
        if has_error(problems):
            # Later steps need the files and outputs of this run, too.
            from agent_eval.pipeline import pipeline

            outcome = pipeline.invalid(settings, context, problems)
        else:
            if settings.without_keys == "auto":
                withheld = ci.activity.secrets_withheld
                settings = dataclasses.replace(settings, without_keys="deterministic-only" if withheld else "invalid")
            with _progress(io) as report_progress:
                context = dataclasses.replace(context, progress=report_progress)
                outcome = _with_signals(functools.partial(_run, settings, context), context.stop)
        try:
            _report(outcome, settings.shard, settings.root, settings.output, io, verbose=verbose)
        except Exception as error:  # The exit code doesn't depend on the report, and the comment can still be written.
            io.log(f"agent-eval: the result could not be shown: {type(error).__name__}: {error}")
    if settings.shard is None:  # A part of a run has no comment.
        from agent_eval.commands import publish

        post = functools.partial(publish.comment, outcome.report, settings, ci, warnings, memory=outcome.memory)
        _comment(post, io)
    assert outcome.report.exit_code is not None  # `outcome.write` sets it.
    return outcome.report.exit_code


def _with_base_rules(
    read: _Read, settings: Settings, problems: list[Problem], ci: CIContext
) -> tuple[Settings, list[Problem], list[str]]:
    """For a pull request and with `base-ref`, the settings with the base branch's agent-eval.toml, the problems, and
    warnings.
    """
    if not ci.held_to_base:
        return settings, problems, []
    warnings = []
    base = rules(ci, settings.root, CONFIG_FILE)
    if base.notice:
        warnings.append(base.notice)
        base_settings, base_problems = read(text=base.text)
        if has_error(problems):
            # Nothing is run. An invalid file of the pull request must not decide how that is reported.
            settings = base_settings
        elif has_error(base_problems):
            # The pull request may fix the base branch's file.
            warnings = [
                f"{CONFIG_FILE} of the base branch can't be used, so that of {ci.checkout_name.lower()} was applied."
            ]
        else:
            today = datetime.now(UTC).date()
            policy = base_settings.policy.instead_of(settings.policy, today)
            settings, problems = dataclasses.replace(base_settings, policy=policy), base_problems
    changed = gating_files_changed(ci, settings.root, deciding_files(settings))
    return settings, problems, warnings + change_warnings(changed, ci.event.change)


@contextlib.contextmanager
def _exclusive_output(root: Path, output_dir: Path, parts: tuple[str, ...]) -> Iterator[tuple[Path, list[Problem]]]:
    """Locks the output directory. If that is impossible, it is a temporary one, and there is an error.

    Args:
        root: The repository.
        output_dir: The output directory as it is configured.
        parts: The directories that a merge reads, and must not write to.
    """
    output = root.absolute() / output_dir
    hint = "Remove it from the repository, or name another `output-dir`."
    with contextlib.ExitStack() as stack:
        if (link := link_in(output, root.absolute())) is not None:
            message = f"{relative(link, root)} is a symbolic link: results would be written elsewhere."
            problem = Problem(code="output-dir-linked", message=message, hint=hint)
        elif (file := file_in(output)) is not None:
            message = f"{relative(file, root)} is a file: no results can be written there."
            problem = Problem(code="setting-invalid", message=message, hint="Name a directory as `output-dir`.")
        elif parts and (refused := _overwritten(parts, output, root)) is not None:
            problem = refused
        else:
            try:
                stack.enter_context(locked(output))
            except InUse as used:
                where = relative(output, root)
                message = f"{where} is in use by another agent-eval (process {used.holder})."
                hint = "Wait until it has ended, or give this run another `--output-dir`."
                problem = Problem(code="output-dir-in-use", message=message, hint=hint)
            except PermissionError:
                where = relative(output, root)
                message = f"{where} can't be written: {why_unwritable(output)}"
                hint = "Name another --output-dir, or give that user the permission to write there."
                problem = Problem(code="output-dir-unwritable", message=message, hint=hint)
            else:
                yield output_dir, []
                return
        try:
            fresh = Path(tempfile.mkdtemp(prefix=f"{DEFAULT}-", dir=root))
        except OSError as error:  # Nor can anything be written here: what the user asked for is what to say.
            raise OSError(f"{problem.message} {problem.hint}") from error
        fresh.chmod(0o755)
        stack.enter_context(locked(fresh))
        yield fresh.relative_to(root), [problem]


def _overwritten(shards: tuple[str, ...], output: Path, root: Path) -> Problem | None:
    from agent_eval.pipeline.shards.parts import overwritten_part  # Only a merge needs it.

    return overwritten_part(shards, output, root)


def _run_context(io: CliIO, ci: CIContext) -> RunContext:
    server, repository, commit = (io.environ.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "SHA"))
    source_url = f"{server}/{repository}/blob/{commit}" if server and repository and commit else None
    return RunContext(
        environ=io.environ,
        log=io.log,
        source_url=ci.source_url or source_url,
        provenance={"commit": commit} if commit else {},
        ci=ci,
    )


async def _run(settings: Settings, context: RunContext) -> Outcome:
    async with contextlib.AsyncExitStack() as stack:
        if not settings.merges:  # Most merges start no agent.
            from agent_eval.pipeline.early import starting_early

            context = await stack.enter_async_context(starting_early(settings, context))
        if context.early is not None and context.early.environment is not None:  # It goes on meanwhile.
            await asyncio.to_thread(importlib.import_module, "agent_eval.pipeline.pipeline")
        from agent_eval.pipeline import pipeline

        return await pipeline.run(settings, context)


def _with_signals(evaluate: Callable[[], Coroutine[None, None, Outcome]], stop: asyncio.Event) -> Outcome:
    """Runs the pipeline. The first SIGTERM, SIGINT or SIGHUP stops it; finished runs are reported."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)

    async def run() -> Outcome:
        loop = asyncio.get_running_loop()
        for number in numbers:
            loop.add_signal_handler(number, stop.set)
        try:
            return await evaluate()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    return asyncio.run(run())


@contextlib.contextmanager
def _progress(io: CliIO) -> Iterator[Callable[[Progress], None]]:
    """Shows the progress of a run: a bar on a terminal, a plain line every five seconds in a CI log."""
    if io.interactive:
        from rich import progress
        from rich.console import Console

        columns = (progress.BarColumn(bar_width=30), progress.TextColumn("{task.description}"))
        console = Console(file=sys.stderr)
        with progress.Progress(*columns, progress.TimeElapsedColumn(), console=console, transient=True) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda state: bar.update(
                task, completed=state.done, total=state.total, description=_progress_line(state)
            )
        return
    last = time.monotonic()

    def update(state: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY and state.done < state.total:
            last = time.monotonic()
            io.log(_progress_line(state))

    yield update


def _progress_line(state: Progress) -> str:
    """`12 of 50 runs: 10 passed, 2 failed`."""
    ended = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in state.counts.items() if count)
    return f"{state.done:,} of {state.total:,} runs" + (f": {ended}" if ended else "")


def _report(outcome: Outcome, shard: Shard | None, root: Path, output: Path, io: CliIO, *, verbose: bool) -> None:
    """Prints the result, and writes the outputs, annotations and summary of a GitHub Actions step."""
    from agent_eval_results.report.renderers import (
        annotation_commands,
        console,
        github_outputs,
        part_summary,
        stop_commands,
    )

    files = {name: relative(path, root) for name, path in outcome.files.items()}
    labels = {name.removesuffix("-file"): path for name, path in files.items()}
    attended = not io.environ.get("CI")
    text = console(outcome.view, width=io.width, color=io.color, files=labels, verbose=verbose, attended=attended)
    if verbose and files:
        text = _all_cases(output, root, io) + text
    if not io.on_github:
        io.print_result(text)
        return
    _append("GITHUB_OUTPUT", github_outputs(outcome.report, files, secrets.token_hex(16)), io)
    if shard is not None:  # The merge reports all parts.
        _append("GITHUB_STEP_SUMMARY", part_summary(outcome.report), io)
        io.print_result(stop_commands(text, secrets.token_hex(16)))
        return
    if "summary-file" in outcome.files:  # A full disk has no room for it, and the log must still have the verdict.
        _append("GITHUB_STEP_SUMMARY", outcome.files["summary-file"].read_text("utf-8"), io)
    io.print_result(stop_commands(text, secrets.token_hex(16)) + "\n".join(annotation_commands(outcome.view)))


def _all_cases(output: Path, root: Path, io: CliIO) -> str:
    """All cases in the format of `agent-eval show`."""
    from agent_eval.baseline.reader import UnreadableError
    from agent_eval.commands import show

    request = show.Request(results=output, every=True)
    try:
        return show.show(request, root, width=io.width, color=io.color) + "\n"
    except UnreadableError as error:
        return f"agent-eval: {error}\n"


def _comment(post: Callable[[], Posted | None], io: CliIO) -> None:
    """Writes the pull request's comment. A failure does not change the verdict."""
    from agent_eval_results.report.renderers import notice_command, one_output

    try:
        posted = post()
    except Exception as error:
        io.log(f"agent-eval: the comment could not be written: {type(error).__name__}: {error}")
        return
    if posted is None:
        return
    io.log(f"agent-eval: {posted.message}")
    if posted.kind == "forbidden" and io.on_github:
        io.print_result(notice_command("No comment", f"{posted.message} The job summary has the full report."))
    if posted.overwrites and io.on_github:
        io.print_result(notice_command("One comment, several jobs", posted.message))
    if posted.url is not None:
        _append("GITHUB_OUTPUT", one_output("comment-url", posted.url, secrets.token_hex(16)), io)


def _link(settings: Settings, ci: CIContext, problems: Sequence[Problem], warnings: Sequence[str], io: CliIO) -> int:
    from agent_eval.commands import publish

    url = io.environ.get(publish.REPORT_URL, "").strip()
    problems = [*problems, *publish.link_problems(url, settings.artifact, ci)]
    if has_error(problems):
        log_problems(errors_of(problems), io)
        return 2
    return _published(publish.link(url, settings, ci, warnings), io)


def _published(published: Published, io: CliIO, *, otherwise: str = "") -> int:
    """Shows what was published, and returns the exit code; `otherwise` is the title of an error."""
    from agent_eval_results.report.renderers import notice_command, one_output

    io.log(f"agent-eval: {published.message}")
    if otherwise and not published.ok:
        io.print_result(notice_command(otherwise, published.message))
    if published.summary:
        _append("GITHUB_STEP_SUMMARY", published.summary, io)
    if published.url is not None:
        _append("GITHUB_OUTPUT", one_output("comment-url", published.url, secrets.token_hex(16)), io)
    return 0 if published.ok else 1


def _append(variable: str, text: str, io: CliIO) -> None:
    """Appends to the file that a variable names. A failure does not change the verdict."""
    if path := io.environ.get(variable):
        try:
            with Path(path).open("a", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            io.log(f"agent-eval: {variable} could not be written: {error}")
