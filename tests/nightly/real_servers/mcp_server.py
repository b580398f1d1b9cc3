"""A server of MCP that fails as a path, or a tool, says. Arguments: `mcp` or `fastmcp`; a port, `stdio` or `exits`.

`/http/call-503/mcp` and `/sse/list-401/sse` are refused by an ASGI middleware before the server; `none` lets all pass.
"""

import asyncio
import json
import os
import sys

library, place = sys.argv[1:3]
if place == "exits":
    sys.exit("the scale's driver is not installed")

if library == "fastmcp":
    from fastmcp import FastMCP as Server
else:
    try:
        from mcp.server import MCPServer as Server  # 2.x
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server
server = Server("scale")


@server.tool()
def echo(text: str) -> str:
    """Repeats."""
    return text


@server.tool()
async def slow(text: str) -> str:
    """Answers late."""
    await asyncio.sleep(20)
    return text


@server.tool()
def raises(text: str) -> str:
    """Can't."""
    raise ValueError("503: the scale is not calibrated")


@server.tool()
def dies(text: str) -> str:
    """Ends the server."""
    os._exit(3)


def apps():
    """The server over both transports of HTTP, for any name of a host."""
    if library == "fastmcp":
        return {"http": server.http_app(path="/mcp"), "sse": server.http_app(path="/sse", transport="sse")}
    from mcp.server.transport_security import TransportSecuritySettings

    loose = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if hasattr(server, "settings") and hasattr(server.settings, "transport_security"):  # 1.x
        server.settings.transport_security = loose
        return {"http": server.streamable_http_app(), "sse": server.sse_app()}
    return {
        "http": server.streamable_http_app(transport_security=loose),
        "sse": server.sse_app(transport_security=loose),
    }


class Refusing:
    """Passes a request on, or answers it with a status: that for a call of a tool, or whatever comes."""

    def __init__(self, served):
        self.served = served

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self.served["http"](scope, receive, send)
            return
        kind, fault, _ = scope["path"].strip("/").split("/", 2)
        body, more = b"", scope["method"] == "POST"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        when, _, status = fault.partition("-")
        is_call = bool(body) and json.loads(body).get("method") == "tools/call"
        if status and (is_call or when == "list"):
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": int(status), "headers": headers})
            await send({"type": "http.response.body", "body": b"busy"})
            return
        read = False

        async def again():
            nonlocal read
            if read or scope["method"] != "POST":
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.served[kind]({**scope, "root_path": f"/{kind}/{fault}"}, again, send)


if place == "stdio":
    server.run("stdio") if library == "mcp" else server.run("stdio", show_banner=False)
else:
    import uvicorn

    uvicorn.run(Refusing(apps()), host="127.0.0.1", port=int(place), log_level="error")
