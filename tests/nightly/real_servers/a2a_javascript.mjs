// An agent behind @a2a-js/sdk 1.3.0 with Express that does what the user's message says. Arguments: port, `streaming` or `whole`.
import { randomUUID } from "node:crypto";
import express from "express";
import { Role, TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, UserBuilder } from "@a2a-js/sdk/server/express";

const [port, mode] = process.argv.slice(2);
const part = (kind, value) => ({ content: { $case: kind, value }, metadata: undefined, filename: "", mediaType: "" });

const executor = {
  async execute({ userMessage, taskId, contextId }, bus) {
    const said = userMessage.parts[0].content.value;
    const message = (text) => ({ messageId: randomUUID(), role: Role.ROLE_AGENT, parts: [part("text", text)], taskId, contextId, extensions: [], referenceTaskIds: [] });
    const status = (state, text) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: { state, message: text && message(text) } }));
    const artifact = (...parts) => bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact: { artifactId: "a", name: "", description: "", parts, extensions: [] }, append: false, lastChunk: true }));
    bus.publish(AgentEvent.task({ id: taskId, contextId, status: { state: TaskState.TASK_STATE_SUBMITTED }, history: [userMessage], artifacts: [] }));
    status(TaskState.TASK_STATE_WORKING, "thinking about it");
    if (said === "data") artifact(part("data", { unit: "C", celsius: 21 }));
    if (said === "text") artifact(part("text", "21 degrees"));
    if (said === "quota") status(TaskState.TASK_STATE_FAILED, "429 RESOURCE_EXHAUSTED: quota");
    else if (said === "canceled") status(TaskState.TASK_STATE_CANCELED);
    else if (said === "failed") status(TaskState.TASK_STATE_FAILED);
    else status(TaskState.TASK_STATE_COMPLETED, said === "closing" ? "It is 21." : undefined);
    bus.finished();
  },
  async cancelTask() {},
};

const card = {
  name: "obedient",
  description: "Does what it is told.",
  version: "1",
  supportedInterfaces: [{ url: `http://127.0.0.1:${port}/`, protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
  capabilities: { streaming: mode === "streaming", extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text"],
  defaultOutputModes: ["text"],
  skills: [],
  signatures: [],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
const app = express();
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
app.use("/", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
app.listen(Number(port), "127.0.0.1");
