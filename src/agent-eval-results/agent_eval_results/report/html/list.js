// The list of cases: filtered, sorted, and only the rows near the visible part are in the document.

/**
 * @typedef {{element: HTMLElement, causes: HTMLElement, show: (state: State) => void, order: () => number[], focusCase: (id: string) => void,
 *   focusSearch: () => void, move: (step: number, onlyAttention: boolean) => void}} CaseList
 */

/** So many cases are all in the document, so that the browser's own search finds them. */
const REAL_ROWS = 500;
/** Rows of a longer list are laid out when they come near the window; the browser's search finds them nevertheless. */
const SMALL_LIST = 100;
/** Rows kept in the document above and below the visible ones, where there are more. */
const SPARE_ROWS = 8;
/** Tags because of which someone should look at a case. */
const ATTENTION_TAGS = ["quarantined", "flaky", "suspected", "blocking"];
/** @type {Record<string, string>} */
const CHANGE_MARKS = { newly_failing: "newly failing", still_failing: "fails on the base too", added: "new", changed: "changed", removed: "removed", renamed: "renamed" };

/** The rows of an index, made once. @type {WeakMap<Index, Row[]>} */
const rowsOfIndex = new WeakMap();

/**
 * @param {Index} index
 * @returns {Row[]}
 */
function allRows(index) {
  let rows = rowsOfIndex.get(index);
  if (!rows) rowsOfIndex.set(index, (rows = index.cases.id.map((/** @type {string} */ _, /** @type {number} */ i) => caseRow(index, i))));
  return /** @type {Row[]} */ (rows);
}

/**
 * Whether the run has several agents.
 * @param {Index} index
 */
function hasAgents(index) {
  return new Set(index.cases.agent_s).size > 1;
}

/** The same rows, those that need attention first. @type {WeakMap<Index, Row[]>} */
const rankedRows = new WeakMap();

/**
 * @param {Index} index
 * @returns {Row[]}
 */
function rowsByRank(index) {
  const rows = rankedRows.get(index) ?? [...allRows(index)].sort((a, b) => a.rank - b.rank);
  rankedRows.set(index, rows);
  return rows;
}

/**
 * The order in which cases are listed: those that a query selects, sorted. Missing values come last, ties in order of attention.
 * @param {Index} index
 * @param {Query} query
 * @param {string | null} sort `seconds`, `-cost`, `metric:NAME`, ...; null: cases that need attention first.
 * @returns {number[]}
 */
function orderedCases(index, query, sort) {
  const rows = rowsByRank(index).filter((row) => matches(query, row));
  const isDescending = sort?.startsWith("-") === true;
  const value = sort ? sortValue(index, isDescending ? sort.slice(1) : sort) : null;
  if (!value) return rows.map((row) => row.index);
  const { compare } = new Intl.Collator("en", { numeric: true });
  const keyed = rows.map((row) => ({ index: row.index, key: /** @type {any} */ (value(row)) }));
  const isMissing = (/** @type {{key: any}} */ { key }) => key === null || Number.isNaN(key);
  const sorted = keyed.filter((item) => !isMissing(item)).sort((a, b) => {
    const difference = typeof a.key === "string" ? compare(a.key, b.key) : a.key - b.key;
    return isDescending ? -difference : difference;
  });
  return [...sorted, ...keyed.filter(isMissing)].map((item) => item.index);
}

/**
 * What rows are sorted by; null for an unknown key.
 * @param {Index} index
 * @param {string} key
 * @returns {((row: Row) => number | string | null) | null}
 */
function sortValue(index, key) {
  if (key === "case") return (row) => row.id;
  if (key === "agent") return (row) => row.agent;
  if (key === "runs") return (row) => (row.runs ? row.runsPassed / row.runs : null);
  if (key === "seconds" || key === "tokens" || key === "cost") return (row) => (row[key] === null ? null : numberOf(row[key]));
  const at = index.metrics.findIndex((/** @type {any} */ metric) => `metric:${metric.name}` === key);
  return at < 0 ? null : (row) => (row.scores[at] === null ? null : numberOf(row.scores[at]));
}

/**
 * Whether someone should look at a case.
 * @param {Row} row
 */
function needsAttention(row) {
  return row.status !== "passed" || row.tags.some((tag) => ATTENTION_TAGS.includes(tag));
}

/**
 * @param {Index} index
 * @param {Pick<Context, "go" | "announce">} ctx
 * @returns {CaseList}
 */
function createList(index, ctx) {
  /** @type {State} */
  let state = parseState("");
  /** @type {number[]} */
  let order = [];
  const search = createSearch(index, ctx, (text) => update({ ...state, q: text }, true));
  const toggle = (/** @type {string} */ term) => ctx.go({ q: term && toggled(search.text(), term) });
  const counts = countButtons(index, toggle);
  const causes = findingsSection(index, toggle);
  const table = createTable(index, ctx, () => state);
  const notice = h("div", { class: "notices" });
  const element = h(
    "section",
    { class: "cases", "aria-labelledby": "cases-title" },
    h("h2", { id: "cases-title", class: "visually-hidden", text: "Cases" }),
    h("div", { class: "selection" }, counts.element, search.element),
    notice,
    table.element,
  );

  /**
   * @param {State} next
   * @param {boolean} isTyping The text comes from the search box, which must not be changed.
   */
  function update(next, isTyping) {
    state = next;
    const text = state.q ?? "";
    const query = parseQuery(text, index);
    const sort = state.sort ?? (state.metric && state.metric !== ALL_SCORES ? `metric:${state.metric}` : null);
    order = orderedCases(index, query, sort);
    if (!isTyping) search.setText(text);
    search.setResult(order.length, query);
    counts.show(text);
    causes.show(text);
    const misses = order.length || !allRows(index).length ? null : missing(index, text, allRows(index));
    notice.replaceChildren(
      ...query.notes.map((note) => foreign(note, "p", { class: "notice", dir: "ltr" })),
      ...(misses?.reasons ?? []).map((reason) => foreign(reason, "p", { class: "miss", dir: "ltr" })),
      ...(misses?.words.length ? [pushButton(`Search the conversations for ${misses.words.map((word) => `“${word}”`).join(", ")}`, search.everywhere)] : []),
    );
    table.show(order, sort, state.metric);
  }

  return {
    element,
    causes: causes.element,
    show: (next) => update(next, false),
    order: () => order,
    focusCase: (id) => table.focusCase(positionOf(index, id)),
    focusSearch: search.focus,
    move: table.move,
  };
}

/**
 * @param {string} query
 * @param {string} term
 */
function toggled(query, term) {
  const tokens = tokensOf(query);
  return (tokens.includes(term) ? tokens.filter((token) => token !== term) : [...tokens, term]).join(" ");
}

/**
 * The search box. Typing filters at once; Enter also searches the conversations, block by block.
 * @param {Index} index
 * @param {Pick<Context, "go" | "announce">} ctx
 * @param {(text: string) => void} changed
 */
function createSearch(index, ctx, changed) {
  let running = new AbortController();
  let timer = 0;
  const field = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", id: "search", class: "search-field", autocomplete: "off", list: "search-terms", spellcheck: "false", dir: "auto", placeholder: "status:failed  tool:set_status  seconds>30  words", "aria-describedby": "search-help" })
  );
  const result = h("p", { class: "result" });
  const bar = /** @type {HTMLProgressElement} */ (h("progress", { "aria-label": "Searching conversations", max: String(Math.max(index.blocks, 1)), value: "0" }));
  const progress = h("span", { class: "progress", hidden: true }, bar, h("button", { type: "button", class: "button", text: "Cancel", on: { click: () => running.abort() } }));
  const everywhere = async () => {
    running.abort();
    clearTimeout(timer); // what it would announce is out of date then
    timer = 0;
    const { signal } = (running = new AbortController());
    progress.hidden = false;
    const isComplete = await searchConversations(index, parseQuery(field.value, index), (done) => (bar.value = done), signal);
    if (running.signal === signal) progress.hidden = true;
    if (isComplete) changed(field.value);
    ctx.announce(isComplete ? `Searched all conversations: ${result.textContent}` : "Search cancelled");
  };
  const commit = () => field.value !== (parseState(location.hash).q ?? "") && ctx.go({ q: field.value });
  const terms = h("datalist", { id: "search-terms" });
  const suggest = () => terms.replaceChildren(...suggestions(index, field.value).map(([value, label]) => h("option", { value, label })));
  field.addEventListener("focus", suggest);
  field.addEventListener("input", suggest);
  field.addEventListener("input", () => {
    changed(field.value);
    clearTimeout(timer);
    timer = setTimeout(() => ((timer = 0), commit(), ctx.announce(result.textContent ?? "")), 700);
  });
  const form = h(
    "form",
    { class: "search no-print", role: "search", on: { submit: (/** @type {Event} */ event) => (event.preventDefault(), commit(), everywhere()) } },
    h("label", { for: "search", class: "visually-hidden", text: "Search cases" }),
    field,
    terms,
    h("button", { type: "submit", class: "button", text: "Search conversations" }),
    sortMenu(index, ctx),
    index.metrics.length > 1 ? matrixButton(ctx) : null,
    progress,
    h("p", { id: "search-help", class: "visually-hidden", text: "Words search ids, files, reasons and messages of users. Filters: status, change, word, file, agent, tool, metric, seconds, tokens, cost. A minus sign excludes." }),
  );
  return {
    element: h("div", { class: "search-bar" }, index.cases.id.length ? form : null, result),
    text: () => field.value,
    everywhere: () => (commit(), void everywhere()),
    setText: (/** @type {string} */ text) => void (timer || (field.value = text)), // a text that is being typed is newer
    focus: () => (field.focus(), field.select()),
    /** @type {(count: number, query: Query) => void} */
    setResult: (count, query) => {
      const total = index.cases.id.length;
      const words = query.terms.filter((term) => term.word !== null && conversationHits.has(term.word)).map((term) => `“${term.word}”`);
      const text = !total ? "This run has no cases." : count === total ? countText(total, "case") : `${count.toLocaleString("en")} of ${countText(total, "case")}`;
      result.replaceChildren(foreign(words.length ? `${text} · conversations searched for ${words.join(", ")}` : text));
    },
  };
}

/**
 * The order as a menu: narrow windows have no column headers.
 * @param {Index} index
 * @param {Pick<Context, "go">} ctx
 */
function sortMenu(index, ctx) {
  const choices = [["", "by cause"], ["-seconds", "slowest first"], ["-tokens", "most tokens first"], ["-cost", "most expensive first"], ...(hasAgents(index) ? [["agent", "by agent"]] : []), ["case", "by id"], ["runs", "fewest passed runs first"], ...index.metrics.map((/** @type {any} */ metric) => [`metric:${metric.name}`, `${metric.name}, lowest first`])];
  const menu = /** @type {HTMLSelectElement} */ (
    h("select", { "aria-label": "Order", on: { change: () => ctx.go({ sort: menu.value || null }) } }, choices.map(([value, label]) => h("option", { value, text: label })))
  );
  addEventListener("hashchange", () => (menu.value = parseState(location.hash).sort ?? ""));
  menu.value = parseState(location.hash).sort ?? "";
  return h("span", { class: "order" }, menu);
}

/**
 * Switches between the first difference of each case and its scores of all metrics.
 * @param {Pick<Context, "go">} ctx
 */
function matrixButton(ctx) {
  const isOn = () => parseState(location.hash).metric === ALL_SCORES;
  const button = h("button", { type: "button", class: "button all-scores", text: "All scores", on: { click: () => ctx.go({ metric: isOn() ? null : ALL_SCORES }) } });
  const show = () => button.setAttribute("aria-pressed", String(isOn()));
  addEventListener("hashchange", show);
  show();
  return button;
}
