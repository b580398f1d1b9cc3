"""Runs model requests: tape or cache, the model's channel, validation of the reply, usage accounting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agent_eval_scoring.models._channel import Call, ModelChannel
from agent_eval_scoring.models._endpoint import Endpoint, key_owner, resolve
from agent_eval_scoring.models._limits import Meter
from agent_eval_scoring.models._provider import (
    REMINDER,
    Client,
    ProviderReply,
    ProviderRequest,
    parse_reply,
    sort_config,
)
from agent_eval_scoring.models.cache import CachedReply, ReplyCache, key_of
from agent_eval_scoring.models.protocol import ModelFailure, ModelReply, ModelRequest, ModelUsage, TapedReply
from agent_eval_scoring.models.settings import ModelSettings
from agent_eval_scoring.models.usage import Ledger, Price, UsageEntry
from agent_eval_scoring.net.retry import proxy_name, proxy_of

_DEFAULT_ADDRESS = "https://googleapis.com"
"""Stands for the address of a client's default, when its proxy is looked up."""
_MAX_CALLS = 2
"""Calls per request until a reply fits the schema."""


class ModelPool:
    """A Model (protocol.py) that serves every model name. Safe for concurrent tasks of one event loop."""

    def __init__(
        self,
        settings: ModelSettings,
        environ: Mapping[str, str],
        *,
        models: Iterable[str] = (),
        until: float | None = None,
    ) -> None:
        """Creates the pool. Nothing is sent.

        Args:
            settings: The models' settings.
            environ: Provides keys and base URLs.
            models: The names of all models that will be used, if known: they determine the provider of
                `judge-api-key`.
            until: The end of the run, by time.monotonic(); None for no limit.
        """
        self._settings = settings
        self._environ = environ
        self._models = tuple(models)
        self._until = until
        self._channels: dict[str, ModelChannel | ModelFailure] = {}
        self._clients: dict[str, Client] = {}
        # One lock for all models: opening imports libraries, which takes its time once.
        self._opening = asyncio.Lock()
        self._warming: asyncio.Task[None] | None = None
        self._cache = _cache(settings, settings.cache)
        self._record: ReplyCache | None = None
        self.meter = Meter(settings.budget)
        """The budget of the run."""
        self.ledger = Ledger()
        """Usage by case, purpose and model."""

    def record(self, directory: Path) -> None:
        """Writes replies from now on to a second cache directory, too, which then has those of this run only."""
        self._record = _cache(self._settings, directory)

    async def prepare(self) -> list[ModelFailure]:
        """Opens the clients of all named models. No request is sent to a model.

        Waits only for clients that verify their credentials when opened. The others open in the background, since their
        libraries take as long to import as an agent takes to start.

        Returns:
            The failures, each message once.
        """
        failures: dict[str, ModelFailure] = {}
        later: list[str] = []
        # Offline, a missing key is no failure: everything comes from the cache.
        for model in () if self._settings.offline else self._models:
            try:
                if self._endpoint(model).verified_by_opening:
                    await self._channel(model)
                else:
                    later.append(model)
            except ModelFailure as failure:
                failures.setdefault(failure.message, failure)
        if later and self._warming is None:
            # Kept, because asyncio holds only weak references to its tasks.
            self._warming = asyncio.create_task(self._open_all(later))
        return list(failures.values())

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answers a request; see Model."""
        replies = request.replies
        if replies is None:
            return await self._untaped(request)
        # A tape is of one run, and a replay may have several: each gets the same replies.
        key = key_of(replace(request, run=0))
        if (taped := replies.taped.get(key)) is not None:
            return self._taped_reply(request, taped)
        try:
            reply = await self._untaped(request, ask=not replies.only)
        except ModelFailure as failure:
            # What the model itself did is part of the recording; an outage is not.
            if failure.kind == "malformed" or failure.kind == "refused":
                replies.given[key] = TapedReply(text=failure.message, failure=failure.kind)
            raise
        replies.given[key] = TapedReply(text=reply.text, model_version=reply.model_version)
        return reply

    async def _untaped(self, request: ModelRequest, *, ask: bool = True) -> ModelReply:
        key = key_of(request)
        # Before the channel is opened, which would need a key.
        if self._settings.offline or not ask:
            cached = None if self._cache is None else self._cached_reply(request, self._cache.get(key))
            if cached is None:
                self.ledger.add(request, UsageEntry(failures=1))
                raise _not_recorded(request)
            return cached
        channel = await self._channel(request.model)
        if self._cache is not None:
            reply = self._cached_reply(request, self._cache.get(key, channel.endpoint.identity))
            if reply is not None:
                return reply
        call = Call(request=_provider_request(request, channel))
        fresh: ModelReply | None = None
        try:
            fresh = await _valid_reply(request, channel, call)
        except ModelFailure as failure:
            failure.calls = call.attempts
            raise
        finally:
            # In any case: failed attempts, and those of a run that was cancelled, are billed, too.
            self._book(request, channel, call, fresh)
        stored = CachedReply(
            identity=channel.endpoint.identity,
            text=fresh.text,
            model_version=fresh.model_version,
            **asdict(fresh.usage),
        )
        # Two directories: what is read for the verdict, and what a recording of this run is to contain.
        for cache in (self._cache, self._record):
            if cache is not None:
                cache.put(key, stored)
        return fresh

    async def close(self) -> None:
        """Closes connections."""
        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)  # A request raises it.
        # Taken out first, so that a second `close` meanwhile closes nothing twice.
        clients, self._clients = self._clients, {}
        self._channels = {}
        for client in clients.values():
            await client.close()

    def concurrency(self, model: str) -> int | None:
        """Maximum attempts in flight for a model at the moment; None if it was never called."""
        channel = self._channels.get(model)
        return channel.concurrency if isinstance(channel, ModelChannel) else None

    def _cached_reply(self, request: ModelRequest, cached: CachedReply | None) -> ModelReply | None:
        """Returns the cached reply if it fits the schema."""
        if cached is None:
            return None
        try:
            return self._stored_reply(request, cached.text, cached.model_version, cached.usage)
        # A criterion's schema has changed since: ask again.
        except ValueError:
            return None

    def _taped_reply(self, request: ModelRequest, taped: TapedReply) -> ModelReply:
        """Returns the reply, or fails as a model that gives it."""
        kind, message = taped.failure, taped.text
        if kind is None:
            try:
                return self._stored_reply(request, taped.text, taped.model_version, ModelUsage())
            except ValueError as error:
                kind, message = "malformed", f"The recorded reply of `{request.model}` is not usable: {error}."
        self.ledger.add(request, UsageEntry(failures=1))
        raise ModelFailure(kind, message)

    def _stored_reply(self, request: ModelRequest, text: str, version: str, usage: ModelUsage) -> ModelReply:
        reply = ModelReply(
            text=text, value=_value_of(request, text), usage=usage, model_version=version, calls=0, cached=True
        )
        self.ledger.add(request, UsageEntry(cached_replies=1, versions=(version,)))
        return reply

    def _book(self, request: ModelRequest, channel: ModelChannel, call: Call, reply: ModelReply | None) -> None:
        priced = channel.price is not None and call.attempts > 0
        self.ledger.add(
            request,
            UsageEntry(
                calls=call.attempts,
                replies=int(reply is not None),
                failures=int(reply is None),
                versions=() if reply is None else (reply.model_version,),
                usage=call.usage,
                cost=channel.price.of(call.usage) if channel.price is not None and priced else None,
                unpriced_calls=0 if channel.price is not None else call.attempts,
            ),
        )

    async def _channel(self, model: str) -> ModelChannel:
        channel = self._channels.get(model)
        if channel is None:
            async with self._opening:
                channel = self._channels.get(model)
                if channel is None:
                    try:
                        channel = await self._open(model)
                    except ModelFailure as failure:
                        # Remembered: each of 10,000 questions would try to open it again, and fail as slowly.
                        channel = failure
                    self._channels[model] = channel
        if isinstance(channel, ModelFailure):
            # A new one: an exception that is raised again collects the tracebacks of all that did.
            raise ModelFailure(channel.kind, channel.message, channel.hint)
        return channel

    async def _open_all(self, models: Iterable[str]) -> None:
        for model in models:
            with contextlib.suppress(ModelFailure):  # Requests for this model raise it.
                await self._channel(model)

    def _endpoint(self, model: str) -> Endpoint:
        try:
            owner = key_owner(self._settings, self._models or (model,), self._environ)
        except ValueError as error:
            raise ModelFailure("invalid-request", f"{error}.") from error
        return resolve(model, self._settings, self._environ, owner=owner)

    async def _open(self, model: str) -> ModelChannel:
        endpoint = self._endpoint(model)
        price = price_of(endpoint, self._settings)
        # Before the first call: a limit that can't be kept is none.
        if price is None and self._settings.budget.max_cost is not None:
            raise no_price(endpoint)
        # By key and address: several models of one provider share connections.
        client = self._clients.get(endpoint.client_key)
        if client is None:
            client = await asyncio.to_thread(
                _open_client,
                endpoint,
                max(4 * self._settings.concurrency, self._settings.most_concurrent),
            )
            self._clients[endpoint.client_key] = client
        proxy, variable = proxy_of(endpoint.address or _DEFAULT_ADDRESS, self._environ)
        return ModelChannel(
            endpoint,
            client,
            self._settings,
            self.meter,
            price=price,
            until=self._until,
            proxy=proxy_name(proxy, variable) if proxy else "",
        )


@asynccontextmanager
async def open_models(
    settings: ModelSettings, environ: Mapping[str, str], *, models: Iterable[str] = (), until: float | None = None
) -> AsyncIterator[ModelPool]:
    """Opens a pool and closes it at the end; see ModelPool for the arguments."""
    pool = ModelPool(settings, environ, models=models, until=until)
    try:
        yield pool
    finally:
        await pool.close()


def price_of(endpoint: Endpoint, settings: ModelSettings) -> Price | None:
    """Returns the price of a model's tokens; None if it is unknown or the model reports no tokens."""
    if endpoint.provider.protocol == "vertex-eval":
        return None
    return settings.prices.get(endpoint.name.price_key)


def no_price(endpoint: Endpoint) -> ModelFailure:
    """Returns the failure for a cost limit on a model without a price."""
    key = endpoint.name.price_key
    if endpoint.provider.protocol == "vertex-eval":
        return ModelFailure(
            "budget",
            "`max-cost` is set, but Vertex AI's evaluation service reports no usage.",
            "Use `max-judge-calls`.",
        )
    return ModelFailure(
        "budget",
        f"`max-cost` is set, but there is no price for `{key}`.",
        f'Add it to agent-eval.toml: [prices] "{key}" = {{ input = 0.30, output = 2.50 }} (US dollars per million '
        "tokens), or use `max-tokens`.",
    )


def _cache(settings: ModelSettings, directory: Path | None) -> ReplyCache | None:
    return None if directory is None else ReplyCache(directory, max_bytes=settings.cache_bytes)


def _open_client(endpoint: Endpoint, connections: int) -> Client:
    import httpx2
    import jsonschema  # noqa: F401 - loaded here, in a thread, and not when the first reply arrives

    try:
        return _client_of(endpoint, connections)
    except (ImportError, ValueError, httpx2.InvalidURL):  # The text may quote a password.
        raise ModelFailure(
            "invalid-request",
            f"There can be no connection to {endpoint.name}: a proxy that the job's variables name is invalid.",
            "Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of the job.",
        ) from None


def _client_of(endpoint: Endpoint, connections: int) -> Client:
    if endpoint.provider.protocol == "gemini":
        from agent_eval_scoring.models._gemini import open_gemini

        return open_gemini(endpoint, connections=connections)
    if endpoint.provider.protocol == "vertex-eval":
        from agent_eval_scoring.models.vertex_eval import open_vertex_eval

        return open_vertex_eval(endpoint, connections=connections)
    if endpoint.provider.protocol == "anthropic":
        from agent_eval_scoring.models._anthropic import open_anthropic

        return open_anthropic(endpoint, connections=connections)
    from agent_eval_scoring.models._openai_chat import open_openai

    return open_openai(endpoint, connections=connections)


def _provider_request(request: ModelRequest, channel: ModelChannel, reminder: str = "") -> ProviderRequest:
    config = sort_config(request.config, channel.endpoint.provider.protocol)
    # An error, as google-genai's: a misspelt `temprature` would judge at another temperature.
    if config.unknown:
        raise ModelFailure(
            "invalid-request",
            f"judge_model_config has no field `{config.unknown[0]}`.",
            "The fields are those of google-genai's GenerateContentConfig.",
        )
    return ProviderRequest(
        model=channel.endpoint.name.model,
        prompt=_sendable(request.prompt) + reminder,
        system=None if request.system is None else _sendable(request.system),
        schema=request.schema,
        config=config.sent,
        timeout=0.0,  # The channel sets it.
    )


def _sendable(text: str) -> str:
    """Replaces lone surrogates, which UTF-8 can't encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


async def _valid_reply(request: ModelRequest, channel: ModelChannel, call: Call) -> ModelReply:
    """Calls the model, and once more if the reply doesn't fit the schema."""
    mismatch = ""
    for number in range(_MAX_CALLS):
        if number:
            # Asked as a new question: the reply that did not fit is no part of it, since it may be hostile text.
            call.request = _provider_request(request, channel, "" if request.schema is None else REMINDER)
        reply = await channel.answer(call)
        if reply.end == "refused":
            raise ModelFailure("refused", f"`{request.model}`: {reply.note}.")
        try:
            return _reply(request, reply, call)
        except ValueError as error:
            mismatch = str(error)
    hint = "A larger model, or a larger `max_output_tokens` in `judge_model_config`, may help."
    if request.schema is not None and mismatch.startswith("it is not JSON"):
        hint = (
            "The server does not hold the model to the schema that it gets (`response_format`): a code fence, a "
            "sentence or `<think>` before JSON is no reply. Serve the model with structured output, or use another one."
        )
    raise ModelFailure("malformed", f"`{request.model}` gave no usable reply in {_MAX_CALLS} calls: {mismatch}.", hint)


def _reply(request: ModelRequest, reply: ProviderReply, call: Call) -> ModelReply:
    # Even if it happens to be valid JSON: a list may have lost its end.
    if reply.end == "truncated":
        raise ValueError(reply.note)
    return ModelReply(
        text=reply.text,
        value=_value_of(request, reply.text),
        usage=call.usage,
        model_version=reply.model_version or request.model,
        calls=call.attempts,
        cached=False,
    )


def _value_of(request: ModelRequest, text: str) -> Any:
    """What a reply says by the request's schema.

    Raises:
        ValueError: It does not fit, or it is empty.
    """
    if request.schema is not None:
        return parse_reply(text, request.schema)
    if not text.strip():
        raise ValueError("it is empty")
    return None


def _not_recorded(request: ModelRequest) -> ModelFailure:
    caller = " of ".join(part for part in (request.purpose, request.case_id) if part)
    return ModelFailure(
        "replay-miss",
        f"No reply of `{request.model}` to this question is recorded"
        f" ({caller + ', ' if caller else ''}run {request.run + 1}, sample {request.sample + 1}).",
        "The question, the model or its config is another one than when the case was recorded. Record it again "
        "(`--record all`), or fill `judge-cache`.",
    )
