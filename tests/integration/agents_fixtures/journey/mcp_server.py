"""An MCP server on standard input and output."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("timetable")


@server.tool()
def departures(city: str) -> str:
    """Lists departures."""
    return f"{city}: 8:15"


server.run()
