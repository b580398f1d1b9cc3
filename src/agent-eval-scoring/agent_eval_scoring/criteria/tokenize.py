"""Splits a text of any script into the tokens for ROUGE, exactly as google-adk 2.13.0 does.

rouge_score's tokenizer drops everything but `a-z0-9`, so a Chinese answer has no tokens and scores 0. Therefore ADK
(since 2.6) normalizes and splits by script first, and uses rouge_score only for ASCII words.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PACKAGES = ("nltk", "nltk.stem")


def stemming_tokenizer() -> Callable[[str], list[str]]:
    """The method `tokenize` of rouge_score's DefaultTokenizer with its stemmer, nltk's PorterStemmer.

    rouge_score imports `nltk.stem.porter`, and the packages around it import all of nltk, numpy, and scipy where it is
    installed: 0.3 s to 1.7 s. Here the packages are found, but their code does not run.
    """
    if "nltk" not in sys.modules:
        try:
            with _packages_without_code():
                return _tokenizer()
        except (ImportError, AttributeError):  # a version of nltk whose stemmer needs more of it
            sys.modules.pop("rouge_score.tokenizers", None)
    return _tokenizer()


def _tokenizer() -> Callable[[str], list[str]]:
    from rouge_score.tokenizers import DefaultTokenizer

    tokenize: Callable[[str], list[str]] = DefaultTokenizer(use_stemmer=True).tokenize
    return tokenize


@contextmanager
def _packages_without_code() -> Iterator[None]:
    """Afterwards nltk counts as not imported: a later import loads the whole package."""
    try:
        for name in _PACKAGES:
            spec = importlib.util.find_spec(name)
            if spec is None:
                raise ImportError(f"No module named {name!r}", name=name)
            sys.modules[name] = importlib.util.module_from_spec(spec)
        yield
    finally:
        for name in [name for name in list(sys.modules) if name.partition(".")[0] == _PACKAGES[0]]:
            del sys.modules[name]


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


_cached_tokenizer = functools.cache(stemming_tokenizer)


def _stem_ascii(word: str) -> str:
    return "".join(_cached_tokenizer()(word))


_cached_stem = functools.lru_cache(maxsize=65_536)(_stem_ascii)
"""Stemming takes 20 us per word, and texts repeat words."""
_LONGEST_CACHED = 64


def stem(word: str) -> str:
    """The token of a word from `words`: Porter's stem for ASCII words, otherwise the word itself.

    rouge_score does not stem ASCII words of up to three characters.
    """
    if len(word) <= 3 or not word.isascii():
        return word
    return _cached_stem(word) if len(word) <= _LONGEST_CACHED else _stem_ascii(word)


def tokenize(text: str) -> list[str]:
    """The tokens of a text, in order: `stem` of each of its `words`."""
    return [stem(word) for word in words(text)]
