// The table of the list. Up to `REAL_ROWS` rows are all in the document; of more, those near the visible part, with a fixed height.

/**
 * @typedef {{key: string, title: string, class: string, width: string, small?: string, sort: string | null, cell: (row: Row) => Child | Child[]}} Column
 *   `sort`: the order that a click on the header gives; null: by cause. `small`: the width in a narrow window.
 */

/**
 * @param {Index} index
 * @param {string | null} metric The metric that has a column of its own.
 * @param {string | null} sort
 * @returns {Column[]}
 */
function columnsOf(index, metric, sort) {
  const at = index.metrics.findIndex((/** @type {any} */ item) => item.name === metric || `metric:${item.name}` === sort?.replace(/^-/, ""));
  const has = (/** @type {"tokens" | "cost"} */ key) => metric !== ALL_SCORES && index.cases[key].some((/** @type {number | null} */ value) => value !== null);
  /** The narrow window has these only in their order. */
  const wide = (/** @type {string} */ key) => (sort?.replace(/^-/, "") === key ? "c-number" : "c-number c-wide");
  const runs = index.cases.history.reduce((/** @type {number} */ most, /** @type {string} */ outcomes) => Math.max(most, outcomes.length), 0);
  const name = baseName(index);
  /** @type {(Column | null)[]} */
  const reading = [
    { key: "why", title: "User, then the first difference", class: "c-why", width: "minmax(14rem, 5fr)", small: "minmax(9rem, 4fr)", sort: null, cell: (row) => whyCell(index, row) },
    index.metrics.length ? { key: at < 0 ? "lowest" : `metric:${index.metrics[at].name}`, title: at < 0 ? "Closest to threshold" : index.metrics[at].name, class: "c-score", width: "11.5rem", sort: at < 0 ? null : `${index.metrics[at].direction === "lower" ? "-" : ""}metric:${index.metrics[at].name}`, cell: (row) => scoreCell(index, row, at) } : null,
  ];
  /** @type {(Column | null)[]} */
  const columns = [
    { key: "case", title: "Case", class: "c-case", width: "minmax(12rem, 3fr)", small: "minmax(8rem, 3fr)", sort: "case", cell: (row) => caseCell(index, row) },
    ...(metric === ALL_SCORES ? [] : reading),
    { key: "runs", title: "Runs passed", class: "c-number c-runs", width: "5.5rem", sort: "runs", cell: (row) => runsCell(row, name) },
    runs ? { key: "history", title: `${name}, ${countText(runs, "run")}`, class: "c-history", width: "5.5rem", sort: null, cell: (row) => historyStrip(row.history, row.recorded) } : null,
    has("tokens") ? { key: "tokens", title: "Tokens", class: wide("tokens"), width: "5rem", sort: "-tokens", cell: (row) => besideBase(countCell(row.tokens), row.baseTokens === null ? "" : countCell(row.baseTokens), name) } : null,
    has("cost") ? { key: "cost", title: "Cost", class: wide("cost"), width: "4.5rem", sort: "-cost", cell: (row) => dollars(row.cost) } : null,
    { key: "seconds", title: "Time", class: "c-number c-time", width: "5rem", sort: "-seconds", cell: (row) => besideBase(row.status === "not_run" || row.removed ? "–" : secondsText(row.seconds), row.baseSeconds === null ? "" : secondsText(row.baseSeconds), name) },
    ...(metric === ALL_SCORES ? index.metrics.map(scoreColumn) : []),
  ];
  return /** @type {Column[]} */ (columns.filter(Boolean));
}

/**
 * What was measured here, and below it the same on the base branch.
 * @param {string} now
 * @param {string} base "" if unknown.
 * @param {string} name The base branch's.
 * @returns {Child[]}
 */
function besideBase(now, base, name) {
  return [now, base ? h("span", { class: "sub" }, foreign(name), ` ${base}`) : null];
}

/** The `metric` of a list that has a column for each. */
const ALL_SCORES = "*";

/**
 * @param {any} metric
 * @param {number} at
 * @returns {Column}
 */
function scoreColumn(metric, at) {
  const cell = (/** @type {Row} */ row) => row.scores[at] === null
    ? [labelled("muted", "–")]
    : [h(row.ok[at] === 0 ? "strong" : "span", { class: row.ok[at] === 0 ? "fail" : null }, row.ok[at] === 0 ? labelled("visually-hidden", "failed ") : null, scoreText(row.scores[at], metric.threshold)), row.deltas[at] === null ? null : h("span", { class: "sub" }, changeMark(row.deltas[at], metric))];
  return { key: `metric:${metric.name}`, title: metric.name, class: "c-number", width: "5.5rem", sort: `${metric.direction === "lower" ? "-" : ""}metric:${metric.name}`, cell };
}

/**
 * The name, and below it the place and one word about it.
 * @param {Index} index
 * @param {Row} row
 */
function caseCell(index, row) {
  const [icon, tone] = STATUS_MARKS[/** @type {keyof typeof STATUS_MARKS} */ (row.status)] ?? ["○", "muted"];
  const place = shortPath(index, row.file) + (row.line ? `:${row.line}` : "");
  const word = rowWord(row);
  const isSaid = word === groupWord(index, row.group); // by the heading, where there is one
  const name = row.evalId === row.file ? shortPath(index, row.file) : row.evalId;
  const agent = hasAgents(index) && row.agent ? [h("span", { class: "of-agent" }, " · ", foreign(row.agent, "span", { dir: "ltr" }))] : [];
  return [
    h("span", { class: `mark ${tone}`, "aria-hidden": "true", text: icon }),
    labelled("visually-hidden", `${statusText(row.status)} `),
    h("a", { class: "case-link" }, breakable(name, { title: row.evalId })),
    h("span", { class: "sub" }, word ? h("span", { class: isSaid ? "word in-heading" : "word" }, h("strong", { text: word }), " · ") : null, foreign(place, "span", { title: row.file, dir: "ltr" }), ...agent),
  ];
}

/**
 * The one word that says most about a case, if its status does not.
 * @param {Row} row
 */
function rowWord(row) {
  const tag = ["quarantined", "regression", "suspected", "flaky", "fixed", "changed_answer"].find((name) => row.tags.includes(name));
  if (tag) return TAG_TEXTS[tag] ?? tag;
  const change = row.change && row.change !== "fixed" ? CHANGE_MARKS[row.change] : ""; // passing again is no evidence
  return change || (["passed", "failed"].includes(row.status) ? "" : statusText(row.status));
}

/**
 * The word that all cases of a group have; "" if they differ.
 * @param {Index} index
 * @param {number} group
 */
function groupWord(index, group) {
  let words = groupWords.get(index);
  if (!words) groupWords.set(index, (words = new Map()));
  if (!words.has(group)) {
    const all = new Set(allRows(index).filter((row) => row.group === group).map(rowWord));
    words.set(group, all.size === 1 ? [...all][0] : "");
  }
  return words.get(group) ?? "";
}
/** @type {WeakMap<Index, Map<number, string>>} */
const groupWords = new WeakMap();

/**
 * What the user said, and below it what is wrong; not again what the heading says.
 * @param {Index} index
 * @param {Row} row
 */
function whyCell(index, row) {
  const first = row.user.split("\n", 1)[0];
  const why = row.why.replace(`: ${index.causes[row.group]?.title}`, "");
  return [first ? foreign(first, "span", { class: "said" }) : null, why ? foreign(why, "span", { class: first ? "sub" : "said" }) : null];
}

/**
 * The score that is furthest below what it needs, or that of the chosen metric.
 * @param {Index} index
 * @param {Row} row
 * @param {number} chosen -1: none.
 * @returns {Child[]}
 */
function scoreCell(index, row, chosen) {
  const margin = (/** @type {number} */ i) => (numberOf(row.scores[i]) - index.metrics[i].threshold) * (index.metrics[i].direction === "lower" ? -1 : 1);
  const candidates = row.scores.map((_, i) => i).filter((i) => index.metrics[i].threshold !== null && Number.isFinite(margin(i)));
  const low = candidates.sort((a, b) => Number(row.ok[a] !== 0) - Number(row.ok[b] !== 0) || margin(a) - margin(b))[0];
  const at = chosen < 0 ? low : chosen;
  if (at === undefined || row.scores[at] === null) return [labelled("muted", "–")];
  const [metric, score, delta] = [index.metrics[at], row.scores[at], numberOf(row.deltas[at])];
  const base = Number.isFinite(delta) ? numberOf(score) - delta : null;
  return [
    scoreScale({ ...metric, scores: [score], base, ok: row.ok[at] !== 0, threshold: metric.needs ? null : metric.threshold }, baseName(index)),
    " ",
    h("strong", { class: row.ok[at] === 0 ? "fail" : null }, row.ok[at] === 0 ? labelled("visually-hidden", "failed ") : null, scoreText(score, metric.threshold)),
    chosen < 0 ? foreign(metric.name, "span", { class: "sub", title: metric.name }) : h("span", { class: "sub" }, changeMark(row.deltas[at], metric)),
  ];
}

/**
 * @param {Row} row
 * @param {string} name The base branch's.
 */
function runsCell(row, name) {
  if (!row.runs) return "–";
  return [h(row.runsPassed < row.runs ? "strong" : "span", { class: row.status === "failed" ? "fail" : null, text: `${row.runsPassed}/${row.runs}` }), row.baseRuns ? h("span", { class: "sub" }, foreign(name), ` ${row.basePassed}/${row.baseRuns}`) : null];
}

/**
 * A path without the folders that all files of the report are in.
 * @param {Index} index
 * @param {string} path
 */
function shortPath(index, path) {
  const kept = sharedFolders.get(index);
  if (kept !== undefined) return path.slice(kept.length);
  const paths = [...new Set(/** @type {number[]} */ (index.cases.file_s))].map((s) => index.strings[s].split("/").slice(0, -1));
  const [first = []] = paths;
  const end = first.findIndex((/** @type {string} */ folder, /** @type {number} */ i) => paths.some((other) => other[i] !== folder));
  sharedFolders.set(index, first.slice(0, end < 0 ? undefined : end).map((/** @type {string} */ folder) => `${folder}/`).join(""));
  return shortPath(index, path);
}
/** @type {WeakMap<Index, string>} */
const sharedFolders = new WeakMap();

/** By outcome: word, class, height of its bar. @type {Record<string, [string, string, number]>} */
const OUTCOME_BARS = { 1: ["passed", "pass", 6], 0: ["failed", "fail", 14], x: ["broke off", "broke", 14], "?": ["unknown", "unknown", 2] };

/**
 * The last runs of the base branch, oldest first: low bars passed, high ones failed, hollow ones broke off.
 * @param {string} outcomes
 * @param {number[]} times Of the runs; Unix time in seconds.
 */
function historyStrip(outcomes, times) {
  if (!outcomes) return null;
  const day = (/** @type {number} */ i) => dateText(times[i]).slice(0, 10);
  const counts = Object.entries(OUTCOME_BARS).map(([mark, [word]]) => [outcomes.split(mark).length - 1, word]).filter(([count]) => count);
  const label = `Last ${countText(outcomes.length, "run")}, ${day(0)} to ${day(outcomes.length - 1)}: ${counts.map(([count, word]) => `${count} ${word}`).join(", ")}`;
  const bar = (/** @type {string} */ mark, /** @type {number} */ i) => {
    const [word, tone, height] = OUTCOME_BARS[mark] ?? OUTCOME_BARS["?"];
    return svg("rect", { class: tone, x: String(i * 7 + 1), y: String(15 - height), width: "5", height: String(height) }, svg("title", null, `${day(i)}: ${word}`));
  };
  return svg("svg", { class: "strip", role: "img", "aria-label": label, viewBox: `0 0 ${outcomes.length * 7 + 1} 16`, width: String(outcomes.length * 7 + 1), height: "16" }, [...outcomes].map(bar));
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
  const table = h("table", { class: rows.length > REAL_ROWS ? "cases-table" : rows.length > SMALL_LIST ? "cases-table whole lazy" : "cases-table whole", role: "table" }, h("caption", { class: "visually-hidden", text: "Cases" }), head, body);
  /** @type {Map<number, HTMLElement>} */
  const drawn = new Map();
  /** @type {number[]} */
  let order = [];
  /** @type {Column[]} */
  let columns = [];
  let current = -1;
  let height = 56;
  const isWhole = rows.length <= REAL_ROWS;
  /** @type {Map<number, HTMLElement>} */
  const keptRows = new Map();
  let keptLayout = "";
  /** @type {{sort: string | null, metric: string | null}} */
  let shown = { sort: null, metric: null };

  function layOut() {
    if (!isWhole) drawn.forEach((element) => element.remove()); // first of all: what goes needs no layout
    drawn.clear();
    columns = columnsOf(index, shown.metric, shown.sort);
    table.classList.toggle("matrix", shown.metric === ALL_SCORES);
    table.style.setProperty("--least", `${28 + 6.5 * index.metrics.length}rem`);
    const without = (/** @type {RegExp} */ hidden) => columns.filter((column) => !hidden.test(column.class));
    table.style.setProperty("--columns", columns.map((column) => column.width).join(" "));
    table.style.setProperty("--middle", without(/c-wide/).map((column) => column.width).join(" "));
    table.style.setProperty("--small", without(/c-wide|c-history/).map((column) => column.small ?? column.width).join(" "));
    head.replaceChildren(headerRow(columns, shown.sort, ctx));
    if (isWhole) return drawAll();
    draw();
    const real = body.querySelector("tr")?.getBoundingClientRect().height;
    if (real && Math.abs(real - height) > 0.1) {
      height = real;
      draw();
    }
  }

  /** Every row, with a heading where another cause begins. Rows that were drawn with the same columns are kept. */
  function drawAll() {
    const layout = columns.map((column) => column.key + column.class).join();
    const byAgent = shown.sort === "agent" || shown.sort === "-agent";
    table.classList.toggle("grouped", shown.sort === null);
    table.classList.toggle("by-agent", byAgent);
    if (layout !== keptLayout) keptRows.clear();
    keptLayout = layout;
    /** @type {number | string} */
    let group = -1;
    const groupOf = (/** @type {number} */ i) => (byAgent ? rows[i].agent : rows[i].group);
    const elements = order.flatMap((i, position) => {
      const element = rowElement(position, keptRows.get(i));
      keptRows.set(i, element);
      drawn.set(position, element);
      if ((shown.sort !== null && !byAgent) || groupOf(i) === group) return [element];
      group = groupOf(i);
      const members = order.filter((other) => groupOf(other) === group);
      return [byAgent ? agentRow(members.map((other) => rows[other]), columns.length) : groupRow(index, rows[i].group, members.length, columns.length), element];
    });
    const focused = document.activeElement;
    body.replaceChildren(...elements);
    if (focused instanceof HTMLElement && body.contains(focused)) focused.focus({ preventScroll: true });
  }

  function draw() {
    if (isWhole || !table.isConnected || !order.length) return;
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

  /**
   * @param {number} position
   * @param {HTMLElement} [kept] The row as it was drawn elsewhere.
   */
  function rowElement(position, kept) {
    const row = rows[order[position]];
    const element = kept ?? h(
      "tr",
      { role: "row", class: `row ${row.status}`, "aria-rowindex": isWhole ? null : position + 2 },
      columns.map((column) => h("td", { role: "cell", class: column.class }, column.cell(row))),
    );
    const link = /** @type {HTMLElement} */ (element.querySelector(".case-link"));
    const { q, sort, metric } = currentState();
    link.setAttribute("href", fragmentOf({ case: row.id, q, sort, metric }));
    link.onfocus = () => (current = position);
    return element;
  }

  /** @param {number} position */
  function focusPosition(position) {
    if (position < 0 || position >= order.length) return;
    current = position;
    const top = (isWhole ? drawn.get(position) : null)?.getBoundingClientRect().top ?? body.getBoundingClientRect().top + position * height;
    const room = head.getBoundingClientRect().height;
    if (top < room || top + height > innerHeight) scrollTo({ top: scrollY + top - innerHeight / 3, behavior: "instant" });
    draw();
    /** @type {HTMLElement | null | undefined} */ (drawn.get(position)?.querySelector(".case-link"))?.focus({ preventScroll: true });
  }

  addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", () => !isWhole && table.isConnected && layOut());

  return {
    element: table,
    /** @type {(next: number[], sort: string | null, metric: string | null) => void} */
    show: (next, sort, metric) => {
      order = next;
      current = -1;
      shown = { sort, metric };
      if (!isWhole) table.setAttribute("aria-rowcount", String(order.length + 1));
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
  const isMatrix = columns[1]?.key !== "why";
  const key = sort?.replace(/^-/, "") ?? null;
  const cells = columns.map((column) => {
    const isSortable = column.sort !== null || column.key === "why";
    const isSorted = column.key === "why" ? key === null : key === column.key;
    const direction = sort?.startsWith("-") ? "descending" : "ascending";
    const next = isSorted && sort === column.sort && sort !== null ? (sort.startsWith("-") ? sort.slice(1) : `-${sort}`) : column.sort;
    const title = isSortable
      ? h("button", { type: "button", "data-focus": `sort ${column.key}`, on: { click: () => ctx.go({ sort: next, metric: isMatrix ? ALL_SCORES : null }) } }, breakable(column.title), h("span", { class: "arrow", "aria-hidden": "true", text: isSorted ? (key === null ? "" : direction === "descending" ? "▼" : "▲") : "" }))
      : breakable(column.title);
    return h("th", { role: "columnheader", scope: "col", class: column.class, "aria-sort": isSorted && key !== null ? direction : null }, title);
  });
  return h("tr", { role: "row", "aria-rowindex": "1" }, cells);
}

/**
 * The heading of the cases of an agent.
 * @param {Row[]} members
 * @param {number} columns
 */
function agentRow(members, columns) {
  const passed = members.filter((row) => row.status === "passed").length;
  const name = members[0].agent ? foreign(members[0].agent, "span", { dir: "ltr" }) : "No agent";
  return h("tr", { role: "row", class: "group" }, h("th", { role: "rowheader", scope: "rowgroup", colspan: columns }, name, labelled("muted", ` ${countText(members.length, "case")}, ${passed} passed`)));
}

/**
 * The heading of the cases of a cause, or of those without one.
 * @param {Index} index
 * @param {number} group
 * @param {number} count
 * @param {number} columns
 */
function groupRow(index, group, count, columns) {
  const { causes } = index;
  const word = groupWord(index, group);
  const others = [causes.length ? "No shared cause" : "To look at", "Passed", "Only on the base branch"];
  const title = group < causes.length ? [`Cause ${group + 1}: `, foreign(causes[group].title, "span", { dir: "ltr" })] : [others[group - causes.length]];
  return h("tr", { role: "row", class: "group" }, h("th", { role: "rowheader", scope: "rowgroup", colspan: columns }, ...title, labelled("muted", ` ${countText(count, "case")}${word ? `, ${word}` : ""}`)));
}
