// The search box's language: which cases a query selects, and the search in conversations.

/**
 * @typedef {{negated: boolean, word: string | null, test: (row: Row) => boolean}} Term `word`: in lower case, null for a filter.
 * @typedef {{terms: Term[], notes: string[]}} Query `notes` say what in the query could not be understood.
 */

const QUERY_TOKEN = /(?:"[^"]*"?|[^\s"])+/g;
const FILTER = /^([a-z_]+)(:|[<>]=?|=)(.*)$/i;
const NUMBER_FILTERS = ["seconds", "tokens", "cost"];
const FIELDS = ["status", "change", "word", "cause", "file", "agent", "tool", "metric", "seconds", "tokens", "cost"];
const TAG_WORDS = ["regression", "suspected", "flaky", "quarantined", "blocking", "fixed", "replayed", "changed_answer"];
const QUERY_VALUES = {
  status: ["passed", "failed", "errored", "not_run"],
  change: ["newly_failing", "fixed", "still_failing", "changed", "added", "removed", "unjudged", "renamed"],
  word: ["regression", "worse", "suspected_regression", "flaky_as_before", "fixed", "better", "unchanged"],
};
/** @type {Record<string, (left: number, right: number) => boolean>} */
const COMPARISONS = {
  "<": (left, right) => left < right,
  "<=": (left, right) => left <= right,
  ">": (left, right) => left > right,
  ">=": (left, right) => left >= right,
  "=": (left, right) => left === right,
};

/** Cases whose conversation has a word, by the word; filled by `searchConversations`. @type {Map<string, Set<number>>} */
const conversationHits = new Map();
/** What words are searched in, by row. @type {WeakMap<Row, string>} */
const searchedTexts = new WeakMap();

/**
 * @param {string} query
 * @returns {string[]}
 */
function tokensOf(query) {
  return query.match(QUERY_TOKEN) ?? [];
}

/**
 * @param {string} text
 * @param {Index} index
 * @returns {Query}
 */
function parseQuery(text, index) {
  /** @type {Query} */
  const query = { terms: [], notes: [] };
  for (const token of tokensOf(text)) {
    const negated = token.length > 1 && token.startsWith("-");
    const term = termOf(negated ? token.slice(1) : token, index, query.notes);
    if (term) query.terms.push({ ...term, negated });
  }
  return query;
}

/**
 * Whether a query selects a row: all its terms must agree.
 * @param {Query} query
 * @param {Row} row
 */
function matches(query, row) {
  return query.terms.every((term) => term.test(row) !== term.negated);
}

/**
 * @param {string} token
 * @param {Index} index
 * @param {string[]} notes
 * @returns {Omit<Term, "negated"> | null}
 */
function termOf(token, index, notes) {
  const [, key = "", operator = "", rest = ""] = FILTER.exec(token) ?? [];
  const value = unquoted(rest);
  const filter = key && (operator === ":" ? textFilter(key.toLowerCase(), value, index, notes) : numberFilter(key.toLowerCase(), operator, value, notes));
  if (filter) return { word: null, test: filter };
  if (TAG_WORDS.includes(token.toLowerCase())) return { word: null, test: (row) => row.tags.includes(token.toLowerCase()) };
  const word = unquoted(token).toLowerCase();
  return word ? { word, test: (row) => searchedText(row).includes(word) || conversationHits.get(word)?.has(row.index) === true } : null;
}

/**
 * Why a query selects nothing: a sentence for each of its terms that no case has, and the words that conversations may have.
 * @param {Index} index
 * @param {string} text
 * @param {Row[]} rows All cases.
 * @returns {{reasons: string[], words: string[]}}
 */
function missing(index, text, rows) {
  /** @type {string[]} */
  const words = [];
  const reasons = tokensOf(text).flatMap((token) => {
    const [term] = parseQuery(token, index).terms;
    if (!term || rows.some((row) => term.test(row) !== term.negated)) return [];
    const [, key = "", , value = ""] = FILTER.exec(token.replace(/^-/, "")) ?? [];
    const isSearched = term.word !== null && conversationHits.has(term.word);
    if (term.word !== null && !isSearched) words.push(term.word);
    if (term.word !== null && key && value && !NUMBER_FILTERS.includes(key.toLowerCase()) && !/^https?$/i.test(key)) return [`There is no field “${key}”. Fields are ${FIELDS.join(", ")}.`];
    if (key.toLowerCase() === "tool") return [`No case calls a tool “${value}”. Tools are ${[...new Set(rows.flatMap((row) => row.tools))].slice(0, 20).join(", ") || "not known"}.`];
    return [term.word === null ? `No case has ${token}.` : `No case has “${term.word}” in its id, file, reason or messages of users${isSearched ? ", nor in its conversations" : ""}.`];
  });
  return { reasons: reasons.length ? reasons : ["Each of these terms selects cases, but no case has all of them."], words };
}

/** So many terms are suggested. */
const MOST_SUGGESTED = 40;
/** What the cases of an index can be asked for: terms, each with what it selects. @type {WeakMap<Index, [string, string][]>} */
const termsOfIndex = new WeakMap();

/**
 * Queries that go on from a text: what stands before its last word stays. An open quote is closed.
 * @param {Index} index
 * @param {string} text
 * @returns {[string, string][]} Each with what its last term means.
 */
function suggestions(index, text) {
  const tokens = tokensOf(text);
  const isOpen = text.split('"').length % 2 === 0; // a space in it ends no word
  const last = (/\s$/.test(text) && !isOpen) || !tokens.length ? "" : /** @type {string} */ (tokens.pop());
  const minus = last.length > 1 && last.startsWith("-") ? "-" : "";
  const begun = last.slice(minus.length).toLowerCase();
  const fits = knownTerms(index).filter(([term]) => term.toLowerCase().includes(begun) && term.toLowerCase() !== begun && !tokens.includes(term));
  fits.sort(([one], [other]) => Number(other.toLowerCase().startsWith(begun)) - Number(one.toLowerCase().startsWith(begun)));
  return fits.slice(0, MOST_SUGGESTED).map(([term, label]) => [[...tokens, minus + term].join(" "), label]);
}

/**
 * @param {Index} index
 * @returns {[string, string][]}
 */
function knownTerms(index) {
  const kept = termsOfIndex.get(index);
  if (kept) return kept;
  const { cases, strings } = index;
  const named = (/** @type {string} */ key, /** @type {string[]} */ values, /** @type {string} */ label) => values.filter((value) => !value.includes('"')).map((value) => /** @type {[string, string]} */ ([`${key}:${/\s/.test(value) ? `"${value}"` : value}`, label]));
  const texts = (/** @type {Iterable<number>} */ places) => [...new Set(places)].map((place) => /** @type {string} */ (strings[place])).filter(Boolean);
  const tags = new Set(cases.tags.flat());
  /** @type {[string, string][]} */
  const terms = [
    ...named("status", QUERY_VALUES.status.filter((status) => cases.status.includes(status)), "cases with this status"),
    ...TAG_WORDS.filter((tag) => tags.has(tag)).map((tag) => /** @type {[string, string]} */ ([tag, "cases with this mark"])),
    ...index.causes.map((/** @type {any} */ cause, /** @type {number} */ i) => [`cause:${i + 1}`, cause.title]),
    ...named("change", QUERY_VALUES.change.filter((change) => cases.change.includes(change)), "against the base branch"),
    ...named("tool", texts(cases.tools.flat()), "cases that call it"),
    ...named("agent", hasAgents(index) ? texts(cases.agent_s) : [], "cases of this agent"),
    ...named("file", texts(cases.file_s), "cases of this file"),
    ...named("metric", index.metrics.map((/** @type {any} */ metric) => metric.name), "cases that fail by it"),
    ["seconds>10", "slow cases"],
    ...(cases.tokens.some(Number) ? /** @type {[string, string][]} */ ([["tokens>1000", "cases with many tokens"]]) : []),
    ...(cases.cost.some(Number) ? /** @type {[string, string][]} */ ([["cost>0.01", "expensive cases"]]) : []),
  ];
  termsOfIndex.set(index, terms);
  return terms;
}

/** @param {string} text */
function unquoted(text) {
  return text.replaceAll('"', "");
}

/** @param {Row} row */
function searchedText(row) {
  const kept = searchedTexts.get(row);
  if (kept !== undefined) return kept;
  const text = [row.id, row.file, row.why, row.user].join("\n").toLowerCase();
  searchedTexts.set(row, text);
  return text;
}

/**
 * The test of a filter `key:value`, null if there is no such filter.
 * @param {string} key
 * @param {string} value
 * @param {Index} index
 * @param {string[]} notes
 * @returns {((row: Row) => boolean) | null}
 */
function textFilter(key, value, index, notes) {
  const lower = value.toLowerCase();
  if (key === "file") return (row) => row.file.toLowerCase().includes(lower);
  if (key === "agent") return (row) => row.agent.toLowerCase().includes(lower);
  if (key === "tool") return (row) => row.tools.some((tool) => tool.toLowerCase() === lower);
  if (key === "metric") return metricFilter(value, index, notes);
  if (key === "cause") return (row) => (lower === "none" ? row.group === index.causes.length : row.group < index.causes.length && String(row.group + 1) === lower);
  if (!Object.hasOwn(QUERY_VALUES, key)) {
    if (NUMBER_FILTERS.includes(key)) notes.push(`Write ${key} with a comparison: ${key}>30`);
    return null;
  }
  const allowed = QUERY_VALUES[/** @type {keyof typeof QUERY_VALUES} */ (key)];
  const name = lower.replace(/[\s-]+/g, "_");
  if (!allowed.includes(name)) notes.push(`${key}: is one of ${allowed.join(", ")}`);
  return (row) => String(row[/** @type {"status" | "change" | "word"} */ (key)] ?? "").replaceAll(" ", "_") === name;
}

/**
 * `metric:NAME<0.8` compares the score; `metric:NAME` selects the cases that failed the metric.
 * @param {string} value
 * @param {Index} index
 * @param {string[]} notes
 * @returns {(row: Row) => boolean}
 */
function metricFilter(value, index, notes) {
  const place = (/** @type {string} */ text) => index.metrics.findIndex((/** @type {any} */ metric) => metric.name.toLowerCase() === text.toLowerCase());
  const parts = place(value) < 0 ? /^(.*?)([<>]=?|=)([^<>=]*)$/.exec(value) : null;
  const [, name = value, operator = "", limit = ""] = parts ?? [];
  const at = place(name);
  if (at < 0) notes.push(`This report has no metric ${name}`);
  if (!operator) return (row) => row.ok[at] === 0;
  const compare = comparison(operator, limit, `metric:${name}`, notes);
  return (row) => compare(row.scores[at]);
}

/**
 * @param {string} key
 * @param {string} operator
 * @param {string} value
 * @param {string[]} notes
 * @returns {((row: Row) => boolean) | null}
 */
function numberFilter(key, operator, value, notes) {
  if (!NUMBER_FILTERS.includes(key)) return null;
  const compare = comparison(operator, value, key, notes);
  return (row) => compare(row[/** @type {"seconds" | "tokens" | "cost"} */ (key)]);
}

/**
 * A comparison with a limit. Missing values and values that are no number never agree.
 * @param {string} operator
 * @param {string} limit
 * @param {string} subject
 * @param {string[]} notes
 * @returns {(value: number | string | null) => boolean}
 */
function comparison(operator, limit, subject, notes) {
  const right = limit.trim() === "" ? NaN : Number(limit);
  if (Number.isNaN(right)) notes.push(`${subject} needs a number after ${operator}`);
  return (value) => value !== null && COMPARISONS[operator](numberOf(value), right);
}

/**
 * A number of the data: NaN and infinities are stored as text.
 * @param {number | string | null} value
 */
function numberOf(value) {
  if (typeof value === "number") return value;
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN;
}

/**
 * Looks for the words of a query in all conversations. Afterwards `matches` counts what was seen there.
 * @param {Index} index
 * @param {Query} query
 * @param {(done: number) => void} progress Called with the number of blocks that are done.
 * @param {AbortSignal} signal Ends the search; what was seen until then is discarded.
 * @returns {Promise<boolean>} Whether the search came to its end.
 */
async function searchConversations(index, query, progress, signal) {
  const words = [...new Set(query.terms.map((term) => term.word))].filter((word) => word !== null && !conversationHits.has(word));
  /** @type {Map<string, Set<number>>} */
  const hits = new Map(words.map((word) => [/** @type {string} */ (word), new Set()]));
  for (let block = 0; block < index.blocks && hits.size; block++) {
    await searchBlock(index, block, hits);
    if (signal.aborted) return false;
    progress(block + 1);
  }
  hits.forEach((cases, word) => conversationHits.set(word, cases));
  return true;
}

/**
 * @param {Index} index
 * @param {number} block
 * @param {Map<string, Set<number>>} hits
 */
async function searchBlock(index, block, hits) {
  const text = await blockText(block);
  const lower = text.toLowerCase();
  // JSON writes plain characters as they are, so a block without them needs no parsing.
  const plausible = [...hits].filter(([word]) => !/^[ !#-.0-[\]-~]*$/.test(word) || lower.includes(word));
  if (!plausible.length) return;
  for (const [id, item] of casesOfBlock(text)) {
    const texts = conversationTexts(item).join("\n").toLowerCase();
    for (const [word, cases] of plausible) if (texts.includes(word)) cases.add(positionOf(index, id));
  }
}

/**
 * The words of a query that a reader looks for.
 * @param {Query} query
 */
function wordsOf(query) {
  return query.terms.flatMap((term) => (term.word === null || term.negated ? [] : [term.word]));
}

/**
 * The first turn that has one of the words.
 * @param {CaseData | null} item
 * @param {string[]} words
 * @returns {{run?: string, side?: string, turn: string} | null}
 */
function placeOfHit(item, words) {
  for (const run of item?.runs ?? []) {
    const at = run.turns.findIndex((/** @type {any} */ { user, steps, answer }) => words.some((word) => textsOf([user, answer, steps]).join("\n").toLowerCase().includes(word)));
    if (at >= 0) return { [run.side === "base" ? "side" : "run"]: run.key, turn: String(at + 1) };
  }
  return null;
}

/**
 * Marks the words where they stand, and scrolls to the first.
 * @param {HTMLElement} view
 * @param {string[]} words
 * @returns {boolean} Whether there is one.
 */
function markHits(view, words) {
  const target = view.querySelector("[data-target]") ?? view;
  for (const details of target.querySelectorAll("details.response")) if (words.some((word) => (details.textContent ?? "").toLowerCase().includes(word))) details.toggleAttribute("open", true);
  /** @type {Range[]} */
  const ranges = [];
  const walker = document.createTreeWalker(target, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = (node.textContent ?? "").toLowerCase();
    for (const word of words) {
      for (let at = text.indexOf(word); word && at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, Math.min(at + word.length, node.textContent?.length ?? 0));
        ranges.push(range);
      }
    }
  }
  if ("highlights" in CSS) CSS.highlights.set("hit", new Highlight(...ranges));
  const first = ranges.find((range) => range.getClientRects().length);
  first?.startContainer.parentElement?.scrollIntoView({ block: "center" });
  return first !== undefined;
}

/**
 * What people read in the conversations of a case and in the judgements of it.
 * @param {CaseData} item
 * @returns {string[]}
 */
function conversationTexts(item) {
  const turns = [...(item.expected ?? []), ...item.runs.flatMap((/** @type {any} */ run) => run.turns)];
  const steps = turns.flatMap((turn) => turn.steps);
  const parts = [...turns.flatMap((turn) => [...turn.user, ...(turn.answer ?? [])]), ...steps.flatMap((step) => step.parts ?? [])];
  const scored = item.metrics.flatMap((/** @type {any} */ metric) => metric.runs);
  return textsOf([
    parts.map((part) => [part.text, part.thought, part.file?.uri, part.other]),
    steps.map((step) => [step.name, step.args, step.value]),
    item.runs.map((/** @type {any} */ run) => [run.error?.message, run.error?.traceback]),
    item.findings.map((/** @type {any} */ finding) => [finding.summary, finding.lines]),
    scored.map((/** @type {any} */ run) => [run.votes.map((/** @type {any} */ vote) => vote.text), run.evidence.map((/** @type {any} */ evidence) => evidence.why)]),
  ]);
}

/**
 * All texts and numbers of a value, and the names of its fields.
 * @param {any} value
 * @param {string[]} texts
 */
function textsOf(value, texts = []) {
  if (typeof value === "string") texts.push(value);
  else if (Array.isArray(value)) value.forEach((item) => textsOf(item, texts));
  else if (value && typeof value === "object") Object.entries(value).forEach(([name, item]) => textsOf(item, (texts.push(name), texts)));
  else if (value !== null && value !== undefined) texts.push(String(value));
  return texts;
}
