// The table of the list. Rows have a fixed height, so the part to draw follows from the scroll position.

/**
 * @typedef {{key: string, title: string, class: string, width: number, sort: string | null, cell: (row: Row) => Child | Child[]}} Column
 *   `width`: at least, in rem. `sort`: the order that a click on the header gives; null: cases that need attention first.
 */

const COLUMN_GAP = 0.75;
/** Columns that take what the others leave. */
const WIDE_COLUMNS = ["case", "why"];
/** Columns that go where the window is too narrow, the first one first. */
const DISPENSABLE = ["cost", "tokens", "metric", "history", "seconds", "metric"];

/**
 * @param {Index} index
 * @param {string | null} metric The metric that gets the first column.
 * @param {number} width Of the table, in rem.
 * @returns {Column[]}
 */
function columnsOf(index, metric, width) {
  const places = index.metrics.map((/** @type {any} */ _, /** @type {number} */ i) => i);
  const isFirst = (/** @type {number} */ i) => (index.metrics[i].name === metric ? 0 : 1);
  const wanted = places
    .filter((/** @type {number} */ i) => !isFirst(i) || (index.metrics[i].gates && index.metrics[i].now !== null))
    .sort((/** @type {number} */ a, /** @type {number} */ b) => isFirst(a) - isFirst(b) || index.metrics[b].failed - index.metrics[a].failed || a - b)
    .slice(0, METRICS_OF_A_ROW);
  const isUsed = (/** @type {"tokens" | "cost" | "history"} */ key) => index.cases[key].some((/** @type {any} */ value) => value !== null && value !== "");
  const { blocking, failed, errored } = index.header.counts;
  const blocksSome = blocking > 0 && blocking < failed + errored;
  /** @type {(Column | null)[]} */
  const columns = [
    { key: "status", title: "Status", class: "c-status", width: 7.5, sort: null, cell: (row) => statusCell(row, blocksSome) },
    { key: "case", title: "Case", class: "c-case", width: 13, sort: "case", cell: caseCell },
    { key: "why", title: "Why", class: "c-why", width: 20, sort: null, cell: (row) => foreign(row.why) },
    ...wanted.map((/** @type {number} */ i) => metricColumn(index.metrics[i], i)),
    { key: "seconds", title: "Time", class: "c-number", width: 4.5, sort: "-seconds", cell: (row) => secondsText(row.seconds) },
    isUsed("tokens") ? { key: "tokens", title: "Tokens", class: "c-number", width: 4.25, sort: "-tokens", cell: (row) => countCell(row.tokens) } : null,
    isUsed("cost") ? { key: "cost", title: "Cost", class: "c-number", width: 4.25, sort: "-cost", cell: (row) => dollars(row.cost) } : null,
    { key: "runs", title: "Runs", class: "c-number c-runs", width: 3, sort: "runs", cell: (row) => (row.runs ? `${row.runsPassed}/${row.runs}` : "–") },
    isUsed("history") ? { key: "history", title: "History", class: "c-history", width: 4.75, sort: null, cell: (row) => historyStrip(row.history) } : null,
  ];
  return fittingColumns(/** @type {Column[]} */ (columns.filter(Boolean)), width);
}

/**
 * @param {Column[]} columns
 * @param {number} width
 */
function fittingColumns(columns, width) {
  const kept = [...columns];
  for (const key of DISPENSABLE) {
    if (kept.reduce((sum, column) => sum + column.width + COLUMN_GAP, -COLUMN_GAP) <= width) break;
    const at = kept.findLastIndex((column) => column.key.startsWith(key));
    if (at >= 0) kept.splice(at, 1);
  }
  return kept;
}

/**
 * @param {any} metric
 * @param {number} i
 * @returns {Column}
 */
function metricColumn(metric, i) {
  const sort = metric.direction === "lower" ? `-metric:${metric.name}` : `metric:${metric.name}`;
  const cell = (/** @type {Row} */ row) => [
    h("span", { class: row.ok[i] === 0 ? "fail" : null }, row.ok[i] === 0 ? labelled("visually-hidden", "failed ") : null, scoreText(row.scores[i], metric.threshold)),
    row.deltas[i] === null || row.deltas[i] === 0 ? null : h("small", null, changeMark(row.deltas[i], metric)),
  ];
  return { key: `metric:${metric.name}`, title: metric.name, class: "c-number c-score", width: 6, sort, cell };
}

/**
 * @param {Row} row
 * @param {boolean} blocksSome Whether some of the cases that did not pass block and others don't.
 */
function statusCell(row, blocksSome) {
  return [statusMark(row.status), blocksSome && row.tags.includes("blocking") ? labelled("tag fail", "blocks") : null];
}

/** @param {Row} row */
function caseCell(row) {
  const marks = row.tags.filter((tag) => tag !== "blocking" && tag in TAG_MARKS).map((tag) => TAG_MARKS[tag]);
  if (row.word === "suspicious" && !row.tags.includes("suspicious")) marks.push(TAG_MARKS.suspicious);
  if (row.change !== null && row.change in CHANGE_MARKS) marks.unshift(CHANGE_MARKS[row.change]);
  return [
    h("a", { class: "case-link" }, foreign(row.evalId, "span", { title: row.evalId })),
    h("span", { class: "case-place" }, marks.map(([text, tone]) => h("span", { class: `tag ${tone}`, text })), foreign(shortPath(row.file), "span", { title: row.file, dir: "ltr" })),
  ];
}

/**
 * The end of a path, which says more than its beginning.
 * @param {string} path
 */
function shortPath(path) {
  const names = path.split("/");
  return names.length > 2 ? `…/${names.slice(-2).join("/")}` : path;
}

const OUTCOME_WORDS = /** @type {const} */ ({ 1: "passed", 0: "failed", x: "broke off", "?": "unknown" });

/**
 * The last runs, oldest first: low bars passed, high ones failed, hollow ones broke off.
 * @param {string} outcomes
 */
function historyStrip(outcomes) {
  if (!outcomes) return null;
  const counts = Object.entries(OUTCOME_WORDS).map(([mark, word]) => [outcomes.split(mark).length - 1, word]).filter(([count]) => count);
  const label = `Last ${countText(outcomes.length, "run")}: ${counts.map(([count, word]) => `${count} ${word}`).join(", ")}`;
  const bar = (/** @type {string} */ mark, /** @type {number} */ i) => {
    const height = mark === "1" ? 6 : mark === "?" ? 2 : 14;
    const tone = mark === "1" ? "pass" : mark === "0" ? "fail" : mark === "x" ? "broke" : "unknown";
    return svg("rect", { class: tone, x: String(i * 7 + 1), y: String(15 - height), width: "5", height: String(height) });
  };
  return svg("svg", { class: "strip", role: "img", "aria-label": label, viewBox: `0 0 ${outcomes.length * 7 + 1} 16`, width: String(outcomes.length * 7 + 1), height: "16" }, svg("title", null, label), [...outcomes].map(bar));
}

/**
 * @param {Index} index
 * @param {Pick<Context, "go">} ctx
 * @param {() => State} currentState
 */
function createTable(index, ctx, currentState) {
  const rows = allRows(index);
  const head = h("thead", { role: "rowgroup" });
  const body = h("tbody", { role: "rowgroup" });
  const table = h("table", { class: "cases-table", role: "table" }, h("caption", { class: "visually-hidden", text: "Cases" }), head, body);
  /** @type {Map<number, HTMLElement>} */
  const drawn = new Map();
  /** @type {number[]} */
  let order = [];
  /** @type {Column[]} */
  let columns = [];
  let current = -1;
  let height = 48;
  /** @type {{sort: string | null, metric: string | null}} */
  let shown = { sort: null, metric: null };

  function layOut() {
    drawn.forEach((element) => element.remove()); // first of all: what goes needs no layout
    drawn.clear();
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    columns = columnsOf(index, shown.metric, table.clientWidth / rem);
    const widths = columns.map((column) => (WIDE_COLUMNS.includes(column.key) ? `minmax(${column.width}rem, ${column.key === "why" ? 3 : 2}fr)` : `${column.width}rem`));
    table.style.setProperty("--columns", widths.join(" "));
    head.replaceChildren(headerRow(columns, shown.sort, ctx));
    draw();
    const real = body.querySelector("tr")?.getBoundingClientRect().height;
    if (real && Math.abs(real - height) > 0.1) {
      height = real;
      draw();
    }
  }

  function draw() {
    if (!table.isConnected || !order.length) return;
    body.style.setProperty("height", `${order.length * height}px`);
    const { top } = body.getBoundingClientRect();
    const first = Math.max(0, Math.min(Math.floor(-top / height) - SPARE_ROWS, order.length - 1));
    const last = Math.min(order.length, Math.max(first, Math.ceil((innerHeight - top) / height)) + SPARE_ROWS);
    for (const [position, element] of drawn) if (position < first || position >= last) (element.remove(), drawn.delete(position));
    for (let position = last - 1, next = /** @type {Node | null} */ (null); position >= first; position--) {
      let element = drawn.get(position);
      if (!element) {
        drawn.set(position, (element = rowElement(position)));
        body.insertBefore(element, next);
      }
      next = element;
    }
    body.style.setProperty("padding-block-start", `${first * height}px`);
  }

  /** @param {number} position */
  function rowElement(position) {
    const row = rows[order[position]];
    const element = h(
      "tr",
      { role: "row", class: `row ${row.status}`, "aria-rowindex": String(position + 2) },
      columns.map((column) => h("td", { role: "cell", class: column.class }, column.cell(row))),
    );
    const link = /** @type {HTMLElement} */ (element.querySelector(".case-link"));
    const { q, sort, metric } = currentState();
    link.setAttribute("href", fragmentOf({ case: row.id, q, sort, metric }));
    link.addEventListener("focus", () => (current = position));
    return element;
  }

  /** @param {number} position */
  function focusPosition(position) {
    if (position < 0 || position >= order.length) return;
    current = position;
    const top = body.getBoundingClientRect().top + position * height;
    const room = head.getBoundingClientRect().height;
    if (top < room || top + height > innerHeight) scrollTo({ top: scrollY + top - innerHeight / 3, behavior: "instant" });
    draw();
    /** @type {HTMLElement | null | undefined} */ (drawn.get(position)?.querySelector(".case-link"))?.focus({ preventScroll: true });
  }

  addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", () => table.isConnected && layOut());

  return {
    element: table,
    /** @type {(next: number[], sort: string | null, metric: string | null) => void} */
    show: (next, sort, metric) => {
      order = next;
      current = -1;
      shown = { sort, metric };
      table.setAttribute("aria-rowcount", String(order.length + 1));
      table.hidden = !order.length;
      layOut();
    },
    /** @param {number} i */
    focusCase: (i) => focusPosition(order.indexOf(i)),
    /** @type {(step: number, onlyAttention: boolean) => void} */
    move: (step, onlyAttention) => {
      let position = current < 0 && step < 0 ? order.length : current;
      do position += step;
      while (onlyAttention && position >= 0 && position < order.length && !needsAttention(rows[order[position]]));
      focusPosition(position);
    },
  };
}

/**
 * @param {Column[]} columns
 * @param {string | null} sort
 * @param {Pick<Context, "go">} ctx
 */
function headerRow(columns, sort, ctx) {
  const key = sort?.replace(/^-/, "") ?? null;
  const cells = columns.map((column) => {
    const isSortable = column.sort !== null || column.key === "status";
    const isSorted = column.key === "status" ? key === null : key === column.key;
    const direction = sort?.startsWith("-") ? "descending" : "ascending";
    const next = isSorted && sort === column.sort && sort !== null ? (sort.startsWith("-") ? sort.slice(1) : `-${sort}`) : column.sort;
    const title = isSortable
      ? h("button", { type: "button", "data-focus": `sort ${column.key}`, on: { click: () => ctx.go({ sort: next, metric: null }) } }, breakable(column.title), h("span", { class: "arrow", "aria-hidden": "true", text: isSorted ? (key === null ? "" : direction === "descending" ? "▼" : "▲") : "" }))
      : breakable(column.title);
    return h("th", { role: "columnheader", scope: "col", class: column.class, "aria-sort": isSorted && key !== null ? direction : null }, title);
  });
  return h("tr", { role: "row", "aria-rowindex": "1" }, cells);
}
