"""A concierge on Gemini: finds rooms, and books them."""

from __future__ import annotations

from google.adk.agents import Agent

from .tools import book_room, find_rooms

root_agent = Agent(
    name="hotel_concierge",
    model="gemini-2.5-flash",
    description="Finds and books rooms in our hotels.",
    instruction=(
        "You are the concierge of a small chain of hotels. Look for rooms with find_rooms and tell the price of the "
        "whole stay. Book with book_room, and only when the guest asks for it; then tell the confirmation number. "
        "Never guess a price. Be friendly."
    ),
    tools=[find_rooms, book_room],
)
