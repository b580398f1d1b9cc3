"""Porter's stemmer (M. F. Porter, An algorithm for suffix stripping, 1980) with the departures of nltk's default mode.

google-adk's ROUGE stems with nltk. Its stems must be ours, or scores would differ; nltk itself is 7 MB, and the package
that uses it is built from source wherever it is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_IRREGULAR = {
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "innings": "inning",
    "outings": "outing",
    "cannings": "canning",
} | {word: word for word in "sky news inning outing canning howe proceed exceed succeed".split()}
_SYLLABLE = re.compile("v+c+")

_Rule = tuple[str, str, Callable[[str], bool]]
"""A suffix, what replaces it, and whether it does, by what precedes it."""


def stem_of(word: str) -> str:
    """The stem of a word of more than two lower-case ASCII letters and digits."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    plurals = [("ies", "ie", _always), *_PLURALS] if len(word) == 4 else _PLURALS
    word = _without_participle(_first_of(word, plurals))
    word = _first_of(word, [("y", "i", lambda stem: len(stem) > 1 and _shape(stem)[-1] == "c")])
    word = _first_of(_without_two_suffixes(word), _STEP_3)
    word = _first_of(_first_of(word, _STEP_4), [("e", "", _drops_e)])
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _always(_: str) -> bool:
    return True


def _first_of(word: str, rules: Iterable[_Rule]) -> str:
    """The word after the first rule whose suffix it has, whether or not that one replaces it."""
    for suffix, instead, holds in rules:
        if word.endswith(suffix):
            stem = word[: len(word) - len(suffix)]
            return stem + instead if holds(stem) else word
    return word


def _shape(word: str) -> str:
    """Each letter as `v` (vowel) or `c`; y is a vowel after a consonant. Digits count as consonants."""
    shape = ""
    for letter in word:
        shape += "v" if letter in "aeiou" or (letter == "y" and shape[-1:] == "c") else "c"
    return shape


def _measure(stem: str) -> int:
    """How often vowels are followed by consonants."""
    return len(_SYLLABLE.findall(_shape(stem)))


def _ends_short(stem: str) -> bool:
    """Whether it ends like `hop`, where `hoping` has lost an e; or is like `ow`."""
    shape = _shape(stem)
    return shape == "vc" or (shape[-3:] == "cvc" and stem[-1] not in "wxy")


def _drops_e(stem: str) -> bool:
    measure = _measure(stem)
    return measure > 1 or (measure == 1 and not _ends_short(stem))


def _without_participle(word: str) -> str:
    if word.endswith("ied"):
        return word[:-3] + ("ie" if len(word) == 4 else "i")
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        stem = word.removesuffix(suffix)
        if stem != word and "v" in _shape(stem):
            break
    else:
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if stem[-1] == stem[-2:-1] and _shape(stem)[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_short(stem) else stem


def _without_two_suffixes(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _without_two_suffixes(word[:-2])
    return _first_of(word, _STEP_2)


def _rules(text: str, holds: Callable[[str], bool]) -> list[_Rule]:
    """Rules of one condition: `suffix:instead`, in the order in which they are tried."""
    return [(suffix, instead, holds) for suffix, _, instead in (rule.partition(":") for rule in text.split())]


_PLURALS = _rules("sses:ss ies:i ss:ss s:", _always)
_STEP_2: list[_Rule] = [
    *_rules(
        "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize "
        "ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble fulli:ful",
        lambda stem: _measure(stem) > 0,
    ),
    ("logi", "log", lambda stem: _measure(stem + "l") > 0),
]
_STEP_3 = _rules("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:", lambda stem: _measure(stem) > 0)
_STEP_4: list[_Rule] = [
    ("ion", "", lambda stem: _measure(stem) > 1 and stem[-1] in "st"),
    *_rules(
        "al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ou: ism: ate: iti: ous: ive: ize:",
        lambda stem: _measure(stem) > 1,
    ),
]
