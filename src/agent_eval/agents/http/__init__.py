"""What the drivers of remote agents share: URLs, headers, requests, server-sent events, and the owners of failures.

A driver parses its URL with `parse_url` and creates one `HttpClient` for its agent. `Agent.start` checks the server
with `first_reply`. Turns are sent with `stream_with_retries`. Their failures are
described by `failures.lost`, `agent_error`, `unexpected_status` and `too_late`. `HttpFailure` and `TooLarge` never
leave a driver.
"""

from agent_eval.agents.http import failures
from agent_eval.agents.http._address import RemoteUrl, is_metadata, origin_of, parse_url
from agent_eval.agents.http._json import read_json
from agent_eval.agents.http._retries import first_reply, stream_with_retries
from agent_eval.agents.http._sse import MAX_EVENT, ServerSentEvent, SseParser, TooLarge
from agent_eval.agents.http.client import HttpClient, HttpFailure, Reply, Stream
from agent_eval.agents.http.headers import header_secrets, parse_headers
