"""A model without a network: rules stand where Gemini would, so that the example needs no key and never varies.

It sees just what a real model sees, the conversation and the rendered instruction, and answers with tool calls or
text. What it says comes from what the tools returned, so a broken tool shows in the calls or in the answer.

Each kind of request is a generator: it yields the calls of one step, is sent the tools' responses, and returns the
answer. As a model keeps nothing between two calls, the generator starts again on every call and is fed the responses
that the conversation already holds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from typing import Any

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types

from . import language as words

Call = tuple[str, dict[str, Any]]
Plan = Generator[list[Call], list[dict[str, Any]], str]


@dataclass(kw_only=True)
class Conversation:
    """What the model reads from a request."""

    question: str = ""
    """The user's last message, lower-cased."""
    earlier: list[str] = field(default_factory=list)
    """The messages before it."""
    responses: list[list[dict[str, Any]]] = field(default_factory=list)
    """What the tools returned since the question, step by step."""
    user_name: str = ""
    favourite_room: str = ""


def read_request(request: LlmRequest) -> Conversation:
    """Takes the conversation apart."""
    conversation = Conversation()
    for content in request.contents:
        parts = content.parts or []
        if answers := [dict(part.function_response.response or {}) for part in parts if part.function_response]:
            conversation.responses.append(answers)
        elif content.role == "user":
            if conversation.question:
                conversation.earlier.append(conversation.question)
            conversation.question = " ".join(part.text or "" for part in parts).lower()
            conversation.responses = []
    instruction = str(request.config.system_instruction or "")
    for line in instruction.splitlines():
        key, _, value = line.partition(":")
        if key == "User name":
            conversation.user_name = value.strip()
        elif key == "Favourite room":
            conversation.favourite_room = value.strip().lower()
    return conversation


def _remembered(conversation: Conversation, table: dict[str, tuple[str, ...]]) -> str | None:
    """What the question names, or else the latest message before it that names something."""
    for message in (conversation.question, *reversed(conversation.earlier)):
        if found := words.named(message, table):
            return found
    return None


def _help(language: words.Language) -> Plan:
    yield from ()
    return words.say("help", language)


def _which_room(language: words.Language) -> Plan:
    yield from ()
    return words.say("which_room", language)


def _greet(name: str, language: words.Language) -> Plan:
    yield from ()
    return words.say("greeting", language, name=name or "there").replace(" there,", ",")


def _list(room: str, language: words.Language) -> Plan:
    [found] = yield [("find_devices", {"room": room})]
    if not found["devices"]:
        return words.say("nothing_found", language, room=words.NAMES[language][room])
    phrase = words.device_names(found["devices"], language, with_status=True)
    return words.say("listing", language, room=words.NAMES[language][room], devices=phrase)


def _switch(room: str | None, kind: str | None, status: str, language: words.Language) -> Plan:
    [found] = yield [("find_devices", {"room": room} if room else {})]
    devices = [device for device in found["devices"] if kind in {None, device["kind"]}]
    if not devices:
        return words.say("nothing_found", language, room=words.NAMES[language].get(room or "", "home"))
    if room is None:
        devices = [device for device in devices if device["status"] != status] or devices[:1]
    calls = [("set_device_status", {"device_id": device["device_id"], "status": status}) for device in devices]
    results = yield calls
    key = "switched" if any(result["changed"] for result in results) else "already"
    return _about_devices(key, results, language)


def _schedule(room: str, kind: str, status: str, time: str, language: words.Language) -> Plan:
    [found] = yield [("find_devices", {"room": room})]
    devices = [device for device in found["devices"] if device["kind"] == kind]
    if not devices:
        return words.say("nothing_found", language, room=words.NAMES[language][room])
    results = yield [("schedule_device", {"device_id": devices[0]["device_id"], "status": status, "time": time})]
    return _about_devices("scheduled", results, language)


def _about_devices(key: str, results: list[dict[str, Any]], language: words.Language) -> str:
    return words.say(
        key,
        language,
        devices=words.device_names(results, language),
        verb="is" if len(results) == 1 else "are",
        status=words.STATES[language][results[0]["status"]],
        time=results[0].get("time"),
    )


def _read_temperature(room: str, language: words.Language) -> Plan:
    [reading] = yield [("get_temperature", {"room": room})]
    values = {"current": reading["current"], "target": reading["target"]}
    return words.say("temperature", language, room=words.NAMES[language][room], **values)


def _set_temperature(room: str, celsius: int, language: words.Language) -> Plan:
    [result] = yield [("set_temperature", {"room": room, "celsius": celsius})]
    if "error" in result:
        return words.say("refused", language, error=result["error"])
    return words.say("temperature_set", language, room=words.NAMES[language][room], target=result["target"])


def _warm_up(room: str, language: words.Language) -> Plan:
    [reading] = yield [("get_temperature", {"room": room})]
    [result] = yield [("set_temperature", {"room": room, "celsius": reading["target"] + 3})]
    return words.say("temperature_set", language, room=words.NAMES[language][room], target=result["target"])


def choose_plan(conversation: Conversation) -> Plan:
    """Decides what the user wants."""
    question = conversation.question
    language = words.language_of(question)
    room = _remembered(conversation, words.ROOMS)
    if words.mentions(question, words.COLD):
        cold_room = room or conversation.favourite_room
        return _warm_up(cold_room, language) if cold_room in words.ROOMS else _which_room(language)
    if words.mentions(question, words.TEMPERATURE):
        degrees = re.search(r"(\d+)\s*(?:degrees|°c|度)", question)
        if room is None:
            return _which_room(language)
        return _set_temperature(room, int(degrees[1]), language) if degrees else _read_temperature(room, language)
    if words.mentions(question, words.LISTING):
        return _list(room, language) if room else _which_room(language)
    status = words.named(question, words.STATUSES)
    if status is None and words.mentions(question, words.SAME):
        status = _remembered(conversation, words.STATUSES)
    if status is None:
        greeted = words.mentions(question, words.GREETING)
        return _greet(conversation.user_name, language) if greeted else _help(language)
    if words.mentions(question, words.EVERYTHING):
        return _switch(words.named(question, words.ROOMS), words.named(question, words.KINDS), status, language)
    kind = _remembered(conversation, words.KINDS)
    if room is None:
        return _which_room(language)
    if time := re.search(r"\b\d\d:\d\d", question):
        return _schedule(room, kind or "lamp", status, time[0], language)
    return _switch(room, kind, status, language)


def next_step(plan: Plan, responses: list[list[dict[str, Any]]]) -> list[Call] | str:
    """Leads a plan through the responses so far: the calls to make next, or the answer."""
    try:
        calls = next(plan)
        for step in responses:
            calls = plan.send(step)
    except StopIteration as end:
        return str(end.value)
    return calls


class ScriptedModel(BaseLlm):
    """Answers by rules what a language model would answer by judgement."""

    model: str = "scripted-home-model"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        conversation = read_request(llm_request)
        step = next_step(choose_plan(conversation), conversation.responses)
        if isinstance(step, str):
            parts = [types.Part(text=step)]
        else:
            parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in step]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=sum(len(str(content)) for content in llm_request.contents) // 4,
                candidates_token_count=sum(len(str(part.text or part.function_call)) for part in parts) // 4,
            ),
        )
