// The metrics of a case: scores on scales, score and evidence of each run, rubrics, votes of judges.

/**
 * @param {any[]} metrics
 * @param {string | null} selected Key of the run that is shown; its row is marked.
 * @param {{labels: Map<string, string>, excerpts: boolean}} options `labels`: of runs, by key. `excerpts`: whether to
 *   show the evidence's texts, because the report has no conversation.
 */
function renderScores(metrics, selected, options) {
  const order = (/** @type {any} */ metric) => ["failed", "not_evaluated", "passed"].indexOf(metric.status);
  const rank = (/** @type {any} */ metric) => (order(metric) < 0 ? 3 : order(metric));
  const gating = metrics.filter((metric) => metric.threshold !== null).sort((a, b) => rank(a) - rank(b));
  const others = metrics.filter((metric) => metric.threshold === null);
  return h(
    "div",
    { class: "scores" },
    gating.map((metric) => scoreDetails(metric, selected, options)),
    others.length ? numbersTable(others, options.labels) : null,
  );
}

/**
 * @param {any} metric
 * @param {string | null} selected
 * @param {{labels: Map<string, string>, excerpts: boolean}} options
 */
function scoreDetails(metric, selected, options) {
  const summary = [
    statusMark(metric.status),
    foreign(metric.name, "strong", { class: "score-name" }),
    labelled("score-value", scoreText(metric.score, metric.threshold)),
    muted(`needs ${metric.direction === "lower" ? "at most" : "at least"} ${scoreText(metric.threshold)}`),
    deltaText(metric),
    metric.blocking === false ? labelled("tag", "does not block") : null,
    metric.runs.some((/** @type {any} */ run) => run.close) ? labelled("tag warn", "≈ close to the threshold") : null,
  ];
  // What a run without a judge got wrong stands beside its turns already.
  const open = metric.status === "not_evaluated" || (metric.status === "failed" && (metric.judge || options.excerpts));
  return lazyDetails({ class: "score", open, "data-metric": metric.name }, summary, () => [
    metric.judge ? h("p", null, "judge: ", foreign(metric.judge, "code")) : null,
    metric.note ? h("p", null, muted(metric.note)) : null,
    metric.reason ? foreign(metric.reason.message, "p") : null,
    metric.runs.length > 1 || metric.judge ? runScores(metric, selected, options) : null,
    metric.runs.map((/** @type {any} */ run) => runJudgement(run, options)),
  ]);
}

/**
 * The change against the base branch, with an arrow and a word that follow the metric's direction.
 * @param {any} metric
 */
function deltaText(metric) {
  if (typeof metric.delta !== "number" || typeof metric.base !== "number") return null;
  const [tone, word] = metric.delta === 0 ? ["muted", "same as base"] : isBetter(metric, metric.delta) ? ["pass", "better"] : ["fail", "worse"];
  const arrow = metric.delta > 0 ? "▲" : metric.delta < 0 ? "▼" : "=";
  return labelled(`mark ${tone}`, `${arrow} ${word}, base ${scoreText(metric.base, metric.threshold)}`);
}

/**
 * Scores aligned below each other: bar, number, base, what is needed.
 * @param {any[]} metrics Each with `scores`: of its runs, or their mean.
 * @param {string} baseName
 */
function scoreTable(metrics, baseName) {
  const hasBase = metrics.some((metric) => Number.isFinite(metric.base));
  const number = (/** @type {Child} */ text, /** @type {string} */ tone = "muted") => h("td", { class: `number ${tone}` }, text);
  const row = (/** @type {any} */ metric) => {
    const score = "score" in metric ? metric.score : metric.now;
    const isLow = typeof score === "number" && !meets(metric, score);
    return h("tr", null, h("th", { scope: "row" }, breakable(metric.name)), h("td", null, scoreScale(metric, baseName)), number(scoreText(score, metric.threshold), isLow || metric.status === "failed" ? "now fail" : "now"), hasBase ? number(scoreText(metric.base, metric.threshold)) : null, number(neededText(metric), "muted needs"));
  };
  const title = (/** @type {string} */ text) => h("th", { scope: "col", class: `number ${text}` }, foreign(text));
  return h("table", { class: "score-table" }, h("caption", null, legend(hasBase ? baseName : null)), h("thead", null, h("tr", null, h("th", { scope: "col", text: "Metric" }), h("th", { scope: "col" }, labelled("visually-hidden", "Scale")), title("now"), hasBase ? h("th", { scope: "col", class: "number" }, foreign(baseName)) : null, title("needs"))), h("tbody", null, metrics.map(row)));
}

/**
 * What the marks of a scale mean.
 * @param {string | null} baseName
 */
function legend(baseName) {
  const key = (/** @type {string} */ text, /** @type {string} */ shape, /** @type {Props} */ props) => h("span", { class: "key" }, svg("svg", { class: "scale", "aria-hidden": "true", width: 10, height: 14 }, svg(shape, props)), foreign(text));
  return h("span", { class: "legend", title: "the dot is the score now, the ring the base, the tick what is needed" }, key("now", "circle", { class: "muted-dot", cx: 5, cy: 7, r: 3.5 }), baseName === null ? null : key(baseName, "circle", { class: "base", cx: 5, cy: 7, r: 3.5 }), key("needed", "line", { class: "threshold", x1: 5, x2: 5, y1: 0, y2: 14 }));
}

/**
 * A scale from 0 to 1, or as far as the scores go: the tick is what is needed, the dots are the runs, the ring is the base's mean.
 * @param {any} metric With `scores`; `ok` says whether they are good, if the threshold does not.
 * @param {string} baseName
 */
function scoreScale(metric, baseName) {
  const scores = metric.scores.filter(Number.isFinite);
  const numbers = [...scores, metric.threshold, metric.base].filter(Number.isFinite);
  const low = Math.min(0, ...numbers);
  const high = Math.max(1, ...numbers);
  const x = (/** @type {number} */ value) => (5 + (66 * (value - low)) / (high - low)).toFixed(1);
  const isGood = (/** @type {number} */ score) => metric.ok ?? meets(metric, score);
  const list = scores.map((/** @type {number} */ score) => scoreText(score, metric.threshold)).join(", ") || "no score";
  const label = `${metric.name} ${list} now${Number.isFinite(metric.base) ? `, ${scoreText(metric.base)} on ${baseName}` : ""}${Number.isFinite(metric.threshold) ? `, needs ${neededText(metric)}` : ""}`;
  return svg(
    "svg",
    { class: "scale", role: "img", "aria-label": label, width: 76, height: 16 },
    svg("title", { class: "foreign" }, label),
    svg("line", { class: "axis", x1: 5, x2: 71, y1: 8, y2: 8 }),
    scores.length === 1 ? svg("line", { class: isGood(scores[0]) ? "bar-of pass" : "bar-of fail", x1: x(Math.max(low, 0)), x2: x(scores[0]), y1: 8, y2: 8 }) : null,
    Number.isFinite(metric.threshold) ? svg("line", { class: "threshold", x1: x(metric.threshold), x2: x(metric.threshold), y1: 2, y2: 14 }) : null,
    Number.isFinite(metric.base) ? svg("circle", { class: "base", cx: x(metric.base), cy: 8, r: 3.5 }) : null,
    scores.map((/** @type {number} */ score) => svg("circle", { class: isGood(score) ? "pass" : "fail", cx: x(score), cy: 8, r: 4 })),
  );
}

/**
 * @param {any} metric
 * @param {string | null} selected
 * @param {{labels: Map<string, string>}} options
 */
function runScores(metric, selected, options) {
  const runs = metric.runs;
  const judged = runs.some((/** @type {any} */ run) => run.agreement !== null && run.agreement !== undefined);
  const byTurn = runs.some((/** @type {any} */ run) => run.turn_scores?.length > 1);
  const columns = ["run", "score", "status", ...(byTurn ? ["by turn"] : []), ...(judged ? ["agreement of votes"] : [])];
  const row = (/** @type {any} */ run) => [
    h("span", null, foreign(options.labels.get(run.key) ?? run.key), run.key === selected ? " (shown)" : ""),
    scoreText(run.score, metric.threshold),
    h("span", null, statusMark(run.status), run.close ? " ≈ close" : "", run.reason ? [" ", foreign(run.reason.message)] : null),
    ...(byTurn ? [(run.turn_scores ?? []).map((/** @type {any} */ score) => scoreText(score)).join(" · ")] : []),
    ...(judged ? [percentText(run.agreement)] : []),
  ];
  return dataTable(columns, runs.map(row));
}

/** @param {number | null | undefined} share */
function percentText(share) {
  return typeof share === "number" ? `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : 1)}%` : "–";
}

/**
 * Evidence and rubrics of a run.
 * @param {any} run
 * @param {{labels: Map<string, string>, excerpts: boolean}} options
 */
function runJudgement(run, options) {
  const parts = [
    ...(run.evidence ?? []).map((/** @type {any} */ item) => evidenceBlock(item, options.excerpts)),
    run.rubrics?.length ? rubricList(run.rubrics) : null,
    run.details && Object.keys(run.details).length ? aside(false, "details", () => [jsonBlock(run.details)]) : null,
  ].filter(Boolean);
  if (!parts.length) return null;
  return h("div", { class: "judgement" }, options.labels.size > 1 ? h("h4", null, foreign(options.labels.get(run.key) ?? run.key)) : null, parts);
}

/**
 * @param {any} evidence
 * @param {boolean} excerpts
 */
function evidenceBlock(evidence, excerpts) {
  const texts = /** @type {[string, string][]} */ (excerpts ? [["user", evidence.user], ["expected", evidence.expected], ["now", evidence.actual]] : []);
  return h(
    "div",
    { class: "evidence" },
    h("p", null, h("strong", { text: `turn ${evidence.turn + 1}` }), ` ${scoreText(evidence.score)}`, excerpts ? labelled("tag", "shortened") : null),
    h("ul", null, (evidence.why ?? []).map((/** @type {string} */ line) => foreign(line, "li"))),
    h("dl", { class: "excerpts" }, texts.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", { text: name }), h("dd", null, proseBlock(text, text.length))])),
  );
}

/** @param {any[]} rubrics */
function rubricList(rubrics) {
  const tone = (/** @type {any} */ score) => (typeof score !== "number" ? ["○", "muted"] : score >= 0.5 ? ["✓", "pass"] : ["✗", "fail"]);
  const item = (/** @type {any} */ rubric) => {
    const [icon, colour] = tone(rubric.score);
    const facts = [
      Number.isInteger(rubric.turn) ? `turn ${rubric.turn + 1}` : "",
      typeof rubric.agreement === "number" ? `agreement ${percentText(rubric.agreement)}` : "",
      rubric.close ? "≈ close" : "",
    ].filter(Boolean);
    return h("li", null, h("span", { class: `mark ${colour}` }, `${icon} `, foreign(rubric.text || "not judged"), typeof rubric.score === "number" ? ` ${scoreText(rubric.score)}` : ""), " ", foreign(rubric.id), " ", muted(facts.join(" · ")));
  };
  return h("ul", { class: "rubrics", "aria-label": "rubrics" }, rubrics.map(item));
}

/**
 * What the judges of a run said, once: verdict and tally, those who dissent, and behind a click those who agree.
 * @param {any[]} metrics
 * @param {any} run
 */
function votesSection(metrics, run) {
  const judged = metrics.flatMap((metric) => metric.runs.filter((/** @type {any} */ score) => score.key === run.key && score.votes?.length).map((/** @type {any} */ score) => ({ metric, score })));
  if (!judged.length) return null;
  const groups = judged.flatMap(({ metric, score }) => {
    /** @type {Map<string, any[]>} */
    const votes = new Map();
    for (const vote of score.votes) {
      const key = JSON.stringify([vote.rubric, vote.turn]);
      votes.set(key, [...(votes.get(key) ?? []), vote]);
    }
    return [...votes.values()].map((ofOne) => voteGroup(metric, ofOne));
  });
  return h("section", { class: "votes-section" }, h("h3", null, "Votes ", muted([...new Set(judged.map(({ metric }) => metric.judge).filter(Boolean))].join(", "))), groups);
}

/**
 * @param {any} metric
 * @param {any[]} votes About one thing.
 */
function voteGroup(metric, votes) {
  const count = (/** @type {any} */ verdict) => votes.filter((vote) => vote.verdict === verdict).length;
  const verdict = votes.reduce((best, vote) => (count(vote.verdict) > count(best.verdict) ? vote : best)).verdict;
  const [agreeing, dissenting] = [true, false].map((agrees) => votes.filter((vote) => (vote.verdict === verdict) === agrees));
  const score = agreeing.find((vote) => vote.score !== null)?.score ?? null;
  const [icon, tone] = score === null ? ["○", "muted"] : score < 0.5 ? ["✗", "fail"] : ["✓", "pass"];
  const [first] = votes;
  const list = (/** @type {any[]} */ some, /** @type {string} */ name) => h("ol", { class: "votes", "aria-label": name }, some.map((vote) => h("li", { class: "vote" }, foreign(vote.verdict ?? "no verdict", "strong"), vote.text ? proseBlock(vote.text, vote.text.length) : muted("(no words)"))));
  return h(
    "div",
    { class: "vote-group" },
    h("div", null, h("h4", null, h("span", { class: `mark ${tone}` }, `${icon} `, foreign(verdict ?? "no verdict")), " ", foreign(first.rubric || metric.name)), h("p", { class: "sub" }, `${agreeing.length} of ${countText(votes.length, "vote")}${first.turn === null ? "" : `, turn ${first.turn + 1}`}`, first.rubric ? [", ", foreign(metric.name)] : null)),
    h("div", null, dissenting.length ? [h("p", { class: "sub", text: countText(dissenting.length, "dissenting vote") }), list(dissenting, "dissenting votes")] : null, list(agreeing.slice(0, 1), "an agreeing vote"), agreeing.length > 1 ? aside(false, `${agreeing.length - 1} more like it`, () => [list(agreeing.slice(1), "agreeing votes")]) : null),
  );
}

/**
 * Metrics without a threshold.
 * @param {any[]} metrics
 * @param {Map<string, string>} labels
 */
function numbersTable(metrics, labels) {
  const runs = (/** @type {any} */ metric) => metric.runs.map((/** @type {any} */ run) => `${labels.get(run.key) ?? run.key}: ${scoreText(run.score)}`).join(" · ");
  const number = (/** @type {any} */ value) => (Number.isInteger(value) ? value.toLocaleString("en") : scoreText(value));
  const row = (/** @type {any} */ metric) => [foreign(metric.name), number(metric.score), number(metric.base), h("span", null, metric.runs.length > 1 ? foreign(runs(metric)) : null, " ", muted(metric.note))];
  return dataTable(["metric", "now", "base", "by run"], metrics.map(row), "Numbers that gate nothing");
}
