// What stands above the list: the verdict and its reasons, counts, metrics; and the view "about" with files, versions and spending.

/** Counts of the header with the search term that selects the same cases, in the order of their buttons. */
const COUNTS = [
  ["blocking", "blocking", "blocking", "fail", "✗"],
  ["newly_failing", "newly failing", "change:newly_failing", "fail", "↘"],
  ["failed", "failed", "status:failed", "fail", "✗"],
  ["errored", "errored", "status:errored", "fail", "!"],
  ["suspicious", "suspected", "word:suspicious", "warn", "?"],
  ["flaky", "flaky", "flaky", "warn", "≈"],
  ["quarantined", "quarantined", "quarantined", "muted", "‖"],
  ["not_run", "not run", "status:not_run", "muted", "○"],
  ["fixed", "newly passing", "change:fixed", "pass", "↗"],
  ["passed", "passed", "status:passed", "pass", "✓"],
];
/** @type {Record<string, string[]>} */
const VERDICT_MARKS = { passed: ["✓", "Passed", "pass"], failed: ["✗", "Failed", "fail"], inconclusive: ["?", "Inconclusive", "warn"], invalid: ["!", "Invalid", "fail"] };

/**
 * Columns of the table of metrics: title, cell, and whether a metric has something to show in it.
 * @type {[string, (metric: any) => Child, (metric: any) => boolean][]}
 */
const METRIC_COLUMNS = [
  ["Now", (metric) => metricScore(metric), () => true],
  ["Base", (metric) => scoreText(metric.base, metric.threshold), (metric) => metric.base !== null],
  ["Change", (metric) => changeMark(metric.delta, metric), (metric) => metric.delta !== null],
  ["Needs", (metric) => (metric.threshold === null ? "–" : `${metric.direction === "lower" ? "≤" : "≥"} ${scoreText(metric.threshold)}`), (metric) => metric.threshold !== null],
  ["Passed", (metric) => (metric.gates ? countCell(metric.passed) : "–"), () => true],
  ["Failed", (metric) => (metric.gates ? h("span", { class: metric.failed ? "fail" : null, text: countCell(metric.failed) }) : "–"), () => true],
  ["No score", (metric) => countCell(metric.not_evaluated), (metric) => metric.not_evaluated > 0],
  ["Cost", (metric) => dollars(metric.cost), (metric) => metric.cost !== null],
  ["Recent runs", (metric) => metricHistory(metric), (metric) => metric.history.length > 0],
];

/**
 * The verdict as icon and word.
 * @param {any} header
 */
function verdictBadge(header) {
  const [icon, word, tone] = VERDICT_MARKS[header.verdict] ?? ["?", header.verdict, "warn"];
  return h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true", text: `${icon} ` }), word);
}

/**
 * The verdict's sentence without the word that the badge shows already.
 * @param {any} header
 */
function verdictSentence(header) {
  const [, word] = VERDICT_MARKS[header.verdict] ?? [];
  const rest = header.sentence.startsWith(`${word}: `) ? header.sentence.slice(word.length + 2) : header.sentence;
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}

/**
 * What was decided and why, problems and notices.
 * @param {Index} index
 */
function renderSummary(index) {
  const { header } = index;
  const sentences = new Set([header.decided, ...header.reasons]);
  return h(
    "div",
    { class: "summary" },
    [...sentences].map((text) => foreign(text, "p")),
    header.baseline ? h("p", null, foreign(header.baseline.sentence), header.baseline.url ? [" ", serverLink(index, header.baseline.url, "Base run")] : null) : null,
    originLine(header.origin),
    problemList(index),
    [...header.notices, ...index.left_out].map((text) => foreign(text, "p", { class: "notice" })),
  );
}

/** @param {any} origin */
function originLine(origin) {
  if (!origin) return null;
  const facts = [
    origin.repository,
    origin.pull_request ? `pull request #${origin.pull_request}` : origin.ref,
    origin.commit?.slice(0, 8),
    origin.duration === null || origin.duration === undefined ? null : secondsText(origin.duration),
    origin.num_runs > 1 ? `${origin.num_runs} runs per case` : null,
    origin.started_at ? `${dateText(origin.started_at)} UTC` : null,
  ].filter(Boolean);
  return h("p", { class: "muted origin" }, facts.flatMap((fact, i) => [i ? " · " : null, foreign(fact)]), origin.run_url ? [" · ", runAddress(origin.run_url)] : null);
}

/**
 * The address of the run, to open or to copy: the page's own address may expire.
 * @param {string} url
 */
function runAddress(url) {
  const field = /** @type {HTMLInputElement} */ (h("input", { class: "address", readonly: true, value: url, "aria-label": "Address of the run", hidden: true }));
  const button = h("button", { type: "button", class: "link no-print", text: "copy address" });
  button.addEventListener("click", async () => {
    const isCopied = await navigator.clipboard?.writeText(url).then(() => true, () => false);
    button.textContent = isCopied ? "copied" : "copy this:";
    field.hidden = Boolean(isCopied);
    if (!isCopied) field.select();
  });
  return h("span", null, outwardLink(url, "Run"), " ", button, " ", field);
}

/** @param {Index} index */
function problemList(index) {
  const { header } = index;
  if (!header.problems.length) return null;
  const item = (/** @type {any} */ problem) => {
    const place = problem.file ? `${problem.file}${problem.line ? `:${problem.line}` : ""}` : "";
    const url = sourceAddress(index, problem.file, problem.line);
    const tone = problem.severity === "error" ? "fail" : "warn";
    return h(
      "li",
      null,
      h("span", { class: `mark ${tone}`, text: `${problem.severity === "error" ? "✗ error" : "! warning"} ` }),
      place ? [outwardLink(url, foreign(place, "code")), " "] : null,
      foreign(problem.message),
      problem.hint ? foreign(problem.hint, "span", { class: "muted hint" }) : null,
    );
  };
  const isWarning = (/** @type {any} */ problem) => (problem.severity === "error" ? 0 : 1);
  const sorted = [...header.problems].sort((a, b) => isWarning(a) - isWarning(b));
  return h("ul", { class: "problems", "aria-label": "Problems" }, sorted.map(item));
}

/**
 * Buttons that filter by status or change. A button adds its term to the query, or removes it.
 * @param {Index} index
 * @param {(term: string) => void} toggle
 * @returns {{element: HTMLElement, show: (query: string) => void}}
 */
function countButtons(index, toggle) {
  const shown = COUNTS.filter(([key]) => index.header.counts[key] > 0);
  const buttons = shown.map(([key, label, term, tone, icon]) =>
    h(
      "button",
      { type: "button", class: "count", on: { click: () => toggle(term) } },
      h("span", { class: tone, "aria-hidden": "true", text: icon }),
      h("strong", { text: index.header.counts[key].toLocaleString("en") }),
      ` ${label}`,
    ),
  );
  const show = (/** @type {string} */ query) => {
    const tokens = tokensOf(query);
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(tokens.includes(shown[i][2]))));
  };
  return { element: h("div", { class: "counts no-print", role: "group", "aria-label": "Filter by status" }, buttons), show };
}

/**
 * All metrics of the run.
 * @param {Index} index
 * @param {boolean} isOpen
 */
function renderMetrics(index, isOpen) {
  if (!index.metrics.length) return null;
  const columns = METRIC_COLUMNS.filter(([, , isShown]) => index.metrics.some(isShown));
  return h(
    "details",
    { class: "metrics", open: isOpen },
    h("summary", null, h("h2", { text: `Metrics (${index.metrics.length})` })),
    h(
      "div",
      { class: "scroller", role: "region", tabindex: "0", "aria-label": "Metrics" },
      h(
        "table",
        { class: "plain" },
        h("thead", null, h("tr", null, h("th", { scope: "col", text: "Metric" }), columns.map(([title]) => h("th", { scope: "col", class: "number", text: title })))),
        h("tbody", null, index.metrics.map((/** @type {any} */ metric) => h("tr", null, metricName(metric), columns.map(([, cell]) => h("td", { class: "number" }, cell(metric)))))),
      ),
    ),
  );
}

/** @param {any} metric */
function metricName(metric) {
  return h(
    "th",
    { scope: "row" },
    h("a", { href: fragmentOf({ metric: metric.name }) }, breakable(metric.name)),
    metric.gates ? null : labelled("muted", " informational"),
    metric.judge ? foreign(metric.judge, "span", { class: "muted hint" }) : null,
    metric.note ? foreign(metric.note, "span", { class: "muted hint" }) : null,
  );
}

/** @param {any} metric */
function metricScore(metric) {
  const isBelow = metric.gates && typeof metric.now === "number" && !meets(metric, metric.now);
  return h("span", { class: isBelow ? "fail" : null, text: scoreText(metric.now, metric.threshold) });
}

/**
 * @param {any} metric
 * @param {number} score
 */
function meets(metric, score) {
  return metric.threshold === null || (metric.direction === "lower" ? score <= metric.threshold : score >= metric.threshold);
}

/**
 * Whether a change of a metric is for the better; null for a number without a threshold, such as seconds, which has no good side.
 * @param {any} metric
 * @param {number} change
 */
function isBetter(metric, change) {
  if (metric.threshold === null) return null;
  return metric.direction === "lower" ? change < 0 : change > 0;
}

/**
 * A difference with an arrow; its colour and the word for screen readers say whether it is for the better.
 * @param {number | string | null} delta
 * @param {any} metric
 */
function changeMark(delta, metric) {
  const change = numberOf(delta);
  if (Number.isNaN(change)) return labelled("muted", "–");
  if (Math.abs(change) < 0.005) return labelled("muted", "±0");
  const better = isBetter(metric, change);
  const [tone, word] = better === null ? ["muted", change > 0 ? "up by " : "down by "] : better ? ["pass", "better by "] : ["fail", "worse by "];
  return h(
    "span",
    { class: tone },
    h("span", { "aria-hidden": "true", text: change > 0 ? "▲" : "▼" }),
    labelled("visually-hidden", word),
    scoreText(typeof delta === "number" ? Math.abs(delta) : delta),
  );
}

/** @param {number | null} cost */
function dollars(cost) {
  return cost === null || cost === undefined ? "–" : `$${cost.toFixed(cost < 1 ? 4 : 2)}`;
}

/**
 * A name that may break after underscores and dots.
 * @param {string} name
 */
function breakable(name) {
  const element = foreign("");
  element.append(...name.split(/(?<=[_.])/).flatMap((piece) => [piece, h("wbr")]));
  return element;
}

/** @param {any} metric */
function metricHistory(metric) {
  const values = [...metric.history, metric.now].filter((value) => typeof value === "number");
  if (values.length < 2) return "–";
  const label = `last ${values.length} runs, from ${scoreText(values[0])} to ${scoreText(values[values.length - 1])}`;
  return h("span", null, scoreLine(values), labelled("visually-hidden", label));
}

/**
 * Files, agents, versions and spending.
 * @param {Index} index
 */
function renderAbout(index) {
  const { files, provenance, usage } = index.about;
  const criteria = (/** @type {any} */ file) => Object.entries(file.criteria ?? {}).flatMap(([name, threshold], i) => [i ? ", " : null, breakable(name), ` ${typeof threshold === "object" && threshold !== null ? JSON.stringify(threshold) : scoreText(/** @type {any} */ (threshold))}`]);
  return h(
    "div",
    { class: "about" },
    h("h2", { text: "About this run" }),
    h("h3", { text: "Eval files" }),
    plainTable("Eval files", ["File", "Agent", "Config", "Criteria"], files.map((/** @type {any} */ file) => [foreign(file.file), h("span", null, foreign(file.agent), file.agent_reason ? foreign(file.agent_reason, "span", { class: "muted hint" }) : null), foreign(file.config), h("span", null, criteria(file))])),
    h("h3", { text: "Models and spending" }),
    plainTable("Models and spending", ["Used by", "Model", "Calls", "Input tokens", "Output tokens", "Cost", "From the cache", "Votes saved"], usage.map((/** @type {any} */ row) => [foreign(row.who), foreign(row.model), ...[row.calls, row.input_tokens, row.output_tokens].map(countCell), dollars(row.cost), countCell(row.cached_replies), countCell(row.saved_votes)])),
    h("h3", { text: "Versions" }),
    plainTable("Versions", ["What", "Value"], Object.entries({ ...provenance, "agent-eval": index.header.origin?.tool_version }).filter(([, value]) => value).map(([name, value]) => [foreign(name), foreign(String(value))])),
  );
}

/** @param {number | null} count */
function countCell(count) {
  return count === null || count === undefined ? "–" : count.toLocaleString("en");
}

/**
 * @param {string} label
 * @param {string[]} titles
 * @param {Child[][]} rows
 */
function plainTable(label, titles, rows) {
  if (!rows.length) return muted("None.");
  const table = dataTable(titles, rows);
  table.className = "scroller";
  table.setAttribute("aria-label", label);
  return table;
}
