"""Checks conversation scenarios and the instructions of the simulated user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.evalset.json import Document, JsonPath
from agent_eval_scoring.evalset.models import EvalCase, EvalConfig, UserPersona
from agent_eval_scoring.evalset.parse.eval_files import EvalFile
from agent_eval_scoring.evalset.templates import TemplateError, check

STOP_SIGNAL = "</finished>"
"""The simulated user writes it to end the conversation. Fixed in google-adk 2.13.0; only the copy that the judge of the
simulated user sees can be configured."""

REQUIRED_VARIABLES = ("stop_signal", "conversation_plan", "conversation_history")
"""Variables that `custom_instructions` must use (google-adk 2.13.0, measured)."""
PERSONA_VARIABLE = "persona"
"""Variable that they must also use if the scenario has a persona."""

_KNOWN_VARIABLES = {*REQUIRED_VARIABLES, PERSONA_VARIABLE}
_JINJA = "They must be a Jinja template, in which a variable is written `{{ conversation_plan }}`."


def ends_the_conversation(message: str) -> bool:
    """Whether a message of the simulated user contains the stop signal, in upper or lower case."""
    return STOP_SIGNAL in message.lower()


def check_simulator(document: Document) -> Iterator[Problem]:
    """Problems of the `user_simulator_config` of a config file."""
    key = "userSimulatorConfig" if "userSimulatorConfig" in document.value else "user_simulator_config"
    config = document.value.get(key)
    if not isinstance(config, dict):
        return
    if config.get("type") == "llm_audio":
        yield document.warning(
            "audio-simulator-ignored",
            "The simulated user is set to speak (`llm_audio`), but this version only supports text.",
            path=(key, "type"),
            hint="Agents get the texts of fixed turns instead of the audio of `adk eval`; scenarios are refused.",
        )
    name = "customInstructions" if "customInstructions" in config else "custom_instructions"
    template = config.get(name)
    if isinstance(template, str):
        yield from _check_instructions(document, template, (key, name))


def _check_instructions(document: Document, template: str, path: JsonPath) -> Iterator[Problem]:
    code = "custom-instructions-invalid"
    try:
        used = check(template)
    except TemplateError as error:
        yield document.error(code, f"`{path[-1]}` are not a Jinja template: {error}.", path=path, hint=_JINJA)
        return
    missing = [name for name in REQUIRED_VARIABLES if name not in used]
    if missing:
        listed = " and ".join(f"`{name}`" for name in missing)
        single = next((name for name in missing if f"{{{name}}}" in template), None)
        hint = (
            f"`{{{single}}}` is the syntax of older ADK versions; write `{{{{ {single} }}}}`."
            if single
            else f"The simulated user needs them. {_JINJA}"
        )
        yield document.error(code, f"`{path[-1]}` do not use {listed}.", path=path, hint=hint)
    for name in sorted(used - _KNOWN_VARIABLES):
        yield document.warning(
            "custom-instructions-unknown-variable",
            f"`{path[-1]}` use `{name}`, which is always empty.",
            path=path,
            hint=f"Known: {', '.join(f'`{variable}`' for variable in (*REQUIRED_VARIABLES, PERSONA_VARIABLE))}.",
        )


def check_scenario(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Problems of a case's scenario; none if the case has no scenario.

    Args:
        file: The file.
        case: The case.
        path: The path of the case.
    """
    scenario = case.conversation_scenario
    if scenario is None:
        return
    path = (*path, "conversation_scenario")
    prompt = scenario.starting_prompt
    if not prompt.strip() or ends_the_conversation(prompt):
        reason = "is empty" if not prompt.strip() else f"contains the stop signal `{STOP_SIGNAL}`"
        yield file.error(
            "scenario-without-turns",
            f"The starting prompt of `{case.eval_id}` {reason}, so the conversation would have no turn.",
            (*path, "starting_prompt"),
            "Write what the user says first.",
        )
    if isinstance(scenario.user_persona, UserPersona):
        yield from _check_persona(file, scenario.user_persona, (*path, "user_persona"))


def _check_persona(file: EvalFile, persona: UserPersona, path: JsonPath) -> Iterator[Problem]:
    for number, behavior in enumerate(persona.behaviors):
        at = (*path, "behaviors", number)
        texts: list[tuple[JsonPath, str]] = [
            ((*at, "name"), behavior.name),
            ((*at, "description"), behavior.description),
        ]
        for key in ("behavior_instructions", "violation_rubrics"):
            texts += [((*at, key, index), text) for index, text in enumerate(getattr(behavior, key))]
        for where, text in texts:
            try:
                check(text)
            except TemplateError as error:
                yield file.error(
                    "persona-template-invalid",
                    f"The text is not a Jinja template: {error}.",
                    where,
                    "Write a variable with two braces on each side, `{{ stop_signal }}`, and literal braces as "
                    "`{{ '{{' }}`.",
                )


def check_scenario_with_config(file: EvalFile, case: EvalCase, path: JsonPath, config: EvalConfig) -> Iterator[Problem]:
    """Problems of a scenario with its `user_simulator_config`; see `check_scenario`."""
    scenario, simulator = case.conversation_scenario, config.user_simulator_config
    if scenario is None or simulator is None:
        return
    path = (*path, "conversation_scenario")
    if simulator.get("type") == "llm_audio":
        yield file.error(
            "scenario-unsupported",
            f"The case `{case.eval_id}` needs a simulated user that speaks (`llm_audio` in `{config.source}`).",
            path,
            "Only text is supported: remove `type` from `user_simulator_config`, or select other cases.",
        )
    if simulator.get("max_allowed_invocations") == 0:
        message = "`max_allowed_invocations` is 0, so a scenario would have no turn."
        hint = "Write a number from 1, e.g. 20: the starting prompt counts as one. -1 means no limit."
        yield config.at("max_allowed_invocations", file.error("scenario-without-turns", message, path, hint))
    if scenario.user_persona is not None and not _uses_persona(simulator):
        yield file.error(
            "custom-instructions-invalid",
            f"The scenario has a persona, but the `custom_instructions` in `{config.source}` do not use `persona`.",
            (*path, "user_persona"),
            "Add e.g. `{{ persona.description }}` to them, or remove the persona.",
        )


def _uses_persona(simulator: Mapping[str, object]) -> bool:
    template = simulator.get("custom_instructions")
    if not isinstance(template, str):
        return True
    try:
        return PERSONA_VARIABLE in check(template)
    except TemplateError:
        return True  # Reported already for the config.
