#!/usr/bin/env bash
# mcp 1.30.0 and 2.3.0: the newer client of the same package hides the HTTP status of a server that is down.
#
# Valid input: a client that opens a session, and a server that answers every request with HTTP 503, as a proxy in
# front of a stopped service does.
# Expected:    from both versions, an exception that lets the caller find the status: 503 may be tried again later,
#              401 needs another key.
# Seen:        1.30.0 raises an HTTPStatusError with `response.status_code` (inside an exception group), but for 404 an
#              McpError whose code is 32600: JSON-RPC's number without its minus sign. 2.3.0 raises MCPError with
#              -32603 and the same text for 401, 429, 500 and 503; 404 is -32601. No exception in its chain has a
#              response.
# Matters:     google-adk 2.13.0 accepts both (mcp>=1.24,<3), so `pip install` decides whether a program that handles
#              exceptions can tell an outage from a bug. Only the HTTP client below still knows the status.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/ask.py" <<'PYTHON'
import asyncio, http.server, importlib.metadata, threading

STATUS = 0


class Down(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(STATUS)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


def leaves(error):
    """The exceptions that are no group, with their causes."""
    for inner in getattr(error, "exceptions", None) or ():
        yield from leaves(inner)
    if not hasattr(error, "exceptions"):
        while error is not None:
            yield error
            error = error.__cause__ or error.__context__


async def ask(url):
    import mcp
    from mcp.client import streamable_http

    connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    async with connect(url) as streams, mcp.ClientSession(streams[0], streams[1]) as session:
        await session.initialize()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Down)
threading.Thread(target=server.serve_forever, daemon=True).start()
for STATUS in (401, 404, 429, 500, 503):
    try:
        asyncio.run(asyncio.wait_for(ask(f"http://127.0.0.1:{server.server_port}/mcp"), 20))
        print(STATUS, "no exception")
    except BaseException as error:
        found = list(leaves(error))
        statuses = {e.response.status_code for e in found if getattr(e, "response", None) is not None}
        codes = {e.error.code for e in found if getattr(e, "error", None) is not None}
        print(STATUS, "status", statuses or "unknown", "json-rpc", codes or "none")
server.shutdown()
PYTHON
for version in 1.30.0 2.3.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" install -qq --disable-pip-version-check "mcp==$version"
  echo "mcp $version"
  "$work/$version/bin/python" "$work/ask.py" 2>/dev/null | tee "$work/$version.txt"
done
diff "$work/1.30.0.txt" - <<'SEEN'
401 status {401} json-rpc none
404 status unknown json-rpc {32600}
429 status {429} json-rpc none
500 status {500} json-rpc none
503 status {503} json-rpc none
SEEN
diff "$work/2.3.0.txt" - <<'SEEN'
401 status unknown json-rpc {-32603}
404 status unknown json-rpc {-32601}
429 status unknown json-rpc {-32603}
500 status unknown json-rpc {-32603}
503 status unknown json-rpc {-32603}
SEEN
echo "as before: 2.3.0 keeps no HTTP status"
