// The page's files are joined into one script, so names are shared between files: tsc checks them. What eslint adds is the
// ban on everything that parses HTML, evaluates text, asks the network or keeps data on the viewer's machine.

const properties = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe", "parseFromString", "createContextualFragment", "cookie", "write", "writeln"];
const globals = ["DOMParser", "eval", "Function", "fetch", "XMLHttpRequest", "WebSocket", "EventSource", "localStorage", "sessionStorage", "indexedDB", "caches", "Worker", "alert", "confirm", "prompt", "open"];

export default [
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2022, sourceType: "script" },
    linterOptions: { noInlineConfig: true },
    rules: {
      "no-restricted-properties": ["error", ...properties.map((property) => ({ property })),
        ...["pushState", "replaceState"].map((property) => ({ object: "history", property }))],
      "no-restricted-globals": ["error", ...globals],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-var": "error",
      "prefer-const": "error",
      eqeqeq: "error",
      "no-shadow": "error",
      "no-fallthrough": "error",
      "no-self-assign": "error",
      "no-unreachable": "error",
      "no-restricted-syntax": ["error", { selector: "Literal[value=/javascript:/i]", message: "No scripts in addresses." },
        { selector: "CallExpression[callee.property.name=/^createElement/]", message: "Only dom.js creates elements." }],
    },
  },
  { files: ["**/dom.js"], rules: { "no-restricted-syntax": "off" } },
];
