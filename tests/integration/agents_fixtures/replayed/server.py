"""An MCP server on standard input and output without the package `mcp`, whose import takes most of a second."""

import json
import os
import sys

from elsewhere import CONSTANT, helper

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
TOOLS = [{"name": "switch", "description": "Switches the lamp.", "inputSchema": SCHEMA}]


def answer(room):
    return (sys.argv[1] or os.environ["LAMP"]) if {CONSTANT, helper()} == {"on"} and room != "attic" else "off"


def result_of(method, params):
    if method == "initialize":
        server = {"name": "lamps", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": answer(params["arguments"]["room"])}], "isError": False}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = result_of(message["method"], message.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
