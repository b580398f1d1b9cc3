// What stands above the list: the verdict and its facts, causes, changes in the agent, metrics; and the view "about".

/** Buttons above the list: search term, label, class, icon. */
const COUNTS = [
  ["regression", "regressions", "fail", "✗"],
  ["blocking", "blocking", "fail", "✗"],
  ["change:newly_failing", "newly failing", "fail", "↘"],
  ["status:failed", "failed", "fail", "✗"],
  ["status:errored", "not evaluated", "warn", "!"],
  ["suspected", "suspected", "muted", "?"],
  ["flaky", "flaky", "muted", "≈"],
  ["quarantined", "quarantined", "muted", "‖"],
  ["status:not_run", "not run", "muted", "○"],
  ["changed_answer", "changed answers", "warn", "≠"],
  ["fixed", "fixed", "pass", "↗"],
  ["status:passed", "passed", "pass", "✓"],
];
/** @type {Record<string, string[]>} */
const VERDICT_MARKS = { passed: ["✓", "Passed", "pass"], failed: ["✗", "Failed", "fail"], inconclusive: ["!", "Inconclusive", "warn"], invalid: ["!", "Invalid", "fail"] };
/** Metrics that are in sight; the others are behind a click. */
const MOST_SCORES = 6;
/** More notes than these are behind a click, and notes beside causes. */
const NOTES_OPEN = 3;
/** The longest beginning of a headline that is its verdict. */
const LONGEST_VERDICT = 30;

/**
 * Columns of the table of metrics: title, cell, and whether a metric has something to show in it.
 * @type {[string, (metric: any) => Child, (metric: any) => boolean][]}
 */
const METRIC_COLUMNS = [
  ["Now", (metric) => metricScore(metric), () => true],
  ["Base", (metric) => scoreText(metric.base, metric.threshold), (metric) => metric.base !== null],
  ["Change", (metric) => changeMark(metric.delta, metric), (metric) => metric.delta !== null],
  ["Needs", (metric) => neededText(metric), (metric) => metric.threshold !== null],
  ["Passed", (metric) => (metric.gates ? countCell(metric.passed) : "–"), () => true],
  ["Failed", (metric) => (metric.gates ? h("span", { class: metric.failed ? "fail" : null, text: countCell(metric.failed) }) : "–"), () => true],
  ["No score", (metric) => countCell(metric.not_evaluated), (metric) => metric.not_evaluated > 0],
  ["Cost", (metric) => dollars(metric.cost), (metric) => metric.cost !== null],
  ["Recent runs", (metric) => metricHistory(metric), (metric) => metric.history.length > 0],
];

/**
 * The verdict on the left, facts on the right. Other views than the list show the verdict only.
 * @param {Index} index
 */
function verdictHead(index) {
  const { header } = index;
  const [icon, word, tone] = VERDICT_MARKS[header.verdict] ?? ["?", header.verdict, "warn"];
  const at = header.sentence.indexOf(": ");
  const hasLead = at > 0 && at <= LONGEST_VERDICT;
  const [lead, rest] = hasLead ? [header.sentence.slice(0, at), header.sentence.slice(at + 2)] : [word, header.sentence];
  const title = header.verdict === "inconclusive" ? rest.split("; ")[0] : rest;
  const said = index.causes.length === 1 ? [index.causes[0].title] : [];
  return h(
    "div",
    { class: "head" },
    h(
      "div",
      { class: "verdict" },
      h("h1", null, h("span", { class: `state ${tone}` }, h("span", { "aria-hidden": "true", text: `${icon} ` }), foreign(lead), labelled("visually-hidden", ": ")), foreign(title.charAt(0).toUpperCase() + title.slice(1))),
      [...header.reasons, ...said].map((text, i) => withCode(text, "p", { class: i ? "more" : "lead" })),
      nextStep(index),
    ),
    factList(index),
  );
}

/** @param {Index} index */
function baseName(index) {
  return index.header.baseline?.name || "base";
}

/**
 * What to do next, with links to the case, the lines and the run that it names.
 * @param {Index} index
 */
function nextStep(index) {
  const { next, next_label, commands, origin } = index.header;
  const piece = (/** @type {any} */ { text, file, line, run }) => {
    const i = index.cases.line.findIndex((/** @type {number} */ first, /** @type {number} */ at) => file && first === line && index.strings[index.cases.file_s[at]] === file);
    if (i >= 0) return h("a", { href: fragmentOf({ case: index.cases.id[i] }) }, foreign(text));
    if (file) return outwardLink(sourceAddress(index, file, line), foreign(text, "span", { dir: "ltr" }));
    return run ? serverLink(index, origin.run_url, text) : withCode(text);
  };
  if (!next.length) return null;
  const copies = commands.map((/** @type {string[]} */ [label, text]) => copyButton(label, text, label.replace("Copy", "To copy:")));
  return h("div", { class: "next" }, h("p", null, h("strong", { text: `${next_label}: ` }), next.map(piece)), copies.length ? h("p", { class: "acts no-print" }, copies) : null);
}

/**
 * Lines of files, with links.
 * @param {Index} index
 * @param {any[]} places
 * @returns {Child[]}
 */
function placeLinks(index, places) {
  return places.flatMap((place, i) => {
    const lines = place.first ? `:${place.first}${place.last ? `-${place.last}` : ""}` : "";
    const link = serverLink(index, sourceAddress(index, place.file, place.first), foreign(`${place.file}${lines}`, "span", { dir: "ltr" }));
    return [i ? ", " : null, link, place.symbol ? [" (", foreign(place.symbol, "code"), ")"] : null].flat();
  });
}

/**
 * The facts of a run: what matters beside the verdict, each with a remark.
 * @param {Index} index
 */
function factList(index) {
  const { header } = index;
  const { counts, origin, baseline, spent } = header;
  const total = index.cases.removed.filter((/** @type {number} */ removed) => !removed).length;
  const [label, count] = counts.failed || !counts.errored ? ["Failed", counts.failed] : ["Not evaluated", counts.errored];
  const also = [["errored", "not evaluated"], ["not_run", "not run"], ["suspected", "suspected"], ["flaky", "flaky"], ["quarantined", "quarantined"]];
  const others = also.filter(([key, word]) => counts[key] && word !== label.toLowerCase()).map(([key, word]) => `${counts[key].toLocaleString("en")} ${word}`);
  const share = (/** @type {number} */ part) => [part.toLocaleString("en"), muted(` of ${total.toLocaleString("en")}`)];
  /** @type {[string, Child[], Child[]][]} */
  const facts = total ? [[label, share(count), [others.join(", ")]], ["Passed", share(counts.passed), [origin.num_runs > 1 ? `${origin.num_runs} runs a case` : null]]] : [];
  if (baseline) facts.push("commit" in baseline ? ["Compared with", [foreign(baseline.name || "the base branch")], [baseline.commit ? serverLink(index, baseline.commit_url, foreign(baseline.commit, "code")) : null]] : ["Compared with", ["nothing"], []]);
  if (origin.duration !== null) facts.push(["Duration", [secondsText(origin.duration)], [origin.started_at ? `${dateText(origin.started_at)} UTC` : null]]);
  if (spent.tokens) {
    const now = spent.runs ? `${Math.round(spent.tokens / spent.runs).toLocaleString("en")} a run` : "";
    facts.push(["Agent's tokens", [spent.tokens.toLocaleString("en")], [now, spent.base_tokens ? [", ", foreign(baseName(index)), ` ${spent.base_tokens.toLocaleString("en")}`] : null].flat()]);
  }
  if (spent.bill) {
    const [, sum, parts = ""] = /^(\S+)(?: \((.*)\))?$/.exec(spent.bill) ?? [null, "–", spent.bill];
    facts.push(["Cost", [sum], [foreign(parts), spent.base_cost ? [parts ? "; " : null, foreign(baseName(index)), ` ${spent.base_cost}`] : null].flat()]);
  }
  if (origin.commit) facts.push(["Commit", [foreign(origin.commit.slice(0, 8), "code")], []]);
  const links = [origin.pull_url ? serverLink(index, origin.pull_url, `Pull request #${origin.pull_request}`) : null, origin.run_url ? runAddress(origin.run_url) : null, baseline?.url ? serverLink(index, baseline.url, "Base run") : null].filter(Boolean);
  const fact = (/** @type {[string, Child[], Child[]]} */ [name, value, remark]) => h("div", null, h("dt", { text: name }), h("dd", null, ...value), remark.some(Boolean) ? h("dd", { class: "remark" }, ...remark) : null);
  return h("dl", { class: "facts" }, facts.map(fact), links.length ? h("div", null, h("dt", { text: "Links" }), h("dd", { class: "links" }, links)) : null);
}

/**
 * A button that copies a text. Where that is not possible, the text appears, to be copied by hand.
 * @param {string} label
 * @param {string} text
 * @param {string} name
 */
function copyButton(label, text, name) {
  const field = /** @type {HTMLInputElement} */ (h("input", { class: "address", readonly: true, value: text, "aria-label": name, hidden: true }));
  const button = h("button", { type: "button", class: "link no-print", text: label });
  button.addEventListener("click", async () => {
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    button.textContent = isCopied ? "copied" : "copy this:";
    field.hidden = Boolean(isCopied);
    if (!isCopied) field.select();
  });
  return h("span", null, button, " ", field);
}

/**
 * The address of the run, to open or to copy: the page's own address may expire.
 * @param {string} url
 */
function runAddress(url) {
  return h("span", null, outwardLink(url, "Run"), " ", copyButton("copy address", url, "Address of the run"));
}

/**
 * What failing cases have in common, each with a button that selects its cases; beside it the agent's changes and the scores.
 * @param {Index} index
 * @param {(term: string) => void} toggle Adds a term to the query, or removes it.
 * @returns {{element: HTMLElement, show: (query: string) => void}}
 */
function findingsSection(index, toggle) {
  const buttons = index.causes.map((/** @type {any} */ cause, /** @type {number} */ i) => pushButton(`Show ${cause.count === 1 ? "it" : `these ${cause.count.toLocaleString("en")}`}`, () => toggle(`cause:${i + 1}`), { "data-focus": `cause ${i + 1}` }));
  const show = (/** @type {string} */ query) => buttons.forEach((/** @type {HTMLElement} */ button, /** @type {number} */ i) => button.setAttribute("aria-pressed", String(tokensOf(query).includes(`cause:${i + 1}`))));
  const causes = index.causes.length ? h("section", { class: "of-causes", "aria-labelledby": "causes-title" }, h("h2", { id: "causes-title", text: index.causes.length === 1 ? "Cause" : `${index.causes.length} causes` }), h("ol", { class: "causes" }, index.causes.map((/** @type {any} */ cause, /** @type {number} */ i) => causeElement(index, cause, buttons[i])))) : null;
  const changes = index.agent_changes.length ? h("section", { "aria-labelledby": "changes-title" }, h("h2", { id: "changes-title", text: "Changed in the agent" }), h("ul", { class: "agent-changes" }, index.agent_changes.map((/** @type {any} */ change) => h("li", { class: change.places.length ? null : "muted" }, change.agent ? [foreign(change.agent), ": "] : null, withCode(change.text), change.places.length ? [" ", ...placeLinks(index, change.places)] : null)))) : null;
  return { element: h("div", { class: "findings-section" }, causes, changes, renderMetrics(index), runNotes(index)), show };
}

/**
 * @param {Index} index
 * @param {any} cause
 * @param {Node | null} button Null on paper.
 */
function causeElement(index, cause, button) {
  const { example } = cause;
  const evidence = /** @type {[string, string, string][]} */ ([["call", cause.call, ""], ["now", cause.now, cause.agent ? "fail" : "warn"], [cause.base_name, cause.base, ""]]).filter(([, text]) => text);
  const i = positionOf(index, example.case);
  const name = i < 0 ? example.case : index.cases.eval_id[i];
  return h(
    "li",
    { class: "cause" },
    h("p", { class: cause.agent ? "count-of fail" : "count-of warn" }, cause.count.toLocaleString("en"), h("small", { text: cause.count === 1 ? " case" : " cases" })),
    h(
      "div",
      null,
      foreign(cause.title, "h3", { dir: "ltr" }),
      foreign(cause.evidence, "p", { dir: "ltr" }),
      cause.hint ? withCode(cause.hint, "p") : null,
      cause.places.length ? h("p", null, h("strong", { text: `${cause.lead}: ` }), ...placeLinks(index, cause.places)) : null,
      evidence.length ? h("dl", { class: "evidence-of" }, evidence.flatMap(([label, text, tone]) => [h("dt", null, foreign(label)), h("dd", { class: tone }, foreign(text, "code", { dir: "ltr" }))])) : null,
      h("p", { class: "acts no-print" }, button, h("a", { href: fragmentOf(example) }, h("span", null, "Example: ", foreign(name)), example.turn ? `, turn ${example.turn}` : null), cause.command ? copyButton("Copy the command", cause.command, "Command that runs these cases") : null),
    ),
  );
}

/**
 * What is good to know, and nobody must act on.
 * @param {Index} index
 */
function runNotes(index) {
  const { decided, baseline, notices } = index.header;
  const notes = [...new Set([decided, baseline?.sentence, ...notices])].filter(Boolean);
  return notes.length ? aside(notes.length <= NOTES_OPEN && !index.causes.length, countText(notes.length, "note"), () => [h("ul", { class: "run-notes" }, notes.map((text) => withCode(text, "li")))]) : null;
}

/**
 * What somebody must act on: warnings and problems; and what the page leaves out.
 * @param {Index} index
 */
function renderSummary(index) {
  const { header } = index;
  return h(
    "div",
    { class: "summary" },
    header.warnings.map((/** @type {string} */ text) => withCode(text, "p", { class: "notice" })),
    problemList(index),
    index.left_out.map((/** @type {string} */ text) => withCode(text, "p", { class: "muted" })),
  );
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
      withCode(problem.message),
      problem.hint ? withCode(problem.hint, "span", { class: "muted hint" }) : null,
    );
  };
  const isWarning = (/** @type {any} */ problem) => (problem.severity === "error" ? 0 : 1);
  const sorted = [...header.problems].sort((a, b) => isWarning(a) - isWarning(b));
  return h("ul", { class: "problems", "aria-label": "Problems" }, sorted.map(item));
}

/**
 * Buttons that filter by status or change. A button adds its term to the query, or removes it.
 * @param {Index} index
 * @param {(term: string) => void} toggle "" for no query at all.
 * @returns {{element: HTMLElement, show: (query: string) => void}}
 */
function countButtons(index, toggle) {
  const seen = new Set();
  const rows = allRows(index);
  const isSorted = rows.some((row) => row.tags.includes("regression") || row.tags.includes("suspected"));
  const shown = COUNTS.flatMap(([term, label, tone, icon]) => {
    const query = parseQuery(term, index);
    const selected = rows.filter((row) => matches(query, row)).map((row) => row.index);
    // A second button for the same cases says nothing, nor does a weaker word for what the statistics have sorted.
    if (!selected.length || seen.has(selected.join()) || (isSorted && term === "change:newly_failing")) return [];
    seen.add(selected.join());
    const text = [h("span", { class: tone, "aria-hidden": "true", text: icon }), h("strong", { text: countCell(selected.length) }), ` ${selected.length === 1 ? label.replace(/s$/, "") : label}`];
    return [{ term, button: h("button", { type: "button", class: "count", on: { click: () => toggle(term) } }, text) }];
  });
  const all = h("button", { type: "button", class: "count", on: { click: () => toggle("") } }, h("strong", { text: countCell(rows.length) }), " all");
  const show = (/** @type {string} */ query) => {
    const tokens = tokensOf(query);
    all.setAttribute("aria-pressed", String(!tokens.length));
    shown.forEach(({ term, button }) => button.setAttribute("aria-pressed", String(tokens.includes(term))));
  };
  return { element: h("div", { class: "counts no-print", role: "group", "aria-label": "Filter by status" }, shown.length > 1 ? all : null, shown.map(({ button }) => button)), show };
}

/**
 * Scores that gate, aligned, and behind a click everything about all metrics.
 * @param {Index} index
 * @param {boolean} isWhole
 */
function renderMetrics(index, isWhole = false) {
  const { metrics } = index;
  if (!metrics.length) return null;
  const gating = metrics.filter((/** @type {any} */ metric) => metric.gates).sort((/** @type {any} */ a, /** @type {any} */ b) => b.failed - a.failed).slice(0, MOST_SCORES);
  const columns = METRIC_COLUMNS.filter(([, , isShown]) => metrics.some(isShown));
  return h(
    "section",
    { class: "metrics", "aria-labelledby": "metrics-title" },
    h("h2", { id: "metrics-title", text: "Scores" }),
    gating.length && !isWhole ? scoreTable(gating.map((/** @type {any} */ metric) => ({ ...metric, scores: [metric.now] })), baseName(index)) : null,
    aside(isWhole, `All metrics (${metrics.length})`, () => [
      h(
        "div",
        { class: "scroller", ...region("Metrics") },
        h(
          "table",
          { class: "plain" },
          h("thead", null, h("tr", null, h("th", { scope: "col", text: "Metric" }), columns.map(([title]) => h("th", { scope: "col", class: "number", text: title })))),
          h("tbody", null, metrics.map((/** @type {any} */ metric) => h("tr", null, metricName(metric), columns.map(([, cell]) => h("td", { class: "number" }, cell(metric)))))),
        ),
      ),
    ]),
  );
}

/** @param {any} metric */
function neededText(metric) {
  return metric.threshold === null ? "–" : metric.needs ?? `${metric.direction === "lower" ? "≤" : "≥"} ${scoreText(metric.threshold)}`;
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
 * @param {Props} [props]
 */
function breakable(name, props) {
  const element = foreign("", "span", props);
  element.replaceChildren(...name.split(/(?<=[_.])/).flatMap((piece) => [piece, h("wbr")]));
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
    plainTable("Eval files", ["File", "Agent", "Config", "Criteria"], files.map((/** @type {any} */ file) => [foreign(file.file), h("span", null, foreign(file.agent), file.agent_reason ? withCode(file.agent_reason, "span", { class: "muted hint" }) : null), foreign(file.config), h("span", null, criteria(file))])),
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
