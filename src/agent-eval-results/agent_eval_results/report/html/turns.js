// A conversation turn by turn: what was expected, what this run did, what the base branch did, in rows that belong together.

/**
 * @typedef {{kind: "call" | "response" | "text", step: any, number: number, responses: any[]}} TurnItem
 *   `number`: which call of its turn it is, from 0; -1 for other kinds.
 * @typedef {"expected" | "now" | "base"} Side
 * @typedef {Record<Side, TurnItem | null> & {count?: number, moved?: boolean}} TurnRow `count`: of equal rows, one after the other. `moved`: the
 *   expected call was made, but not where it counts.
 * @typedef {{expected: any[] | null, now: any, base: any, baseName: string, baseNote: string | null, wrongTurns: Map<number, string>, lowTurns: Map<number, string>, changed: {turn: number, kind: string, place: string, before: string, after: string}[],
 *   remarks: (turn: number) => Child[], address: (turn: number) => string, target: number, onPaper: boolean}} Conversation
 *   `now` and `base` are runs, or null. `wrongTurns`: those that made a metric fail, with the score. `lowTurns`: the same of a metric that passes. `changed`: what is otherwise than on the base branch. `remarks`: what the
 *   criteria say about a turn. `target`: the turn to go to, or -1. `onPaper`: all turns but those that are as expected are open, without their timelines.
 */

/** So many turns are shown at once. */
const TURNS_SHOWN = 100;
/** So many calls and texts of a turn are shown at once. */
const ROWS_SHOWN = 100;
/** Of more calls in a row that are as expected, only the first and the last are shown at once. */
const CALM_ROWS = 8;
/** @type {Side[]} */
const SIDES = ["expected", "now", "base"];
const CALL_MARKS = { moved: "↕ not in this order", same: "✓ as expected", differs: "≠ other arguments", extra: "+ not expected", missing: "✗ not called" };

/**
 * All turns of a conversation. Open is the one that was asked for, otherwise the first that is not as expected.
 * @param {Conversation} conversation
 * @returns {HTMLElement[]}
 */
function renderTurns(conversation) {
  const { expected, now, base, target, wrongTurns } = conversation;
  const count = Math.max(expected?.length ?? 0, now?.turns.length ?? 0, base?.turns.length ?? 0);
  const marks = Array.from({ length: count }, (_, i) => turnMark(conversation, i));
  const first = target >= 0 ? target : wrongTurns.size ? Math.min(...wrongTurns.keys()) : marks.findIndex((mark) => mark && !mark.isCalm);
  const isOpen = (/** @type {number} */ i) => count === 1 || i === first || (conversation.onPaper && !marks[i]?.isCalm);
  const turns = (/** @type {number} */ from, /** @type {number} */ to) => Array.from({ length: to - from }, (_, i) => turnElement(conversation, from + i, count, marks[from + i], isOpen(from + i)));
  const most = conversation.onPaper ? count : Math.max(TURNS_SHOWN, target + 1);
  if (count <= most) return turns(0, count);
  const more = pushButton(`show ${countText(count - most, "more turn")}`, () => more.replaceWith(...turns(most, count)));
  return [...turns(0, most), more];
}

/**
 * What the header of a turn says: the first difference, an error of a tool, a score below a threshold, or that all is as expected.
 * @param {Conversation} conversation
 * @param {number} i
 * @returns {{text: string, tone: string, isCalm: boolean} | null}
 */
function turnMark(conversation, i) {
  const { now, expected, wrongTurns, lowTurns } = conversation;
  const turn = now?.turns[i];
  const wrong = wrongTurns.has(i);
  const mark = (/** @type {string} */ text) => ({ text: `${wrong ? "✗" : "▾"} ${text}`, tone: wrong ? "mark fail" : "mark", isCalm: false });
  if (now?.error?.turn === i) return mark("ended with an error");
  const items = turnItems(turn).filter((item) => item.kind === "call");
  const failed = items.find((item) => item.responses.some((response) => isError(response.value)));
  const calls = turnItems(expected?.[i]).filter((item) => item.kind === "call");
  const lost = (turn?.align ?? []).find((/** @type {(number | null)[]} */ [, actual]) => actual === null)?.[0];
  const moved = calls[lost] && movedCall(turn.align, calls[lost], items);
  if (wrong && moved) return mark(`${moved.step.name} called in another order`);
  if (wrong && calls[lost]) return mark(`${calls[lost].step.name} ${insideOf(turn, calls[lost].step) || "not called"}`);
  if (failed) return mark(`${failed.step.name} returned an error`);
  const differing = (turn?.align ?? []).find((/** @type {(number | null)[]} */ [before, actual]) => before === null || argumentDifferences(calls[before]?.step ?? {}, items[actual ?? -1]?.step ?? {}).length);
  const called = items[differing?.[1] ?? -1];
  if (wrong && called) return mark(differing[0] === null ? `${called.step.name} not expected` : `other arguments of ${called.step.name}`);
  if (wrong) return mark(wrongTurns.get(i) ?? "");
  const other = conversation.changed.find((value) => value.turn === i);
  if (other) return { text: `≠ ${other.before} → ${other.after}`, tone: "mark warn", isCalm: false };
  const low = lowTurns.get(i);
  if (low) return mark(low);
  if (now && !turn && expected?.[i]) return mark("not reached");
  if (differing || calls[lost]) return { text: "other calls than expected, scores met", tone: "muted", isCalm: false };
  return turn && expected?.[i] ? { text: "✓ as expected", tone: "muted", isCalm: true } : null;
}

/**
 * The call that is the expected one, although the criterion pairs neither: it is made elsewhere in the turn.
 * @param {[number | null, number | null][]} align
 * @param {TurnItem} expected
 * @param {TurnItem[]} items Of the run.
 */
function movedCall(align, expected, items) {
  const isFree = (/** @type {TurnItem} */ item) => item.kind === "call" && align.some(([before, actual]) => actual === item.number && before === null);
  return items.find((item) => isFree(item) && item.step.name === expected.step.name && !argumentDifferences(expected.step, item.step).length);
}

/**
 * Which call a tool was called inside of, if it was.
 * @param {any} turn
 * @param {any} call
 */
function insideOf(turn, call) {
  const inside = turn?.inside ?? {};
  return Object.hasOwn(inside, call.name) ? `called inside ${inside[call.name]}` : "";
}

/**
 * @param {Conversation} conversation
 * @param {number} i
 * @param {number} count
 * @param {{text: string, tone: string} | null} mark
 * @param {boolean} isOpen
 */
function turnElement(conversation, i, count, mark, isOpen) {
  const turn = conversation.now?.turns[i];
  const user = (turn ?? conversation.base?.turns[i] ?? conversation.expected?.[i])?.user;
  const summary = [
    h("h3", { text: count > 1 ? `Turn ${i + 1} of ${count}` : "Turn 1" }),
    foreign(textOfParts(user) ?? "", "span", { class: "gist" }),
    mark ? foreign(mark.text, "span", { class: mark.tone, dir: "ltr" }) : null,
    turn?.seconds ? muted(secondsText(turn.seconds)) : null,
  ];
  const link = h("a", { class: "turn-link no-print", href: conversation.address(i), "aria-label": `Link to turn ${i + 1}`, title: "Link to this turn", "data-focus": `turn ${i + 1}` }, linkIcon());
  const classes = ["turn", conversation.wrongTurns.has(i) ? "wrong" : "", i === conversation.target ? "to" : ""];
  return h("div", { class: classes.filter(Boolean).join(" "), "data-target": i === conversation.target }, lazyDetails({ open: isOpen, "data-turn": i + 1 }, summary, () => turnContent(conversation, i)), link);
}

function linkIcon() {
  const half = (/** @type {string} */ d) => svg("path", { d });
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, half("M6.5 9.5a2.8 2.8 0 0 0 4 0l2.3-2.3a2.8 2.8 0 0 0-4-4L7.7 4.3"), half("M9.5 6.5a2.8 2.8 0 0 0-4 0L3.2 8.8a2.8 2.8 0 0 0 4 4l1.1-1.1"));
}

/**
 * @param {Conversation} conversation
 * @param {number} i
 * @returns {(Child | Child[])[]}
 */
function turnContent(conversation, i) {
  const { now, base } = conversation;
  const turns = { expected: conversation.expected?.[i] ?? null, now: now?.turns[i] ?? null, base: base?.turns[i] ?? null };
  return [
    ...userMessage(turns, conversation.baseName),
    conversation.remarks(i),
    changedList(conversation.changed.filter((value) => value.turn === i)),
    turnTable(conversation, turns, i),
    !conversation.onPaper && (turns.now?.steps.length || turns.now?.spans?.length) ? aside(false, "timeline", () => [renderTimeline(turns.now)]) : null,
  ];
}

/** @param {Conversation["changed"]} values */
function changedList(values) {
  const line = (/** @type {Conversation["changed"][number]} */ value) => h("li", null, foreign(value.place, "strong"), " ", foreign(value.before, "mark", { class: "gone" }), " → ", foreign(value.after, "mark", { class: "new" }));
  return values.length ? [h("p", { class: "label", text: "differs from the base branch" }), h("ul", { class: "remarks" }, values.map(line))] : null;
}

/**
 * The user's message; one per side where a simulated user said different things.
 * @param {Record<Side, any>} turns
 * @param {string} baseName
 */
function userMessage(turns, baseName) {
  const messages = /** @type {[string, any[]][]} */ ([]);
  for (const side of /** @type {Side[]} */ (["now", "base", "expected"])) {
    const parts = turns[side]?.user;
    if (!parts || (side === "expected" && messages.length)) continue;
    if (!messages.some(([, other]) => JSON.stringify(other) === JSON.stringify(parts))) messages.push([side === "base" ? baseName : side, parts]);
  }
  return messages.map(([side, parts]) =>
    h("div", { class: "user" }, labelled("label", messages.length > 1 ? `user (${side})` : "user"), h("div", null, messageParts(parts))),
  );
}

/**
 * @param {Conversation} conversation
 * @param {Record<Side, any>} turns
 * @param {number} i
 */
function turnTable(conversation, turns, i) {
  const { now, base, baseName } = conversation;
  const wrong = conversation.wrongTurns.has(i);
  const sides = SIDES.filter((side) => (side === "expected" ? conversation.expected : side === "now" ? now : base));
  const names = { expected: "expected", now: now ? `now, ${now.label}` : "now", base: base?.label ?? baseName };
  const items = { expected: turnItems(turns.expected), now: turnItems(turns.now), base: turnItems(turns.base) };
  const rows = withoutRepetition(alignedRows(items, turns.now?.align, turns.base?.align));
  const decisive = wrong && now?.error?.turn !== i ? decisiveResponses(rows) : new Set();
  const agents = new Set([...items.now, ...items.base].map((item) => item.step.agent));
  const judged = Boolean(turns.now?.align) || items.expected.some((item) => item.kind === "call");
  const cell = (/** @type {Side} */ side, /** @type {Child[]} */ content) =>
    h("td", { role: "cell", class: `side-${side}${content.length ? "" : " empty"}` }, foreign(names[side], "span", { class: "cell-name label" }), content);
  const kindOf = (/** @type {TurnRow} */ row) => SIDES.map((side) => row[side]).find((item) => item);
  const label = (/** @type {TurnRow} */ row) => {
    const call = row.now ?? row.expected ?? row.base;
    return call?.kind === "call" ? `Call ${call.number + 1}${(row.count ?? 1) > 1 ? ` ×${row.count}` : ""}` : call?.kind === "text" ? "Says" : "Response";
  };
  const head = (/** @type {string} */ text) => h("th", { role: "rowheader", scope: "row", class: "label", text });
  const rowElement = (/** @type {TurnRow} */ row) => h("tr", { role: "row" }, head(label(row)), sides.map((side) => cell(side, itemCell(row, side, { judged: judged && Boolean(turns[side]), decisive, agents: agents.size > 1, turn: turns[side] }))));
  const isCalm = (/** @type {TurnRow} */ row) => judged && !row.moved && kindOf(row)?.kind === "call" && Boolean(row.now && row.expected) && !argumentDifferences(row.expected?.step, row.now?.step).length && !(row.now?.responses ?? []).some((response) => decisive.has(response) || isError(response.value));
  const answers = h("tr", { role: "row", class: "answers" }, head("Answer"), sides.map((side) => cell(side, answerCell(turns, side, side === "expected" ? null : conversation[side].error, i, conversation.changed.some((value) => value.turn === i && value.kind === "answer")))));
  const body = h("tbody", { role: "rowgroup" }, ...foldedRows(rows, isCalm, rowElement, sides.length + 1), answers);
  const notes = SIDES.filter((side) => sides.includes(side) && !turns[side]).map((side) => (side === "expected" ? "No turn was expected here." : `${names[side]}: ${(side === "now" ? now : base)?.error ? "an error ended the conversation" : "the conversation ended before this turn"}.`));
  return h(
    "div",
    null,
    notes.map((text) => h("p", null, muted(text))),
    h(
      "table",
      { class: `columns of-${sides.length}`, role: "table", "aria-label": "expected and actual" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, h("th", { role: "columnheader", scope: "col" }, labelled("visually-hidden", "step")), sides.map((side) => h("th", { role: "columnheader", scope: "col", class: `side-${side}` }, foreign(names[side]))))),
      body,
    ),
  );
}

/**
 * Calls with their responses, and texts, in order.
 * @param {any} turn
 * @returns {TurnItem[]}
 */
function turnItems(turn) {
  /** @type {TurnItem[]} */
  const items = [];
  let calls = 0;
  for (const step of turn?.steps ?? []) {
    const call = step.kind === "response" ? callOfResponse(items, step) : null;
    if (call) call.responses.push(step);
    else items.push({ kind: step.kind, step, number: step.kind === "call" ? calls++ : -1, responses: [] });
  }
  return items;
}

/**
 * @param {TurnItem[]} items
 * @param {any} response
 */
function callOfResponse(items, response) {
  const calls = items.filter((item) => item.kind === "call");
  if (response.id) return calls.findLast((item) => item.step.id === response.id);
  return calls.find((item) => item.step.name === response.name && !item.responses.length);
}

/**
 * Puts the items of the three sides into rows: in the order of the run, the others beside what they belong to.
 * @param {Record<Side, TurnItem[]>} items
 * @param {[number | null, number | null][] | null | undefined} alignNow Pairs of calls (expected, actual), by the criterion.
 * @param {[number | null, number | null][] | null | undefined} alignBase
 * @returns {TurnRow[]}
 */
function alignedRows(items, alignNow, alignBase) {
  /** @type {TurnRow[]} */
  const rows = items.now.map((item) => ({ expected: null, now: item, base: null }));
  placeItems(rows, "expected", items.expected, ["now"], (item) => {
    if (!alignNow || item.kind !== "call") return undefined;
    const actual = alignNow.find(([expected]) => expected === item.number)?.[1] ?? null;
    if (actual !== null) return rows.find((row) => row.now?.number === actual) ?? null;
    const moved = movedCall(alignNow, item, items.now.filter((call) => rows.some((row) => row.now === call && !row.expected)));
    const row = rows.find((candidate) => moved && candidate.now === moved);
    if (row) row.moved = true;
    return row ?? null;
  });
  placeItems(rows, "base", items.base, ["expected", "now"], (item) => {
    const expected = item.kind === "call" ? (alignBase?.find(([, actual]) => actual === item.number)?.[0] ?? null) : null;
    return expected === null ? undefined : rows.find((row) => row.expected?.number === expected);
  });
  return rows;
}

/**
 * Equal rows, one after the other, become one with their number.
 * @param {TurnRow[]} rows
 */
function withoutRepetition(rows) {
  const content = (/** @type {TurnItem | null} */ item) => item && [item.step.name, item.step.agent, item.step.args ?? null, item.responses.map((response) => response.value)];
  let last = "";
  /** @type {TurnRow[]} */
  const kept = [];
  for (const row of rows) {
    const isCall = SIDES.every((side) => !row[side] || row[side]?.kind === "call");
    const key = isCall ? JSON.stringify([row.moved, ...SIDES.map((side) => content(row[side]))]) : "";
    const before = kept[kept.length - 1];
    if (key && key === last) before.count = (before.count ?? 1) + 1;
    else kept.push(row);
    last = key;
  }
  return kept;
}

/**
 * The rows of a turn, without many calls in a row that are as expected, and without the rest of very many.
 * @param {TurnRow[]} rows
 * @param {(row: TurnRow) => boolean} isCalm
 * @param {(row: TurnRow) => HTMLElement} element
 * @param {number} columns
 * @returns {HTMLElement[]}
 */
function foldedRows(rows, isCalm, element, columns) {
  const more = (/** @type {TurnRow[]} */ left, /** @type {string} */ text) => {
    const button = pushButton(text, () => button.closest("tr")?.replaceWith(...left.map(element)));
    return h("tr", { role: "row" }, h("td", { role: "cell", colspan: columns }, button));
  };
  /** @type {HTMLElement[]} */
  const shown = [];
  for (let i = 0; i < rows.length; ) {
    if (shown.length >= ROWS_SHOWN) return [...shown, more(rows.slice(i), `show ${countText(rows.length - i, "more row")}`)];
    let end = i;
    while (end < rows.length && isCalm(rows[end])) end += 1;
    const inner = rows.slice(i + 1, end - 1);
    if (inner.length > CALM_ROWS) shown.push(element(rows[i]), more(inner, `show ${countText(inner.length, "more call")} as expected`), element(rows[end - 1]));
    else shown.push(...rows.slice(i, Math.max(end, i + 1)).map(element));
    i = Math.max(end, i + 1);
  }
  return shown;
}

/**
 * Puts the items of a side into rows. An item that belongs to no row gets a row of its own after the item before it.
 * @param {TurnRow[]} rows
 * @param {Side} side
 * @param {TurnItem[]} items
 * @param {Side[]} others The sides whose items it may stand beside.
 * @param {(item: TurnItem) => TurnRow | null | undefined} partner Its row; null for none; undefined to look for a similar item.
 */
function placeItems(rows, side, items, others, partner) {
  let next = 0;
  for (const item of items) {
    const fixed = partner(item);
    const row = fixed === undefined ? similarRow(rows.slice(next), side, item, others) : fixed;
    if (row && !row[side]) row[side] = item;
    else rows.splice(next, 0, { expected: null, now: null, base: null, [side]: item });
    next = rows.findIndex((candidate) => candidate[side] === item) + 1;
  }
}

/**
 * The first row with an equal call, otherwise with a call of the same tool. A text belongs to the text that comes next.
 * @param {TurnRow[]} rows
 * @param {Side} side
 * @param {TurnItem} item
 * @param {Side[]} others
 */
function similarRow(rows, side, item, others) {
  const free = rows.filter((row) => !row[side]);
  if (item.kind !== "call") return rows[0] && !rows[0][side] && others.some((other) => rows[0][other]?.kind === item.kind) ? rows[0] : null;
  const beside = (/** @type {(call: any) => boolean} */ fits) => free.find((row) => others.some((other) => row[other]?.kind === "call" && fits(row[other]?.step)));
  const isSame = (/** @type {any} */ call) => call.name === item.step.name && !diffValues(item.step.args ?? {}, call.args ?? {}).length;
  return beside(isSame) ?? beside((call) => call.name === item.step.name) ?? null;
}

/**
 * The responses that explain a failure, to be shown at once: what the base's run got otherwise for the same call, what is empty or an
 * error; if there is nothing of the kind, the last one.
 * @param {TurnRow[]} rows
 * @returns {Set<any>}
 */
function decisiveResponses(rows) {
  const all = rows.flatMap((row) => (row.now?.responses ?? []).map((response) => ({ response, base: row.base })));
  const differs = (/** @type {{response: any, base: TurnItem | null}} */ { response, base }) =>
    base?.responses.length && !base.responses.some((other) => !diffValues(other.value, response.value).length);
  const telling = all.filter((item) => differs(item) || isEmptyOrError(item.response.value));
  return new Set((telling.length ? telling : all.slice(-1)).map((item) => item.response));
}

/**
 * Whether a tool returned nothing, or says that it failed.
 * @param {any} value
 * @returns {boolean}
 */
function isEmptyOrError(value) {
  if (value === null || value === undefined || value === "") return true;
  if (typeof value !== "object") return false;
  return isError(value) || Object.values(value).every((item) => item === null || item === "" || (typeof item === "object" && isEmptyOrError(item)));
}

/**
 * Whether a tool's response says that the call failed, in one of the usual ways.
 * @param {any} value
 */
function isError(value) {
  if (value === null || typeof value !== "object") return false;
  return Boolean(value.error || value.isError === true || value.is_error === true || value.status === "error" || value.success === false);
}

/**
 * @param {TurnRow} row
 * @param {Side} side
 * @param {{judged: boolean, decisive: Set<any>, agents: boolean, turn: any}} about `judged`: calls were expected, so that their absence or presence means
 *   something. `agents`: the turn has several.
 * @returns {Child[]}
 */
function itemCell(row, side, { judged, decisive, agents, turn }) {
  const item = row[side];
  const expected = side === "expected" ? null : row.expected;
  if (!item) {
    if (!judged || expected?.kind !== "call") return [];
    const inside = insideOf(turn, expected.step);
    return [inside ? foreign(`↳ ${inside}`, "span", { class: "mark warn" }) : labelled("mark fail", CALL_MARKS.missing)];
  }
  if (item.kind === "text") return [agents || side === "expected" ? agentLabel(item.step) : null, ...messageParts(item.step.parts)];
  if (item.kind === "response") return [labelled("label", "response without a call"), responseElement(item.step, true)];
  const { now } = row;
  if (side === "base" && now?.kind === "call" && !diffValues([item.step.name, item.step.args ?? {}, item.responses.map(({ value }) => value)], [now.step.name, now.step.args ?? {}, now.responses.map(({ value }) => value)]).length) return [muted("as now")];
  const reference = expected ?? (side === "now" && !judged ? row.base : null);
  const differences = reference?.kind === "call" ? argumentDifferences(reference.step, item.step) : [];
  const mark = !judged ? null : side === "expected" ? movedFrom(row) : row.moved && side === "now" ? labelled("mark fail", CALL_MARKS.moved) : callMark(expected, differences);
  return [
    h("div", { class: "call" }, agents ? agentLabel(item.step) : null, callText(item.step), mark),
    differences.length ? argumentTable(differences, expected ? "expected" : "base") : null,
    ...item.responses.map((response) => responseElement(response, decisive.has(response))),
  ];
}

/**
 * An expected call without arguments says nothing about them.
 * @param {any} expected
 * @param {any} actual
 */
function argumentDifferences(expected, actual) {
  return expected.args === null || expected.args === undefined ? [] : diffValues(expected.args, actual.args ?? {});
}

/**
 * @param {TurnItem | null} expected
 * @param {any[]} differences
 */
function callMark(expected, differences) {
  const kind = !expected ? "extra" : differences.length ? "differs" : "same";
  return labelled(`mark ${kind === "same" ? "pass" : kind === "extra" ? "warn" : "fail"}`, CALL_MARKS[kind]);
}

/** @param {TurnRow} row */
function movedFrom(row) {
  return row.moved && row.expected ? labelled("label", `as call ${row.expected.number + 1}`) : null;
}

/** @param {any} step */
function agentLabel(step) {
  return step.agent ? foreign(step.agent, "span", { class: "label" }) : null;
}

/** @param {any} call */
function callText(call) {
  const args = Object.entries(call.args ?? {});
  const short = compactJson(call.args ?? {}).length <= JSON_LINE;
  const separator = short ? ", " : ",\n  ";
  const named = args.flatMap(([name, value], i) => [i ? separator : short ? "" : "\n  ", foreign(name, "span", { class: "json-key" }), "=", ...jsonNodes(value, "  ")]);
  return h("code", { class: "call-text", dir: "ltr" }, foreign(call.name, "strong"), "(", named, short ? ")" : "\n)");
}

/**
 * @param {any} response
 * @param {boolean} decisive
 */
function responseElement(response, decisive) {
  const compact = compactJson(response.value);
  const failed = isError(response.value);
  const label = labelled(failed ? "mark fail" : "label", failed ? "✗ returned an error" : "returned");
  if (compact.length <= JSON_LINE) return h("div", { class: decisive ? "response decisive" : "response" }, label, " ", h("code", { class: "json", dir: "ltr" }, jsonNodes(response.value, "")));
  const gist = foreign(compact.slice(0, 160), "code", { class: "gist json" });
  return lazyDetails({ class: decisive ? "response decisive" : "response", open: decisive }, [label, " ", gist], () => [jsonBlock(response.value)]);
}

/**
 * @param {{path: string, expected: any, actual: any}[]} differences
 * @param {string} than What it is compared with.
 */
function argumentTable(differences, than) {
  const shown = differences.slice(0, 50);
  return h(
    "table",
    { class: "arguments" },
    h("thead", null, h("tr", null, ["argument", than, "got"].map((text) => h("th", { scope: "col", text })))),
    h("tbody", null, shown.map((item) => h("tr", null, h("th", { scope: "row" }, foreign(item.path || "(all)", "code")), h("td", null, inlineJson(item.expected)), h("td", null, inlineJson(item.actual))))),
    differences.length > shown.length ? h("caption", { text: `${shown.length} of ${differences.length} differences` }) : null,
  );
}

/**
 * The answer of a side, with its words marked that another side doesn't have.
 * @param {Record<Side, any>} turns
 * @param {Side} side
 * @param {any} error What ended the run, or null.
 * @param {number} i
 * @param {boolean} isOther Whether both sides say other things: then they are compared with each other.
 * @returns {Child[]}
 */
function answerCell(turns, side, error, i, isOther) {
  const turn = turns[side];
  if (!turn) return [];
  if (!turn.answer) return side === "expected" ? [] : [h("p", { class: "mark fail", text: error?.turn === i ? `(no answer: ${error.kind})` : "(no answer)" })];
  const text = textOfParts(turn.answer);
  const reference = side === "expected" ? "now" : isOther && turns.now && turns.base ? (side === "now" ? "base" : "now") : turns.expected?.answer ? "expected" : side === "now" ? "base" : "now";
  const other = textOfParts(turns[reference]?.answer);
  if (side === "base" && turns.now?.answer && JSON.stringify(turn.answer) === JSON.stringify(turns.now.answer)) return [muted("as now")];
  if (text === null || other === null) return messageParts(turn.answer);
  if (text === other) return [...messageParts(turn.answer), side === "expected" ? null : labelled("mark pass", reference === "expected" ? "✓ as expected" : "= same")];
  const isBefore = side === "expected" || (side === "base" && reference === "now");
  const runs = isBefore ? answerDifference(text, other) : answerDifference(other, text);
  if (!runs) return [muted("too long to compare word by word"), ...messageParts(turn.answer)];
  return messageParts(turn.answer, markedRuns(runs, isBefore));
}

/** The last difference that was computed, since two cells show it. */
const lastDifference = { texts: "", runs: diffWords("", "") };

/**
 * @param {string} before
 * @param {string} after
 */
function answerDifference(before, after) {
  const texts = JSON.stringify([before, after]);
  if (texts !== lastDifference.texts) Object.assign(lastDifference, { texts, runs: diffWords(before, after) });
  return lastDifference.runs;
}

/**
 * One side of a difference.
 * @param {{op: string, text: string}[]} runs
 * @param {boolean} before
 */
function markedRuns(runs, before) {
  const skipped = before ? "insert" : "delete";
  return runs
    .filter((run) => run.op !== skipped)
    .map((run) => (run.op === "equal" ? h("span", { text: run.text }) : h("mark", { class: before ? "gone" : "new", text: run.text })));
}
