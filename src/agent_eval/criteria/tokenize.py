"""Cuts a text into the tokens that ROUGE counts, in any script, exactly as google-adk 2.13.0 does.

rouge_score's own tokenizer drops everything that is not `a-z0-9`, so a Chinese answer has no tokens and scores 0.
ADK (since 2.6) therefore normalises and splits by script first, and leaves only the ASCII words to rouge_score.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable

_OWN_TOKEN = ((0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF))
"""Kana, Han (without the extensions) and Hangul: each character is a token."""
_STARTS_TOKEN = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Thai and Lao, Myanmar, Khmer: written without spaces; each base character starts a token, marks stay with it."""


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


class _Separators(dict[int, str]):
    """What each character turns into before the text is split at white space; filled in as characters turn up."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if _within(code, _OWN_TOKEN):
            result = f" {character} "
        else:
            is_mark = unicodedata.category(character).startswith("M")
            if _within(code, _STARTS_TOKEN):
                result = character if is_mark else f" {character}"
            else:
                result = character if is_mark or character.isalnum() else " "
        self[code] = result
        return result


_SEPARATORS = _Separators()
"""A cache of a pure function: at most one entry per Unicode character."""


def words(text: str) -> list[str]:
    """The words of a text, normalised (NFKC) and in lower case, not yet stemmed.

    An ASCII word is letters and digits only. Characters of Chinese, Japanese and Korean are words of their own;
    Thai, Lao, Khmer and Burmese are cut before each base character. Punctuation, symbols and emoji are dropped.
    """
    return unicodedata.normalize("NFKC", text).lower().translate(_SEPARATORS).split()


@functools.cache
def _default_tokenize() -> Callable[[str], list[str]]:
    # Imports nltk and numpy: about 0.6 s, paid when the first longer ASCII word is met.
    from rouge_score.tokenizers import DefaultTokenizer

    tokenize_ascii: Callable[[str], list[str]] = DefaultTokenizer(use_stemmer=True).tokenize
    return tokenize_ascii


def _stem_ascii(word: str) -> str:
    return "".join(_default_tokenize()(word))


_cached_stem = functools.lru_cache(maxsize=65_536)(_stem_ascii)
"""Stemming takes 20 us a word and texts repeat their words."""
_LONGEST_CACHED = 64


def stem(word: str) -> str:
    """The token that a word of `words` counts as: Porter's stem for ASCII, the word itself for any other script.

    ASCII words of up to three characters are not stemmed (rouge_score's rule).
    """
    if len(word) <= 3 or not word.isascii():
        return word
    return _cached_stem(word) if len(word) <= _LONGEST_CACHED else _stem_ascii(word)


def tokenize(text: str) -> list[str]:
    """The tokens of a text, in order: `stem` of each of its `words`."""
    return [stem(word) for word in words(text)]


def warm_up() -> None:
    """Loads the stemmer, so that the first score does not pay for it. Safe in another thread."""
    stem("warming")
