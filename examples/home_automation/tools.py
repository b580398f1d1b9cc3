"""The tools of the home: what is switched, heated and scheduled lives in the session's state.

A session may start with a state of its own (`devices`, `thermostats`); what it doesn't name is as in HOME.
ADK reads the annotations of these functions while the program runs, so they stay real types, not strings.
"""

from typing import Any

from google.adk.tools import ToolContext

HOME: dict[str, dict[str, str]] = {
    "bedroom_lamp": {"room": "Bedroom", "kind": "lamp", "status": "on"},
    "bedroom_fan": {"room": "Bedroom", "kind": "fan", "status": "off"},
    "kitchen_lamp": {"room": "Kitchen", "kind": "lamp", "status": "off"},
    "living_room_lamp": {"room": "Living room", "kind": "lamp", "status": "on"},
    "living_room_fan": {"room": "Living room", "kind": "fan", "status": "off"},
}
THERMOSTATS: dict[str, dict[str, int]] = {
    "bedroom": {"current": 18, "target": 18},
    "kitchen": {"current": 20, "target": 20},
    "living room": {"current": 21, "target": 21},
}
LOWEST, HIGHEST = 5, 30


def _devices(tool_context: ToolContext) -> dict[str, dict[str, str]]:
    switched = tool_context.state.get("devices", {})
    return {name: {**device, "status": switched.get(name, device["status"])} for name, device in HOME.items()}


def _thermostat(tool_context: ToolContext, room: str) -> dict[str, int] | None:
    known = THERMOSTATS.get(room)
    return None if known is None else {**known, **tool_context.state.get("thermostats", {}).get(room, {})}


def find_devices(tool_context: ToolContext, room: str = "") -> dict[str, Any]:
    """Lists the devices of a room with their status.

    Args:
        room: The room, in any spelling of upper and lower case; empty for the whole home.
    """
    wanted = room.strip().casefold()
    return {
        "devices": [
            {"device_id": name, **device}
            for name, device in _devices(tool_context).items()
            if not wanted or device["room"].casefold() == wanted
        ]
    }


def set_device_status(tool_context: ToolContext, device_id: str, status: str) -> dict[str, Any]:
    """Switches a device on or off.

    Args:
        device_id: The id that `find_devices` gave.
        status: `on` or `off`.
    """
    device = _devices(tool_context).get(device_id)
    if device is None:
        return {"error": f"there is no device {device_id}"}
    if status not in {"on", "off"}:
        return {"error": f"a device is on or off, not {status}"}
    tool_context.state["devices"] = {**tool_context.state.get("devices", {}), device_id: status}
    return {"device_id": device_id, **device, "status": status, "changed": device["status"] != status}


def get_temperature(tool_context: ToolContext, room: str) -> dict[str, Any]:
    """Reads a room's thermostat.

    Args:
        room: The room, in lower case.
    """
    thermostat = _thermostat(tool_context, room)
    return {"error": f"there is no thermostat in {room}"} if thermostat is None else {"room": room, **thermostat}


def set_temperature(tool_context: ToolContext, room: str, celsius: int) -> dict[str, Any]:
    """Sets a room's thermostat.

    Args:
        room: The room, in lower case.
        celsius: The wanted temperature in degrees Celsius.
    """
    if _thermostat(tool_context, room) is None:
        return {"error": f"there is no thermostat in {room}"}
    if not LOWEST <= celsius <= HIGHEST:
        return {"error": f"{celsius} °C is outside {LOWEST} to {HIGHEST} °C"}
    thermostats = tool_context.state.get("thermostats", {})
    tool_context.state["thermostats"] = {**thermostats, room: {**thermostats.get(room, {}), "target": celsius}}
    return {"room": room, "target": celsius}


def schedule_device(tool_context: ToolContext, device_id: str, status: str, time: str) -> dict[str, Any]:
    """Switches a device on or off later today.

    Args:
        device_id: The id that `find_devices` gave.
        status: `on` or `off`.
        time: The time of day as HH:MM.
    """
    device = _devices(tool_context).get(device_id)
    if device is None:
        return {"error": f"there is no device {device_id}"}
    jobs = [*tool_context.state.get("schedule", []), {"device_id": device_id, "status": status, "time": time}]
    tool_context.state["schedule"] = jobs
    return {"job": len(jobs), **device, "device_id": device_id, "status": status, "time": time}


TOOLS = [find_devices, set_device_status, get_temperature, set_temperature, schedule_device]
