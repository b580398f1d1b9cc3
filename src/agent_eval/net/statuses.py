"""What HTTP statuses mean, from any service: GitHub, a judge, an agent's model, an agent's server, an upload.

Whose failure a status is depends on who asked: see `agents.host.blame` (an agent's model), `agents.http.failures` (an
agent's server), `models` (a judge) and `github.errors`.
"""

from __future__ import annotations

NO_ACCESS = frozenset({401, 403})
"""The credentials are missing or refused."""
THROTTLED = frozenset({429, 503})
"""The service asks for fewer requests at once."""
TOO_MANY = frozenset({429, 529})
"""A quota is used up; some gateways answer 529 when overloaded."""
UNPROCESSED = frozenset({429, 502, 503, 504})
"""Says nothing about the request, which can be sent again even if it is not idempotent (OpenTelemetry's list for OTLP,
https://opentelemetry.io/docs/specs/otlp/#failures-1)."""
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Another attempt of a request without effects may succeed. ADK retries 408, 429, 500, 502, 503 and 504."""
OF_A_PROXY = frozenset({408, 425, *range(520, 531)})
"""From a proxy in front of a server, e.g. Cloudflare's 520 to 530. The server may have got the request."""
