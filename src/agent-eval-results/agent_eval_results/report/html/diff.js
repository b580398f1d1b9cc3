// Word differences of two texts, by Myers' algorithm ("An O(ND) difference algorithm and its variations", 1986).

/** The most tokens of a side, and usually the most milliseconds, for which a difference is computed. */
const DIFF_TOKENS = 4000;
const DIFF_MILLISECONDS = 50;

/** Scripts that are written without spaces. */
const UNSPACED = ["Han", "Hiragana", "Katakana", "Hangul", "Thai", "Lao", "Khmer", "Myanmar"].map((name) => `\\p{sc=${name}}`).join("");
/** A token is a character of such a script with its marks, a word, a run of white space, or any other single character. */
const DIFF_TOKEN = new RegExp(`[${UNSPACED}]\\p{M}*|[\\p{L}\\p{N}_](?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}_])*|\\s+|[^]`, "gu");

/**
 * The tokens of a text; joined, they are the text again. Null if there are too many.
 * @param {string} text
 * @returns {string[] | null}
 */
function diffTokens(text) {
  const tokens = [];
  for (const match of text.matchAll(DIFF_TOKEN)) {
    if (tokens.length >= DIFF_TOKENS) return null;
    tokens.push(match[0]);
  }
  return tokens;
}

/**
 * What has to be deleted from `before` and inserted to get `after`, as runs of tokens in order. Joining the texts of all runs but the
 * inserted ones gives `before`; of all but the deleted ones, `after`.
 * @param {string} before
 * @param {string} after
 * @param {number} milliseconds
 * @returns {{op: "equal" | "delete" | "insert", text: string}[] | null} Null if a side has too many tokens or time is up: show both texts.
 */
function diffWords(before, after, milliseconds = DIFF_MILLISECONDS) {
  if (before === after) return before ? [{ op: "equal", text: before }] : [];
  const deadline = performance.now() + milliseconds;
  const left = diffTokens(before);
  const right = diffTokens(after);
  if (!left || !right) return null;
  const pairs = diffMatches(left, right, deadline);
  return pairs && diffRuns(left, right, diffWithoutLoneSpaces(left, pairs));
}

/**
 * The longest common subsequence of two lists.
 * @param {readonly unknown[]} left
 * @param {readonly unknown[]} right
 * @param {number} deadline In milliseconds, by `performance.now()`.
 * @returns {[number, number][] | null} Pairs of indices, ascending; null if time is up.
 */
function diffMatches(left, right, deadline = Infinity) {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let ends = 0;
  const shorter = Math.min(left.length, right.length) - start;
  while (ends < shorter && left[left.length - 1 - ends] === right[right.length - 1 - ends]) ends += 1;
  const middle = diffMyers(left.slice(start, left.length - ends), right.slice(start, right.length - ends), deadline);
  if (!middle) return null;
  /** @type {[number, number][]} */
  const pairs = [];
  for (let i = 0; i < start; i += 1) pairs.push([i, i]);
  for (const [x, y] of middle) pairs.push([x + start, y + start]);
  for (let i = ends; i > 0; i -= 1) pairs.push([left.length - i, right.length - i]);
  return pairs;
}

/**
 * @param {readonly unknown[]} left
 * @param {readonly unknown[]} right
 * @param {number} deadline
 * @returns {[number, number][] | null}
 */
function diffMyers(left, right, deadline) {
  if (!left.length || !right.length) return [];
  const most = left.length + right.length;
  // furthest[k + most]: how far along `left` an edit script with the current number of edits gets on diagonal k.
  const furthest = new Int32Array(2 * most + 2);
  const trace = [];
  for (let edits = 0; edits <= most; edits += 1) {
    if (performance.now() > deadline) return null;
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && furthest[k - 1 + most] < furthest[k + 1 + most]);
      let x = down ? furthest[k + 1 + most] : furthest[k - 1 + most] + 1;
      while (x < left.length && x - k < right.length && left[x] === right[x - k]) x += 1;
      furthest[k + most] = x;
      if (x >= left.length && x - k >= right.length) return diffPath(trace, left.length, right.length);
    }
    trace.push(furthest.slice(most - edits, most + edits + 1));
  }
  return null;
}

/**
 * Walks back through what each number of edits reached.
 * @param {Int32Array[]} trace
 * @param {number} x
 * @param {number} y
 * @returns {[number, number][]}
 */
function diffPath(trace, x, y) {
  /** @type {[number, number][]} */
  const pairs = [];
  for (let edits = trace.length; edits > 0; edits -= 1) {
    const before = trace[edits - 1];
    const k = x - y;
    const at = k + edits; // `before` begins with diagonal 1 - edits
    const down = at === 0 || (at !== 2 * edits && before[at - 2] < before[at]);
    const startX = down ? before[at] : before[at - 2];
    const startY = startX - (down ? k + 1 : k - 1);
    while (x > startX + (down ? 0 : 1) && y > startY + (down ? 1 : 0)) pairs.push([--x, --y]);
    x = startX;
    y = startY;
  }
  while (x > 0 && y > 0) pairs.push([--x, --y]);
  return pairs.reverse();
}

/**
 * White space between two changes counts as changed: "a b" replaced by "c d" is one change, not two.
 * @param {string[]} left
 * @param {[number, number][]} pairs
 */
function diffWithoutLoneSpaces(left, pairs) {
  const adjacent = (/** @type {[number, number]} */ one, /** @type {[number, number]} */ other) =>
    one && other && other[0] - one[0] === 1 && other[1] - one[1] === 1;
  return pairs.filter((pair, i) => left[pair[0]].trim() !== "" || adjacent(pairs[i - 1], pair) || adjacent(pair, pairs[i + 1]));
}

/**
 * @param {string[]} left
 * @param {string[]} right
 * @param {[number, number][]} pairs
 */
function diffRuns(left, right, pairs) {
  /** @type {{op: "equal" | "delete" | "insert", text: string}[]} */
  const runs = [];
  const add = (/** @type {"equal" | "delete" | "insert"} */ op, /** @type {string} */ text) => {
    if (!text) return;
    const last = runs[runs.length - 1];
    if (last && last.op === op) last.text += text;
    else runs.push({ op, text });
  };
  let [x, y] = [0, 0];
  for (const [pairX, pairY] of [...pairs, [left.length, right.length]]) {
    add("delete", left.slice(x, pairX).join(""));
    add("insert", right.slice(y, pairY).join(""));
    if (pairX < left.length) add("equal", left[pairX]);
    [x, y] = [pairX + 1, pairY + 1];
  }
  return runs;
}

/**
 * Where two JSON values differ.
 * @param {any} expected
 * @param {any} actual
 * @param {string} path
 * @returns {{path: string, expected: any, actual: any}[]} `undefined` where a side has no value.
 */
function diffValues(expected, actual, path = "") {
  if (Object.is(expected, actual)) return [];
  const isObject = (/** @type {any} */ value) => value !== null && typeof value === "object";
  if (!isObject(expected) || !isObject(actual) || Array.isArray(expected) !== Array.isArray(actual)) return [{ path, expected, actual }];
  const child = (/** @type {string} */ key) => (Array.isArray(expected) ? `${path}[${key}]` : path ? `${path}.${key}` : key);
  const value = (/** @type {any} */ of, /** @type {string} */ key) => (Object.hasOwn(of, key) ? of[key] : undefined);
  const keys = new Set([...Object.keys(expected), ...Object.keys(actual)]);
  return [...keys].flatMap((key) => diffValues(value(expected, key), value(actual, key), child(key)));
}
