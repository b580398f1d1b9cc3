"""The drivers. A new driver is a package of its own and one line here."""

from agent_eval_agents import a2a, adk, adk_rest, recorded, servers
from agent_eval_agents.driver import Driver

DRIVERS: tuple[Driver, ...] = (
    recorded.DRIVER,
    adk_rest.DRIVER,
    a2a.DRIVER,
    servers.DRIVER,
    adk.DRIVER,  # The last one: it has no prefix.
)


def driver_of(agent: str) -> Driver:
    """The driver of an agent, by its name."""
    return next(driver for driver in DRIVERS if agent.startswith(driver.prefix))
