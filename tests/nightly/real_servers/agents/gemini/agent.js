// An agent of JavaScript's ADK with Gemini.
import { LlmAgent } from "@google/adk";

export const rootAgent = new LlmAgent({ name: "gemini", model: "gemini-2.5-flash", instruction: "Answer." });
