"""Loads rouge_score's tokenizer without the parts of nltk that it does not use."""

from __future__ import annotations

import importlib.util
import sys
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
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGES[0]]:
            del sys.modules[name]
