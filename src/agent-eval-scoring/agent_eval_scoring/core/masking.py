"""Keeps secrets out of everything that we write."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, AnyStr, NewType, TypeVar

from agent_eval_scoring.core import text

if TYPE_CHECKING:
    from pydantic import BaseModel

Masked = NewType("Masked", str)
"""Text in which no known secret is left, because a Masker has read all of it or all that it was made of.

Where text of a service or of an agent enters, only this type can be shortened, because half a secret is not recognised
any more: by `shorten` and `first_line` of this module. Ruff refuses those of `core.text` there (pyproject.toml).
"""
_Model = TypeVar("_Model", bound="BaseModel")

MASK = "***"
"""The placeholder of a secret without a name. That of `API_KEY` is `***API_KEY***`: all contain this."""
PLACEHOLDER = re.compile(r"(\*\*\*[\w.:-]+\*\*\*)")
_SHORTEST = 6
"""A shorter value is no secret, and masking it ("1", "true") would mangle ordinary text."""
_SHORTEST_BASE64 = 8
"""Shorter inner parts of base64 could be ordinary text."""
_PLAIN = "[A-Za-z0-9_.~-]+"
"""What JSON, Python, URLs and HTML spell as it is."""
_PARTS = re.compile(rf"({_PLAIN})|\\+|.", re.DOTALL)
_LONGEST_SPELLING = 64
"""Bytes of one other character in its longest spelling."""
_SLASH = r"(?:\\|%(?:25){0,2}5[cC])"
"""A backslash, which JSON and Python write before others, also where a URL has that JSON."""
_AMP = "&(?:amp;|#38;|#x26;){0,2}"
_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v"}
_NAME = re.compile("[A-Za-z_]{1,40}")
FREE = frozenset({"args", "response", "state", "session_state", "final_session_state"})
"""Keys of protocols, of ADK and of eval files are not masked, even if a secret is spelled the same. Below these, keys
are the agent's own and masked."""


def _spelled(part: str, before: str = "") -> str:
    """A pattern of all spellings of one character, or of a run of backslashes; `before` is what precedes it.

    They are those of JSON, Python's repr (of texts and bytes), URLs, forms and HTML, also one within another: a quote
    in JSON has one backslash, in JSON within JSON it has three, within a third level seven.
    """
    if part[0] == "\\":
        counts = f"{{{len(part)},{8 * len(part) + 7}}}"
        # As few as possible in a URL: the secret's next character may be "%", too.
        return rf"(?:\\{counts}+|(?i:%(?:25){{0,2}}5c){counts}?|(?i:{_AMP}#(?:92|x5c);){{{len(part)}}})"
    # Backslashes are never given back: a hostile text must not make a search exponential.
    code, slashes, percent = ord(part), f"{_SLASH}{{1,8}}+", "%(?:25){0,2}"
    data = part.encode("utf-8", "surrogatepass")
    units = part.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
    after_backslash = [
        f"(?i:{slashes.join(f'u{unit}' for unit in units)})",
        f"(?i:x{code:02x})" if code < 256 else f"(?i:U{code:08x})",
        f"(?i:{slashes.join(f'x{byte:02x}' for byte in data)})",
        *_LETTERS.get(part, ""),
    ]
    names = [str(code), f"[xX]0{{0,4}}(?i:{code:x})"]
    others = [
        re.escape(part),
        f"(?i:{''.join(f'{percent}{byte:02x}' for byte in data)})",
        f"{_AMP}#(?:{'|'.join(names)});",
    ]
    import html.entities  # Few runs have secrets.

    name = "apos" if part == "'" else html.entities.codepoint2name.get(code)
    others += [f"{_AMP}{name};"] if name else [r"\+"] if part == " " else []
    first = f"{_SLASH}{{0,8}}+" if before == "\\" else slashes
    # No encoding puts a backslash before "%", and `%5c` may be what the secret itself has.
    escape = r"\\" if part == "%" else _SLASH
    return rf"(?:{first}(?:{'|'.join(after_backslash)})|{escape}{{0,7}}+(?:{'|'.join(others)}))"


def _in_base64(secret: str) -> Iterator[str]:
    """What base64 of a secret, or of a longer text such as `user:secret`, contains of it, whatever surrounds it.

    Base64 writes three bytes as four characters, so a secret has three forms. The characters at both ends that also
    depend on the bytes beside the secret are left out.
    """
    for written in {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}:
        data = written.encode("utf-8", "surrogatepass")
        forms = [base64.b64encode(data).decode().rstrip("=")]
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + data).decode()
            forms.append(encoded[-(-before * 4 // 3) : (before + len(data)) * 4 // 3])
        for form in forms:
            if len(form) >= _SHORTEST_BASE64:
                yield form
                yield form.replace("+", "-").replace("/", "_")


@dataclass(frozen=True)
class _Form:
    """A form of a secret in all its spellings."""

    value: str
    placeholder: str

    @cached_property
    def needle(self) -> str:
        """Its longest part that is spelled as it is."""
        return max(re.findall(_PLAIN, self.value), key=len, default="")

    @cached_property
    def in_text(self) -> re.Pattern[str]:
        """Compiled when the needle is found for the first time: that takes a millisecond, and most are never found."""
        parts = _PARTS.finditer(self.value)
        spelled = (
            re.escape(part[0]) if part[1] else _spelled(part[0], self.value[part.start() - 1 : part.start()])
            for part in parts
        )
        return re.compile("".join(spelled))

    @cached_property
    def in_bytes(self) -> re.Pattern[bytes]:
        """The same for UTF-8."""
        return re.compile(self.in_text.pattern.encode("utf-8", "surrogatepass"))

    def places(self, value: str | bytes) -> list[tuple[int, int]]:
        """Where the form is in a text, or in UTF-8."""
        if isinstance(value, str):
            return _places(self.in_text, value) if self.needle in value else []
        return _places(self.in_bytes, value) if self.needle.encode() in value else []

    @cached_property
    def longest(self) -> int:
        """Bytes of its longest spelling."""
        return sum(len(part[0]) * (1 if part[1] else _LONGEST_SPELLING) for part in _PARTS.finditer(self.value))


class Masker:
    """Replaces every known spelling of every secret by its placeholder.

    A secret with a name has a placeholder of its own, so that equal texts stay equal and different ones different.
    It has nothing of the value, not even its length, and is the same in every run.

    Masking happens where text enters (the agent's protocol lines, its log), so that no later step, such as
    shortening a text, can leave half a secret behind.
    """

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] = (), held: Collection[str] = ()) -> None:
        """Prepares the placeholders.

        Args:
            secrets: Values, or their names by value, separated by spaces: the first one is that of the placeholder, and
                those of the others become it. Values of fewer than six characters are no secrets. Of a value of several
                lines, each line is masked, too.
            held: Names of those that every agent has, see `revealed`.
        """
        names = dict(secrets) if isinstance(secrets, Mapping) else dict.fromkeys(secrets, "")
        lines: dict[str, list[tuple[str, int]]] = {}
        for secret, names_of_it in names.items():
            for number, line in enumerate(dict.fromkeys([secret, *secret.splitlines()])):
                if len(line.strip()) >= _SHORTEST:
                    lines.setdefault(line.strip(), []).extend((name, number) for name in names_of_it.split(" "))
        # A name that contains a secret (`TOKEN=TOKEN`) can't stand for one.
        shown = {
            name: str(number) if any(line in name for line in lines) else name
            for number, name in enumerate(sorted({name for places in lines.values() for name, _ in places}))
        }
        self._secrets: dict[str, str] = {}
        """Values by placeholder."""
        self._held: set[str] = set()
        forms: dict[str, _Form] = {}
        for line, places in lines.items():
            placeholder, *others = dict.fromkeys(
                f"{MASK}{shown[name]}{f':{number}' if number else ''}{MASK}" if name else MASK
                for name, number in places
            )
            self._secrets[placeholder] = line
            self._held |= {placeholder} if any(name in held for name, _ in places) else set()
            for value in (line, *_in_base64(line), *others):
                forms.setdefault(value, _Form(value, placeholder))
        self._forms = list(forms.values())
        self._needles = {form.needle.encode() for form in self._forms}

    @property
    def longest(self) -> int:
        """Bytes of the longest form: how much a reader of chunks must hold back."""
        return max((form.longest for form in self._forms), default=0)

    def may_be_in(self, line: bytes) -> bool:
        """Whether JSON without escaped letters may have a secret, by what no spelling changes: that is cheap."""
        return any(needle in line for needle in self._needles)

    def text(self, value: str) -> Masked:
        """The text with every secret replaced."""
        return Masked(_replaced(value, self._found(value), ""))

    def data(self, value: bytes) -> bytes:
        """The same for raw bytes in UTF-8."""
        found = [(start, stop, placeholder.encode()) for start, stop, placeholder in self._found(value)]
        return _replaced(value, found, b"")

    def decoded(self, value: bytes) -> Masked:
        """The same for raw bytes, as a text."""
        return Masked(self.data(value).decode("utf-8", "replace"))

    def json(self, data: bytes) -> bytes:
        """JSON with every secret replaced in its texts."""
        may_have = b"\\u" in data or self.may_be_in(data)
        return json.dumps(self.values(json.loads(data))).encode() if may_have else data

    def values(self, value: Any, free: Collection[str] = FREE) -> Any:
        """The same for all texts and keys of a value of JSON, with models in it; the value itself if it has no secret.

        Args:
            value: Any number of levels; RecursionError if they are too many and there is a secret.
            free: The keys below which all keys are masked.
        """
        texts: list[str] = []
        waiting = [value] if self._forms else []
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                texts.append(item)
            elif isinstance(item, dict):
                texts += item
                waiting += item.values()
            elif isinstance(item, list):
                waiting += item
            elif hasattr(item, "model_dump"):
                waiting.append(_dumped(item))
        # One search is cheaper than many. No variable can have the separator.
        return self._values(value, free, keeps=True) if self._found("\0".join(texts)) else value

    def _values(self, value: Any, free: Collection[str], *, keeps: bool) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if hasattr(value, "model_dump"):
            return type(value).model_validate(self._values(_dumped(value), free, keeps=keeps))
        if isinstance(value, dict):
            return {
                key if key in free or (keeps and _NAME.fullmatch(key)) else self.text(key): self._values(
                    item, free, keeps=keeps and key not in free
                )
                for key, item in value.items()
            }
        return [self._values(item, free, keeps=keeps) for item in value] if isinstance(value, list) else value

    def placeholders(self, value: BaseModel) -> frozenset[str]:
        """Those of the secrets that are in it."""
        said = value.model_dump_json(exclude_none=True) if self._forms else ""
        # The placeholder itself gives away nothing, under whatever name.
        return frozenset(name for start, _, name in self._found(said) if not said.startswith(MASK, start))

    def revealed(self, value: _Model, known: Collection[str] = ()) -> _Model:
        """Data with secrets where it has their placeholders: for the agent, and for computing numbers.

        Only those that every agent has, or that are `known` (the placeholders of what the case itself spells out): an
        agent or a model can write any placeholder, and would get, or learn from a score, what only the gate has.
        """
        shown = {placeholder: self._secrets[placeholder] for placeholder in self._held.union(known)}
        before = value.model_dump_json(exclude_unset=True) if shown else ""
        after = PLACEHOLDER.sub(
            lambda match: json.dumps(shown[match[0]])[1:-1] if match[0] in shown else match[0], before
        )
        return value if after == before else type(value).model_validate_json(after)

    def complete(self, value: bytes) -> int:
        """How many bytes at the beginning can be masked, whatever bytes follow.

        The rest may be the beginning of a secret; or it is one that a longer secret begins with.
        """
        # A secret of several lines is masked line by line, too. So whole lines are complete.
        end = max(len(value) - max(self.longest - 1, 0), value.rfind(b"\n") + 1)
        for start, stop, _ in reversed(self._found(value)):
            end = start if start < end < stop else end
        return end

    def beginning(self, value: bytes) -> bytes:
        """The same for bytes whose end was cut off: what may be the first part of a secret goes with it."""
        masked = self.data(value)
        return masked[: len(masked) - max(self.longest - 1, 0)] if len(masked) >= self.longest else b""

    def ending(self, value: bytes) -> bytes:
        """The same for bytes whose beginning was cut off: what may be the last part of a secret goes with it."""
        return self.data(value)[max(self.longest - 1, 0) :]

    def _found(self, value: str | bytes) -> list[tuple[int, int, str]]:
        """Where secrets are, each with its placeholder, by their beginnings, the longest first."""
        found = [(start, stop, form.placeholder) for form in self._forms for start, stop in form.places(value)]
        return sorted(found, key=lambda match: (match[0], -match[1]))


def _dumped(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_unset=True)


def unnamed(value: str) -> str:
    """A masked text with the same placeholder for all secrets."""
    return PLACEHOLDER.sub(MASK, value) if MASK in value else value


def shorten(value: Masked, limit: int) -> Masked:
    """At most `limit` characters of a text that has been masked; see `text.shorten`."""
    return Masked(text.shorten(value, limit))


def first_line(value: Masked, limit: int = 200) -> Masked:
    """The first non-blank line of a text that has been masked, in at most `limit` characters."""
    return Masked(text.first_line(value, limit))


def _places(pattern: re.Pattern[AnyStr], value: AnyStr) -> list[tuple[int, int]]:
    """Also those that overlap."""
    places = []
    match = pattern.search(value)
    while match is not None:
        places.append(match.span())
        match = pattern.search(value, match.start() + 1)
    return places


def _replaced(value: AnyStr, found: Iterable[tuple[int, int, AnyStr]], nothing: AnyStr) -> AnyStr:
    """The text with placeholders. Of secrets that overlap, each has its own, but not one within another."""
    pieces: list[AnyStr] = []
    end, last = 0, nothing
    for start, stop, placeholder in found:
        if stop > end:
            if start >= end or placeholder != last:
                pieces += (value[end:start], placeholder)
            end, last = stop, placeholder
    pieces.append(value[end:])
    return nothing.join(pieces)
