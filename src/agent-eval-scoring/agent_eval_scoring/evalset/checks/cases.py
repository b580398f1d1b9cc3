"""Checks the content of eval sets, alone and together with their criteria."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from agent_eval_scoring.core.content import Content, Part, is_base64
from agent_eval_scoring.core.invocation import MEASURED, IntermediateData, Invocation, InvocationEvents, Rubric
from agent_eval_scoring.core.problem import MAX_PROBLEMS, Problem, Severity
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.evalset.checks.references import criteria_of, is_idle, omitted_args, turns_without_references
from agent_eval_scoring.evalset.json import JsonPath
from agent_eval_scoring.evalset.models import METRICS, PERSONA_IDS, CriterionConfig, EvalCase, EvalConfig, MetricSpec
from agent_eval_scoring.evalset.parse import (
    EMPTY_RUBRIC,
    EvalFile,
    check_scenario,
    check_scenario_with_config,
    did_you_mean,
    keys_of,
)


def check_cases(file: EvalFile) -> Iterator[Problem]:
    """Problems of the cases that do not depend on the criteria."""
    first: dict[str, int] = {}
    lines: dict[int, int] = {}
    for index, case in file.cases.items():
        path: JsonPath = ("eval_cases", index)
        if case.eval_id in first:
            # Only if there is a duplicate: it reads the positions of all cases.
            lines = lines or file.case_lines()
            yield file.error(
                "duplicate-eval-id",
                f"The eval id `{case.eval_id}` is used twice in this file; first on line {lines[first[case.eval_id]]}.",
                (*path, "eval_id"),
                "Give each case a unique id, which identifies it in results and baselines.",
            )
        first.setdefault(case.eval_id, index)
        if not case.eval_id.strip():
            hint = 'Write a name, e.g. "berlin": it selects the case, and identifies it in results and baselines.'
            yield file.warning(
                "invalid-value", "`eval_id` is empty, so that nothing can select the case.", (*path, "eval_id"), hint
            )
        # Nothing would run, and what does not run can't fail.
        if case.conversation == []:
            yield file.error(
                "empty-conversation",
                f"The conversation of `{case.eval_id}` has no turns, so there is nothing to run.",
                (*path, "conversation"),
                "Add a turn, or delete the case.",
            )
        yield from _recorded_keys(file, case, path)
        yield from _nameless_calls(file, case, path)
        yield from _calls_beside_content(file, case, path)
        yield from _odd_messages(file, case, path)
        yield from _persona(file, case, path)
        yield from check_scenario(file, case, path)
        yield from _rubric_ids(file, case, path)
    yield from islice(_odd_parts(file), MAX_PROBLEMS)  # Limited: each takes a search for similar names.
    if file.eval_set is not None and not file.eval_set.eval_cases:
        yield file.warning(
            "empty-eval-set", "The eval set has no cases.", ("eval_cases",), "Add cases, or delete the file."
        )


def _recorded_keys(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Keys of recordings, which ADK rejects in an eval file."""
    for number, turn in enumerate(case.conversation or ()):
        # The model has them, since recordings are turns, too; ADK's has not, and rejects the file.
        for key in sorted(MEASURED & turn.model_fields_set):
            yield file.error(
                "unknown-key",
                f"`{key}` is not a key of an invocation.",
                (*path, "conversation", number, key),
                "It was measured when a run was recorded. Remove it.",
            )


def _calls_beside_content(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Calls and texts of events beside their `content`. Other keys are ignored: `adk web` adds some."""
    for number, turn in enumerate(case.conversation or ()):
        data = turn.intermediate_data
        for index, event in enumerate(data.invocation_events if isinstance(data, InvocationEvents) else ()):
            at = (*path, "conversation", number, "intermediate_data", "invocation_events", index)
            written = file.value_at(at) if event.content is None else {}
            for key in ("function_call", "functionCall", "function_response", "functionResponse", "parts", "text"):
                if isinstance(written, dict) and written.get(key) is not None:
                    inside = f'"parts": [{{"{key}": ...}}]' if key != "parts" else '"parts": [...]'
                    message = f"`{key}` of an event is not read, so nothing is expected."
                    yield file.warning("misspelt-key", message, (*at, key), f'Write "content": {{{inside}}}.')


def _nameless_calls(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Expected calls that no call can match."""
    for number, turn in enumerate(case.conversation or ()):
        data = turn.intermediate_data
        for index, call in enumerate(data.tool_uses if isinstance(data, IntermediateData) else ()):
            # A warning: ADK loads it. Its trajectory can't match then, whatever the agent does.
            if not call.name:
                at = (*path, "conversation", number, "intermediate_data", "tool_uses", index)
                message = "The expected call has no `name`, so no call of the agent can match it."
                yield file.warning("invalid-value", message, at, 'Add "name": "get_weather", the tool\'s name.')
            elif (name := re.match(r"([^\s()]+)([\s()])", call.name)) is not None:
                at = (*path, "conversation", number, "intermediate_data", "tool_uses", index, "name")
                message = f"No tool can be named `{call.name}`, so no call of the agent can match it."
                hint = "Write the name that the agent declares: it has no spaces and no parentheses."
                hint = f'Write only the tool\'s name: "{name[1]}".' if name[2] == "(" else hint
                yield file.warning("invalid-value", message, at, hint)
        for index, part in enumerate(turn.final_response.iter_parts() if turn.final_response is not None else ()):
            if part.function_call is not None:
                yield file.warning(
                    "odd-message",
                    "A call in `final_response` is compared with nothing.",
                    (*path, "conversation", number, "final_response", "parts", index, "function_call"),
                    "Expected calls stand in `intermediate_data.tool_uses`.",
                )


def _odd_messages(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Warnings about messages that are sent as they are, and that a model probably does not answer as intended."""
    for number, turn in enumerate(case.conversation or ()):
        at: JsonPath = (*path, "conversation", number, "user_content")
        # The model would take the message for something that it has said itself.
        if (role := turn.user_content.role) not in {None, "", "user"}:
            message, hint = f"The user's message has the role `{role}`.", "Write `user`, or omit the role."
            yield file.warning("odd-message", message, (*at, "role"), hint)
        if not any(
            # Not only texts: a message may be a picture, or the answer to a long-running tool.
            part.text or part.model_dump(exclude={"text"}, exclude_none=True)
            for part in turn.user_content.iter_parts()
        ):
            hint = 'Write {"parts": [{"text": "..."}]}.'
            yield file.warning("odd-message", "The user's message is empty.", at, hint)


def check_against_config(file: EvalFile, indices: Iterable[int], config: EvalConfig) -> Iterator[Problem]:
    """Problems of cases that the criteria can't score or that can't pass.

    Args:
        file: The file.
        indices: The indices of the selected cases.
        config: The config of the file.
    """
    known = [(METRICS.get(criterion.metric), criterion) for criterion in config.criteria]
    # A function of the repository decides itself what it needs.
    declared = [(spec, each) for spec, each in known if spec is not None and each.metric not in config.custom_metrics]
    # The defaults are named: nobody has written them, so a finding about them would have no place.
    where = "ADK's default criteria" if config.source is None else f"`{config.source}`"
    for index in indices:
        case = file.cases[index]
        path: JsonPath = ("eval_cases", index)
        judging = criteria_of(config, case)
        dataset = case.dataset_case  # Groups of rubrics of which none is selected have been reported.
        builtin = [
            (spec, each)
            for spec, each in declared
            if dataset is None or each in judging or (is_idle(each, case) and not dataset.rubric_groups)
        ]
        specs = [spec for spec, _ in builtin]
        if case.conversation_scenario is not None:
            yield from _scenario_without_references(file, case, path, specs, where)
            yield from check_scenario_with_config(file, case, path, config)
        elif case.conversation:
            yield from turns_without_references(file, case.conversation, path, builtin, where)
            yield from islice(omitted_args(file, case.conversation, path, builtin), MAX_PROBLEMS)
            yield from _scenario_missing(file, case, path, specs, where)
        past = case.session_input.events if case.session_input is not None else []
        # Turns of a history were not run here: only the one that follows is scored.
        if past and (over := [spec for spec in specs if spec.name in _OVER_THE_CONVERSATION]):
            yield file.warning(
                "agents-cli-differs",
                f"{_names(over)} ({where}) judges the last turn of `{case.eval_id}` alone, without its history.",
                path,
                "Score what depends on the history with a function of `custom_metrics`, which sees it.",
            )
        # ADK reads the key and compares it with nothing (Q15), so authors believe that it is checked.
        if case.expected_state and not any(spec.needs_state for spec in specs):
            yield file.warning(
                "final-state-not-compared",
                f"`{case.eval_id}` expects a `final_session_state`, which no criterion ({where}) compares.",
                (*path, "final_session_state"),
                'Add "final_session_state": 1.0 to `criteria`, or remove it.',
            )
        lacking = [criterion.name for criterion in config.criteria if is_idle(criterion, case)]
        for spec, criterion in builtin:
            if spec.needs_state:
                # If nothing else scores the case, it would pass by default.
                if len(lacking) == len(config.criteria):
                    yield file.error(
                        "needs-reference",
                        f"`{case.eval_id}` has no `final_session_state`, and no other criterion ({where}) scores it.",
                        path,
                        "Add what the session's state has at the end, or another criterion.",
                    )
            elif (
                criterion.name in lacking
                and len(lacking) < len(config.criteria)
                and (dataset is not None or not all(is_idle(criterion, other) for other in file.cases.values()))
            ):
                yield file.warning(
                    "case-without-rubrics",
                    f"`{criterion.name}` ({where}) does not judge `{case.eval_id}`: it has no rubric for this case.",
                    path,
                    f"As in ADK, other criteria decide. To change this, add rubrics with `type` `{spec.rubric_type}`."
                    if dataset is None
                    else "Other criteria decide. To change this, give the case `rubric_groups`.",
                )
            elif spec.rubric_type is not None:
                yield from _effective_rubrics(file, case, path, spec, criterion, where, config)


_OVER_THE_CONVERSATION = frozenset(
    {
        *("multi_turn_task_success_v1", "multi_turn_trajectory_quality_v1", "multi_turn_tool_use_quality_v1"),
        *("rubric_based_multi_turn_trajectory_quality_v1", "hallucinations_v1"),
    }
)
"""What judges a turn by those before it."""


def _names(specs: Iterable[MetricSpec]) -> str:
    return " and ".join(f"`{spec.name}`" for spec in specs)


def _scenario_without_references(
    file: EvalFile, case: EvalCase, path: JsonPath, specs: Sequence[MetricSpec], where: str
) -> Iterator[Problem]:
    needing = [spec for spec in specs if spec.needs_reference]
    if needing:
        free = ", ".join(f"`{spec.name}`" for spec in METRICS.values() if spec.name in _FOR_SCENARIOS)
        yield file.error(
            "needs-reference",
            f"`{case.eval_id}` is a scenario, but {_names(needing)} ({where}) compare with expected turns.",
            (*path, "conversation_scenario"),
            f"Move it to a directory with a test_config.json of criteria that need none: {free}.",
        )


_FOR_SCENARIOS = (
    "tool_rules",
    "final_session_state",
    "hallucinations_v1",
    "safety_v1",
    "rubric_based_final_response_quality_v1",
    "rubric_based_tool_use_quality_v1",
    "per_turn_user_simulator_quality_v1",
    "multi_turn_task_success_v1",
)


def _scenario_missing(
    file: EvalFile, case: EvalCase, path: JsonPath, specs: Sequence[MetricSpec], where: str
) -> Iterator[Problem]:
    needing = [spec for spec in specs if spec.needs_scenario]
    if needing:
        yield file.error(
            "needs-scenario",
            f"`{case.eval_id}` has fixed turns, but {_names(needing)} ({where}) judges a simulated user.",
            path,
            "Give the case a `conversation_scenario`, or remove the criterion.",
        )


def _effective_rubrics(
    file: EvalFile,
    case: EvalCase,
    path: JsonPath,
    spec: MetricSpec,
    criterion: CriterionConfig,
    where: str,
    config: EvalConfig,
) -> Iterator[Problem]:
    """Problems of the rubrics of a metric: those of its criterion, of the case and of each turn."""
    configured: Sequence[Rubric] = criterion.options.get("rubrics", ())
    taken = {rubric.rubric_id for rubric in configured}
    scopes: list[tuple[JsonPath, Sequence[Rubric]]] = [(path, case.rubrics or ())]
    scopes += [
        ((*path, "conversation", number), turn.rubrics or ()) for number, turn in enumerate(case.conversation or ())
    ]
    for scope, rubrics in scopes:
        for number, rubric in enumerate(rubrics):
            if rubric.type == spec.rubric_type and rubric.rubric_id in taken:
                yield file.error(
                    "duplicate-rubric-id",
                    f"The rubric id `{rubric.rubric_id}` is also used by the criterion `{spec.name}` in {where}.",
                    (*scope, "rubrics", number, "rubric_id"),
                    "Give each rubric a unique id.",
                )
    yield from _without_weight(file, case, path, spec, criterion, [rubrics for _, rubrics in scopes], config)
    shared = bool(configured) or any(rubric.type == spec.rubric_type for rubric in case.rubrics or ())
    bare = [scope for scope, rubrics in scopes[1:] if not any(rubric.type == spec.rubric_type for rubric in rubrics)]
    # It judges the whole conversation once, after its last turn, and reads that turn's rubrics.
    only_last = spec.name == "rubric_based_multi_turn_trajectory_quality_v1"
    if only_last and scopes[-1][0] not in bare:
        bare = []
    other = [(scope, number, rubric) for scope, rubrics in scopes for number, rubric in enumerate(rubrics)]
    # Some have the right type, so a missing one is no mistake in the `type` of another.
    if any(rubric.type == spec.rubric_type for _, _, rubric in other):
        other = []
    if not shared and (bare or case.conversation_scenario is not None) and other:
        scope, number, rubric = other[0]
        what = f"the type `{rubric.type}`" if rubric.type else "no `type`"
        yield file.error(
            "no-rubrics",
            f"`{spec.name}` ({where}) has no rubric: `{rubric.rubric_id}` has {what}, so it is not used.",
            (*scope, "rubrics", number),
            f'Write "type": "{spec.rubric_type}" in it.',
        )
    elif not shared and (bare or case.conversation_scenario is not None):
        yield file.error(
            "no-rubrics",
            f"`{criterion.name}` ({where}) has no rubric for {'this turn' if bare else 'this scenario'}.",
            bare[-1 if only_last else 0] if bare else path,
            'Add to the criterion "rubrics": [{"rubric_id": "polite", "rubric_content": {"text_property": "The answer '
            f'is polite."}}}}], or some with `type` `{spec.rubric_type}` to the case.'
            if case.dataset_case is None
            else "Give the case `rubric_groups`: only Google's service makes up rubrics.",
        )


def _without_weight(
    file: EvalFile,
    case: EvalCase,
    path: JsonPath,
    spec: MetricSpec,
    criterion: CriterionConfig,
    scopes: Sequence[Sequence[Rubric]],
    config: EvalConfig,
) -> Iterator[Problem]:
    """The case would have no score if all its rubrics have the weight 0."""
    weights = criterion.options.get("rubric_weights", {})
    own = [rubric for rubrics in scopes for rubric in rubrics if rubric.type == spec.rubric_type]
    rubrics = [*criterion.options.get("rubrics", ()), *own]
    # A weighted mean of weights that are all 0 is no number.
    if rubrics and not any(weights.get(rubric.rubric_id, 1.0) for rubric in rubrics):
        cases = f" for `{case.eval_id}`" if own else ""
        message = f"All rubrics of `{spec.name}`{cases} have the weight 0, so it would have no score."
        problem = file.error("zero-rubric-weights", message, path, "Give one of them a positive weight.")
        yield config.at(f"{criterion.name}.rubric_weights", problem)


def _persona(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    scenario = case.conversation_scenario
    if scenario is None or not isinstance(scenario.user_persona, str) or scenario.user_persona in PERSONA_IDS:
        return
    close = nearby(scenario.user_persona, PERSONA_IDS, count=1)
    names = ", ".join(f"`{name}`" for name in PERSONA_IDS)
    yield file.error(
        "unknown-persona",
        f"There is no persona `{scenario.user_persona}`.",
        (*path, "conversation_scenario", "user_persona"),
        f"Did you mean `{close[0]}`?" if close else f"Known personas: {names}; or write one inline.",
    )


def _rubric_ids(file: EvalFile, case: EvalCase, path: JsonPath) -> Iterator[Problem]:
    """Rubrics without text, and duplicate ids in a turn and its case. ADK ends the whole run for one of these."""
    taken: dict[str, str] = {}
    yield from _taken(file, case.rubrics or (), path, taken, "case")
    for number, turn in enumerate(case.conversation or ()):
        if turn.rubrics:
            # A copy: the rubrics of one turn don't apply to the next.
            yield from _taken(file, turn.rubrics, (*path, "conversation", number), dict(taken), "turn")


def _taken(
    file: EvalFile, rubrics: Sequence[Rubric], path: JsonPath, taken: dict[str, str], scope: str
) -> Iterator[Problem]:
    for number, rubric in enumerate(rubrics):
        if not (rubric.rubric_content.text_property or "").strip():
            message, hint = EMPTY_RUBRIC
            yield file.warning("invalid-value", message.format(rubric.rubric_id), (*path, "rubrics", number), hint)
        if rubric.rubric_id in taken:
            yield file.error(
                "duplicate-rubric-id",
                f"The rubric id `{rubric.rubric_id}` is already used in this {taken[rubric.rubric_id]}.",
                (*path, "rubrics", number, "rubric_id"),
                "Give each rubric a unique id; the rubrics of a case apply to each of its turns.",
            )
        taken.setdefault(rubric.rubric_id, scope)


def _odd_parts(file: EvalFile) -> Iterator[Problem]:
    # A conversion has texts only, and its parts have no place in the file.
    if file.converted is not None:
        return
    for place, case in file.cases.items():
        for number, turn in enumerate(case.conversation or ()):
            for where, parts in _parts_of(turn):
                for index, part in enumerate(parts or ()):
                    at: JsonPath = ("eval_cases", place, "conversation", number, *where, index)
                    yield from _unknown_keys(file, part, at)
                    if not is_base64(part.thought_signature or ""):
                        message, hint = "`thought_signature` is not base64.", "Remove it, or its line breaks."
                        yield file.error("invalid-value", message, (*at, "thought_signature"), hint)


def _unknown_keys(file: EvalFile, part: Part, path: JsonPath) -> Iterator[Problem]:
    extra = part.model_extra or {}
    empty = part.model_fields_set <= set(extra)  # Nothing of it would be said.
    for key in extra:
        yield file.document.problem(
            Severity.ERROR if empty else Severity.WARNING,
            "unknown-part-key",
            f"`{key}` is not a known key of a part. It is ignored here, and ADK rejects it.",
            path=(*path, key),
            key=True,
            hint=did_you_mean(key, keys_of(Part)),
        )


def _parts_of(turn: Invocation) -> Iterator[tuple[JsonPath, Sequence[Part] | None]]:
    yield ("user_content", "parts"), turn.user_content.parts
    if turn.final_response is not None:
        yield ("final_response", "parts"), turn.final_response.parts
    data = turn.intermediate_data
    if isinstance(data, IntermediateData):
        for number, (_, parts) in enumerate(data.intermediate_responses):
            yield ("intermediate_data", "intermediate_responses", number, 1), parts
    elif data is not None:
        for number, event in enumerate(data.invocation_events):
            content: Content | None = event.content
            if content is not None:
                yield ("intermediate_data", "invocation_events", number, "content", "parts"), content.parts
