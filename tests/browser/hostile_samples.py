"""Texts that try to act, and pages with one of them in every field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from case_samples import agents_case, cause, errored_case, index_of, lamp_case, older_case
from report_pages_of_data import page_of_data

NAUGHTY = """<!doctype html><script>
fetch("http://127.0.0.1:65000/b").catch(() => 0);
console.error("logged");
alert("spoken");
open("about:blank");
setTimeout(() => { throw new Error("thrown"); });
</script>"""
"""A page that does all that no page may do."""

CORPUS = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)><iframe srcdoc='<script>alert(4)'>",
    "</template></script></style></title><!--<base href='https://evil.example/'><meta http-equiv=refresh content=0>",
    "javascript:alert(5)",
    "https://evil.example/x.png ![x](https://evil.example/y.png) [z](javascript:alert(6)) data:text/html,<script>",
    "\x1b[2J\x1b]0;title\x07\u202ereversed\u202c zero\u200bwidth \x00 \ud800 \ufffe & &amp; &lt;b&gt;",
    "ا" * 40 + " עברית " + "a\u0301" * 100 + " 漢字" * 30 + " x" + "y" * 500,
    "${alert(7)} {{alert(8)}} '\"` \\ \u2028 \u2029 __proto__ constructor",
)
"""Each is put into every field."""

KEPT = frozenset(
    {"verdict", "status", "change", "direction", "kind", "side", "key", "severity", "mime", "data", "tags"}
)
"""Fields whose values are words of the format, not texts."""
AUDIT = """() => [...document.querySelectorAll('*')].flatMap((element) => [
  'tag ' + element.localName,
  ...element.getAttributeNames().filter((name) => /^on|^src/.test(name)).map((name) => 'attribute ' + name),
  ...(/url|expression/.test(element.getAttribute('style')) ? ['style ' + element.getAttribute('style')] : []),
  ...(element.hasAttribute('href') ? ['link ' + element.getAttribute('href')] : []),
])"""
"""The names of all elements, what acts in them, and where links lead."""

OVERFLOWING = """() => {
  const scrolls = (element) => getComputedStyle(element).overflowX !== 'visible';
  const isClipped = (element) => element && (scrolls(element) || isClipped(element.parentElement));
  return document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('main *')].filter(
    (element) => element.getBoundingClientRect().right > innerWidth && !isClipped(element.parentElement)
  ).map((element) => `${location.hash} ${element.outerHTML.slice(0, 200)}`).slice(0, 3);
}"""
VIEWS = ("list", "about", "trend", "print", "case")


def forbidden(items: Iterable[str]) -> list[str]:
    """What `AUDIT` must not list: an attribute or a style that acts, a link that leads elsewhere."""
    homes = ("#", "https://github.example/", "https://github.com/org/", "https://github.com/octo/shop/")
    pairs = [(item, *item.split(" ", 1)) for item in items if item != "link data:,"]  # The empty icon.
    return [item for item, kind, value in pairs if kind != "tag" and not (kind == "link" and value.startswith(homes))]


def poisoned(value: Any, text: str, name: str = "") -> Any:
    """The same data with a text in place of each text."""
    if isinstance(value, Mapping):
        return {key: poisoned(item, text, key) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text, name) for item in value]
    return text if isinstance(value, str) and name not in KEPT else value


def page_of_text(path: Path, text: str) -> list[str]:
    """Writes a page with this text in every field; its case IDs."""
    cases = [lamp_case(), agents_case(), errored_case(), older_case()]
    index = index_of(cases, {"branch": "main", "rows": [], "notes": [], "drift": ["x"], "head": None})
    index["header"] |= {
        "problems": [{"severity": "error", "code": "x", "message": "x", "hint": "x", "file": "x", "line": 3}],
        "notices": ["x"],
        "reasons": ["x"],
        "baseline": {"sentence": "x", "url": "x", "name": "x", "commit": "x", "commit_url": "x"},
        "warnings": ["x"],
        "next": [{"text": "x", "file": file, "line": 1, "run": not file} for file in ("x", None)],
        "spent": {"tokens": 1, "runs": 1, "base_tokens": 1, "bill": "x", "base_cost": "x"},
    }
    index["header"]["origin"] |= {"pull_request": "x", "pull_url": "x"}
    index["causes"] = [cause(1, "x")]
    index["agent_changes"] = [
        {"agent": "x", "text": "x", "places": [{"file": "x", "first": 1, "last": None, "symbol": "x"}]}
    ]
    ids = [f"{text} {place}" for place in range(len(cases))]
    address = {"source_url": index["header"]["source_url"]}
    server = {"run_url": index["header"]["origin"]["run_url"]}
    index = poisoned(index, text)
    index["header"] |= address  # The run's own addresses are not from elsewhere.
    index["header"]["origin"] |= server
    index["cases"]["id"] = ids
    index["causes"][0]["example"]["case"] = ids[0]
    blocks = [{"cases": [poisoned(item, text) | {"id": name} for item, name in zip(cases, ids, strict=True)]}]
    page_of_data(path, index, blocks)
    return ids
