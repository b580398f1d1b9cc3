// An agent of JavaScript's ADK whose model does what the user's message says.
import { BaseLlm, LlmAgent } from "@google/adk";

class Scripted extends BaseLlm {
  constructor() {
    super({ model: "scripted" });
  }

  async *generateContentAsync(request) {
    const texts = request.contents.filter(({ role }) => role === "user").flatMap(({ parts }) => (parts ?? []).map(({ text }) => text ?? ""));
    const [what, code, ...rest] = texts.filter((text) => text && !text.startsWith("For context")).at(-1).split(" ");
    const answer = (...parts) => ({ content: { role: "model", parts } });
    if (what === "throw") throw new Error([code, ...rest].join(" "));
    else if (what === "report") yield { errorCode: code, errorMessage: rest.join(" ") || undefined };
    else if (what === "call") yield answer({ functionCall: { id: `c${request.contents.length}`, name: code, args: {} } });
    else yield answer({ text: "21 degrees" });
  }

  async connect() {
    throw new Error("It has no live mode.");
  }
}

export const rootAgent = new LlmAgent({ name: "scripted", model: new Scripted(), instruction: "Answer." });
