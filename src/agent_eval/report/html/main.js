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

async function start() {
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));
  if (!canReadData()) {
    main.prepend(h("p", { class: "notice", text: "This browser is too old to show all of the report. This is its summary." }));
    return;
  }
  const index = await loadIndex();
  const status = h("p", { role: "status", class: "visually-hidden" });
  document.body.append(status);
  let leave = new AbortController();
  const show = async () => {
    leave.abort();
    leave = new AbortController();
    const { signal } = leave;
    const state = parseState(location.hash);
    /** @type {Context} */
    const ctx = {
      go: (changes) => (location.hash = fragmentOf(changedState(parseState(location.hash), changes))),
      announce: (text) => status.replaceChildren(text),
      signal,
    };
    const view = await viewOf(ctx, index, state);
    if (!signal.aborted) main.replaceChildren(view);
  };
  addEventListener("hashchange", show);
  await show();
}

/**
 * @param {Context} ctx
 * @param {Index} index
 * @param {State} state
 * @returns {Promise<Node>}
 */
async function viewOf(ctx, index, state) {
  if (state.view === "trend") return renderTrend(ctx, index);
  const i = state.case === null ? -1 : positionOf(index, state.case);
  if (i >= 0) return renderCase(ctx, index, i, await loadCase(index, i), state);
  const rows = index.cases.id.map((/** @type {string} */ id) => h("li", null, h("a", { href: fragmentOf({ case: id }) }, foreign(id))));
  return h("ul", null, rows);
}

start();
