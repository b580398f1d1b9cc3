"""Which agent answers for an eval file that may not exist yet, and how a new case names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_eval.core.content import user_message
from agent_eval.core.invocation import Invocation
from agent_eval.core.problem import has_error
from agent_eval.evalset.models import EvalCase, EvalConfig, EvalSet, LoadedFile, SelectedCase, SessionInput
from agent_eval_workbench.recording._refused import Refused, error
from agent_eval_workbench.recording._target import USER_ID, Target

if TYPE_CHECKING:
    from agent_eval.agents.discovery import AgentChoice, AgentChoices
    from agent_eval.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ChosenAgent:
    """The agent of a new case."""

    choices: AgentChoices
    choice: AgentChoice
    app_name: str | None
    """For `session_input`; None if it is better left out."""
    flag: str | None
    """The value of `--agent` that `run` needs to choose it, too; None if it needs none."""


def choose_agent(target: Target, settings: Settings, app_name: str | None, state: Mapping[str, Any]) -> ChosenAgent:
    """Chooses the agent as `run` does.

    Args:
        target: The eval file.
        settings: The rules: `--agent`, `[agents]`.
        app_name: `--app-name`; None to derive it from the agent.
        state: With which the case begins.

    Raises:
        Refused: No agent answers, or several could.
    """
    choices = _choices(target, settings, app_name, state, explicit=settings.agent)
    if has_error(choices.problems) or target.name not in choices.by_file:
        raise Refused(choices.problems)
    choice = choices.by_file[target.name]
    if choice.driver.reads_file:
        hint = "Name an agent that runs, or make cases of the recording with --from."
        raise error("record-source", f"{choice.path} is a recording, which can't be asked.", hint)
    directory = choice.directory(settings.root)
    derived = app_name or (directory.resolve().name if directory is not None else None)
    for name in dict.fromkeys((derived, app_name)):
        selected = _choices(target, settings, name, state, explicit=None).by_file.get(target.name)
        if selected is not None and selected.path == choice.path:
            return ChosenAgent(choices=choices, choice=choice, app_name=name, flag=None)
    return ChosenAgent(choices=choices, choice=choice, app_name=derived, flag=settings.agent or choice.path)


def _choices(
    target: Target, settings: Settings, app_name: str | None, state: Mapping[str, Any], *, explicit: str | None
) -> AgentChoices:
    from agent_eval.agents.discovery import choose_agents
    from agent_eval.evalset.discovery import discover

    session = SessionInput(app_name=app_name or "", user_id=USER_ID, state=dict(state)) if app_name or state else None
    turn = Invocation(user_content=user_message("?"))
    new = EvalCase(eval_id="new", conversation=[turn], session_input=session)
    cases = [new] if target.index is not None or not target.cases else [*target.cases, new]
    loaded = LoadedFile(
        path=target.name,
        eval_set=EvalSet(eval_set_id=target.set_id, eval_cases=cases),
        config=EvalConfig(source=None, criteria=()),
        cases=tuple(SelectedCase(case=case, line=None) for case in cases),
    )
    return choose_agents(
        settings.root,
        [loaded],
        explicit=explicit,
        mapping=settings.agents,
        everything=lambda: [file.name for file in discover(settings.root).files],
        stateless={f"server:{name}" for name, server in settings.servers.items() if server.protocol == "a2a"},
        ignore_state=settings.a2a_ignore_state,
    )
