"""An agent behind a2a-sdk 0.3.26 that does what the user's message says. Arguments: port, `streaming` or `whole`."""

import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, DataPart, Part, TaskState, TextPart
from a2a.utils import new_task


class Obedient(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        message = lambda text: updater.new_agent_message([Part(root=TextPart(text=text))])  # noqa: E731
        await updater.update_status(TaskState.working, message("thinking about it"))
        if said == "raises":
            raise ValueError("boom")
        if said == "data":
            await updater.add_artifact([Part(root=DataPart(data={"unit": "C", "celsius": 21}))])
        if said == "text":
            await updater.add_artifact([Part(root=TextPart(text="21 degrees"))])
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
card = AgentCard(
    name="obedient",
    description="Does what it is told.",
    version="1",
    url=f"http://127.0.0.1:{port}/",
    capabilities=AgentCapabilities(streaming=streaming),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[],
)
handler = DefaultRequestHandler(agent_executor=Obedient(), task_store=InMemoryTaskStore())
uvicorn.run(A2AStarletteApplication(card, handler).build(), host="127.0.0.1", port=port, log_level="warning")
