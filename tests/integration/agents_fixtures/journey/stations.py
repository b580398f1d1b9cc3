"""An MCP server whose tool nobody calls."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("stations")


@server.tool()
def stations(country: str) -> str:
    """Lists stations."""
    return country


server.run()
