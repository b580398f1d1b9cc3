// Shows JSON values and the parts of messages.

/** JSON up to this many characters stands on one line. */
const JSON_LINE = 64;
/** JSON above this many characters is shown without colours. The report cuts what is much longer. */
const JSON_COLOURED = 20_000;
/** A text above this many characters gets a height of its own, in which it scrolls. */
const LONG_TEXT = 2_500;

/**
 * @param {any} value
 * @returns {string}
 */
function compactJson(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "nothing";
  if (Array.isArray(value)) return `[${value.map(compactJson).join(", ")}]`;
  return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${compactJson(item)}`).join(", ")}}`;
}

/**
 * A value on one line, types visible: texts are quoted.
 * @param {any} value
 * @param {number} most Characters to show.
 */
function inlineJson(value, most = 400) {
  const text = compactJson(value);
  return foreign(text.length > most ? `${text.slice(0, most)} … (${countText(text.length, "character")})` : text, "code", { class: "json" });
}

/**
 * A value, indented, with a colour for each type.
 * @param {any} value
 * @returns {HTMLElement}
 */
function jsonBlock(value) {
  const text = JSON.stringify(value, null, 2) ?? "nothing";
  const props = text.length > LONG_TEXT ? { class: "json long", ...region("JSON") } : { class: "json" };
  return h("pre", { dir: "ltr", ...props }, text.length > JSON_COLOURED ? foreign(text) : jsonNodes(value, ""));
}

/**
 * @param {any} value
 * @param {string} indent
 * @returns {Child[]}
 */
function jsonNodes(value, indent) {
  if (value === null || typeof value !== "object") return [jsonScalar(value)];
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const [opening, closing] = isList ? "[]" : "{}";
  if (!entries.length) return [opening + closing];
  const short = indent.length + compactJson(value).length <= JSON_LINE;
  const flows = isList && value.every((item) => item === null || typeof item !== "object");
  const line = `\n${indent}  `;
  const nodes = entries.flatMap(([key, item], i) => [
    i ? (short || flows ? ", " : ",") : "",
    short || (flows && i) ? "" : line,
    isList ? null : foreign(JSON.stringify(key), "span", { class: "json-key" }),
    isList ? null : ": ",
    ...jsonNodes(item, `${indent}  `),
  ]);
  return [opening, ...nodes, short ? "" : `\n${indent}`, closing];
}

/** @param {any} value */
function jsonScalar(value) {
  const kind = value === null ? "null" : typeof value;
  return foreign(JSON.stringify(value) ?? "nothing", "span", { class: `json-${kind}` });
}

/**
 * Text as it is, with its line breaks. A long one scrolls.
 * @param {string | Node[]} content The text, or nodes that make it up.
 * @param {number} length
 */
function proseBlock(content, length) {
  const block = foreign("", "div", length > LONG_TEXT ? { class: "prose long", ...region(`text of ${countText(length, "character")}`) } : { class: "prose" });
  block.append(...(typeof content === "string" ? [content] : content));
  return block;
}

/**
 * The text of a message; null if it has parts that are not text.
 * @param {any[] | null | undefined} parts
 * @returns {string | null}
 */
function textOfParts(parts) {
  if (!parts) return null;
  const texts = parts.filter((part) => part.thought === undefined);
  return texts.every((part) => typeof part.text === "string") ? texts.map((part) => part.text).join("\n") : null;
}

/**
 * A message.
 * @param {any[]} parts
 * @param {Node[] | null} marked The message's text with its differences marked; null: as it is.
 * @returns {HTMLElement[]}
 */
function messageParts(parts, marked = null) {
  const text = textOfParts(parts);
  if (text === null) return parts.map(partElement);
  const thoughts = parts.filter((part) => part.thought !== undefined).map(partElement);
  if (!text && thoughts.length) return thoughts;
  return [...thoughts, text ? proseBlock(marked ?? text, text.length) : muted("(empty)")];
}

/**
 * @param {any} part
 * @returns {HTMLElement}
 */
function partElement(part) {
  if (typeof part.text === "string") return proseBlock(part.text, part.text.length);
  if (typeof part.thought === "string") {
    return h("details", { class: "thought" }, h("summary", { text: "thought" }), proseBlock(part.thought, part.thought.length));
  }
  if (part.inline) return inlinePart(part.inline);
  if (typeof part.code === "string") return foreign(part.code, "code", { class: "json" });
  if (part.file) return h("p", { class: "attachment" }, "file ", foreign(part.file.uri, "code"), " ", muted(part.file.mime ?? ""));
  return jsonBlock(part.other ?? part);
}

/** @param {{mime: string, bytes: number, data: string | null}} data */
function inlinePart(data) {
  const place = h("p", { class: "attachment" }, foreign(data.mime), ` · ${bytesText(data.bytes)} `);
  if (!data.data || !/^image\/(png|jpeg|gif|webp)$/.test(data.mime)) return place;
  const button = pushButton("show image", () => button.replaceWith(image()));
  const image = () => h("img", { class: "inline-image", src: `data:${data.mime};base64,${data.data}`, alt: `${data.mime} of the conversation` });
  place.append(button);
  return place;
}

/** @param {number} bytes */
function bytesText(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/**
 * A details element whose content is made when it is first opened.
 * @param {{class?: string, open?: boolean, [attribute: string]: any}} props
 * @param {Child[]} summary
 * @param {() => (Child | Child[])[]} content
 */
function lazyDetails(props, summary, content) {
  const fill = () => {
    if (details.childElementCount === 1) details.append(h("div", { class: "opened" }, ...content()));
  };
  const details = /** @type {HTMLDetailsElement} */ (h("details", props, h("summary", { on: { click: fill } }, ...summary)));
  if (props.open) fill();
  // Not opened by a click: by a search in the page, for example.
  details.addEventListener("toggle", () => details.open && fill());
  return details;
}

/**
 * The same, for what few readers want to see.
 * @param {boolean} open
 * @param {Child} summary
 * @param {() => (Child | Child[])[]} content
 */
function aside(open, summary, content) {
  return lazyDetails({ class: "aside", open }, [summary], content);
}

/**
 * @param {string} text
 * @param {() => void} click
 * @param {Props} props
 */
function pushButton(text, click, props = {}) {
  return h("button", { class: "button", type: "button", ...props, on: { click } }, text);
}

/**
 * Words of the page itself, with classes.
 * @param {string} classes
 * @param {string} text
 */
function labelled(classes, text) {
  return h("span", { class: classes, text });
}

/** @param {string} text */
function muted(text) {
  return foreign(text, "span", { class: "muted" });
}

/**
 * A sentence of ours in which names and commands stand in backticks.
 * @param {string} text
 * @param {string} [tag]
 * @param {Props} [props]
 */
function withCode(text, tag = "span", props = {}) {
  const element = foreign("", tag, { dir: "ltr", ...props });
  element.append(...text.split("`").map((piece, i, pieces) => (i % 2 && i < pieces.length - 1 ? foreign(piece, "code", { dir: "ltr" }) : piece)));
  return element;
}

/**
 * Attributes of an element that scrolls, so that the keyboard reaches it.
 * @param {string} name
 */
function region(name) {
  return { tabindex: "0", role: "group", "aria-label": name };
}

/**
 * A table whose rows begin with a header.
 * @param {string[]} columns
 * @param {Child[][]} rows
 * @param {string | null} caption
 */
function dataTable(columns, rows, caption = null) {
  const header = h("tr", null, columns.map((text) => h("th", { scope: "col" }, foreign(text))));
  const body = rows.map((cells) => h("tr", null, cells.map((cell, i) => (i ? h("td", null, cell) : h("th", { scope: "row" }, cell)))));
  return h("div", { class: "wide", ...region(caption ?? columns.join(", ")) }, h("table", { class: "plain" }, caption === null ? null : h("caption", { text: caption }), h("thead", null, header), h("tbody", null, body)));
}

/**
 * A score, or another number that may be missing or not finite: two decimals, or as many as keep it on its side of the threshold, of
 * 0 and of 1 (as `score_text` in Python).
 * @param {number | string | null | undefined} score
 * @param {number | null} [threshold]
 */
function scoreText(score, threshold) {
  if (score === null || score === undefined) return "–";
  if (typeof score === "string") return { nan: "not a number", inf: "∞" }[score] ?? "−∞";
  if (Number.isInteger(score) && Math.abs(score) > 1) return score.toLocaleString("en");
  const isTrue = (/** @type {number} */ shown) => [0, 1].every((limit) => (shown === limit) === (score === limit)) && (typeof threshold !== "number" || shown >= threshold === score >= threshold);
  const digits = [2, 3, 4, 5].find((count) => isTrue(Number(score.toFixed(count)))) ?? 6;
  return score.toFixed(digits);
}

/** @param {number | null | undefined} seconds */
function secondsText(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 120 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/**
 * @param {number} count
 * @param {string} noun
 */
function countText(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

const STATUS_MARKS = {
  passed: ["✓", "pass"],
  failed: ["✗", "fail"],
  errored: ["!", "warn"],
  quarantined: ["⊘", "warn"],
};

/** @param {string} status */
function statusText(status) {
  return status === "errored" ? "not evaluated" : status.replaceAll("_", " ");
}

/**
 * A status as icon, word and colour; null for a run of which only the recording is known.
 * @param {string | null} status
 * @param {boolean} isShort Whether the word is for screen readers only.
 */
function statusMark(status, isShort = false) {
  if (status === null) return null;
  const [icon, tone] = STATUS_MARKS[/** @type {keyof typeof STATUS_MARKS} */ (status)] ?? ["○", "muted"];
  return h("span", { class: `mark ${tone}` }, h("span", { "aria-hidden": "true", text: `${icon} ` }), h("span", { class: isShort ? "visually-hidden" : null, text: statusText(status) }));
}
