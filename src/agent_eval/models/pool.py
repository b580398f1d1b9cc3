"""All models behind one door: the cache or a replay, the lane to the model, a reply that fits, the bill."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agent_eval.models._budget import Meter
from agent_eval.models._cache import CachedReply, ReplyCache, key_of
from agent_eval.models._endpoint import Endpoint, key_owner, resolve
from agent_eval.models._generation import sort_config
from agent_eval.models._lane import Lane, Question
from agent_eval.models._provider import Ask, Client, Told
from agent_eval.models._structured import REMINDER, parse_reply
from agent_eval.models.prices import Price
from agent_eval.models.protocol import ModelFailure, ModelReply, ModelRequest
from agent_eval.models.settings import ModelSettings
from agent_eval.models.usage import Ledger, UsageEntry

_ASKED = 2
"""How often a question is asked until its reply fits."""


class ModelPool:
    """A Model (protocol.py) for every name. Used by many tasks of one event loop at once."""

    def __init__(
        self,
        settings: ModelSettings,
        environ: Mapping[str, str],
        *,
        models: Iterable[str] = (),
        until: float | None = None,
    ) -> None:
        """Sends nothing yet.

        Args:
            settings: See there.
            environ: Where keys and addresses are looked for.
            models: All names that will be asked, as far as known: they tell whose key `judge-api-key` is.
            until: When the run ends, by time.monotonic().
        """
        self._settings = settings
        self._environ = environ
        self._models = tuple(models)
        self._until = until
        self._lanes: dict[str, Lane | ModelFailure] = {}
        self._clients: dict[str, Client] = {}
        self._opening = asyncio.Lock()
        self._warming: asyncio.Task[None] | None = None
        self._replay = _cache(settings, settings.replay)
        self._cache = None if self._replay else _cache(settings, settings.cache)
        self.meter = Meter(settings.budget)
        """What the budget was spent on."""
        self.ledger = Ledger()
        """Who spent it."""

    async def prepare(self) -> list[ModelFailure]:
        """Opens the clients of all models that were named; nothing is sent to a model.

        Only those whose credentials have to be tried are waited for. The others open while the caller goes on: their
        libraries take as long to import as an agent takes to start.

        Returns:
            Why some can't be asked, each cause once.
        """
        found: dict[str, ModelFailure] = {}
        later: list[str] = []
        for model in () if self._replay else self._models:
            try:
                if self._endpoint(model).proven_by_opening:
                    await self._lane(model)
                else:
                    later.append(model)
            except ModelFailure as failure:
                found.setdefault(failure.message, failure)
        if later and self._warming is None:
            self._warming = asyncio.create_task(self._open_all(later))
        return list(found.values())

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answers; see Model."""
        key = key_of(request)
        if self._replay is not None:
            reply = self._recalled(request, self._replay.get(key))
            if reply is None:
                self.ledger.add(request, UsageEntry(failures=1))
                raise _not_recorded(request, self._settings)
            return reply
        lane = await self._lane(request.model)
        if self._cache is not None:
            reply = self._recalled(request, self._cache.get(key, lane.endpoint.identity))
            if reply is not None:
                return reply
        question = Question(ask=_ask(request, lane))
        fresh: ModelReply | None = None
        try:
            fresh = await _fitting(request, lane, question)
        except ModelFailure as failure:
            failure.calls = question.calls
            raise
        finally:
            self._book(request, lane, question, fresh)
        if self._cache is not None:
            self._cache.put(
                key,
                CachedReply(
                    identity=lane.endpoint.identity,
                    text=fresh.text,
                    model_version=fresh.model_version,
                    input_tokens=fresh.usage.input_tokens,
                    output_tokens=fresh.usage.output_tokens,
                    cached_tokens=fresh.usage.cached_tokens,
                    thought_tokens=fresh.usage.thought_tokens,
                ),
            )
        return fresh

    async def close(self) -> None:
        """Gives up connections."""
        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)  # Whoever asks meets it again.
        clients, self._clients = self._clients, {}
        self._lanes = {}
        for client in clients.values():
            await client.close()

    def concurrency(self, model: str) -> int | None:
        """Attempts to a model that may be in flight now; None if it was never asked."""
        lane = self._lanes.get(model)
        return lane.concurrency if isinstance(lane, Lane) else None

    def _recalled(self, request: ModelRequest, found: CachedReply | None) -> ModelReply | None:
        """A kept reply, if it (still) fits."""
        if found is None:
            return None
        try:
            value = None if request.schema is None else parse_reply(found.text, request.schema)
        except ValueError:
            return None
        self.ledger.add(request, UsageEntry(cached_replies=1, versions=(found.model_version,)))
        return ModelReply(
            text=found.text, value=value, usage=found.usage, model_version=found.model_version, calls=0, cached=True
        )

    def _book(self, request: ModelRequest, lane: Lane, question: Question, reply: ModelReply | None) -> None:
        priced = lane.price is not None and question.calls > 0
        self.ledger.add(
            request,
            UsageEntry(
                calls=question.calls,
                replies=int(reply is not None),
                failures=int(reply is None),
                versions=() if reply is None else (reply.model_version,),
                usage=question.usage,
                cost=lane.price.of(question.usage) if lane.price is not None and priced else None,
                unpriced_calls=0 if lane.price is not None else question.calls,
            ),
        )

    async def _lane(self, model: str) -> Lane:
        lane = self._lanes.get(model)
        if lane is None:
            async with self._opening:
                lane = self._lanes.get(model)
                if lane is None:
                    try:
                        lane = await self._open(model)
                    except ModelFailure as failure:
                        lane = failure
                    self._lanes[model] = lane
        if isinstance(lane, ModelFailure):
            raise ModelFailure(lane.kind, lane.message, lane.hint)
        return lane

    async def _open_all(self, models: Iterable[str]) -> None:
        for model in models:
            with contextlib.suppress(ModelFailure):  # It is kept for whoever asks this model.
                await self._lane(model)

    def _endpoint(self, model: str) -> Endpoint:
        try:
            owner = key_owner(self._settings, self._models or (model,), self._environ)
        except ValueError as error:
            raise ModelFailure("invalid-request", f"{error}.") from error
        return resolve(model, self._settings, self._environ, owner=owner)

    async def _open(self, model: str) -> Lane:
        endpoint = self._endpoint(model)
        price = price_of(endpoint, self._settings)
        if price is None and self._settings.budget.max_cost is not None:
            raise no_price(endpoint)
        client = self._clients.get(endpoint.client_key)
        if client is None:
            client = await asyncio.to_thread(_open_client, endpoint, 4 * self._settings.concurrency)
            self._clients[endpoint.client_key] = client
        return Lane(endpoint, client, self._settings, self.meter, price=price, until=self._until)


@asynccontextmanager
async def open_models(
    settings: ModelSettings, environ: Mapping[str, str], *, models: Iterable[str] = (), until: float | None = None
) -> AsyncIterator[ModelPool]:
    """A pool that is closed in the end; see ModelPool for the arguments."""
    pool = ModelPool(settings, environ, models=models, until=until)
    try:
        yield pool
    finally:
        await pool.close()


def price_of(endpoint: Endpoint, settings: ModelSettings) -> Price | None:
    """What a model's tokens cost, if that is known and if it tells how many it used."""
    if endpoint.provider.protocol == "vertex-eval":
        return None
    return settings.prices.get(endpoint.name.price_key)


def no_price(endpoint: Endpoint) -> ModelFailure:
    """A limit in money means nothing where nobody knows the price."""
    key = endpoint.name.price_key
    if endpoint.provider.protocol == "vertex-eval":
        return ModelFailure(
            "budget",
            "`max-cost` is set, but Vertex AI's evaluation service doesn't tell how much of it a call used.",
            "Use `max-judge-calls`.",
        )
    return ModelFailure(
        "budget",
        f"`max-cost` is set, but there is no price for `{key}`.",
        f'Add it to agent-eval.toml: [prices] "{key}" = {{ input = 0.30, output = 2.50 }} (US dollars for a million '
        "tokens), or use `max-tokens`.",
    )


def _cache(settings: ModelSettings, directory: Any) -> ReplyCache | None:
    return None if directory is None else ReplyCache(directory, max_bytes=settings.cache_bytes)


def _open_client(endpoint: Endpoint, connections: int) -> Client:
    if endpoint.provider.protocol == "gemini":
        from agent_eval.models._gemini import open_gemini

        return open_gemini(endpoint, connections=connections)
    if endpoint.provider.protocol == "vertex-eval":
        from agent_eval.models.vertex_eval import open_vertex_eval

        return open_vertex_eval(endpoint, connections=connections)
    from agent_eval.models._openai_chat import open_openai

    return open_openai(endpoint, connections=connections)


def _ask(request: ModelRequest, lane: Lane, reminder: str = "") -> Ask:
    config = sort_config(request.config, for_openai=lane.endpoint.provider.protocol != "gemini")
    if config.unknown:
        raise ModelFailure(
            "invalid-request",
            f"judge_model_config has no field `{config.unknown[0]}`.",
            "Its fields are those of google-genai's GenerateContentConfig.",
        )
    return Ask(
        model=lane.endpoint.name.model,
        prompt=_sendable(request.prompt) + reminder,
        system=None if request.system is None else _sendable(request.system),
        schema=request.schema,
        config=config.sent,
        timeout=0.0,  # The lane knows.
    )


def _sendable(text: str) -> str:
    """Without lone surrogates, which UTF-8 has no bytes for."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


async def _fitting(request: ModelRequest, lane: Lane, question: Question) -> ModelReply:
    """Asks, and once more if the reply doesn't fit."""
    why = ""
    for number in range(_ASKED):
        if number:
            question.ask = _ask(request, lane, "" if request.schema is None else REMINDER)
        told = await lane.answer(question)
        if told.end == "refused":
            raise ModelFailure("refused", f"`{request.model}`: {told.note}.")
        try:
            return _reply(request, told, question)
        except ValueError as error:
            why = str(error)
    raise ModelFailure(
        "malformed",
        f"`{request.model}` gave no usable reply, asked {_ASKED} times: {why}.",
        "A larger model, or a larger `max_output_tokens` in `judge_model_config`, may help.",
    )


def _reply(request: ModelRequest, told: Told, question: Question) -> ModelReply:
    if told.end == "truncated":
        raise ValueError(told.note)
    if request.schema is None and not told.text.strip():
        raise ValueError("it is empty")
    return ModelReply(
        text=told.text,
        value=None if request.schema is None else parse_reply(told.text, request.schema),
        usage=question.usage,
        model_version=told.model_version or request.model,
        calls=question.calls,
        cached=False,
    )


def _not_recorded(request: ModelRequest, settings: ModelSettings) -> ModelFailure:
    who = " of ".join(part for part in (request.purpose, request.case_id) if part)
    return ModelFailure(
        "replay-miss",
        f"{settings.replay} has no reply of `{request.model}` for this question"
        f" ({who + ', ' if who else ''}run {request.run + 1}, sample {request.sample + 1}).",
        "What decides a reply has changed: the prompt, the model or its config. Record it anew with `--judge-cache`.",
    )
