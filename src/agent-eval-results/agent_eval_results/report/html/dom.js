// Creates every node of the page. Text becomes text nodes only: no other file makes elements, and none parses HTML.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(#|https?:\/\/)/;
const SAFE_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/;
const FORBIDDEN_ATTRIBUTE = /^(on|style$|srcdoc$|srcset$|xlink)/i;

/**
 * @typedef {Node | string | number | null | undefined | false} Child A node, or its text; empty values are left out.
 * @typedef {{class?: string | null, text?: string, on?: Record<string, (event: any) => void>,
 *   style?: Record<string, string>, [attribute: string]: any}} Props
 *   `on` maps event names to listeners, `style` sets properties by CSSOM (the policy of the page forbids `style=""`), and
 *   everything else is an attribute: true gives an empty one, null, undefined and false give none.
 */

/**
 * An HTML element.
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
function svg(tag, props, ...children) {
  return filled(/** @type {SVGElement} */ (document.createElementNS(SVG_NAMESPACE, tag)), props, children);
}

/**
 * An element for text of an agent, a model or an eval file: its direction does not affect the text around it.
 * @param {string | null | undefined} text
 * @param {string} [tag]
 * @param {Props} [props] A path and a sentence of ours have `dir: "ltr"`, so that their words stand in one order whatever script the first has.
 */
function foreign(text, tag = "span", props = {}) {
  const classes = props.class ? `foreign ${props.class}` : "foreign";
  return h(tag, { dir: "auto", ...props, class: classes, lang: "", text: text ?? "" });
}

/**
 * A link to a page of the server that ran the gate. Such addresses are the only ones that Python puts into the page.
 * @param {string | null | undefined} url Without one, the children are shown without a link.
 * @param {...(Child | Child[])} children
 */
function outwardLink(url, ...children) {
  if (!url || !/^https?:\/\//.test(url)) return h("span", null, ...children);
  return h("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, ...children);
}

/**
 * @template {HTMLElement | SVGElement} E
 * @param {E} element
 * @param {Props | null | undefined} props
 * @param {(Child | Child[])[]} children
 * @returns {E}
 */
function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.append(String(value));
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "on") Object.entries(value).forEach(([type, listener]) => element.addEventListener(type, /** @type {any} */ (listener)));
    else if (name === "style") Object.entries(value).forEach(([property, text]) => element.style.setProperty(property, String(text)));
    else setAttribute(element, name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 */
function setAttribute(element, name, value) {
  if (FORBIDDEN_ATTRIBUTE.test(name)) throw new Error(`attribute ${name} is not allowed`);
  if (name === "href" && !SAFE_LINK.test(value)) throw new Error("a link must lead to a place of this page or to http(s)");
  if (name === "src" && !SAFE_IMAGE.test(value)) throw new Error("an image must be inline PNG, JPEG, GIF or WebP");
  element.setAttribute(name, value);
}
