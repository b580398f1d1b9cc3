"""Splits a text of any script into the tokens for ROUGE, exactly as google-adk 2.13.0 does.

rouge_score's tokenizer drops everything but `a-z0-9`, so a Chinese answer has no tokens and scores 0. Therefore ADK
(since 2.6) normalizes and splits by script first, and uses rouge_score only for ASCII words.
"""

from __future__ import annotations

import functools
import unicodedata

from agent_eval_scoring.criteria._porter import stem_of

_OWN_TOKEN = ((0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF))
"""Kana, Han (without the extensions) and Hangul: each character is a token."""
_STARTS_TOKEN = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
"""Thai and Lao, Myanmar, Khmer: written without spaces; each base character starts a token, marks stay with it."""


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


class _Separators(dict[int, str]):
    """The replacement of each character before the text is split at whitespace, computed on first use."""

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
"""A cache with at most one entry per Unicode character."""


def words(text: str, *, fold: bool = True) -> list[str]:
    """The words of a text, normalized (NFKC) and, with `fold`, in lower case; not yet stemmed.

    An ASCII word has letters and digits only. Each Chinese, Japanese or Korean character is a word; Thai, Lao, Khmer
    and Burmese are split before each base character. Punctuation, symbols and emoji are dropped.
    """
    normalized = unicodedata.normalize("NFKC", text)
    return (normalized.lower() if fold else normalized).translate(_SEPARATORS).split()


_cached_stem = functools.lru_cache(maxsize=65_536)(stem_of)
"""Stemming takes 5 us per word, and texts repeat words."""
_LONGEST_CACHED = 64


def stem(word: str) -> str:
    """The token of a word from `words`: Porter's stem for ASCII words, otherwise the word itself.

    rouge_score does not stem ASCII words of up to three characters.
    """
    if len(word) <= 3 or not word.isascii():
        return word
    word = word.lower()
    return _cached_stem(word) if len(word) <= _LONGEST_CACHED else stem_of(word)


def tokenize(text: str) -> list[str]:
    """The tokens of a text, in order: `stem` of each of its `words`."""
    return [stem(word) for word in words(text)]
