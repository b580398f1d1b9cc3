"""What a run is about: the event that started it, the checkout, and the commit that it is compared with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_eval.agents.discovery import RECORDED
from agent_eval.baseline import ORIGIN, FetchFailed, Git, GitError, Remote, Wanted, find_wanted, open_git, told
from agent_eval.core.files import MAX_SETTINGS, read_regular
from agent_eval.core.problem import Problem, Severity
from agent_eval.github import Activity, Event, EventError, GitHubError, activity, read_event
from agent_eval.results import JOURNAL, Origin

if TYPE_CHECKING:
    from agent_eval.github import GitHub
    from agent_eval.settings import Settings

_SMALL = 1_000_000
"""Bytes of agent-eval.toml that are read from another commit."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Everything that is known before anything is looked for."""

    event: Event
    activity: Activity
    origin: Origin
    git: Git | GitError
    """The checkout, or why there is none."""
    github: GitHub | None
    """None outside of GitHub."""
    remote: Remote = ORIGIN
    """Where to get commits from that are not in the checkout."""
    wanted: Wanted | None = None
    """What to compare with; for a run that records, whose history to go on with."""
    unwanted: str = ""
    """Why there is nothing to compare with, as a sentence; "" when nobody would expect a comparison."""

    @property
    def compares(self) -> bool:
        """Whether there should be a comparison."""
        return self.activity.kind == "compare" or (self.activity.kind != "record" and self.wanted is not None)

    @property
    def source_url(self) -> str | None:
        """Where the tested files can be browsed."""
        commit = self.origin.head_commit or self.origin.commit
        if not (self.event.name and self.event.repository and commit):
            return None
        return f"{self.event.server_url}/{self.event.repository}/blob/{commit}"


NOWHERE = Situation(
    event=Event(),
    activity=Activity(kind="gate", explanation="Nothing is known of the run."),
    origin=Origin(),
    git=GitError("Nobody looked for a checkout."),
    github=None,
)
"""For callers that have no event and compare with nothing."""


def survey(
    settings: Settings, environ: Mapping[str, str], log: Callable[[str], None] = lambda _: None
) -> tuple[Situation, list[Problem]]:
    """Finds out what a run is about. Asks git, and GitHub where git can't know.

    Args:
        settings: As given; none of those that are looked at can stand in agent-eval.toml.
        environ: Where GitHub's variables are.
        log: Told about long waits.

    Returns:
        The situation, and what forbids the run.
    """
    try:
        event = read_event(environ)
    except EventError as error:
        return NOWHERE, [
            _error("event-unreadable", str(error), "Run it as a step of GitHub Actions, or outside of it.")
        ]
    found = activity(
        event,
        mode=settings.mode,
        allow_unsafe_pull_request_target=settings.allow_pull_request_target,
        base_branches=settings.base_branches,
    )
    git: Git | GitError
    head = None
    try:
        git = open_git(settings.root, environ)
        head = git.commit("HEAD")
    except GitError as error:
        git = error
    situation = Situation(
        event=event, activity=found, origin=_origin(event, found, head), git=git, github=_github(settings, event, log)
    )
    if found.kind == "refuse":
        return situation, [_error("event-refused", found.explanation, None)]
    situation = replace(situation, remote=_remote(settings, event))
    return _with_wanted(situation, settings)


def _error(code: str, message: str, hint: str | None) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, hint=hint)


def _github(settings: Settings, event: Event, log: Callable[[str], None]) -> GitHub | None:
    if not event.name or event.repository is None:
        return None
    from agent_eval.github import GitHub

    token = settings.github_token or ""
    try:
        return GitHub(api_url=event.api_url, repository=event.repository, token=token, log=log)
    except GitHubError as error:
        log(f"agent-eval: GitHub is not asked for anything: {error}")
        return None


def _remote(settings: Settings, event: Event) -> Remote:
    if not event.name or event.repository is None or settings.github_token is None:
        return ORIGIN
    return Remote(url=f"{event.server_url}/{event.repository}", token=settings.github_token)


def _origin(event: Event, found: Activity, head: str | None) -> Origin:
    pull_request = found.pull_request
    commit = head or found.commit or ""
    return Origin(
        repository=event.repository or "",
        commit=commit,
        ref=event.ref or "",
        event=event.name,
        base_commit=found.base_commit,
        pull_request=None if pull_request is None else pull_request.number,
        head_commit=None if pull_request is None else pull_request.head_sha,
        workflow=event.workflow_path or "",
        run_id=event.run_id,
        run_attempt=event.run_attempt,
        run_url=event.run_url,
    )


def _with_wanted(situation: Situation, settings: Settings) -> tuple[Situation, list[Problem]]:
    """The situation with the commit to compare with. A `base-ref` that is not there forbids the run: without it the
    thresholds alone would decide, and nobody asked for that.
    """
    asked = settings.base_ref is not None or settings.baseline not in {"auto", "none"}
    if situation.activity.kind not in {"compare", "record"} and not asked:
        return situation, []
    found = find_wanted(
        situation.event,
        situation.activity,
        git=situation.git,
        github=situation.github,
        artifact=settings.artifact_name,
        base_ref=settings.base_ref if situation.activity.kind not in {"compare", "record"} else None,
    )
    if isinstance(found, FetchFailed):
        named = settings.base_ref is not None and found.by_name
        problems = [_error("base-ref-not-found", f"base-ref: {found.message}", found.hint)] if named else []
        return replace(situation, unwanted=told(found)), problems
    base = found.commit if situation.activity.kind != "record" else None
    return replace(situation, wanted=found, origin=situation.origin.model_copy(update={"base_commit": base})), []


def for_artifact(situation: Situation, name: str) -> Situation:
    """The same, with the artifact that the settings which hold name: the base's on a pull request."""
    wanted = situation.wanted
    return situation if wanted is None else replace(situation, wanted=replace(wanted, artifact=name))


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The text of `agent-eval.toml` that holds for this run."""

    text: str | None
    """None: there is no such file."""
    notice: str = ""
    """What the reader of the comment must know about it; "" if nothing."""


def rules(situation: Situation, root: Path, name: str) -> Rules:
    """The rules of the base branch on a pull request, else those of the checkout: no proposal judges itself.

    Args:
        situation: What the run is about.
        root: The directory that agent-eval works in.
        name: The file's name.
    """
    own = _own_text(root / name)
    if situation.activity.kind != "compare":
        return Rules(text=own)
    try:
        data = _file_at(situation, _ruling_commit(situation), name)
        text = None if data is None else data.decode("utf-8")
    except (GitError, GitHubError, UnicodeDecodeError) as error:
        said = getattr(error, "message", "it is not UTF-8.")
        held = f"{name} of this pull request itself was applied" if own is not None else "The gate's defaults hold"
        return Rules(text=own, notice=f"{held}, since the base's can't be read: {said}")
    there = (root / name).exists()
    if text == own and (there or own is None):
        return Rules(text=own)
    what = "adds" if text is None else "changes" if there else "removes"
    held = "the defaults" if text is None else "those of the base branch"
    return Rules(text=text, notice=f"This pull request {what} {name}, the gate's own rules. Applied were {held}.")


def _own_text(path: Path) -> str | None:
    """What the checkout's own file says; None where there is none, or none that is text."""
    try:
        return read_regular(path, MAX_SETTINGS).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _ruling_commit(situation: Situation) -> str:
    """The tip of the base branch: where a pull request branches off is its author's choice.

    Raises:
        GitError: Nobody knows it.
    """
    about, wanted = situation.activity, situation.wanted
    head_itself = about.pull_request is not None and situation.origin.commit == about.pull_request.head_sha
    if wanted is not None and not head_itself:
        return wanted.commit
    if about.base_commit is None:
        raise GitError("the base's commit is not known.")
    return about.base_commit


def _file_at(situation: Situation, commit: str, name: str) -> bytes | None:
    git = situation.git
    if isinstance(git, Git):
        try:
            git.need(commit, situation.remote)
            entry = git.entry(commit, git.prefix / PurePosixPath(name))
            if entry is None:
                return None
            if entry.size is None or entry.size > _SMALL or not entry.mode.startswith("100"):
                raise GitError(f"{name} is not a small regular file there.")
            return git.blob(entry.blob)
        except GitError:
            if situation.github is None:
                raise
    if situation.github is None:
        raise GitError("there is no git checkout.")
    from agent_eval.github import file_at

    prefix = git.prefix if isinstance(git, Git) else PurePosixPath()
    return file_at(situation.github, (prefix / name).as_posix(), commit)


_CRITERIA = frozenset({"test_config.json", "eval_config.json"})


def decides(path: str) -> bool:
    """Whether a file decides about scores or the verdict by its name alone, wherever it lies."""
    from agent_eval.settings import CONFIG_FILE

    name = PurePosixPath(path).name
    return name in _CRITERIA or name == CONFIG_FILE


def told_changes(changed: Sequence[str] | None) -> list[str]:
    """What to warn of, given the files that decide about scores and that a pull request changes; None: unknown."""
    if changed is None:
        return ["Whether this pull request changes what is scored could not be found out."]
    if not changed:
        return []
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return [f"This pull request changes what is scored: {', '.join(changed[:5])}{more}."]


def gating_files_changed(situation: Situation, settings: Settings) -> list[str] | None:
    """Which files that decide about scores a pull request changes, by path, sorted: criteria, the workflow with its
    inputs, and what the settings take answers, verdicts and sessions from. Changed cases are told by the comparison, a
    changed agent-eval.toml by `rules`.

    Args:
        situation: What the run is about.
        settings: As they hold.

    Returns:
        None if nobody can tell.
    """
    git, wanted = situation.git, situation.wanted
    if situation.activity.kind != "compare":
        return []
    if not isinstance(git, Git) or wanted is None:
        return None
    try:
        git.need(wanted.commit, situation.remote)
        changed = git.changed_files(wanted.commit, situation.origin.commit)
    except GitError:
        return None
    named = [found for path in _deciding(settings) if (found := _in_checkout(path, settings.root, git)) is not None]
    if situation.event.workflow_path is not None:
        named.append(PurePosixPath(situation.event.workflow_path))
    return sorted(path for path in changed if PurePosixPath(path).name in _CRITERIA or _touches(path, named))


def _deciding(settings: Settings) -> Iterator[Path]:
    """Files and directories whose content is taken for criteria, answers, verdicts or sessions."""
    yield from (path for path in (settings.config, settings.initial_session) if path is not None)
    if settings.judge.startswith("replay:"):
        yield Path(settings.judge.removeprefix("replay:").strip())
    if settings.judge_cache != "off":
        yield Path(settings.judge_cache)
    if settings.resume:
        yield settings.output_dir / JOURNAL
    for agent in (settings.agent, *settings.agents.values()):
        if agent is not None and agent.startswith(RECORDED):
            yield Path(agent.removeprefix(RECORDED))


def _in_checkout(path: Path, root: Path, git: Git) -> PurePosixPath | None:
    """A path as git names it; None if it lies elsewhere."""
    absolute = Path(os.path.normpath(root.resolve() / path))
    return PurePosixPath(absolute.relative_to(git.top)) if absolute.is_relative_to(git.top) else None


def _touches(changed: str, named: Sequence[PurePosixPath]) -> bool:
    """Whether a changed path is one of these, lies in one, or stands in the way to one, as a symbolic link can."""
    path = PurePosixPath(changed)
    return any(path.is_relative_to(one) or one.is_relative_to(path) for one in named)
