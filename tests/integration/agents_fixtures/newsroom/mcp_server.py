"""An MCP server on standard input and output."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("weather")


@server.tool()
def forecast(city: str) -> str:
    """Forecasts the weather of a city."""
    return f"{city} will have rain"


server.run()
