// Starts the page: reads the data, keeps the state in the fragment of the address, and shows the view that the state names.

/**
 * @typedef {{view: string, case: string | null, run: string | null, turn: string | null, side: string | null,
 *   q: string | null, sort: string | null, metric: string | null}} State What the fragment says, decoded; null: not given.
 * @typedef {{go: (changes: Partial<State>) => void, announce: (text: string) => void, signal: AbortSignal}} Context
 */

const VIEWS = ["trend", "about", "print"];
const FRAGMENT_KEYS = /** @type {const} */ (["case", "run", "turn", "side", "q", "sort", "metric"]);

/**
 * The state that a fragment names. Unknown keys and broken percent-encoding are ignored.
 * @param {string} fragment With or without `#`.
 * @returns {State}
 */
function parseState(fragment) {
  /** @type {State} */
  const state = { view: "list", case: null, run: null, turn: null, side: null, q: null, sort: null, metric: null };
  for (const piece of fragment.replace(/^#/, "").split("&")) {
    const at = piece.indexOf("=");
    const key = at < 0 ? piece : piece.slice(0, at);
    if (at < 0 && VIEWS.includes(key)) state.view = key;
    const name = FRAGMENT_KEYS.find((item) => item === key);
    if (name && at >= 0) state[name] = decoded(piece.slice(at + 1));
  }
  if (state.case !== null) state.view = "case";
  return state;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The fragment that names a state.
 * @param {Partial<State>} state
 * @returns {string}
 */
function fragmentOf(state) {
  const pieces = state.view && VIEWS.includes(state.view) ? [state.view] : [];
  for (const key of FRAGMENT_KEYS) {
    const value = state[key];
    if (value !== null && value !== undefined && value !== "") pieces.push(`${key}=${encodeURIComponent(value)}`);
  }
  return `#${pieces.join("&")}`;
}

/**
 * The state after a change. Another case or another view begins without run, turn and side; search and order stay.
 * @param {State} state
 * @param {Partial<State>} changes
 * @returns {State}
 */
function changedState(state, changes) {
  const leaves = "case" in changes || "view" in changes;
  const rest = leaves ? { ...state, case: null, run: null, turn: null, side: null, view: "list" } : state;
  const next = { ...rest, ...changes };
  return next.case === null ? { ...next, view: next.view === "case" ? "list" : next.view } : { ...next, view: "case" };
}

/** The sequence of views: what is shown now, so that focus and scroll position survive a change. */
class Page {
  /** @param {Index} index */
  constructor(index) {
    this.index = index;
    this.main = /** @type {HTMLElement} */ (document.querySelector("main"));
    this.status = h("p", { role: "status", class: "visually-hidden" });
    this.dialog = keysDialog();
    this.list = createList(index, this.context(new AbortController().signal));
    this.overview = h("div", { class: "overview" }, renderSummary(index), this.list.causes, this.list.element);
    this.leave = new AbortController();
    /** @type {State | null} */
    this.shown = null;
    this.prints = false;
  }

  start() {
    this.main.replaceChildren();
    this.main.tabIndex = -1;
    this.main.before(pageHeader(this.index, () => this.dialog.showModal(), () => (this.prints = true)));
    document.body.append(this.status, this.dialog);
    addEventListener("hashchange", () => this.show());
    addEventListener("beforeprint", () => this.main.append(printedList(this.index, this.list.order(), this.shown)));
    addEventListener("afterprint", () => this.main.querySelector(".print-only")?.remove());
    const leaf = (/** @type {number} */ step, /** @type {boolean} */ onlyAttention) => () => this.move(step, onlyAttention);
    listenToKeys({
      "/": () => (this.shown?.view === "list" ? this.list.focusSearch() : this.context(this.leave.signal).go({ view: "list" })),
      "?": () => this.dialog.showModal(),
      Escape: () => this.shown?.view !== "list" && this.context(this.leave.signal).go({ view: "list" }),
      j: leaf(1, false),
      k: leaf(-1, false),
      n: leaf(1, true),
      p: leaf(-1, true),
    });
    return this.show();
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Context}
   */
  context(signal) {
    return {
      go: (changes) => void (location.hash = fragmentOf(changedState(parseState(location.hash), changes))),
      announce: (text) => this.status.replaceChildren(text),
      signal,
    };
  }

  /** Shows the view that the fragment names. */
  async show() {
    this.leave.abort();
    const { signal } = (this.leave = new AbortController());
    const state = parseState(location.hash);
    const before = this.shown;
    const isSame = before !== null && before.view === state.view && before.case === state.case;
    const focus = isSame ? document.activeElement?.getAttribute("data-focus") : null;
    const view = await this.view(state, signal);
    if (signal.aborted) return;
    this.shown = state;
    if (view !== this.main.firstChild) this.main.replaceChildren(view);
    document.title = state.case !== null && state.view === "case" ? `${state.case} - agent-eval` : this.index.title;
    document.body.setAttribute("data-view", state.view);
    markLink(state.view);
    if (view === this.overview) this.list.show(state);
    this.settle(state, before, focus ?? null);
    if (this.prints && state.view === "print") print(); // asked for by a click, not by an address
    this.prints = false;
  }

  /**
   * Puts focus and scroll position where the reader expects them.
   * @param {State} state
   * @param {State | null} before
   * @param {string | null} focus `data-focus` of the element that had the focus in the same view.
   */
  settle(state, before, focus) {
    if (focus !== null) return focusAgain(focus);
    const target = this.main.querySelector("[data-target]");
    if (state.q && state.view === "case" && markHits(this.main, wordsOf(parseQuery(state.q, this.index)))) return;
    if (target) {
      target.scrollIntoView({ block: "start" });
      return /** @type {HTMLElement} */ (target.querySelector("summary")).focus({ preventScroll: true });
    }
    if (before === null || (before.view === state.view && before.case === state.case)) return;
    if (state.view === "list" && before.case !== null) return this.list.focusCase(before.case);
    scrollTo({ top: 0, behavior: "instant" });
    this.main.focus({ preventScroll: true });
  }

  /**
   * @param {State} state
   * @param {AbortSignal} signal
   * @returns {Promise<HTMLElement>}
   */
  async view(state, signal) {
    const ctx = this.context(signal);
    if (state.view === "trend") return renderTrend(ctx, this.index);
    if (state.view === "about") return renderAbout(this.index);
    if (state.view === "print") return renderPrint(ctx, this.index, state);
    if (state.view !== "case") return this.overview;
    const i = positionOf(this.index, state.case ?? "");
    if (i < 0) {
      state.view = "list";
      return h("div", null, h("p", { class: "notice" }, "This report has no case ", foreign(state.case, "code"), ". ", h("a", { href: "#", text: "All cases" })));
    }
    return h("div", { class: "case-view" }, caseLinks(this.index, i, state), await caseElement(ctx, this.index, i, state));
  }

  /**
   * The keys j, k, n and p: to another row of the list, or from one case to another.
   * @param {number} step
   * @param {boolean} onlyAttention
   */
  move(step, onlyAttention) {
    if (this.shown?.view === "list") return this.list.move(step, onlyAttention);
    const next = this.shown?.view === "case" ? neighbour(this.index, listedCases(this.index, this.shown), this.shown, step, onlyAttention) : null;
    if (next !== null) this.context(this.leave.signal).go({ case: this.index.cases.id[next] });
  }
}

/** @param {string} name What the element has as `data-focus`. */
function focusAgain(name) {
  const element = [...document.querySelectorAll("[data-focus]")].find((item) => item.getAttribute("data-focus") === name);
  if (element instanceof HTMLElement) element.focus({ preventScroll: true });
}

/**
 * @param {Context} ctx
 * @param {Index} index
 * @param {number} i
 * @param {State} state
 */
async function caseElement(ctx, index, i, state) {
  let item;
  try {
    item = await loadCase(index, i);
    const hit = state.q && !state.turn && !state.run && state.view === "case" ? placeOfHit(item, wordsOf(parseQuery(state.q, index))) : null;
    if (hit) return renderCase(ctx, index, i, item, { ...state, ...hit });
  } catch (error) {
    return h("p", { class: "notice" }, "The details of this case can't be read: ", foreign(String(error)));
  }
  return renderCase(ctx, index, i, item, state);
}

/**
 * The case before or after one in the order of the list.
 * @param {Index} index
 * @param {number[]} order
 * @param {State} state
 * @param {number} step
 * @param {boolean} onlyAttention
 * @returns {number | null}
 */
function neighbour(index, order, state, step, onlyAttention) {
  let place = order.indexOf(positionOf(index, state.case ?? ""));
  do place += step;
  while (onlyAttention && place >= 0 && place < order.length && !needsAttention(allRows(index)[order[place]]));
  return order[place] ?? null;
}

/**
 * @param {Index} index
 * @param {State} state
 */
function listedCases(index, state) {
  return orderedCases(index, parseQuery(state.q ?? "", index), state.sort ?? (state.metric && state.metric !== ALL_SCORES ? `metric:${state.metric}` : null));
}

/**
 * The way back to the list and to the neighbours of a case.
 * @param {Index} index
 * @param {number} i
 * @param {State} state
 */
function caseLinks(index, i, state) {
  const order = listedCases(index, state);
  const place = order.indexOf(i);
  const { q, sort, metric } = state;
  const leaf = (/** @type {number} */ step, /** @type {string} */ label) => {
    const next = neighbour(index, order, state, step, false);
    return next === null ? null : h("a", { class: "button", "data-focus": label, href: fragmentOf({ case: index.cases.id[next], q, sort, metric }), text: label });
  };
  return h(
    "nav",
    { class: "case-links no-print", "aria-label": "Cases" },
    h("a", { class: "button", href: fragmentOf({ q, sort, metric }), text: q ? "← Selected cases" : "← All cases" }),
    leaf(-1, "Previous"),
    leaf(1, "Next"),
    place < 0 ? null : h("span", { class: "muted", text: `${(place + 1).toLocaleString("en")} of ${order.length.toLocaleString("en")}` }),
  );
}

/**
 * @param {Index} index
 * @param {() => void} help
 * @param {() => void} printing Called before the view to print is opened.
 */
function pageHeader(index, help, printing) {
  const link = (/** @type {string} */ view, /** @type {string} */ label, /** @type {Props["on"]} */ on = {}) => h("a", { href: fragmentOf({ view }), "data-view-link": view, text: label, on });
  const themes = ["system", "light", "dark"];
  let theme = 0;
  const button = h("button", { type: "button", class: "button", text: "Theme: system" });
  button.addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    document.documentElement.setAttribute("data-theme", themes[theme]);
    button.textContent = `Theme: ${themes[theme]}`;
  });
  const { header } = index;
  const [, , tone] = VERDICT_MARKS[header.verdict] ?? ["", "", "warn"];
  return h(
    "header",
    { class: `bar ${tone}-line` },
    h(
      "div",
      { class: "top" },
      h("p", { class: "brand" }, header.origin.repository ? [foreign(header.origin.repository, "strong"), " "] : null, muted("agent-eval report")),
      h("nav", { class: "views no-print", "aria-label": "Views" }, link("list", "Cases"), link("trend", "Trend"), link("about", "About"), link("print", "Print", { click: printing })),
      h("div", { class: "tools no-print" }, button, h("button", { type: "button", class: "button", text: "Help", "aria-haspopup": "dialog", on: { click: help } })),
    ),
    verdictHead(index),
  );
}

/** @param {string} view */
function markLink(view) {
  for (const link of document.querySelectorAll("[data-view-link]")) {
    const isCurrent = link.getAttribute("data-view-link") === (view === "case" ? "list" : view);
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** @param {string} text */
function keepSummary(text) {
  document.querySelector("main")?.prepend(h("p", { class: "notice", role: "alert", text }));
}

if (!canReadData()) keepSummary("This browser can't unpack the report. Below is its summary; a browser of 2023 or later shows everything.");
else {
  loadIndex()
    .then((index) => new Page(index).start())
    .catch((error) => keepSummary(`The report's data can't be read (${error.message}). Below is its summary.`));
}
