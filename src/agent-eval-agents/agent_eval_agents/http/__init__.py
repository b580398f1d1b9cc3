"""What the drivers of remote agents share: URLs, headers, requests, server-sent events, and the owners of failures.

A driver parses its URL with `parse_url` and creates one `HttpClient` for its agent. `Agent.start` checks the server
with `first_reply`. Turns are sent with `stream_with_retries`. Their failures are
described by `failures.lost`, `agent_error`, `unexpected_status` and `too_late`. `HttpFailure` and `TooLarge` never
leave a driver.
"""

from agent_eval_agents.http import failures
from agent_eval_agents.http._address import RemoteUrl, header_secrets, is_metadata, origin_of, parse_headers, parse_url
from agent_eval_agents.http._retries import first_reply, stream_with_retries
from agent_eval_agents.http.client import (
    MAX_EVENT,
    HttpClient,
    HttpFailure,
    Reply,
    ServerSentEvent,
    Stream,
    TooLarge,
    read_json,
)
