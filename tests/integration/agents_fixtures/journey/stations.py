"""An MCP server whose tool nobody calls."""

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("stations")


@server.tool(name="all_stations" if "--all" in sys.argv else None)
def stations(country: str) -> str:
    """Lists stations."""
    return country


server.run()
