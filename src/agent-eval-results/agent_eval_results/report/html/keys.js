// Keys of one letter. They act outside of fields and without modifiers only, and can be switched off (WCAG 2.1.4).

const KEY_HELP = [
  ["/", "search"],
  ["j k", "next, previous row"],
  ["Enter", "open the case"],
  ["Esc", "back to the list"],
  ["n p", "next, previous case that needs attention"],
  ["r", "next run"],
  ["b", "show or hide the base branch"],
  ["d", "show or hide differences"],
  ["?", "this help"],
];

const SEARCH_HELP = [
  ["lamp", "in the id, file, reason or messages of the user; Enter also searches the conversations"],
  ['"two words"', "words with spaces"],
  ["-lamp", "without it; works for all of these"],
  ["status:failed", "passed, failed, errored or not_run"],
  ["change:newly_failing", "compared with the base branch: fixed, added, …"],
  ["cause:1", "cases that a cause explains; cause:none for those without one"],
  ["word:worse", "what the statistics say: regression, suspected_regression, …"],
  ["file:evals/home", "part of the path; agent: likewise"],
  ["tool:set_status", "a tool that was called"],
  ["metric:NAME<0.8", "a score; metric:NAME for cases that fail it"],
  ["seconds>30", "also tokens and cost; <, <=, >, >=, ="],
  ["flaky", "also regression, suspected, quarantined, blocking, fixed, replayed"],
];

/** Whether keys of one letter act; for the page's life. */
let lettersAct = true;

/**
 * @param {Record<string, () => void>} actions By key; other keys press the button of the view that has them as `data-key`.
 */
function listenToKeys(actions) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target instanceof Element ? event.target : null;
    const isField = target?.closest("input, select, textarea, dialog, [contenteditable]");
    const isLetter = event.key.length === 1;
    if (isField || (isLetter && !lettersAct)) return;
    const button = isLetter ? [...document.querySelectorAll("main [data-key]")].find((item) => item.getAttribute("data-key") === event.key) : null;
    const action = actions[event.key] ?? (button instanceof HTMLElement ? () => button.click() : null);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** The help about keys. */
function keysDialog() {
  const off = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", on: { change: () => (lettersAct = !off.checked) } }));
  const dialog = /** @type {HTMLDialogElement} */ (
    h(
      "dialog",
      { class: "keys", "aria-labelledby": "keys-title" },
      h("h2", { id: "keys-title", text: "Keyboard" }),
      h("dl", null, KEY_HELP.map(([keys, effect]) => h("div", null, h("dt", null, keys.split(" ").map((key) => h("kbd", { text: key }))), h("dd", { text: effect })))),
      h("h2", { text: "Search" }),
      h("dl", { class: "tokens" }, SEARCH_HELP.map(([token, effect]) => h("div", null, h("dt", null, h("code", { text: token })), h("dd", { text: effect })))),
      h("label", { class: "switch" }, off, " Turn keys of one character off"),
      h("button", { type: "button", class: "button", text: "Close", on: { click: () => dialog.close() } }),
    )
  );
  return dialog;
}
