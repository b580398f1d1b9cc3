// When the model and the tools of a turn worked: lanes by agent as a picture, and the same as a table.

/** The table is open beside the picture up to so many spans. */
const SPANS_IN_SIGHT = 12;

/**
 * @param {any} turn
 * @returns {HTMLElement}
 */
function renderTimeline(turn) {
  const spans = [...(turn.spans ?? [])].sort((a, b) => a.start - b.start || a.end - b.end);
  if (!spans.length) return stepOrder(turn);
  const end = Math.max(turn.seconds ?? 0, ...spans.map((span) => span.end), 0.001);
  const lanes = timelineLanes(spans);
  return h("div", { class: "timeline" }, h("div", { class: "picture", "aria-hidden": "true" }, lanes.map((lane) => laneElement(lane, end)), timeAxis(end)), timelineTable(spans), askedModels(turn.requests ?? []));
}

/**
 * What agents gave their models besides the conversation, if it was not the same in the turn before.
 * @param {any[]} requests
 */
function askedModels(requests) {
  return requests.length ? aside(false, "system instructions and tools", () => requests.flatMap((request) => [h("p", null, foreign(request.agent, "span", { class: "label" }), " tools: ", foreign(request.tools.join(", ") || "–")), proseBlock(request.instructions, request.instructions.length)])) : null;
}

/**
 * No times were recorded: the order is all that is known.
 * @param {any} turn
 */
function stepOrder(turn) {
  const item = (/** @type {any} */ step) => h("li", null, step.agent ? [foreign(step.agent, "span", { class: "label" }), " "] : null, step.kind === "call" ? "calls " : step.kind === "response" ? "response of " : "says ", step.name ? foreign(step.name, "code") : foreign((textOfParts(step.parts) ?? "").slice(0, 120)));
  return h("div", { class: "timeline" }, h("p", { class: "muted", text: "No times were recorded for this turn; this is the order of its steps." }), h("ol", null, turn.steps.map(item)));
}

/**
 * Spans by agent; those that overlap get rows of their own.
 * @param {any[]} spans
 * @returns {{agent: string, rows: any[][]}[]}
 */
function timelineLanes(spans) {
  /** @type {Map<string, any[][]>} */
  const lanes = new Map();
  for (const span of spans) {
    const rows = lanes.get(span.agent) ?? [];
    lanes.set(span.agent, rows);
    const free = rows.find((row) => row[row.length - 1].end <= span.start);
    if (free) free.push(span);
    else rows.push([span]);
  }
  return [...lanes].map(([agent, rows]) => ({ agent, rows }));
}

/**
 * @param {{agent: string, rows: any[][]}} lane
 * @param {number} end
 */
function laneElement(lane, end) {
  const height = 22 * lane.rows.length;
  const x = (/** @type {number} */ seconds) => `${((100 * seconds) / end).toFixed(3)}%`;
  const bar = (/** @type {any} */ span, /** @type {number} */ row) => [
    svg("rect", { class: `span ${span.kind}${isRetried(span) ? " retried" : ""}`, x: x(span.start), width: x(Math.max(span.end - span.start, 0)), y: row * 22 + 3, height: 16, rx: 2 }, svg("title", null, spanText(span))),
    // The inner picture cuts the label off where the bar ends.
    svg("svg", { x: x(span.start), width: x(Math.max(span.end - span.start, 0)), y: row * 22, height: 22 }, svg("text", { class: "foreign", x: 4, y: 15 }, spanLabel(span))),
  ];
  return h("div", { class: "lane" }, foreign(lane.agent || "agent", "div", { class: "lane-name label" }), svg("svg", { class: "lane-picture", height: String(height) }, svg("line", { class: "axis", x1: "0", x2: "100%", y1: height - 0.5, y2: height - 0.5 }), lane.rows.flatMap((row, i) => row.flatMap((span) => bar(span, i)))));
}

/** @param {any} span */
function isRetried(span) {
  return Boolean(span.attempts?.length);
}

/** @param {any} span */
function spanLabel(span) {
  return `${span.kind === "model" ? "model" : span.name} ${secondsText(span.end - span.start)}${span.replayed ? " (recorded)" : ""}${isRetried(span) ? ` ↻ ${attemptText(span.attempts)}` : ""}`;
}

/** @param {any} span */
function spanText(span) {
  return `${span.kind} ${span.name}, ${secondsText(span.start)} to ${secondsText(span.end)}${span.replayed ? ", answered from the tape" : ""}${isRetried(span) ? `, failed attempts: ${attemptText(span.attempts)}` : ""}`;
}

/**
 * The statuses of the attempts that failed, in order; null: there was no response.
 * @param {(number | null)[]} attempts
 */
function attemptText(attempts) {
  return attempts.map((status) => status ?? "no response").join(", ");
}

/** @param {number} end */
function timeAxis(end) {
  return h("div", { class: "time-axis muted" }, [0, 0.25, 0.5, 0.75, 1].map((share) => h("span", { text: share ? secondsText(end * share) : "0" })));
}

/** @param {any[]} spans */
function timelineTable(spans) {
  const columns = ["what", "agent", "start", "took", "failed attempts", "messages", "tokens in", "tokens out"];
  const row = (/** @type {any} */ span) => [
    foreign(`${span.kind} ${span.name ?? ""}`),
    foreign(span.agent),
    secondsText(span.start),
    secondsText(span.end - span.start),
    span.replayed ? "recorded answer" : isRetried(span) ? attemptText(span.attempts) : "–",
    countCell(span.contents),
    countCell(span.input_tokens),
    countCell(span.output_tokens),
  ];
  return aside(spans.length <= SPANS_IN_SIGHT, "the same as a table", () => [dataTable(columns, spans.map(row))]);
}
