"""Reads the datasets of Google's agents-cli into eval sets.

As `agents-cli eval generate` runs a case: `prompt`, or the last message of `agent_data.turns`, is the one turn to run.
What comes before is the past: it is appended to the new session, not run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from agent_eval_scoring.core.content import Content
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.core.problem import Problem, Severity, has_error
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.json import Document, JsonPath
from agent_eval_scoring.evalset.models import ConversationScenario, EvalCase, EvalSet, SeededEvent, SessionInput
from agent_eval_scoring.evalset.models.dataset import Dataset, DatasetCase, DatasetEvent
from agent_eval_scoring.evalset.parse.legacy import Converted
from agent_eval_scoring.evalset.parse.shape import shape_problems

GROUP_KEY = "rubric_group_key"
"""The option that names the group of rubrics."""
FOLDER = ("eval", "datasets")
"""Where agents-cli keeps datasets: in this folder of the project, or of its `tests`."""
TRAJECTORY = "reference_trajectory"
"""A key that the format does not have: contents with the calls that are expected."""
_USER_ID, _APP_NAME = "eval-cli-user", "app"
"""Those of agents-cli's sessions."""
_REFERENCE = '{"response": {"role": "model", "parts": [{"text": "..."}]}}'
_MESSAGE = '{"role": "user", "parts": [{"text": "..."}]}'
_INSTEAD = {
    **dict.fromkeys(("expected_tool_use", "expected_tool_calls", "expected_trajectory", "tool_uses"), TRAJECTORY),
    **dict.fromkeys(("session_input", "initial_session", "initial_state"), "state_delta"),
    **dict.fromkeys(("reference_final_response", "final_response", "expected_response"), "reference"),
}
"""Keys that people write and that have no effect, and the key that has."""
_HOW = {
    TRAJECTORY: f'Write "{TRAJECTORY}": [{{"role": "model", "parts": [{{"function_call": {{"name": ..., "args": ...}}}}'
    "]}], and give `tool_trajectory_avg_score` a threshold in a test_config.json.",
    "state_delta": 'Write an event {"author": "user", "state_delta": {...}} before the message, in `agent_data.turns`.',
    "reference": f"Write `reference`: {_REFERENCE}.",
}
_CASES = re.compile(r'"eval_?[cC]ases"\s*:')
_SET_ID = re.compile(r'"eval_?[sS]et_?[iI]d"\s*:')
_OWN = re.compile(r'"(?:eval_?[cC]ase_?[iI]d|agent_?[dD]ata)"\s*:')
"""Keys of its cases that those of ADK don't have."""


def is_dataset_text(text: str) -> bool:
    """Whether a file is a dataset, or one with a mistake, and no eval set of ADK."""
    # By text: a file with a syntax error is still a dataset, and its error has to be reported.
    return bool(_CASES.search(text)) and (not _SET_ID.search(text) or bool(_OWN.search(text)))


def in_dataset_folder(name: str) -> bool:
    """Whether a path is below a folder in which agents-cli keeps datasets."""
    parts = PurePosixPath(name).parts[:-1]
    return name.endswith(".json") and any(pair == FOLDER for pair in itertools.pairwise(parts))


def is_dataset(value: Any) -> bool:
    """Whether a document is a dataset of agents-cli, not an eval set of ADK.

    A set's id, which agents-cli ignores, leaves it one if the cases can't be ADK's.
    """
    if not isinstance(value, dict):
        return False
    cases = value.get("eval_cases", value.get("evalCases"))
    own = {"eval_case_id", "evalCaseId", "agent_data", "agentData"}
    # With a set's id it may be ADK's, whose cases may have additional keys of these names.
    if value.keys().isdisjoint(("eval_set_id", "evalSetId")):
        own |= {"prompt", "user_scenario", "userScenario"}
    return isinstance(cases, list) and any(isinstance(case, dict) and not own.isdisjoint(case) for case in cases)


def convert_dataset(document: Document) -> tuple[Converted | None, list[Problem]]:
    """Converts a document for which `is_dataset` is true.

    Returns:
        The converted file, or None if a problem is an error; and the problems.
    """
    key = "eval_cases" if "eval_cases" in document.value else "evalCases"
    items: list[Any] = document.value[key]
    problems = [problem for index, item in enumerate(items) for problem in _bare_texts(document, (key, index), item)]
    wrong = {problem.path for problem in problems}
    try:
        cases = Dataset.model_validate(document.value).eval_cases
    except ValidationError as error:
        shape = shape_problems(document, error, Dataset, ())
        # A text in the place of a message gives an error for each form that a message has.
        others = [problem for problem in shape if not any((problem.path or "").startswith(str(path)) for path in wrong)]
        return None, [*problems, *others]
    if any(case.responses for case in cases):
        message = "The cases have answers (`responses`), which only `recorded:` scores; any other agent is asked again."
        hint = f"To score them: `--agent recorded:{document.file}`."
        problems.append(
            document.problem(Severity.NOTICE, "dataset-of-traces", message, path=(key,), key=True, hint=hint)
        )
    for index, case in enumerate(cases):
        # What a trace has after the message is its answer, and no conversation that "ends with the agent".
        asked = _without_answers(case) if case.responses else case
        problems += _problems(document, (key, index), asked, is_trace=bool(case.responses))
    cases = [_without_answers(case) if case.responses else case for case in cases]
    if key != "eval_cases" or any("evalCaseId" in item or "agentData" in item for item in items):
        message = "The keys are in camelCase, which `agents-cli eval generate` refuses."
        problems.append(document.warning("agents-cli-differs", message, path=(key,), key=True, hint="Use snake_case."))
    if has_error(problems):
        return None, problems
    # agents-cli's sets have no id; the name of the file is what `adk web` would look for.
    set_id = PurePosixPath(document.file).stem
    converted = [_case(case, case.eval_case_id or f"case_{index}") for index, case in enumerate(cases)]
    return Converted(eval_set=EvalSet(eval_set_id=set_id, eval_cases=converted), form="dataset", key=key), problems


def answered_cases(document: Document) -> Iterator[tuple[str, Content, list[DatasetEvent]]]:
    """Of each case of a file of traces, its id, the message that was sent, and what the agent said.

    Raises:
        ValueError: It is malformed, or a case has no answer.
    """
    for index, case in enumerate(Dataset.model_validate(document.value).eval_cases):
        events, eval_id, sent = _events(case), case.eval_case_id or f"case_{index}", _sent(case)
        message = case.prompt or (events[sent - 1].content if sent else None)
        if message is None or not (case.responses or any(event.content for event in events[sent:])):
            raise ValueError(f"its case `{eval_id}` has no answer: it is a dataset, not traces")
        yield eval_id, message, events[sent:]


def _sent(case: DatasetCase) -> int:
    """How many events of a trace there are until the message was sent, with it; 0 if it is not among them.

    What follows is the answer, with all that a person said meanwhile, e.g. to confirm a call.
    """
    events = _events(case)
    asked = [at for at, event in enumerate(events, 1) if event.author == "user" and _is_asked(event.content)]
    # Some traces repeat the prompt among the events, others have it beside them only.
    return next((at for at in asked if events[at - 1].content == case.prompt), asked[-1] if asked else 0)


def _without_answers(case: DatasetCase) -> DatasetCase:
    """A case of a trace as a case to run."""
    left, turns = _sent(case), []
    for turn in (case.agent_data.turns if case.agent_data is not None else None) or []:
        events = turn.events or []
        if left > 0:
            turns.append(turn.model_copy(update={"events": events[:left]}))
        left -= len(events)
    data = None if case.agent_data is None else case.agent_data.model_copy(update={"turns": turns})
    return case.model_copy(update={"responses": None, "agent_data": data})


def _is_asked(content: Content | None) -> bool:
    """Whether a content of the user is a message, not only the response of a call."""
    return content is not None and any(part.function_response is None for part in content.iter_parts())


def _bare_texts(document: Document, path: JsonPath, case: Any) -> Iterator[Problem]:
    """Texts where the format has messages."""
    if not isinstance(case, dict):
        return
    if isinstance(case.get("prompt"), str):
        message = "`prompt` must be a message, not a text."
        yield document.error("wrong-type", message, path=(*path, "prompt"), hint=f'Write "prompt": {_MESSAGE}.')
    reference = case.get("reference")
    if reference is not None and not (isinstance(reference, dict) and "response" in reference):
        what = "a text" if isinstance(reference, str) else "the message itself"
        message = f"`reference` must be an object with a `response`, not {what}."
        yield document.error("wrong-type", message, path=(*path, "reference"), hint=f'Write "reference": {_REFERENCE}.')


_OTHER_IDS = ("eval_id", "evalId", "id", "case_id", "name")
"""What other formats call the id of a case."""


def _problems(document: Document, path: JsonPath, case: DatasetCase, *, is_trace: bool) -> Iterator[Problem]:
    """What can't be run in a case, and what has no effect."""
    events = _events(case)
    written = document.value
    for step in path:
        written = written[step]
    where: JsonPath = (*path, "agent_data", "turns")
    if case.prompt is not None and events and not is_trace:
        yield document.error(
            "dataset-message",
            "The case has both `prompt` and `agent_data.turns`, so what to send is ambiguous.",
            path=(*path, "prompt"),
            key=True,
            hint="Keep one: `prompt` for a single message, `turns` for a conversation that ends with one.",
        )
    elif events and (events[-1].author != "user" or events[-1].content is None):
        last = f"ends with an event of `{events[-1].author}`" if events[-1].author != "user" else "ends without a text"
        yield document.error(
            "dataset-message",
            f"The conversation {last}, so there is nothing to send.",
            path=where,
            hint="Add the user's next message as the last event. To score answers that exist, use `recorded:`.",
        )
    elif case.prompt is None and not events and case.user_scenario is None:
        message = "The case has neither a `prompt` nor `agent_data.turns`, so there is nothing to send."
        hint = f'Add "prompt": {_MESSAGE}.'
        if "conversation" in written:
            hint = f'`conversation` is of ADK\'s eval sets. In a dataset of agents-cli, write "prompt": {_MESSAGE}.'
        yield document.error("dataset-message", message, path=path, hint=hint)
    if case.eval_case_id is None and (key := next((key for key in _OTHER_IDS if key in written), None)) is not None:
        message = (
            f"`{key}` is not read in a dataset: the case is called `case_{path[-1]}`, after its place in the file."
        )
        hint = f"Rename `{key}` to `eval_case_id`."
        yield document.warning("case-without-id", message, path=(*path, key), key=True, hint=hint)
    elif case.eval_case_id is None:
        yield document.warning(
            "case-without-id",
            f"The case has no `eval_case_id`: it is called `case_{path[-1]}`, after its place in the file.",
            path=path,
            hint="Add one. Else other cases are compared as soon as the order changes.",
        )
    open_messages = _unanswered(events)
    if open_messages:
        yield document.warning(
            "dataset-unanswered",
            f"{plural(open_messages, 'earlier user message')} {'has' if open_messages == 1 else 'have'} no answer: "
            "only the last message is run.",
            path=where,
            hint="As in `agents-cli eval generate`, which plays all turns only in live mode. Add the agent's answers.",
        )
    for name in case.model_extra or {}:
        if name in _INSTEAD:
            instead = _INSTEAD[name]
            message = f"`{name}` has no effect in a dataset, here or in agents-cli."
            yield document.warning("field-not-used", message, path=(*path, name), key=True, hint=_HOW[instead])


def _events(case: DatasetCase) -> list[DatasetEvent]:
    turns = (case.agent_data.turns if case.agent_data is not None else None) or []
    return [event for turn in turns for event in turn.events or []]


def _unanswered(events: list[DatasetEvent]) -> int:
    """How many of the user's earlier messages the user follows with another one."""
    said = [event.author == "user" for event in events if event.content is not None]
    return sum(first and second for first, second in itertools.pairwise(said))


def _case(case: DatasetCase, eval_id: str) -> EvalCase:
    events = _events(case)
    message = case.prompt or (events[-1].content if events else None)
    # Events without a content only change the state, which is collected below.
    past = [SeededEvent(author=event.author or "user", content=event.content) for event in events[:-1] if event.content]
    # Nothing runs in between, so only what all changes come to matters. google-adk 1.39 refuses them in events.
    state = {key: value for event in events for key, value in (event.state_delta or {}).items()}
    session = SessionInput(app_name=_APP_NAME, user_id=_USER_ID, state=state, events=past)
    if message is None:
        assert case.user_scenario is not None
        scenario = ConversationScenario(
            starting_prompt=case.user_scenario.starting_prompt, conversation_plan=case.user_scenario.conversation_plan
        )
        return EvalCase(eval_id=eval_id, conversation_scenario=scenario, session_input=session, dataset_case=case)
    turn = Invocation(
        user_content=message,
        final_response=None if case.reference is None else case.reference.response,
        intermediate_data=_trajectory(case),
    )
    return EvalCase(eval_id=eval_id, conversation=[turn], session_input=session, dataset_case=case)


def _trajectory(case: DatasetCase) -> IntermediateData | None:
    """The expected calls; None if the case says nothing of them."""
    if case.reference_trajectory is None:
        return None
    parts = [part for content in case.reference_trajectory for part in content.iter_parts()]
    return IntermediateData(tool_uses=[part.function_call for part in parts if part.function_call is not None])
