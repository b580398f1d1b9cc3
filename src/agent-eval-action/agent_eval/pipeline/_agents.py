"""What the agents of a run are, and what differs from those of the base branch: models, texts, tools and code."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from agent_eval.baseline import Git, GitError
from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline.ci_context import CIContext, is_gating_file
from agent_eval_agents.messages import AgentDescribed, CodePlace, ToolDescribed
from agent_eval_scoring.core.files import read_regular
from agent_eval_scoring.core.invocation import contents_of, tool_calls

if TYPE_CHECKING:
    from agent_eval_results import AgentFacts, AgentTree, CauseReport, Place, Recording, RunReport, ToolFacts
    from agent_eval_results.causes.agent_diff import Diff
    from agent_eval_results.causes.agent_sources import Definition, Sources
    from agent_eval_results.causes.changed_here import HeadCode

_LOG = logging.getLogger(__name__)
_MAX_BYTES = 1_000_000
"""Of a file of the repository that is compared."""
_LONGEST_ARGUMENT = 200
_UNREAD = re.compile(r"\.git(hub|lab)/|\.gitlab-ci\.yml$|LICENSE|(README|CHANGELOG|CONTRIBUTING|SECURITY)[^/]*$")
"""Files that no agent reads."""
_DOCUMENTATION = re.compile(r"docs/|[^/]*\.md$")
"""Files for people, from which some agents answer."""
_MOST_OTHERS = 200
_INSTRUCTIONS = frozenset({"instruction", "global_instruction", "static_instruction"})


def agent_trees(checkout: Checkout) -> list[AgentTree]:
    """The agents of a checkout that have been started."""
    from agent_eval_results import AgentTree

    root = checkout.settings.root.resolve()
    trees = []
    for path, described in checkout.described.items():
        sources = _sources(root, path)
        try:
            facts = [_facts(agent, sources) for agent in described]
        except Exception:  # No code of a pull request may end the run.
            _LOG.debug("What the agent %s is could not be found", path, exc_info=True)
            continue
        # An agent of which nothing is known is left out: it would differ from anything.
        if facts:
            adk = checkout.agents[path].provenance.get("adk", "")
            trees.append(AgentTree(agent=path, adk=adk, agents=facts))
    return trees


def _sources(root: Path, agent: str) -> Sources:
    from agent_eval_results.causes.agent_sources import Sources

    name = agent.partition("#")[0]
    return Sources(functools.partial(_read, root), folder=name if (root / name).is_dir() else name.replace(".", "/"))


def _read(root: Path, file: str) -> str | None:
    """A file of the checkout; None if there is none, or if it is none of the repository's."""
    path = root / file
    try:
        # A symbolic link in a pull request could lead to any file of the machine, and its lines into the report.
        if not path.resolve().is_relative_to(root):
            return None
        return read_regular(path, _MAX_BYTES).decode("utf-8")
    except (OSError, ValueError, RuntimeError):
        return None


def _facts(agent: AgentDescribed, sources: Sources) -> AgentFacts:
    from agent_eval_results import AgentFacts
    from agent_eval_results.causes.agent_sources import source_hash

    functions = {name: _defined(places, sources) for name, places in agent.functions.items()}
    # Of functions only hashes are kept: what they are on the base branch is compared, not shown.
    callbacks = {
        name: source_hash(sources.used(found)) for name, found in functions.items() if name not in _INSTRUCTIONS
    }
    makers = [each for name, found in functions.items() if name in _INSTRUCTIONS for each in found]
    if makers:
        callbacks["instruction"] = source_hash(sources.used(makers))
    return AgentFacts(
        name=agent.name,
        model=agent.model,
        instruction=agent.instruction,
        description=agent.description,
        sub_agents=agent.sub_agents,
        callbacks=callbacks,
        tools=[_tool(tool, sources) for tool in agent.tools],
        places=_places([agent.code, *(place for places in agent.functions.values() for place in places)], sources),
    )


def _tool(tool: ToolDescribed, sources: Sources) -> ToolFacts:
    from agent_eval_results import ToolFacts
    from agent_eval_results.causes.agent_sources import source_hash

    return ToolFacts(
        name=tool.name,
        place=next(iter(_places([tool.code], sources)), None),
        source=source_hash(sources.used(_defined([tool.code], sources))),
        declaration=tool.declaration,
    )


def _defined(places: Sequence[CodePlace | None], sources: Sources) -> list[Definition]:
    found = [sources.locate(place.file, place.symbol, place.line) for place in places if place is not None]
    return [each for definitions in found for each in definitions]


def _places(places: Sequence[CodePlace | None], sources: Sources) -> list[Place]:
    """The lines of what the host has named; the first line, or the file, of what can't be parsed."""
    from agent_eval_results import Place

    found = []
    for place in filter(None, places):
        defined = _defined([place], sources)
        found += [each.place.model_copy(update={"symbol": place.symbol}) for each in defined[:1]] or [
            Place(file=place.file, first=place.line, symbol=place.symbol)
        ]
    return found


def add_changes(
    report: RunReport,
    base: Sequence[AgentTree],
    ci: CIContext,
    root: Path,
    recording_of: Callable[[str], Recording | None],
) -> None:
    """Adds to a report what differs from the base's agents, and to its causes the changed lines that they depend on.
    Never raises: they explain a verdict and are no part of it.

    Args:
        report: With its agents, baseline and causes.
        base: The base branch's agents; empty if they are unknown.
        ci: Knows the checkout.
        root: The directory that agent-eval works in, resolved.
        recording_of: Returns the recording of a run id; None if there is none.
    """
    try:
        if report.agents and (base or report.causes):
            _add_changes(report, base, ci, root, recording_of)
    except Exception:
        _LOG.debug("The changes in the agent could not be found", exc_info=True)
    report.causes = [cause for cause in report.causes if cause.changed_here or not cause.few]


def _add_changes(
    report: RunReport,
    base: Sequence[AgentTree],
    ci: CIContext,
    root: Path,
    recording_of: Callable[[str], Recording | None],
) -> None:
    from agent_eval_results.causes import leaves
    from agent_eval_results.causes.changed_here import merged, note_changed_here, supported
    from agent_eval_results.causes.evidence import Before
    from agent_eval_results.data.agent_changes import agent_changes

    commit = _base_commit(report, ci)
    code = _head_code(commit, ci, root)
    known, found = code.changed_files is not None, report.baseline
    wanted = commit if known or found is None else found.wanted_commit
    older = found is not None and wanted is not None and found.commit != wanted
    # Without the lines that differ, what the base branch itself has changed since could be taken for the head's.
    report.agent_changes = agent_changes(
        () if older and not known else base, report.agents, code.of_change, only_placed=older
    )
    agents = report.agents_by_file
    cases = {case.case_id: case for case in report.cases}

    def trees(cause: CauseReport) -> list[AgentTree]:
        own = {agents.get(cases[case_id].file, "") for case_id in cause.cases}
        return [tree for tree in report.agents if tree.agent in own]

    def before(cause: CauseReport) -> Before:
        runs = [[run.run_id for run in cases[case_id].runs if run.failed] for case_id in cause.cases]
        recordings = [recording for first in runs if first and (recording := recording_of(first[0])) is not None]
        # What all failing runs did before is a possible cause; what only some did is not.
        called = [_called_before(recording, cause) for recording in recordings]
        took_part = [
            {event.author for turn in recording.all_turns for event, _ in contents_of(turn.intermediate_data)}
            for recording in recordings
        ]
        calls = [call for each in recordings for turn in each.all_turns for call in tool_calls(turn.intermediate_data)]
        return Before(
            tools=set.intersection(*map(set, called)) if called else set(),
            agents=set.intersection(*took_part) if took_part else set(),
            by_code=bool(recordings) and all(map(_is_by_code, recordings)),
            arguments={
                text
                for call in calls
                if call.name == cause.data.tool
                for text in leaves(call.args).values()
                if isinstance(text, str) and len(text) <= _LONGEST_ARGUMENT
            },
        )

    # Causes need the lines that decide, so comments and docstrings are left out here.
    code = _head_code(commit, ci, root, apart=True)
    if base:
        report.agent_changes += code.unlisted(report.agents, report.agent_changes)
    note_changed_here(report.causes, trees, code, before)
    report.causes = merged(supported(report.causes))


def _is_by_code(recording: Recording) -> bool:
    """Whether no model was called; unknown of agents behind a URL."""
    return all(
        turn.spans is not None and all(span.kind != "model" for span in turn.spans) for turn in recording.all_turns
    )


def _head_code(commit: str | None, ci: CIContext, root: Path, *, apart: bool = False) -> HeadCode:
    """The code of these agents, with what differs from a commit; `apart`: line by line, without comments."""
    from agent_eval_results.causes.changed_here import HeadCode

    sources = functools.cache(functools.partial(_sources, root))
    if commit is None or not isinstance(ci.git, Git):
        return HeadCode(sources=sources, changed=lambda _: None, changed_files=None)
    found = _Difference(ci.git, commit, root)
    lines = functools.partial(found.lines, only_code=True) if apart else found.lines
    more: dict[str, Any] = {"written": found.lines, "texts": found.texts, "apart": True} if apart else {}
    return HeadCode(sources=sources, changed=lines, changed_files=found.files, **more)


def diffs_of(report: RunReport, ci: CIContext, root: Path) -> Callable[[str], Diff]:
    """What a pull request changes for an agent, by its path, as the comparison of answers looks at it.

    Args:
        report: With its files and agents.
        ci: Knows the checkout.
        root: The directory that agent-eval works in, resolved.
    """
    from agent_eval_results.causes.agent_diff import diff_of

    commit = _base_commit(report, ci)
    code = _head_code(commit, ci, root, apart=True)
    trees = {tree.agent: tree for tree in report.agents}
    evals = {name for file in report.files for name in (file.file, file.config)}  # A config may have any name.
    others = _Difference(ci.git, commit, root).others() if commit is not None and isinstance(ci.git, Git) else []
    return functools.cache(
        lambda agent: diff_of(
            code,
            trees.get(agent),
            lambda file: file not in evals and is_read(file),
            is_documentation=is_documentation,
            others=others,
        )
    )


def is_documentation(file: str) -> bool:
    """Whether a file is rather for people than for agents."""
    return _DOCUMENTATION.match(file) is not None


def is_read(file: str) -> bool:
    """Whether an agent may read a file of the repository."""
    from agent_eval_agents.tapes import SUFFIX

    # Eval files count whether or not they are selected or left: a changed expectation explains no changed answer.
    return not _UNREAD.match(file) and (file.endswith(SUFFIX) or not is_gating_file(file))


def _called_before(recording: Recording, cause: CauseReport) -> frozenset[str]:
    """The tools that a run called before the cause shows: in the example before that call, in others before the last
    call of the same tool.
    """
    turns = [[call.name or "" for call in tool_calls(turn.intermediate_data)] for turn in recording.all_turns]
    names = [name for turn in turns for name in turn]
    example = cause.example
    if (recording.case_id, recording.run) == (example.case_id, example.run):
        before = [name for turn in turns[: example.turn] for name in turn]
        return frozenset(
            before + [name for turn in turns[example.turn : example.turn + 1] for name in turn[: example.call]]
        )
    if cause.data.tool in names:
        names = names[: len(names) - 1 - names[::-1].index(cause.data.tool)]
    return frozenset(names)


def _base_commit(report: RunReport, ci: CIContext) -> str | None:
    """The commit whose lines are compared with those of the checkout; None if there is none here."""
    request, git = ci.baseline_request, ci.git
    found = report.baseline.commit if report.baseline is not None else None
    # On a pull request GitHub names the commit; elsewhere it is the one whose results there are.
    wanted = request.commit if request is not None and request.is_pull_request else found
    try:
        return git.commit(wanted) if wanted and isinstance(git, Git) else None
    except GitError:
        return None


class _Difference:
    """The files of the checkout that differ from a commit, and the lines that do."""

    def __init__(self, git: Git, commit: str, root: Path) -> None:
        self._git = git
        self._commit = commit
        self._root = root
        self._texts: dict[str, tuple[str | None, str | None]] = {}
        self._lines: dict[tuple[str, bool], list[tuple[int, int]] | None] = {}

    @functools.cached_property
    def files(self) -> Collection[str] | None:
        """Relative to the root, with new files that git does not know; None if git does not say."""
        try:
            return dict.fromkeys(self._git.differing(self._commit)).keys()
        except GitError:
            return None

    def lines(self, file: str, *, only_code: bool = False) -> list[tuple[int, int]] | None:
        """The changed lines of a file of the checkout; `only_code`: not those of comments and docstrings."""
        from agent_eval_results.data.changed_lines import changed_code, changed_lines

        if self.files is None:
            return None
        if file not in self.files:
            return []
        compare = changed_code if only_code and file.endswith(".py") else changed_lines
        if (file, only_code) not in self._lines:
            head = _read(self._root, file)
            try:
                self._lines[file, only_code] = None if head is None else compare(self._base(file), head)
            except (GitError, UnicodeDecodeError):
                self._lines[file, only_code] = None
        return self._lines[file, only_code]

    def texts(self, file: str) -> tuple[str | None, str | None]:
        """A file's text in the commit and in the checkout; None: it has none, or can't be read."""
        if file not in self._texts:
            try:
                base = self._base(file)
            except (GitError, UnicodeDecodeError):
                base = None
            self._texts[file] = base, _read(self._root, file)
        return self._texts[file]

    def others(self) -> list[tuple[str, str]]:
        """The texts in the commit and in the checkout of changed files outside of the root, without eval files."""
        try:
            names = self._git.differing(self._commit, new=(), inside=False)
        except GitError:
            return []
        names = [name for name in filter(is_read, names) if not name.endswith(".tape.json")][:_MOST_OTHERS]
        top, up = self._git.top, os.path.relpath(self._git.top, self._git.top / self._git.prefix)
        found = []
        for name in names:
            with contextlib.suppress(GitError, UnicodeDecodeError):
                found.append((self._base(f"{up}/{name}") or "", _read(top, name) or ""))
        return found

    def _base(self, file: str) -> str | None:
        path = PurePosixPath(os.path.normpath(self._git.prefix / file))
        data = self._git.file(self._commit, path, _MAX_BYTES)
        return None if data is None else data.decode("utf-8")
