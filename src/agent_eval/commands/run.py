"""`agent-eval run` and `agent-eval action`: finds out what the run is about, takes the road, tells everybody."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_eval.core.problem import Problem, Severity, has_error

if TYPE_CHECKING:
    from types import EllipsisType

    from agent_eval.pipeline import CIContext, Outcome, RunContext
    from agent_eval.runner import Progress
    from agent_eval.settings import Settings


class ReadSettings(Protocol):
    """Reads the settings of all sources, with another text of agent-eval.toml than the checkout's if one is given."""

    def __call__(self, text: str | EllipsisType | None = ...) -> tuple[Settings, list[Problem]]:
        """As `settings.read_settings`."""
        ...


@dataclass(frozen=True, kw_only=True)
class World:
    """What the command line hands on."""

    environ: Mapping[str, str]
    say: Callable[[str], None]
    """A line for the log."""
    show: Callable[[str], None]
    """The result."""
    terminal_width: int | None = None
    """Columns; None where nobody watches."""
    watched: bool = False
    """Whether progress can be drawn."""

    @property
    def on_github(self) -> bool:
        """Whether a runner of GitHub Actions reads what we print."""
        return self.environ.get("GITHUB_ACTIONS") == "true"


def gate(read: ReadSettings, world: World) -> int:
    """Runs the gate.

    Returns:
        The exit code.
    """
    from agent_eval.pipeline import detect_ci_context, for_artifact, pipeline

    settings, problems = read()
    # Also where something is wrong: the pull request has to hear of it.
    ci, refused = detect_ci_context(settings, world.environ, world.say)
    problems += refused
    if world.on_github:
        world.say(f"agent-eval: {ci.activity.explanation}")
    if ci.activity.kind == "publish" and not has_error(problems):
        return _publish(settings, ci, world)
    settings, problems, warnings = _by_the_bases_rules(read, settings, problems, ci)
    ci = for_artifact(ci, settings.artifact_name)
    context = dataclasses.replace(_clients(world, ci), warnings=tuple(warnings))
    with _own_output(settings) as (settings, blocked):
        problems += blocked
        if has_error(problems):
            # Even then the files and outputs that later steps wait for are there.
            outcome = pipeline.invalid(settings, context, problems)
        else:
            settings = _resolved(settings, ci)
            with _telling_progress(world) as tell:
                outcome = _with_signals(settings, dataclasses.replace(context, progress=tell))
        try:
            _tell(outcome, settings, world)
        except Exception as error:  # The verdict doesn't depend on being told, and the comment may still tell it.
            world.say(f"agent-eval: the result could not be shown: {type(error).__name__}: {error}")
    _comment(outcome, settings, ci, warnings, world)
    assert outcome.report.exit_code is not None  # `outcome.write` sets it.
    return outcome.report.exit_code


def _by_the_bases_rules(
    read: ReadSettings, settings: Settings, problems: list[Problem], ci: CIContext
) -> tuple[Settings, list[Problem], list[str]]:
    """The settings with the base branch's agent-eval.toml where a pull request is judged, and what to tell of it."""
    from agent_eval.pipeline import change_warnings, gating_files_changed, rules
    from agent_eval.settings import CONFIG_FILE

    if ci.activity.kind != "compare":
        return settings, problems, []
    warnings = []
    found = rules(ci, settings.root, CONFIG_FILE)
    if found.notice:
        warnings.append(found.notice)
        others, wrong = read(found.text)
        if has_error(problems):
            # Nothing is run, but how that is told isn't for a broken file to say.
            settings = others
        elif has_error(wrong):
            # The pull request may be about to mend them.
            warnings = [f"{CONFIG_FILE} of the base branch can't be used, so that of this pull request was applied."]
        else:
            today = datetime.now(UTC).date()
            policy = others.policy.instead_of(settings.policy, today)
            settings, problems = dataclasses.replace(others, policy=policy), wrong
    return settings, problems, warnings + change_warnings(gating_files_changed(ci, settings))


@contextlib.contextmanager
def _own_output(settings: Settings) -> Iterator[tuple[Settings, list[Problem]]]:
    """The settings while the output directory is ours alone: with another one where a symbolic link, a file or another
    gate is in its place.
    """
    import tempfile

    from agent_eval.results import DEFAULT, InUse, file_in, link_in, locked, relative, why_unwritable

    hint = "Remove it from the repository, or name another `output-dir`."
    with contextlib.ExitStack() as stack:
        if (link := link_in(settings.output, settings.root.absolute())) is not None:
            message = f"{relative(link, settings.root)} is a symbolic link: results would be written elsewhere."
            problem = Problem(severity=Severity.ERROR, code="output-dir-linked", message=message, hint=hint)
        elif (file := file_in(settings.output)) is not None:
            message = f"{relative(file, settings.root)} is a file: no results can be written there."
            problem = Problem(severity=Severity.ERROR, code="setting-invalid", message=message, hint=hint)
        else:
            try:
                stack.enter_context(locked(settings.output))
            except InUse as used:
                where = relative(settings.output, settings.root)
                message = f"{where} is in use by another agent-eval (process {used.holder})."
                hint = "Wait until it has ended, or give this run another `--output-dir`."
                problem = Problem(severity=Severity.ERROR, code="output-dir-in-use", message=message, hint=hint)
            except PermissionError:
                where = relative(settings.output, settings.root)
                message = f"{where} can't be written: {why_unwritable(settings.output)}"
                hint = "Name another --output-dir, or give that user the permission to write there."
                problem = Problem(severity=Severity.ERROR, code="output-dir-unwritable", message=message, hint=hint)
            else:
                yield settings, []
                return
        fresh = Path(tempfile.mkdtemp(prefix=f"{DEFAULT}-", dir=settings.root))
        fresh.chmod(0o755)
        stack.enter_context(locked(fresh))
        yield dataclasses.replace(settings, output_dir=fresh.relative_to(settings.root)), [problem]


def _resolved(settings: Settings, ci: CIContext) -> Settings:
    """With the settings that depend on who asks."""
    if settings.without_keys != "auto":
        return settings
    if ci.activity.secrets_withheld:
        return dataclasses.replace(settings, without_keys="deterministic-only")
    return dataclasses.replace(settings, without_keys="invalid")


def _clients(world: World, ci: CIContext) -> RunContext:
    from agent_eval.pipeline import RunContext

    server, repository, commit = (world.environ.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "SHA"))
    known = f"{server}/{repository}/blob/{commit}" if server and repository and commit else None
    return RunContext(
        environ=world.environ,
        log=world.say,
        source_url=ci.source_url or known,
        provenance={"commit": commit} if commit else {},
        ci=ci,
    )


def _with_signals(settings: Settings, context: RunContext) -> Outcome:
    """Runs the pipeline; the first SIGTERM, SIGINT or SIGHUP ends it early, with what there is."""
    import asyncio
    import signal

    from agent_eval.pipeline import pipeline

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)

    async def run() -> Outcome:
        loop = asyncio.get_running_loop()
        for number in numbers:
            loop.add_signal_handler(number, context.stop.set)
        try:
            return await pipeline.run(settings, context)
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    return asyncio.run(run())


@contextlib.contextmanager
def _telling_progress(world: World) -> Iterator[Callable[[Progress], None]]:
    import sys

    from agent_eval.report.renderers import live_progress, plain_progress

    with contextlib.ExitStack() as stack:
        tell = stack.enter_context(live_progress(sys.stderr)) if world.watched else plain_progress(world.say)
        yield lambda state: tell(state.done, state.total, {str(name): count for name, count in state.counts.items()})


def _tell(outcome: Outcome, settings: Settings, world: World) -> None:
    """Tells the outcome on the console, and to GitHub when it listens."""
    from agent_eval.report.renderers import console
    from agent_eval.results import relative

    files = {name: relative(path, settings.root) for name, path in outcome.files.items()}
    color = world.terminal_width is not None and "NO_COLOR" not in world.environ
    labels = {name.removesuffix("-file"): path for name, path in files.items()}
    width = min(world.terminal_width or 110, 160)
    text = console(outcome.report, width=width, color=color, files=labels)
    if settings.details == "all":
        text = _every_case(settings, width, color=color) + text
    if not world.on_github:
        world.show(text)
        return
    from agent_eval.report.renderers import annotation_commands, github_outputs, stop_commands

    _append("GITHUB_OUTPUT", github_outputs(outcome.report, files, secrets.token_hex(16)), world)
    _append("GITHUB_STEP_SUMMARY", outcome.files["summary-file"].read_text("utf-8"), world)
    world.show(stop_commands(text, secrets.token_hex(16)) + "\n".join(annotation_commands(outcome.report)))


def _every_case(settings: Settings, width: int, *, color: bool) -> str:
    """All cases as `agent-eval show` prints them."""
    from agent_eval.baseline import UnreadableError
    from agent_eval.commands.show import Request, show

    try:
        return show(Request(results=settings.output, every=True), settings.root, width=width, color=color) + "\n"
    except UnreadableError as error:
        return f"--details all: {error}\n"


def _comment(outcome: Outcome, settings: Settings, ci: CIContext, warnings: Sequence[str], world: World) -> None:
    """Writes the pull request's comment. Whatever happens on the way, the verdict stands."""
    from agent_eval.commands.publish import comment

    try:
        posted = comment(outcome.report, settings, ci, warnings)
    except Exception as error:
        world.say(f"agent-eval: the comment could not be written: {type(error).__name__}: {error}")
        return
    if posted is None:
        return
    world.say(f"agent-eval: {posted.message}")
    if posted.kind == "forbidden" and world.on_github:
        world.show(_notice("No comment", f"{posted.message} The job summary says everything."))
    if posted.overwrites and world.on_github:
        world.show(_notice("One comment, several jobs", posted.message))
    if posted.url is not None:
        _append("GITHUB_OUTPUT", _output("comment-url", posted.url), world)


def _publish(settings: Settings, ci: CIContext, world: World) -> int:
    from agent_eval.commands.publish import publish

    done = publish(settings, ci)
    world.say(f"agent-eval: {done.message}")
    if not done.ok:
        world.show(_notice("Nothing was published", done.message))
    if done.url is not None:
        _append("GITHUB_OUTPUT", _output("comment-url", done.url), world)
    return 0 if done.ok else 1


def _notice(title: str, message: str) -> str:
    from agent_eval.report.renderers import notice_command

    return notice_command(title, message)


def _output(name: str, value: str) -> str:
    from agent_eval.report.renderers import one_output

    return one_output(name, value, secrets.token_hex(16))


def _append(variable: str, text: str, world: World) -> None:
    """Appends to a file command. If that fails, the verdict stands all the same."""
    if path := world.environ.get(variable):
        try:
            with Path(path).open("a", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            world.say(f"agent-eval: {variable} could not be written: {error}")
