// How the base branch did over its last runs: small charts with one point a run, and the same numbers as a table.

/**
 * @typedef {{title: string, values: (number | null)[], head: number | null, text: (value: number | null) => string, low?: number, high?: number,
 *   band?: ([number, number] | null)[]}} Chart `values`: one a row of the trend, null: none. `low`, `high`: ends of the scale, if fixed.
 */

const CHART_HEIGHT = 120;
const CHART_MARGIN = { left: 56, right: 14, top: 10, bottom: 22 };
/** The quantile of the normal distribution for a 95% interval. */
const WILSON_Z = 1.959963984540054;

/**
 * @param {Context} ctx
 * @param {Index} index
 * @returns {HTMLElement}
 */
function renderTrend(ctx, index) {
  const trend = index.trend;
  const rows = trend?.rows ?? [];
  if (!rows.length) {
    return h("section", { class: "trend" }, h("h2", { text: "Trend" }), h("p", { text: "There is no history yet: each complete run of the default branch adds a point, beginning with the next push to it." }));
  }
  const marks = trendMarks(rows);
  return h(
    "section",
    { class: "trend" },
    h("h2", null, "Trend of ", foreign(trend.branch, "span")),
    h("p", { class: "muted", text: `${countText(rows.length, "run")}, oldest first${trend.head ? "; the hollow point is this run" : ""}. A bar marks a change of the suite, a judge or google-adk; a line ends where the suite changed.` }),
    (trend.drift ?? []).map((/** @type {string} */ text) => foreign(text, "p", { dir: "ltr" })),
    h("div", { class: "charts" }, trendCharts(index, trend).map((chart) => chartFigure(ctx, chart, rows, marks))),
    changeList(trend, rows, marks),
    trendTable(index, trend, rows),
  );
}

/**
 * The share of cases that passed, with Wilson's interval (E. B. Wilson, 1927).
 * @param {number} passed
 * @param {number} total
 * @returns {[number, number] | null}
 */
function wilsonInterval(passed, total) {
  if (!total) return null;
  const share = passed / total;
  const z2 = WILSON_Z * WILSON_Z;
  const centre = (share + z2 / (2 * total)) / (1 + z2 / total);
  const half = (WILSON_Z / (1 + z2 / total)) * Math.sqrt((share * (1 - share)) / total + z2 / (4 * total * total));
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

/**
 * Cases that passed, failed, or in which the agent crashed or gave no answer: all that say something about the agent.
 * @param {any} row
 */
function judgedCases(row) {
  return row.passed + row.failed + row.broke;
}

/** @param {any} row */
function passRate(row) {
  return judgedCases(row) ? row.passed / judgedCases(row) : null;
}

/**
 * @param {Index} index
 * @param {any} trend
 * @returns {Chart[]}
 */
function trendCharts(index, trend) {
  const { rows, head } = trend;
  const column = (/** @type {string} */ title, /** @type {(row: any) => any} */ read, /** @type {(value: number | null) => string} */ text, /** @type {object} */ more = {}) => {
    const finite = (/** @type {any} */ row) => (Number.isFinite(read(row)) ? read(row) : null);
    return { title, values: rows.map(finite), head: head ? finite(head) : null, text, ...more };
  };
  const gating = index.metrics.filter((/** @type {any} */ metric) => metric.gates).map((/** @type {any} */ metric) => metric.name);
  const names = gating.length ? gating : [...new Set(rows.flatMap((/** @type {any} */ row) => Object.keys(row.means ?? {})))];
  const charts = [
    column("pass rate", passRate, percentText, { low: 0, high: 1, band: rows.map((/** @type {any} */ row) => wilsonInterval(row.passed, judgedCases(row))) }),
    ...names.map((/** @type {string} */ name) => column(name, (row) => row.means?.[name], scoreText)),
    column("seconds per run, median", (row) => row.p50, secondsText),
    column("seconds per run, 95th percentile", (row) => row.p95, secondsText),
    column("tokens per run", (row) => row.tokens, (value) => (value === null ? "–" : Math.round(value).toLocaleString("en"))),
    column("cost", (row) => row.cost, dollars),
  ];
  return charts.filter((chart) => [...chart.values, chart.head].some((value) => value !== null));
}

/**
 * What changed from each row to the next.
 * @param {any[]} rows
 * @returns {Map<number, string[]>}
 */
function trendMarks(rows) {
  const marks = new Map();
  for (let i = 1; i < rows.length; i += 1) {
    const [before, row] = [rows[i - 1], rows[i]];
    const changes = [
      row.suite !== before.suite ? "suite" : "",
      String(row.judges ?? "") !== String(before.judges ?? "") ? "judge" : "",
      (row.adk ?? "") !== (before.adk ?? "") ? "google-adk" : "",
    ].filter(Boolean);
    if (changes.length) marks.set(i, changes);
  }
  return marks;
}

/**
 * @param {Context} ctx
 * @param {Chart} chart
 * @param {any[]} rows
 * @param {Map<number, string[]>} marks
 */
function chartFigure(ctx, chart, rows, marks) {
  const last = [...chart.values].reverse().find((value) => value !== null) ?? null;
  const caption = h("figcaption", null, foreign(chart.title, "strong"), ` ${chart.text(chart.head ?? last)}${chart.head !== null && last !== null ? ` (before: ${chart.text(last)})` : ""}`);
  const place = h("div", { class: "chart" });
  const draw = () => place.clientWidth && place.replaceChildren(chartPicture(chart, rows, marks, place.clientWidth));
  const observer = new ResizeObserver(draw);
  observer.observe(place);
  ctx.signal.addEventListener("abort", () => observer.disconnect());
  return h("figure", null, caption, place);
}

/**
 * @param {Chart} chart
 * @param {any[]} rows
 * @param {Map<number, string[]>} marks
 * @param {number} width Pixels.
 */
function chartPicture(chart, rows, marks, width) {
  const count = rows.length + (chart.head === null ? 0 : 1);
  const numbers = [...chart.values, chart.head].filter((value) => value !== null);
  const [low, high] = chartScale(chart, numbers);
  const inner = { width: width - CHART_MARGIN.left - CHART_MARGIN.right, height: CHART_HEIGHT - CHART_MARGIN.top - CHART_MARGIN.bottom };
  const x = (/** @type {number} */ i) => CHART_MARGIN.left + (count > 1 ? (inner.width * i) / (count - 1) : inner.width / 2);
  const y = (/** @type {number} */ value) => CHART_MARGIN.top + inner.height * (1 - (value - low) / (high - low));
  const bottom = CHART_MARGIN.top + inner.height;
  const gridLine = (/** @type {number} */ value) => [
    svg("line", { class: "grid", x1: CHART_MARGIN.left, x2: width - CHART_MARGIN.right, y1: y(value), y2: y(value) }),
    svg("text", { class: "tick", x: CHART_MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, chart.text(value)),
  ];
  const point = (/** @type {number} */ value, /** @type {number} */ i, /** @type {boolean} */ hollow) =>
    svg("circle", { class: hollow ? "point head" : "point", cx: x(i), cy: y(value), r: hollow ? 4.5 : rows.length > 60 ? 2 : 3 }, svg("title", null, `${hollow ? "this run" : rowName(rows[i])}: ${chart.text(value)}`));
  const segments = chartSegments(chart.values, marks);
  return svg(
    "svg",
    { "aria-hidden": "true", width, height: CHART_HEIGHT, viewBox: `0 0 ${width} ${CHART_HEIGHT}` },
    gridLine(low),
    gridLine(high),
    [...marks].map(([i, changes]) => svg("line", { class: changes.includes("suite") ? "change suite" : "change", x1: x(i - 0.5), x2: x(i - 0.5), y1: CHART_MARGIN.top, y2: bottom }, svg("title", null, `${changes.join(", ")} changed`))),
    chart.band ? segments.map((segment) => bandShape(segment, chart.band ?? [], x, y)) : null,
    segments.filter((segment) => segment.length > 1).map((segment) => svg("polyline", { class: "line", points: segment.map((i) => `${x(i)},${y(/** @type {number} */ (chart.values[i]))}`).join(" ") })),
    chart.values.map((value, i) => (value === null ? null : point(value, i, false))),
    chart.head === null ? null : point(chart.head, rows.length, true),
    timeTicks(rows, count).map(([i, text, anchor]) => svg("text", { class: "tick", x: x(i), y: CHART_HEIGHT - 6, "text-anchor": anchor }, text)),
  );
}

/**
 * @param {Chart} chart
 * @param {number[]} numbers
 * @returns {[number, number]}
 */
function chartScale(chart, numbers) {
  const low = chart.low ?? Math.min(0, ...numbers);
  const high = chart.high ?? Math.max(...numbers);
  return high > low ? [low, high] : [low, low + 1];
}

/**
 * Rows in a line: without a value, or at a change of the suite, a line ends.
 * @param {(number | null)[]} values
 * @param {Map<number, string[]>} marks
 * @returns {number[][]}
 */
function chartSegments(values, marks) {
  /** @type {number[][]} */
  const segments = [[]];
  values.forEach((value, i) => {
    if (marks.get(i)?.includes("suite") || value === null) segments.push([]);
    if (value !== null) segments[segments.length - 1].push(i);
  });
  return segments.filter((segment) => segment.length);
}

/**
 * @param {number[]} segment
 * @param {([number, number] | null)[]} band
 * @param {(i: number) => number} x
 * @param {(value: number) => number} y
 */
function bandShape(segment, band, x, y) {
  const ends = segment.flatMap((i) => (band[i] ? [{ i, low: band[i][0], high: band[i][1] }] : []));
  if (ends.length === 1) return svg("line", { class: "band", x1: x(ends[0].i), x2: x(ends[0].i), y1: y(ends[0].low), y2: y(ends[0].high) });
  const points = [...ends.map((end) => `${x(end.i)},${y(end.high)}`), ...ends.reverse().map((end) => `${x(end.i)},${y(end.low)}`)];
  return svg("polygon", { class: "band", points: points.join(" ") });
}

/** @param {any} row */
function rowName(row) {
  return `${dateText(row.time)} ${(row.commit ?? "").slice(0, 8)}`.trim();
}

/** @param {number | string | null} time Unix seconds, or a date as text. */
function dateText(time) {
  if (time === null || time === undefined || time === "") return "";
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 16).replace("T", " ");
}

/**
 * The first and the last run, by date.
 * @param {any[]} rows
 * @param {number} count Of points.
 * @returns {[number, string, string][]}
 */
function timeTicks(rows, count) {
  const day = (/** @type {any} */ row) => dateText(row.time).slice(0, 10);
  const last = rows.length - 1;
  return last ? [[0, day(rows[0]), "start"], [last, day(rows[last]), "end"]] : [[0, day(rows[0]), count > 1 ? "start" : "middle"]];
}

/**
 * @param {any} trend
 * @param {any[]} rows
 * @param {Map<number, string[]>} marks
 */
function changeList(trend, rows, marks) {
  const changes = [...marks].map(([i, names]) => `${rowName(rows[i])}: ${names.join(", ")} changed`);
  const notes = (trend.notes ?? []).map((/** @type {any} */ note) => `${rows[note.row] ? `${rowName(rows[note.row])}: ` : ""}${note.text}`);
  if (!changes.length && !notes.length) return null;
  return h("section", null, h("h3", { text: "What changed" }), h("ul", { class: "changes" }, [...changes, ...notes].map((text) => foreign(text, "li"))));
}

/**
 * @param {Index} index
 * @param {any} trend
 * @param {any[]} rows
 */
function trendTable(index, trend, rows) {
  const charts = trendCharts(index, trend);
  const band = (/** @type {any} */ row) => wilsonInterval(row.passed, judgedCases(row))?.map(percentText).join(" to ") ?? "–";
  const line = (/** @type {any} */ row, /** @type {Child} */ name, /** @type {(chart: Chart) => number | null} */ read) => [
    name,
    ...[row.cases, row.passed, row.failed, row.broke, row.quarantined, row.unknown].map((count) => String(count ?? "–")),
    ...charts.map((chart) => chart.text(read(chart))),
    band(row),
  ];
  const past = rows.map((row, i) => line(row, serverLink(index, row.run_url, foreign(rowName(row))), (chart) => chart.values[i])).reverse();
  const head = trend.head ? [line(trend.head, "this run", (chart) => chart.head)] : [];
  const columns = ["run", "cases", "passed", "failed", "crashed", "quarantined", "no result", ...charts.map((chart) => chart.title), "95% interval of the pass rate"];
  return dataTable(columns, [...head, ...past], "The same numbers, newest first");
}
