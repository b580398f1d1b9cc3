"""Asks servers."""

from servers import agent as agent
