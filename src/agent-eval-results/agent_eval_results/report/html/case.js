// One case: why it has its status, its runs turn by turn beside what was expected and what the base branch did, scores, history.

/** What the reader chose; it lasts as long as the page. */
const caseChoices = { base: true, marks: true, differing: false };

/** Other changes have a sentence among the notes. */
const CHANGE_TEXTS = {
  newly_failing: "newly failing: it passed on the base branch",
  fixed: "newly passing: it failed on the base branch",
  still_failing: "fails on the base branch, too",
  removed: "removed: only the base branch has it",
  unjudged: "not compared with the base branch",
};
/** The statistics have not decided that the case is better. */
const FIXED_BY_CHANCE = "too few runs tell whether it is fixed";
/** @type {Record<string, string>} Other tags are what they say. */
const TAG_TEXTS = { suspected: "suspected regression", changed_answer: "changed answer" };
const OWNER_TEXTS = { agent: "of the agent", provider: "of an external service, not of the agent", gate: "of the gate, not of the agent" };
/** @type {Record<string, string[]>} */
const OUTCOMES = { 1: ["✓", "pass", "passed"], 0: ["✗", "fail", "failed"], x: ["!", "warn", "no result"], "?": ["·", "muted", "unknown"] };
const FINDINGS_OPEN = 3;
const FINDING_LINES = 3;

/**
 * @param {Context} ctx
 * @param {Index} index
 * @param {number} i
 * @param {CaseData | null} item Null if the report has no details of the case.
 * @param {State} state
 * @returns {HTMLElement}
 */
function renderCase(ctx, index, i, item, state) {
  const row = caseRow(index, i);
  const onPaper = state.view === "print";
  const classes = ["case", caseChoices.marks || onPaper ? "" : "no-marks"].filter(Boolean).join(" ");
  const view = h("article", { class: classes, "aria-label": row.id }, caseTitle(index, row));
  if (!item) {
    view.append(foreign(row.why, "p", { class: "why-line" }), h("p", { class: "notice", text: row.removed ? "Only the base branch has this case." : "This report holds no details of the case; recordings.jsonl.gz beside it has them." }));
    return view;
  }
  const chosen = chosenRuns(item, state);
  const labels = new Map(item.runs.map((/** @type {any} */ run) => [run.key, run.label]));
  const run = chosen.now ?? chosen.base;
  const gating = item.metrics.filter((/** @type {any} */ metric) => metric.threshold !== null);
  const ofHead = (/** @type {any} */ metric) => ({ ...metric, scores: metric.runs.filter((/** @type {any} */ score) => !score.key.startsWith("base")).map((/** @type {any} */ score) => score.score) });
  view.replaceChildren(
    ...[
      h(
        "div",
        { class: gating.length || row.history ? "case-head two" : "case-head" },
        h("div", null, caseTitle(index, row), causeLine(index, row), whySection(index, row, item, onPaper)),
        gating.length || row.history ? h("div", { class: "beside" }, gating.length ? scoreTable(gating.map(ofHead), baseName(index)) : null, row.history ? h("p", { class: "sub" }, foreign(baseName(index)), ` ${[...row.history].filter((outcome) => outcome === "1").length} of ${row.history.length} recorded passed`, item.history?.sentence ? [", ", foreign(item.history.sentence)] : null) : null, item.history ? outcomeLinks(index, item.history) : null) : null,
      ),
      onPaper ? null : runBar(ctx, index, row, item, chosen, view),
      run ? conversationSection(item, chosen, state, onPaper) : h("p", { class: "notice", text: "No run of this case is in the report." }),
      run ? votesSection(item.metrics, run) : null,
      item.metrics.length ? aside(!run?.turns.length || gating.some((/** @type {any} */ metric) => metric.status === "not_evaluated"), h("h3", { text: "Scores in detail" }), () => [renderScores(item.metrics, run?.key ?? null, { labels, excerpts: !run?.turns.length })]) : null,
      run?.turns.length && !onPaper ? aside(false, h("h3", { text: "Agents and tools of this run" }), () => [renderGraph(run)]) : null,
      onPaper ? null : historySection(item),
    ].filter((child) => child !== null),
  );
  return view;
}

/**
 * The cause that the case shares with others, and where to look.
 * @param {Index} index
 * @param {Row} row
 */
function causeLine(index, row) {
  const cause = index.causes[row.group];
  if (!cause) return null;
  const others = cause.count - 1;
  return h(
    "div",
    { class: "cause-line" },
    foreign(cause.title, "p", { class: "lead", dir: "ltr" }),
    h("p", { class: "muted" }, h("a", { href: fragmentOf({ q: `cause:${row.group + 1}` }), text: `Cause ${row.group + 1}` }), others ? `, with ${countText(others, "other case")}` : null, cause.places.length ? [`. ${cause.lead}: `, ...placeLinks(index, cause.places)] : null),
  );
}

/**
 * @param {Index} index
 * @param {Row} row
 */
function caseTitle(index, row) {
  const place = `${row.file}${row.line ? `:${row.line}` : ""}`;
  const url = row.removed ? null : sourceAddress(index, row.file, row.line);
  const tags = row.tags.filter((tag) => tag !== "blocking" || !row.tags.includes("regression")).map((tag) => labelled(tag === "blocking" ? "tag fail" : "tag", TAG_TEXTS[tag] ?? tag));
  return h(
    "header",
    { class: "case-title" },
    h("h2", null, statusMark(row.status, true), " ", foreign(row.evalId)),
    h("p", { class: "muted" }, serverLink(index, url, foreign(place, "span", { class: "mono", dir: "ltr" })), row.agent ? [" · agent ", foreign(row.agent)] : null, row.runs > 1 ? ` · ${row.runsPassed} of ${row.runs} runs passed` : null, row.seconds ? ` · ${secondsText(row.seconds)}` : null, " ", ...tags),
  );
}

/**
 * A link, if it leads to the server that ran the gate; otherwise only its text.
 * @param {Index} index
 * @param {string | null | undefined} url
 * @param {...Child} children
 */
function serverLink(index, url, ...children) {
  const { source_url, origin } = index.header;
  const isOwn = originOf(url) && [source_url, origin?.run_url].map(originOf).includes(originOf(url));
  return outwardLink(isOwn ? url : null, ...children);
}

/**
 * Scheme and host of an address; "" for what is no address.
 * @param {string | null | undefined} url
 */
function originOf(url) {
  try {
    return new URL(url ?? "").origin;
  } catch {
    return "";
  }
}

/**
 * @param {Index} index
 * @param {Row} row
 * @param {CaseData} item
 * @param {boolean} onPaper
 */
function whySection(index, row, item, onPaper) {
  const isLogged = item.runs.some((/** @type {any} */ run) => run.error?.traceback); // it stands at the run
  const findings = item.findings.map((/** @type {any} */ finding) => findingElement(isLogged ? { ...finding, log: "" } : finding, onPaper));
  const change = row.change === "fixed" && item.counts ? FIXED_BY_CHANCE : row.change ? CHANGE_TEXTS[/** @type {keyof typeof CHANGE_TEXTS} */ (row.change)] : null;
  const showReason = item.reason && (!findings.length || row.status === "not_run");
  const notes = [change ? h("li", null, change, item.counts ? [" (", foreign(item.counts), ")"] : null) : null, ...item.notes.map((/** @type {string} */ note) => foreign(note, "li")), ...item.decision.map(decisionElement)].filter(Boolean);
  if (!findings.length && !notes.length && !showReason) return null;
  return h(
    "section",
    { class: `why ${row.status}` },
    showReason ? foreign(item.reason.message, "p") : null,
    h("ul", { class: "findings" }, findings.slice(0, FINDINGS_OPEN)),
    findings.length > FINDINGS_OPEN ? aside(onPaper, countText(findings.length - FINDINGS_OPEN, "more finding"), () => [h("ul", { class: "findings" }, findings.slice(FINDINGS_OPEN))]) : null,
    notes.length ? h("ul", { class: "notes" }, notes) : null,
  );
}

/**
 * @param {any} finding
 * @param {boolean} onPaper
 */
function findingElement(finding, onPaper) {
  const lines = finding.lines.map((/** @type {string} */ line) => withCode(line, "li", { dir: "auto" }));
  return h(
    "li",
    null,
    foreign(finding.summary, "strong", { dir: "ltr" }),
    lines.length ? h("ul", null, lines.slice(0, FINDING_LINES)) : null,
    lines.length > FINDING_LINES ? aside(false, countText(lines.length - FINDING_LINES, "more line"), () => [h("ul", null, lines.slice(FINDING_LINES))]) : null,
    finding.log ? aside(onPaper, "log", () => [logBlock(finding.log, "log")]) : null,
  );
}

/** @param {any} decision */
function decisionElement(decision) {
  const p = typeof decision.p_value === "number" ? ` (p ${decision.p_value < 0.001 ? "< 0.001" : `≤ ${decision.p_value.toFixed(3)}`})` : "";
  return h("li", null, foreign(decision.metric === "pass" ? "status" : decision.metric), ": ", h("strong", { text: decision.word }), decision.evidence ? [", ", foreign(decision.evidence)] : null, p, decision.would_decide ? [". What would decide: ", foreign(decision.would_decide)] : null);
}

/**
 * @param {string} text
 * @param {string} name
 */
function logBlock(text, name) {
  return foreign(text, "pre", { class: "log long", ...region(name) });
}

/**
 * @typedef {{now: any, base: any, hidden: boolean}} ChosenRuns `hidden`: the reader hid the base.
 */

/**
 * The runs to show. Without a choice: the first one that did not pass, and a run of the base that passed, of the same number if there is
 * one; if all passed, the base's first run that failed.
 * @param {CaseData} item
 * @param {State} state
 * @returns {ChosenRuns}
 */
function chosenRuns(item, state) {
  const heads = item.runs.filter((/** @type {any} */ run) => run.side === "head");
  const bases = item.runs.filter((/** @type {any} */ run) => run.side === "base");
  const named = (/** @type {any[]} */ runs, /** @type {string | null} */ name) => (name ? runs.find((run) => run.key === name || String(run.run + 1) === name) : undefined);
  const now = named(heads, state.run) ?? heads.find((/** @type {any} */ run) => run.status !== "passed") ?? heads[0] ?? null;
  const withTurns = bases.filter((/** @type {any} */ run) => run.turns.length);
  const failing = now?.status === "passed" ? withTurns.find((/** @type {any} */ run) => run.status === "failed") : undefined;
  const ofNumber = (/** @type {any[]} */ runs) => runs.find((run) => run.run === now?.run);
  const passing = now && now.status !== "passed" ? withTurns.filter((/** @type {any} */ run) => run.status === "passed") : [];
  const sameNumber = ofNumber(passing) ?? passing[0] ?? ofNumber(withTurns);
  const base = bases.find((/** @type {any} */ run) => run.key === state.side || run.key === state.run) ?? (state.side === "base" ? named(bases, state.run) : undefined) ?? failing ?? sameNumber ?? bases[0] ?? null;
  const asked = state.side !== null && state.side !== "none";
  return { now, base, hidden: Boolean(now) && (state.side === "none" || (!caseChoices.base && !asked)) };
}

/**
 * Buttons for the runs, and for what the columns show.
 * @param {Context} ctx
 * @param {Index} index
 * @param {Row} row
 * @param {CaseData} item
 * @param {ChosenRuns} chosen
 * @param {HTMLElement} view
 */
function runBar(ctx, index, row, item, chosen, view) {
  const heads = item.runs.filter((/** @type {any} */ run) => run.side === "head");
  const bases = item.runs.filter((/** @type {any} */ run) => run.side === "base");
  const shown = caseChoices.differing ? differingRuns(heads, chosen.now) : heads;
  const next = heads[(heads.indexOf(chosen.now) + 1) % heads.length];
  const toggle = (/** @type {string} */ text, /** @type {boolean} */ pressed, /** @type {() => void} */ click, /** @type {string | null} */ key = null) =>
    pushButton(text, click, { "aria-pressed": String(pressed), "data-key": key, title: key && `key: ${key}`, "data-focus": `choice ${text}` });
  const toggleBase = () => {
    caseChoices.base = chosen.hidden;
    ctx.go({ side: chosen.hidden ? "base" : "none" });
  };
  const marks = toggle("mark differences", caseChoices.marks, () => {
    caseChoices.marks = !caseChoices.marks;
    view.classList.toggle("no-marks", !caseChoices.marks);
    marks.setAttribute("aria-pressed", String(caseChoices.marks));
    ctx.announce(caseChoices.marks ? "differences are marked" : "differences are not marked");
  }, "d");
  const toggleDiffering = () => {
    caseChoices.differing = !caseChoices.differing;
    bar.replaceWith(runBar(ctx, index, row, item, chosen, view));
  };
  const bar = h(
    "div",
    { class: "run-bar no-print" },
    heads.length > 1 ? runGroup("runs", "now", shown, chosen.now, (run) => ctx.go({ run: run.key })) : null,
    bases.length && !chosen.hidden ? runGroup("base", baseName(index), bases, chosen.base, (run) => ctx.go({ side: run.key })) : null,
    h(
      "div",
      { class: "run-group", role: "group", "aria-label": "view" },
      heads.length > 1 ? pushButton("next run", () => ctx.go({ run: next.key }), { "data-key": "r", title: "key: r", "data-focus": "next run" }) : null,
      heads.length > 2 ? toggle("only runs that differ", caseChoices.differing, toggleDiffering) : null,
      bases.length && heads.length ? toggle("base column", !chosen.hidden, toggleBase, "b") : null,
      bases.length || item.expected ? marks : null,
    ),
    h("div", { class: "acts" }, item.command ? copyButton("Copy the command", item.command, "Command that runs this case") : null, chosen.now?.turns.length && !chosen.now.left_out ? copyButton("Copy as a case", caseText(row, chosen.now), "This run as an eval case") : null),
  );
  bar.toggleAttribute("hidden", !bar.querySelector("button"));
  return bar;
}

/**
 * What the agent did in a run, as an eval case of google-adk.
 * @param {Row} row
 * @param {any} run
 */
function caseText(row, run) {
  const content = (/** @type {string} */ role, /** @type {any[] | null} */ parts) => ({ role, parts: (parts ?? []).filter((part) => typeof part.text === "string").map(({ text }) => ({ text })) });
  const calls = (/** @type {any} */ turn) => turn.steps.filter((/** @type {any} */ step) => step.kind === "call").map((/** @type {any} */ { name, args }) => ({ name, args: args ?? {} }));
  const conversation = run.turns.filter((/** @type {any} */ turn, /** @type {number} */ i) => i !== run.error?.turn).map((/** @type {any} */ turn) => ({ user_content: content("user", turn.user), final_response: content("model", turn.answer), intermediate_data: { tool_uses: calls(turn), intermediate_responses: [] } }));
  return JSON.stringify({ eval_id: row.evalId, conversation }, null, 2);
}

/**
 * @param {string} name For screen readers.
 * @param {string} label Whose runs; not repeated on each button.
 * @param {any[]} runs
 * @param {any} selected
 * @param {(run: any) => void} choose
 */
function runGroup(name, label, runs, selected, choose) {
  const button = (/** @type {any} */ run) =>
    h("button", { class: "button run", type: "button", "aria-pressed": String(run === selected), "data-focus": `run ${run.key}`, on: { click: () => choose(run) } }, foreign(run.label.replace(/^.*, /, "")), " ", statusMark(run.status, true));
  return h("div", { class: "run-group", role: "group", "aria-label": name }, foreign(label, "span", { class: "label" }), runs.map(button));
}

/**
 * Of runs with the same calls, texts and status, only the first; the selected one always.
 * @param {any[]} runs
 * @param {any} selected
 */
function differingRuns(runs, selected) {
  const seen = new Set();
  return runs.filter((run) => {
    const content = JSON.stringify([run.status, run.error, run.turns], (key, value) => (["id", "seconds", "spans", "requests"].includes(key) ? null : value));
    const isNew = !seen.has(content);
    seen.add(content);
    return isNew || run === selected;
  });
}

/**
 * @param {CaseData} item
 * @param {ChosenRuns} chosen
 * @param {State} state
 * @param {boolean} onPaper
 */
function conversationSection(item, chosen, state, onPaper) {
  const { now, base, hidden } = chosen;
  const run = now ?? base;
  const target = state.turn === null ? -1 : Number(state.turn) - 1;
  const turns = renderTurns({
    expected: item.expected,
    now,
    base: hidden || !base?.turns.length ? null : base,
    baseName: "base",
    baseNote: item.base_note,
    wrongTurns: Number.isInteger(run.error?.turn) ? turnTexts(item, run, "failed").set(run.error.turn, "") : turnTexts(item, run, "failed"),
    lowTurns: turnTexts(item, run, "passed"),
    changed: now ? item.changed : [],
    address: (turn) => fragmentOf({ ...state, view: undefined, case: item.id, run: run.key, turn: String(turn + 1), q: null }),
    remarks: (turn) => turnRemarks(item, run, turn),
    target: Number.isInteger(target) ? target : -1,
    onPaper,
  });
  return h(
    "section",
    { class: "conversation" },
    runFacts(run),
    run.error ? errorBlock(run.error, onPaper, item.findings.some((/** @type {any} */ finding) => finding.summary.includes(run.error.message))) : null,
    run.left_out ? foreign(run.left_out, "p", { class: "muted" }) : null,
    item.base_note && !hidden ? h("p", null, muted(item.base_note)) : null,
    base?.left_out && base !== run && !hidden ? h("p", null, muted(base.left_out)) : null,
    target >= turns.length ? h("p", { class: "notice", text: `This run has no turn ${target + 1}.` }) : null,
    turns,
  );
}

/** @param {any} run */
function runFacts(run) {
  const usage = run.usage ?? {};
  const facts = [
    secondsText(run.seconds),
    usage.model_calls ? countText(usage.model_calls, "model call") : null,
    usage.input_tokens || usage.output_tokens ? `${countCell(usage.input_tokens)} tokens in, ${countCell(usage.output_tokens)} out` : null,
    run.attempts > 1 ? `attempt ${run.attempts}` : null,
    run.stop_reason ? `ended by ${run.stop_reason}` : null,
  ].filter(Boolean);
  return h("p", { class: "run-facts muted" }, foreign(run.label), `: ${facts.join(" · ")}`);
}

/**
 * @param {any} error
 * @param {boolean} onPaper
 * @param {boolean} isSaid Whether the head of the case has message and hint.
 */
function errorBlock(error, onPaper, isSaid) {
  const owner = OWNER_TEXTS[/** @type {keyof typeof OWNER_TEXTS} */ (error.owner)] ?? "";
  return h(
    "div",
    { class: "error" },
    h("p", null, foreign(error.kind, "strong"), ` – a failure ${owner}${error.turn === null || error.turn === undefined ? "" : `, in turn ${error.turn + 1}`}`),
    isSaid ? null : foreign(error.message, "p", { class: "prose" }),
    error.hint && !isSaid ? h("p", null, "Hint: ", withCode(error.hint)) : null,
    error.traceback ? aside(true, "traceback", () => [logBlock(error.traceback, "traceback")]) : null,
    error.log_tail ? aside(onPaper, "end of the agent's log", () => [logBlock(error.log_tail, "end of the agent's log")]) : null,
  );
}

/**
 * The turns that made a metric fail, or are below the threshold of one that passes nevertheless; each with the first such score.
 * @param {CaseData} item
 * @param {any} run
 * @param {"failed" | "passed"} status Of the metric.
 * @returns {Map<number, string>}
 */
function turnTexts(item, run, status) {
  const metrics = item.metrics.filter((/** @type {any} */ metric) => metric.status === status);
  const text = (/** @type {any} */ metric, /** @type {any} */ entry) => [entry.turn, `${metric.name} ${scoreText(entry.score, metric.threshold)}, needs ${scoreText(metric.threshold)}`];
  return new Map(metrics.flatMap((/** @type {any} */ metric) => metric.runs.filter((/** @type {any} */ score) => score.key === run.key && score.status === status).flatMap((/** @type {any} */ score) => (score.evidence ?? []).map((/** @type {any} */ entry) => text(metric, entry)))).reverse());
}

/**
 * What the criteria say about a turn: scores with reasons where there are several turns.
 * @param {CaseData} item
 * @param {any} run
 * @param {number} turn
 * @returns {Child[]}
 */
function turnRemarks(item, run, turn) {
  const scores = item.metrics.flatMap((/** @type {any} */ metric) => metric.runs.filter((/** @type {any} */ score) => score.key === run.key).map((/** @type {any} */ score) => ({ metric, score })));
  const several = run.turns.length > 1;
  const remarks = scores.flatMap((/** @type {any} */ { metric, score }) => {
    const evidence = several ? (score.evidence ?? []).filter((/** @type {any} */ entry) => entry.turn === turn) : [];
    return evidence.map((/** @type {any} */ entry) => h("li", null, foreign(metric.name, "strong"), ` ${scoreText(entry.score)} `, foreign((entry.why ?? []).join("; "))));
  });
  return [remarks.length ? h("ul", { class: "remarks" }, remarks) : null];
}

/**
 * The last runs of a case on the base branch, each with a link to the run where it is known.
 * @param {Index} index
 * @param {any} history
 */
function outcomeLinks(index, history) {
  const outcome = (/** @type {string} */ code, /** @type {number} */ i) => {
    const [icon, tone, word] = OUTCOMES[code] ?? OUTCOMES["?"];
    const record = history.records[i] ?? {};
    const text = [word, dateText(record.time), (record.commit ?? "").slice(0, 8)].filter(Boolean).join(", ");
    const link = serverLink(index, record.url, icon, h("span", { class: "tip" }, foreign(text)));
    if (link.tagName !== "A") {
      link.setAttribute("tabindex", "0");
      link.setAttribute("role", "img");
    }
    link.setAttribute("aria-label", text);
    link.setAttribute("class", `outcome ${tone}`);
    return h("li", null, link);
  };
  return h("ol", { class: "outcomes", "aria-label": "Last runs of the base branch, oldest first" }, [...history.outcomes].map(outcome));
}

/**
 * The scores of these runs.
 * @param {CaseData} item
 */
function historySection(item) {
  const history = item.history;
  if (!(history?.outcomes.length > 1)) return null;
  const scores = Object.entries(history.scores ?? {}).map(([name, values]) => [foreign(name), scoreLine(values), ...values.map((/** @type {any} */ value) => scoreText(value))]);
  if (!scores.length) return null;
  return aside(false, h("h3", { text: "Scores on the base branch" }), () => [dataTable(["metric", "line", ...[...history.outcomes].map((_, i) => dateText(history.records[i]?.time).slice(0, 10) || "–")], scores)]);
}

/** @param {(number | string | null)[]} values */
function scoreLine(values) {
  const numbers = values.filter((value) => typeof value === "number");
  const [low, high] = [Math.min(0, ...numbers), Math.max(1, ...numbers)];
  const x = (/** @type {number} */ i) => 2 + (96 * i) / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, i) => (typeof value === "number" ? [`${x(i).toFixed(1)},${(18 - (16 * (value - low)) / (high - low)).toFixed(1)}`] : []));
  return svg("svg", { class: "sparkline", "aria-hidden": "true", width: 100, height: 20, viewBox: "0 0 100 20" }, points.length > 1 ? svg("polyline", { class: "line", points: points.join(" ") }) : null);
}
