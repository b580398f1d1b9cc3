"""The CI context of a run: the event that started it, the checkout, and the commit it is compared with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agent_eval.baseline import (
    ORIGIN,
    BaselineRequest,
    FetchFailed,
    Git,
    GitError,
    Remote,
    find_request,
    open_git,
)
from agent_eval.forge import TO_LINK, Activity, Event, EventError, Forge, ForgeError, Host
from agent_eval.github import GITHUB
from agent_eval.gitlab import GITLAB
from agent_eval_results import JOURNAL
from agent_eval_scoring.core.files import MAX_SETTINGS, read_regular
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import carriable, listed

if TYPE_CHECKING:
    from agent_eval.settings import Settings
    from agent_eval_results import Origin

_HOSTS: tuple[Host, ...] = (GITHUB, GITLAB)
_SMALL = 1_000_000
"""Bytes of agent-eval.toml that are read from another commit."""
_MOST_NAMED = 100
_READ = (".py", ".json", ".toml", ".yaml", ".yml")
"""Ends of the names of new files that count."""


@dataclass(frozen=True, kw_only=True)
class CIContext:
    """The event, the checkout and the base commit of a run."""

    event: Event
    activity: Activity
    make_origin: Callable[..., Origin]
    """See `origin`."""
    commit: str = ""
    """What is tested, e.g. the merge of a pull request; "" if it is unknown."""
    git: Git | GitError
    """The checkout, or why there is none."""
    forge: Forge | None
    """None outside of a forge's CI."""
    remote: Remote = ORIGIN
    """Where to fetch commits that the checkout lacks."""
    baseline_request: BaselineRequest | None = None
    """The commit to compare with; for a recording run, the commit whose history it continues."""
    no_baseline: FetchFailed | None = None
    """Why there is nothing to compare with; None where no comparison is expected."""

    @cached_property
    def origin(self) -> Origin:
        """What is tested, for the report. Made when it is asked for: the agent starts without the models of reports."""
        return self.make_origin()

    @property
    def compares(self) -> bool:
        """Whether there should be a comparison."""
        return self.activity.kind == "compare" or (self.activity.kind != "record" and self.baseline_request is not None)

    @property
    def held_to_base(self) -> bool:
        """Whether the base branch's agent-eval.toml applies: the checkout is a change to a branch that is not its own
        choice. The forge or `base-ref` names that branch.
        """
        request = self.baseline_request
        return self.activity.kind == "compare" or (request is not None and request.is_pull_request)

    @property
    def checkout_name(self) -> str:
        """The subject of a sentence about a checkout that is held to the base branch's rules."""
        return f"This {self.event.change}" if self.activity.kind == "compare" else "This checkout"

    @property
    def source_url(self) -> str | None:
        """Where the tested files can be browsed."""
        pull_request = self.activity.pull_request
        commit = self.commit if pull_request is None else pull_request.head_sha or self.commit
        return self.event.source_url(commit) if commit else None

    def changes(self) -> dict[str, str] | None:
        """What differs from the commit to compare with: paths from the top of the checkout with git's letters; None if
        that is unknown.
        """
        if not isinstance(self.git, Git) or self.baseline_request is None:
            return None
        base = self.baseline_request.commit
        try:
            self.git.need(base, self.remote)
            return self.git.changes(base, self.commit)
        except GitError:
            return None


_LOCAL = Activity(kind="gate", explanation="The run has no CI event.")
LOCAL = CIContext(
    event=Event(),
    activity=_LOCAL,
    make_origin=lambda: _origin(Event(), _LOCAL, "", []),
    git=GitError("No checkout was looked for."),
    forge=None,
)
"""For callers without a CI event and without a comparison."""


def detect_ci_context(
    settings: Settings, environ: Mapping[str, str], log: Callable[[str], None] = lambda _: None
) -> tuple[CIContext, list[Problem]]:
    """Detects the CI context. Asks git, and the forge for what git can't know.

    Args:
        settings: From flags and inputs; none of those used here may be set in agent-eval.toml.
        environ: Holds the forge's variables.
        log: Receives a line for each long wait.

    Returns:
        The context, and problems that forbid the run.
    """
    try:
        host, event = _host(environ)
    except EventError as error:
        return LOCAL, [
            _error(
                "event-unreadable",
                str(error),
                "A job of GitHub Actions or GitLab CI sets this variable. If it was set by hand, correct it; outside "
                "of a job, unset GITHUB_ACTIONS and GITLAB_CI.",
            )
        ]
    detected = host.activity(
        event,
        mode=settings.mode if settings.mode == "gate" or settings.mode == "publish" else "auto",
        allow_unsafe_pull_request_target=settings.allow_pull_request_target,
        base_branches=settings.base_branches,
    )
    # A project may define the variable without a value, e.g. for forks: then it is as if there was none.
    token = environ.get(host.token_variable) or None if host.token_variable else settings.github_token
    git: Git | GitError
    head = None
    try:
        git = open_git(settings.root, environ)
        head = git.commit("HEAD")
    except GitError as error:
        git = error
    forge = _forge(token, host, event, log)
    if forge is not None and settings.mode == "link":
        # The verdict is known, and the job waits for nothing else.
        forge = forge.limited(TO_LINK)
    uncommitted = _uncommitted(git, head, settings.root, settings.written_directories, event) if head else []
    commit = head or detected.commit or ""
    ci = CIContext(
        event=event,
        activity=detected,
        commit=commit,
        make_origin=partial(_origin, event, detected, commit, uncommitted),
        git=git,
        forge=forge,
    )
    if detected.kind == "refuse":
        # Before anything is fetched: the token is not used for an event that is refused.
        return ci, [_error("event-refused", detected.explanation, None)]
    ci = replace(ci, remote=_remote(token, event))
    if detected.kind == "compare" and detected.base_commit is None:
        ci = replace(ci, activity=replace(detected, base_commit=_tip(ci)))
    return _with_baseline_request(ci, settings.base_ref, settings.baseline, settings.artifact)


def _host(environ: Mapping[str, str]) -> tuple[Host, Event]:
    """The forge whose job this is, and the job's event; without a name outside of CI."""
    events = [(host, host.read_event(environ)) for host in _HOSTS]
    return next(((host, event) for host, event in events if event.name), events[0])


def _error(code: str, message: str, hint: str | None) -> Problem:
    return Problem(code=code, message=message, hint=hint)


def _tip(ci: CIContext) -> str | None:
    """The tip of the base branch, which the event does not name; None if it is unknown."""
    try:
        return ci.git.remote_tip(ci.activity.base_ref or "", ci.remote) if isinstance(ci.git, Git) else None
    except GitError:
        return None


def _forge(token: str | None, host: Host, event: Event, log: Callable[[str], None]) -> Forge | None:
    if not event.name or event.repository is None:
        return None
    try:
        return host.connect(event, token or "", log)
    except ForgeError as error:
        log(f"agent-eval: the host of the {event.change} is not asked for anything: {error}")
        return None


def _remote(token: str | None, event: Event) -> Remote:
    if not event.name or event.clone_url is None or (token is None and not event.in_fork):
        return ORIGIN
    return Remote(url=event.clone_url, token=token)


def _uncommitted(git: Git | GitError, head: str, root: Path, skip: Sequence[Path], event: Event) -> list[str]:
    """The files that are tested as they are, and not as the commit has them.

    In CI new files don't count, since other steps of the job leave theirs. Elsewhere code, eval files and configs do.
    """
    written = tuple(f"{os.path.relpath(path, root)}/" for path in skip)
    try:
        names = git.differing(head, new=() if event.name else _READ) if isinstance(git, Git) else []
        # A slash marks what is outside of the root, e.g. a library beside it: the agent may import it.
        names += [f"/{name}" for name in git.differing(head, new=(), inside=False)] if isinstance(git, Git) else []
    except GitError:
        return []
    # Where an earlier run wrote, maybe with another `output-dir`: its files don't change what is tested.
    written += tuple(name.removesuffix("results.json") for name in names if name.endswith("/results.json"))
    return [carriable(name) for name in names if not name.startswith(written)][:_MOST_NAMED]


def _origin(event: Event, detected: Activity, commit: str, uncommitted: list[str], **known: str | None) -> Origin:
    from agent_eval_results import Origin

    pull_request = detected.pull_request
    return Origin(
        repository=event.repository or "",
        commit=commit,
        ref=event.ref or "",
        event=event.name,
        base_commit=known.get("base_commit", detected.base_commit),
        pull_request=None if pull_request is None else pull_request.number,
        head_commit=None if pull_request is None else pull_request.head_sha,
        workflow=event.workflow_path or "",
        run_id=event.run_id,
        run_attempt=event.run_attempt,
        run_url=event.run_url,
        uncommitted=uncommitted,
    )


def _with_baseline_request(
    ci: CIContext, base_ref: str | None, baseline: str, artifact: str
) -> tuple[CIContext, list[Problem]]:
    """Adds the commit to compare with. A missing `base-ref` forbids the run: without it the thresholds alone would
    decide, unasked.
    """
    # Outside of pull requests `auto` means no comparison, so a clone without a base branch is no mistake there.
    asked = base_ref is not None or baseline not in {"auto", "none"}
    if ci.activity.kind not in {"compare", "record"} and not asked:
        return ci, []
    result = find_request(
        ci.event,
        ci.activity,
        git=ci.git,
        forge=ci.forge,
        artifact=artifact,
        # An event that names its base is compared with that one: `base-ref` is for runs without such an event.
        base_ref=base_ref if ci.activity.kind not in {"compare", "record"} else None,
    )
    if isinstance(result, FetchFailed):
        named = base_ref is not None and result.by_name
        problems = [_error("base-ref-not-found", f"base-ref: {result.message}", result.hint)] if named else []
        return replace(ci, no_baseline=result), problems
    base = result.commit if ci.activity.kind != "record" else None
    return replace(ci, baseline_request=result, make_origin=partial(ci.make_origin, base_commit=base)), []


def for_artifact(ci: CIContext, name: str) -> CIContext:
    """Replaces the artifact name by the one of the effective settings: the base's on a pull request."""
    request = ci.baseline_request
    return ci if request is None else replace(ci, baseline_request=replace(request, artifact=name))


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The text of `agent-eval.toml` that applies to this run."""

    text: str | None
    """None: no such file."""
    notice: str = ""
    """A notice for readers of the comment; "" for none."""


def rules(ci: CIContext, root: Path, name: str) -> Rules:
    """The base branch's rules on a pull request and with `base-ref`, else those of the checkout: a pull request doesn't
    choose its rules.

    Args:
        ci: The run's CI context.
        root: The directory that agent-eval works in.
        name: The file's name.
    """
    own, checkout = _own_text(root / name), ci.checkout_name.lower()
    if not ci.held_to_base:
        return Rules(text=own)
    try:
        data = _file_at(ci, _ruling_commit(ci), name)
        text = None if data is None else data.decode("utf-8")
    except (GitError, ForgeError, UnicodeDecodeError) as error:
        why = getattr(error, "message", "it is not UTF-8.")
        applied = f"{name} of {checkout} itself was applied" if own is not None else "The gate's defaults apply"
        return Rules(text=own, notice=f"{applied}, since the base branch's can't be read: {why}")
    exists = (root / name).exists()
    # A file that is there and can't be read has no text either, and is not the same as none.
    if text == own and (exists or own is None):
        return Rules(text=own)
    what = "adds" if text is None else "changes" if exists else "removes"
    applied = "the gate's defaults" if text is None else "the rules of the base branch"
    return Rules(
        text=text,
        notice=f"For the reviewer: {checkout} {what} {name}, the gate's own rules. Check that this is meant: {applied} "
        "were applied here, and the change applies after the merge.",
    )


def _own_text(path: Path) -> str | None:
    """The text of the checkout's own file; None where it is missing or not text."""
    try:
        return read_regular(path, MAX_SETTINGS).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _ruling_commit(ci: CIContext) -> str:
    """The tip of the base branch. Not the merge base: the author of a pull request chooses that.

    Raises:
        GitError: It is unknown.
    """
    about, request = ci.activity, ci.baseline_request
    if request is not None and request.tip:
        return request.tip
    head_itself = about.pull_request is not None and ci.origin.commit == about.pull_request.head_sha
    if request is not None and not head_itself:
        # The forge's merge: its first parent, with which it is compared, was the tip.
        return request.commit
    if about.base_commit is None:
        raise GitError("the base's commit is not known.")
    return about.base_commit


def _file_at(ci: CIContext, commit: str, name: str) -> bytes | None:
    git = ci.git
    if isinstance(git, Git):
        try:
            git.need(commit, ci.remote)
            return git.file(commit, git.prefix / PurePosixPath(name), _SMALL)
        except GitError:
            # A clone of depth 1 whose remote gives nothing more: the forge has the file, too.
            if ci.forge is None:
                raise
    if ci.forge is None:
        raise GitError("there is no git checkout.")
    prefix = git.prefix if isinstance(git, Git) else PurePosixPath()
    return ci.forge.file_at((prefix / name).as_posix(), commit)


_CRITERIA = frozenset({"test_config.json", "eval_config.json", "eval_config.yaml", "eval_config.yml"})


def is_gating_file(path: str) -> bool:
    """Whether a file affects scores or the verdict by its name alone, in any directory."""
    from agent_eval.settings import CONFIG_FILE

    return _is_of_evals(path) or PurePosixPath(path).name == CONFIG_FILE


def _is_of_evals(path: str) -> bool:
    """Whether a file has eval cases, criteria or recorded tool calls, by its name."""
    from agent_eval_agents.tapes import SUFFIX
    from agent_eval_scoring.evalset.discovery import SUFFIXES
    from agent_eval_scoring.evalset.parse import in_dataset_folder

    return path.endswith((*SUFFIXES, SUFFIX)) or in_dataset_folder(path) or PurePosixPath(path).name in _CRITERIA


def change_warnings(changed: Sequence[str] | None, what: str = Event.change) -> list[str]:
    """Warnings that a change (`what`: `Event.change`) affects scores by these files; None: they are unknown."""
    if changed is None:
        return [f"Whether this {what} changes what is scored is unknown."]
    if not changed:
        return []
    return [f"This {what} changes what is scored: {listed(changed, 5)}."]


def gating_files_changed(ci: CIContext, root: Path, deciding: Iterable[Path]) -> list[str] | None:
    """Changed files that affect scores, as sorted paths: eval files, criteria, the workflow with its inputs, and files
    that supply answers and verdicts. `rules` reports a changed agent-eval.toml.

    Args:
        ci: The run's CI context.
        root: The directory that agent-eval works in.
        deciding: From `deciding_files`.

    Returns:
        None if the changed files are unknown.
    """
    if ci.activity.kind != "compare":
        return []
    changed, git = ci.changes(), ci.git
    if changed is None or not isinstance(git, Git):
        return None
    inputs = [tracked for path in deciding if (tracked := in_checkout(path, root, git)) is not None]
    if ci.event.workflow_path is not None:
        inputs.append(PurePosixPath(ci.event.workflow_path))
    return sorted(path for path in changed if _is_of_evals(path) or touches(path, inputs))


def deciding_files(settings: Settings) -> Iterator[Path]:
    """Files and directories that supply criteria, answers or verdicts."""
    if settings.config is not None:
        yield settings.config
    if settings.judge_cache != "off":
        yield Path(settings.judge_cache)
    if settings.resume:
        yield settings.output_dir / JOURNAL
    from agent_eval_agents.registry import driver_of  # The agents' processes start without it.

    for agent in (settings.agent, *settings.agents.values()):
        if agent is not None and (driver := driver_of(agent)).reads_file:
            yield Path(agent.removeprefix(driver.prefix))


def in_checkout(path: Path, root: Path, git: Git) -> PurePosixPath | None:
    """A path relative to git's top directory; None outside of it."""
    absolute = Path(os.path.normpath(root.resolve() / path))
    return PurePosixPath(absolute.relative_to(git.top)) if absolute.is_relative_to(git.top) else None


def touches(changed: str, inputs: Iterable[PurePosixPath]) -> bool:
    """Whether a changed path is one of the inputs, is inside one, or is a parent of one (as a symbolic link can be)."""
    path = PurePosixPath(changed)
    return any(path.is_relative_to(source) or source.is_relative_to(path) for source in inputs)
