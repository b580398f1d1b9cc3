"""An agent behind ADK's REST interface."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping

from agent_eval.agents.adk_rest._api import RestApi
from agent_eval.agents.adk_rest._session import RestApp, RestSession
from agent_eval.agents.driver import AgentSpec
from agent_eval.agents.http import HttpClient, TooLarge, failures, first_reply, parse_url
from agent_eval.agents.protocol import AgentFailure, EnvironmentFailure, Session, SessionRequest
from agent_eval.core.text import first_line


class AdkRestAgent:
    """Implements `protocol.Agent`."""

    def __init__(self, spec: AgentSpec, *, server: failures.ServerProcess | None = None) -> None:
        """Sends nothing yet.

        Args:
            spec: Its source is the server's URL with any prefix; the fragment names the app, if there are several.
            server: The server's process, if the gate started it. It never gets the workflow's headers.
        """
        url, context = parse_url(spec.source), spec.context
        remote = context.remote
        self._url = url
        self._options = remote
        self._client = HttpClient(
            url,
            headers=remote.headers if server is None else None,
            environ=remote.environ,
            masker=context.masker,
        )
        self._api = RestApi(self._client, context.limiter)
        self._server = server
        self._name = url.fragment
        self._app: RestApp | None = None
        self._version: Mapping[str, str] = {}
        self._failure: AgentFailure | None = None

    @property
    def provenance(self) -> Mapping[str, str]:
        """The address, and what the server says about its version."""
        names = {"version": "adk", "language": "language", "language_version": "language-version"}
        facts = {ours: first_line(self._version[theirs]) for theirs, ours in names.items() if theirs in self._version}
        return {"driver": "adk-rest", "url": self._url.base, "app": self._name, **facts}

    @property
    def metrics(self) -> None:
        """Custom metrics need a Python environment of the agent."""
        return None

    async def start(self) -> None:
        """Checks that the server serves the app. Repeating it is cheap.

        Raises:
            AgentFailure: The server does not run, or is unavailable.
            AgentRefused: The URL, the credentials or the app are wrong.
        """
        if self._failure is not None:
            raise self._failure.copy()
        if self._app is not None:
            return
        try:
            self._name = self._chosen(await self._apps())
        except AgentFailure as failure:
            self._failure = failure
            raise
        self._version, requests = await asyncio.gather(self._api.version(), self._api.requests(self._name))
        self._app = RestApp(
            api=self._api,
            name=self._name,
            server=self._server,
            requests=requests,
            explains_exceptions=self._version.get("language", "").lower() == "python",
            keeps_sessions=self._options.keep_sessions,
            secrets_withheld=self._options.secrets_withheld,
        )

    async def _apps(self) -> list[str]:
        """The apps that the server lists."""
        try:
            reply = await first_reply(
                self._client, "/list-apps", server=self._server, secrets_withheld=self._options.secrets_withheld
            )
        except TooLarge as error:
            raise self._not_adk(str(error)) from error
        apps = reply.json()
        if reply.status != 200 or not isinstance(apps, list) or not all(isinstance(app, str) for app in apps):
            raise self._not_adk(f"HTTP {reply.status} and no list of names for GET /list-apps")
        return apps

    def _not_adk(self, why: str) -> Exception:
        return failures.refused(
            f"The server at {self._url.base} does not serve ADK's REST interface: {why}.",
            "Add the prefix of its paths to the URL: `/api` for the servers of adk-go and adk-rust.",
        )

    def _chosen(self, apps: list[str]) -> str:
        listed = ", ".join(first_line(app, 100) for app in apps[:20]) or "none"
        if self._name in apps:
            return self._name
        if self._name:
            raise failures.refused(f"The server at {self._url.base} has no app `{self._name}`. Its apps: {listed}.")
        if len(apps) == 1:
            return apps[0]
        hint = f"Name one, e.g. `adk:{self._url.base}#{first_line(apps[0], 100)}`." if apps else None
        raise failures.refused(f"The server at {self._url.base} has {len(apps)} apps: {listed}.", hint)

    async def open(self, request: SessionRequest) -> Session:
        """Describes a session; the first turn opens it on the server, within its time."""
        if self._failure is not None:
            raise self._failure.copy()
        if self._app is None:
            raise EnvironmentFailure("The agent was not started.")
        as_given = self._options.user_ids == "as-given"
        # State with the prefixes `user:` and `app:` is shared by the sessions of a user.
        # A slash would end the segment of the path, even as %2F, for servers that decode the path first (Python's).
        user = request.user_id if as_given else f"{request.user_id.replace('/', '_')}-{secrets.token_hex(4)}"
        return RestSession(self._app, request, user)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()
