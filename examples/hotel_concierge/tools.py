"""The tools: two hotels, and a book of reservations in the session's state."""

from typing import Any

from google.adk.tools import ToolContext

ROOMS = {
    "lisbon": {"L1": ("Harbour double", 120), "L2": ("Garden single", 90)},
    "oslo": {"O1": ("Fjord double", 200)},
}
"""By city and number: the room's name, and euros for a night."""


def find_rooms(city: str, nights: int) -> dict[str, Any]:
    """Tells which rooms are free, with the price of the whole stay.

    Args:
        city: The name of the city.
        nights: How many nights the guest stays.
    """
    rooms = ROOMS.get(city.lower())
    if rooms is None:
        return {"error": f"no hotel in {city}"}
    free = [{"room_id": number, "name": name, "total": euros * nights} for number, (name, euros) in rooms.items()]
    return {"city": city, "nights": nights, "rooms": free}


def book_room(room_id: str, guest: str, tool_context: ToolContext) -> dict[str, Any]:
    """Books a room.

    Args:
        room_id: As find_rooms tells it.
        guest: Whom it is for.
    """
    name = next((rooms[room_id][0] for rooms in ROOMS.values() if room_id in rooms), None)
    if name is None:
        return {"error": f"no room {room_id}"}
    tool_context.state["booked"] = room_id
    return {"confirmation": f"HC-{room_id}", "room": name, "guest": guest}
