// Which agents of a run called which tools and each other: a graph, and the same as a nested list.

/**
 * @typedef {{calls: number, failed: number}} CallCount
 * @typedef {{name: string, depth: number, tools: Map<string, CallCount>, agents: Map<string, CallCount>}} AgentNode `agents`: to whom it
 *   handed over, or whom it called as a tool.
 */

const GRAPH_COLUMN = 230;
const GRAPH_ROW = 40;
const GRAPH_NODE = { width: 160, height: 28 };
const GRAPH_TOOLS = 200;

/** @param {any} run */
function renderGraph(run) {
  const agents = agentsOfRun(run);
  if (!agents.size) return muted("This run called no tool, and no step names an agent.");
  return h("div", { class: "graph" }, h("div", { class: "wide", ...region("graph of agents and tools; the list below says the same") }, graphPicture(agents)), agentList(agents));
}

/**
 * @param {any} run
 * @returns {Map<string, AgentNode>} In the order in which they appear.
 */
function agentsOfRun(run) {
  /** @type {Map<string, AgentNode>} */
  const agents = new Map();
  const agent = (/** @type {string} */ name) => {
    const node = agents.get(name) ?? { name, depth: 0, tools: new Map(), agents: new Map() };
    agents.set(name, node);
    return node;
  };
  const items = run.turns.flatMap((/** @type {any} */ turn) => turnItems(turn));
  for (const { step } of items) agent(step.agent || "agent");
  for (const item of items.filter((/** @type {TurnItem} */ candidate) => candidate.kind === "call")) addCall(agents, agent, item);
  for (const { step } of items) addBranch(agents, step.branch);
  setDepths(agents);
  return agents;
}

/**
 * @param {Map<string, AgentNode>} agents
 * @param {(name: string) => AgentNode} agent
 * @param {TurnItem} item
 */
function addCall(agents, agent, item) {
  const caller = agent(item.step.agent || "agent");
  const transfer = item.step.name === "transfer_to_agent" ? item.step.args?.agent_name : null;
  const target = typeof transfer === "string" ? agent(transfer).name : item.step.name;
  const edges = typeof transfer === "string" || agents.has(target) ? caller.agents : caller.tools;
  const edge = edges.get(target) ?? { calls: 0, failed: 0 };
  edge.calls += 1;
  if (item.responses.some((response) => isError(response.value))) edge.failed += 1;
  edges.set(target, edge);
}

/**
 * A branch names the agents from the root down, e.g. `root.search`.
 * @param {Map<string, AgentNode>} agents
 * @param {string | null | undefined} branch
 */
function addBranch(agents, branch) {
  const names = (branch ?? "").split(".");
  for (let i = 1; i < names.length; i += 1) {
    const [above, below] = [agents.get(names[i - 1]), agents.get(names[i])];
    if (above && below && above !== below && !above.agents.has(below.name)) above.agents.set(below.name, { calls: 0, failed: 0 });
  }
}

/**
 * Agents below another one stand a column further right.
 * @param {Map<string, AgentNode>} agents
 */
function setDepths(agents) {
  const placed = new Set();
  const place = (/** @type {AgentNode} */ node, /** @type {number} */ depth) => {
    if (placed.has(node)) return;
    placed.add(node);
    node.depth = depth;
    for (const name of node.agents.keys()) place(/** @type {AgentNode} */ (agents.get(name)), depth + 1);
  };
  for (const node of agents.values()) place(node, 0);
}

/** @param {Map<string, AgentNode>} agents */
function graphPicture(agents) {
  const columns = Math.max(...[...agents.values()].map((node) => node.depth)) + 1;
  /** @type {Map<string, {x: number, y: number}>} */
  const places = new Map();
  let row = 0;
  for (const node of agents.values()) {
    const own = [...node.tools.keys()].filter((name) => !places.has(`tool ${name}`) && places.size < GRAPH_TOOLS);
    own.forEach((name, i) => places.set(`tool ${name}`, { x: columns * GRAPH_COLUMN, y: (row + i) * GRAPH_ROW }));
    const height = Math.max(own.length, 1);
    places.set(`agent ${node.name}`, { x: node.depth * GRAPH_COLUMN, y: (row + (height - 1) / 2) * GRAPH_ROW });
    row += height;
  }
  const edges = [...agents.values()].flatMap((node) => [...edgesOf(node, "tool", node.tools, places), ...edgesOf(node, "agent", node.agents, places)]);
  const nodes = [...places].map(([key, place]) => nodePicture(key, place));
  const width = columns * GRAPH_COLUMN + GRAPH_NODE.width + 2;
  return svg("svg", { class: "graph-picture", "aria-hidden": "true", width, height: row * GRAPH_ROW, viewBox: `-1 -1 ${width} ${row * GRAPH_ROW}` }, edges, nodes);
}

/**
 * @param {AgentNode} node
 * @param {string} kind
 * @param {Map<string, CallCount>} edges
 * @param {Map<string, {x: number, y: number}>} places
 */
function edgesOf(node, kind, edges, places) {
  const from = places.get(`agent ${node.name}`);
  return [...edges].flatMap(([name, count]) => {
    const to = places.get(`${kind} ${name}`);
    if (!from || !to || from === to) return [];
    const back = to.x <= from.x;
    const [x1, y1] = [from.x + GRAPH_NODE.width, from.y + GRAPH_NODE.height / 2];
    const [x2, y2] = [back ? to.x + GRAPH_NODE.width : to.x, to.y + GRAPH_NODE.height / 2];
    const bend = back ? 50 : (x2 - x1) / 2;
    return [
      svg("path", { class: count.failed ? "edge failed" : "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 + (back ? bend : -bend)} ${y2} ${x2} ${y2}` }),
      svg("text", { class: count.failed ? "edge-label failed" : "edge-label", x: back ? x2 + 26 : x2 - 6, y: y1 < y2 ? y2 + 13 : y2 - 5, "text-anchor": back ? "start" : "end" }, count.calls ? `×${count.calls}${count.failed ? ` ✗${count.failed}` : ""}` : ""),
    ];
  });
}

/**
 * @param {string} key
 * @param {{x: number, y: number}} place
 */
function nodePicture(key, place) {
  const name = key.slice(key.indexOf(" ") + 1);
  const isTool = key.startsWith("tool ");
  const short = name.length > 20 ? `${name.slice(0, 19)}…` : name;
  return svg(
    "g",
    null,
    svg("title", null, name),
    svg("rect", { class: isTool ? "node tool" : "node agent", x: place.x, y: place.y, width: GRAPH_NODE.width, height: GRAPH_NODE.height, rx: isTool ? 3 : 14 }),
    svg("text", { class: "foreign", x: place.x + GRAPH_NODE.width / 2, y: place.y + 18, "text-anchor": "middle" }, short),
  );
}

/** @param {Map<string, AgentNode>} agents */
function agentList(agents) {
  const countOf = (/** @type {CallCount} */ count) => [count.calls ? ` ${countText(count.calls, "call")}` : " below it", count.failed ? labelled("mark fail", ` ✗ ${count.failed} failed`) : null];
  const edge = (/** @type {string} */ kind) => (/** @type {[string, CallCount]} */ [name, count]) => h("li", null, `${kind} `, foreign(name, "code"), ...countOf(count));
  const item = (/** @type {AgentNode} */ node) => h("li", null, "agent ", foreign(node.name, "strong"), h("ul", null, [...node.tools].map(edge("tool")), [...node.agents].map(edge("agent"))));
  return h("ul", { class: "agent-list" }, [...agents.values()].map(item));
}
