"""Requests of ADK's REST interface, in the form that all of its servers accept.

Python 2.13.0 was measured; Go, TypeScript, Java, Kotlin and Rust were read (docs/remote-agents.md). Sessions are
created without an id, and a run has only the fields that Go accepts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

from agent_eval.agents.http import HttpClient, HttpFailure, Reply, Stream, TooLarge, stream_with_retries
from agent_eval.agents.messages import AgentRequest
from agent_eval.core.content import Content
from agent_eval.core.limiter import Limiter, Place

_OPTIONAL_SECONDS = 60.0
"""For answers that a run does not depend on. The first question about an app imports its agent, which takes seconds: if
it were given up, a judge would see the agent's instructions on a quick machine only."""


class RestApi:
    """ADK's REST interface at one URL."""

    def __init__(self, client: HttpClient, limiter: Limiter) -> None:
        self.client = client
        self._limiter = limiter

    async def version(self) -> dict[str, str]:
        """What `GET /version` says; empty for servers without it. Never raises."""
        answer = await self._optional("/version")
        return {key: value for key, value in answer.items() if isinstance(value, str)}

    async def requests(self, app: str) -> list[AgentRequest]:
        """The instructions and tools of the app's agents (`app-info`, experimental); empty if unknown. Never raises."""
        agents = (await self._optional(f"/apps/{quote(app, safe='')}/app-info")).get("agents")
        if not isinstance(agents, dict):
            return []
        return [
            AgentRequest(
                agent=str(facts.get("name") or name),
                instructions=facts["instruction"] if isinstance(facts.get("instruction"), str) else "",
                tools=facts["tools"] if isinstance(facts.get("tools"), list) else [],
            )
            for name, facts in agents.items()
            if isinstance(facts, dict)
        ]

    async def _optional(self, path: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_OPTIONAL_SECONDS):
                reply = await self.client.request("GET", self._url(path))
        except (HttpFailure, TooLarge, TimeoutError):
            return {}
        answer = reply.json()
        return answer if reply.status == 200 and isinstance(answer, dict) else {}

    def create_session(
        self, app: str, user: str, state: Mapping[str, Any], *, until: float, place: Place | None
    ) -> AbstractAsyncContextManager[Stream]:
        """`POST /apps/APP/users/USER/sessions`; see `stream_with_retries`."""
        url = self._url(f"{_user_path(app, user)}/sessions")
        return self._post(url, {"state": dict(state)}, until=until, place=place)

    async def delete_session(self, app: str, user: str, session: str) -> Reply:
        """`DELETE /apps/APP/users/USER/sessions/ID`."""
        url = self._url(f"{_user_path(app, user)}/sessions/{quote(session, safe='')}")
        return await self.client.request("DELETE", url)

    def run(
        self, app: str, user: str, session: str, message: Content, *, until: float, place: Place | None
    ) -> AbstractAsyncContextManager[Stream]:
        """`POST /run_sse`; see `stream_with_retries`."""
        content = message.model_dump(mode="json", exclude_none=True, by_alias=True)
        body = {
            "appName": app,
            "userId": user,
            "sessionId": session,
            "newMessage": {**content, "role": "user"},
            "streaming": False,  # adk-rust's default is true
        }
        return self._post(self._url("/run_sse"), body, until=until, place=place, accept="text/event-stream")

    def _post(
        self, url: str, body: Any, *, until: float, place: Place | None, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[Stream]:
        headers = {"Accept": accept}
        return stream_with_retries(
            self.client, url, body=body, headers=headers, until=until, place=place, limiter=self._limiter
        )

    def _url(self, path: str) -> str:
        return self.client.url.join(path)


def _user_path(app: str, user: str) -> str:
    return f"/apps/{quote(app, safe='')}/users/{quote(user, safe='')}"
