"""An agent behind a2a-sdk 1.3.0 that does what the user's message says. Arguments: port, `streaming` or `whole`."""

import sys

import uvicorn
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, TaskState
from starlette.applications import Starlette


class Obedient(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        message = lambda text: updater.new_agent_message([new_text_part(text)])  # noqa: E731
        await updater.update_status(TaskState.TASK_STATE_WORKING, message("thinking about it"))
        if said == "data":
            await updater.add_artifact([new_data_part({"unit": "C", "celsius": 21})])
        if said == "text":
            await updater.add_artifact([new_text_part("21 degrees")])
        if said == "quota":
            await updater.failed(message("429 RESOURCE_EXHAUSTED: quota"))
        elif said == "canceled":
            await updater.cancel()
        elif said == "failed":
            await updater.failed()
        else:
            await updater.complete(message("It is 21.") if said == "closing" else None)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


port, streaming = int(sys.argv[1]), sys.argv[2] == "streaming"
address = AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
card = AgentCard(
    name="obedient",
    description="Does what it is told.",
    version="1",
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(streaming=streaming),
    default_input_modes=["text"],
    default_output_modes=["text"],
)
handler = DefaultRequestHandler(agent_executor=Obedient(), task_store=InMemoryTaskStore(), agent_card=card)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")
