// The report on paper.

/** Cases that the print view opens. */
const PRINTED_CASES = 50;

/**
 * Everything that fits on paper: the overview and the selected cases that did not pass, opened.
 * @param {Context} ctx
 * @param {Index} index
 * @param {State} state
 */
async function renderPrint(ctx, index, state) {
  const selected = listedCases(index, state).filter((i) => index.cases.status[i] !== "passed");
  const cases = [];
  for (const i of selected.slice(0, PRINTED_CASES)) {
    if (ctx.signal.aborted) break;
    cases.push(await caseElement(ctx, index, i, { ...state, case: index.cases.id[i], view: "print" }));
  }
  const rest = selected.length - cases.length;
  return h(
    "div",
    { class: "print-view" },
    h("p", { class: "no-print" }, h("button", { type: "button", class: "button", text: "Print…", on: { click: () => print() } }), " ", h("a", { class: "button", href: fragmentOf({ q: state.q }), text: "Back to the list" })),
    renderSummary(index),
    index.causes.length ? h("section", null, h("h2", { text: index.causes.length === 1 ? "Cause" : `${index.causes.length} causes` }), h("ol", { class: "causes" }, index.causes.map((/** @type {any} */ cause) => causeElement(index, cause, null)))) : null,
    renderMetrics(index, true),
    h("h2", { text: `${countText(selected.length, "case")} that did not pass` }),
    state.q ? h("p", null, "Selected by: ", foreign(state.q, "code")) : null,
    rest > 0 ? h("p", { class: "notice", text: `The first ${PRINTED_CASES} are shown; ${rest.toLocaleString("en")} more are in the report.` }) : null,
    cases,
  );
}

/**
 * The list on paper: only the rows near the visible part are in the document, so printing needs its own.
 * @param {Index} index
 * @param {number[]} order
 * @param {State | null} state
 */
function printedList(index, order, state) {
  if (state?.view !== "list") return h("div", { class: "print-only" });
  const rows = allRows(index);
  const selected = order.filter((i) => rows[i].status !== "passed");
  return h("div", { class: "print-only" }, h("p", { text: `${countText(selected.length, "case")} of ${order.length.toLocaleString("en")} did not pass. The print view has their conversations.` }), plainTable("Cases", ["Status", "Case", "Why", "Time"], selected.slice(0, PRINTED_CASES).map((i) => [statusMark(rows[i].status), foreign(rows[i].id), foreign(rows[i].why), secondsText(rows[i].seconds)])));
}
