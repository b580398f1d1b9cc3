// Reads the report's data: base64 of gzipped JSON in <template> elements. `index` is read at the start, blocks of cases on demand.

const KEPT_BLOCKS = 8;

/**
 * @typedef {any} Index The list's data in columns; see `report/html` in Python for its fields.
 * @typedef {any} CaseData One case with its conversations and judgements.
 * @typedef {{index: number, id: string, file: string, evalId: string, line: number | null, agent: string, status: string,
 *   change: string | null, word: string | null, tags: string[], rank: number, why: string, scores: (number | string | null)[],
 *   deltas: (number | string | null)[], ok: (0 | 1 | null)[], seconds: number, tokens: number | null, cost: number | null,
 *   runsPassed: number, runs: number, basePassed: number, baseRuns: number, baseSeconds: number | null, baseTokens: number | null, group: number, history: string, recorded: number[], user: string,
 *   tools: string[], block: number, removed: boolean}} Row `group`: the number of its cause; then what no cause explains, what passed, what was removed.
 */

/** Compressed blocks whose template was removed. @type {Map<string, Uint8Array>} */
const packedBlocks = new Map();
/** Decoded blocks, the most recently used one last. @type {Map<number, Promise<Map<string, CaseData>>>} */
const decodedBlocks = new Map();
/** Positions of the cases by id, and by every short id that only one case has. @type {WeakMap<Index, Map<string, number>>} */
const positionsById = new WeakMap();

/** Whether this browser can unpack the data (Chrome and Edge 80, Firefox 113, Safari 16.4). */
function canReadData() {
  return typeof DecompressionStream === "function";
}

/** @returns {Promise<Index>} */
async function loadIndex() {
  const index = JSON.parse(await unpacked(takeTemplate("index")));
  if (index.report_data_version !== 1) throw new Error(`unknown version of the data: ${index.report_data_version}`);
  const positions = new Map();
  index.cases.eval_id.forEach((/** @type {string} */ name, /** @type {number} */ i) => positions.set(name, positions.has(name) ? -1 : i));
  index.cases.id.forEach((/** @type {string} */ name, /** @type {number} */ i) => positions.set(name, i));
  positionsById.set(index, positions);
  return index;
}

/**
 * The position of a case, or -1 for an unknown id.
 * @param {Index} index
 * @param {string} id
 * @returns {number}
 */
function positionOf(index, id) {
  return positionsById.get(index)?.get(id) ?? -1;
}

/**
 * What the page knows about a case beyond the list.
 * @param {Index} index
 * @param {number} i
 * @returns {Promise<CaseData | null>} Null if the report holds no details of this case.
 */
async function loadCase(index, i) {
  const block = index.cases.block[i];
  if (block < 0) return null;
  const kept = decodedBlocks.get(block) ?? blockText(block).then(casesOfBlock);
  decodedBlocks.delete(block);
  decodedBlocks.set(block, kept);
  for (const oldest of decodedBlocks.keys()) {
    if (decodedBlocks.size <= KEPT_BLOCKS) break;
    decodedBlocks.delete(oldest);
  }
  return (await kept).get(index.cases.id[i]) ?? null;
}

/**
 * @param {string} text
 * @returns {Map<string, CaseData>}
 */
function casesOfBlock(text) {
  return new Map(JSON.parse(text).cases.map((/** @type {CaseData} */ item) => [item.id, item]));
}

/**
 * The JSON of a block.
 * @param {number} block
 */
function blockText(block) {
  const name = `b${block}`;
  const packed = packedBlocks.get(name) ?? takeTemplate(name);
  packedBlocks.set(name, packed);
  return unpacked(packed);
}

/**
 * The compressed bytes of a template, which leaves the document.
 * @param {string} name
 */
function takeTemplate(name) {
  const template = document.getElementById(name);
  if (!(template instanceof HTMLTemplateElement)) throw new Error(`the report has no ${name}`);
  const bytes = fromBase64((template.content.textContent ?? "").trim());
  template.remove();
  return bytes;
}

/**
 * @param {string} text
 * @returns {Uint8Array}
 */
function fromBase64(text) {
  const native = /** @type {any} */ (Uint8Array).fromBase64;
  return native ? native.call(Uint8Array, text) : Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/**
 * @param {Uint8Array} bytes
 * @returns {Promise<string>}
 */
function unpacked(bytes) {
  // Not by way of a Blob, which another process of the browser holds.
  const { body } = /** @type {any} */ (new Response(/** @type {BufferSource} */ (bytes)));
  return new Response(body.pipeThrough(new DecompressionStream("gzip"))).text();
}

/**
 * A row of the list.
 * @param {Index} index
 * @param {number} i
 * @returns {Row}
 */
function caseRow(index, i) {
  const { cases, strings } = index;
  return {
    index: i,
    id: cases.id[i],
    file: strings[cases.file_s[i]] ?? "",
    evalId: cases.eval_id[i],
    line: cases.line[i],
    agent: strings[cases.agent_s[i]] ?? "",
    status: cases.status[i],
    change: cases.change[i],
    word: cases.word[i],
    tags: cases.tags[i],
    rank: cases.rank[i],
    why: cases.why[i],
    scores: cases.scores[i],
    deltas: cases.deltas[i],
    ok: cases.ok[i],
    seconds: cases.seconds[i],
    tokens: cases.tokens[i],
    cost: cases.cost[i],
    runsPassed: cases.runs_passed[i],
    runs: cases.runs[i],
    basePassed: cases.base_passed[i],
    baseRuns: cases.base_runs[i],
    baseSeconds: cases.base_seconds[i],
    baseTokens: cases.base_tokens[i],
    group: cases.group[i],
    history: cases.history[i],
    recorded: strings[cases.records_s[i]].split(" ").map((/** @type {string} */ at) => index.recorded[Number(at)]),
    user: cases.user[i],
    tools: cases.tools[i].map((/** @type {number} */ s) => strings[s]),
    block: cases.block[i],
    removed: Boolean(cases.removed[i]),
  };
}

/**
 * The address of a file of the repository at the run's commit; null without one, and for a path that could lead elsewhere.
 * @param {Index} index
 * @param {string | null} file
 * @param {number | null} line
 */
function sourceAddress(index, file, line) {
  const names = (file ?? "").split("/");
  if (!index.header.source_url || names.some((name) => ["", ".", ".."].includes(name))) return null;
  return `${index.header.source_url}${names.map(encodeURIComponent).join("/")}${line ? `#L${line}` : ""}`;
}
