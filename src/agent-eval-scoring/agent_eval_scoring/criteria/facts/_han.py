"""Numbers in Han characters and in Hangul: 一百五十, 二〇二六, 1万2500, 백오십."""

from __future__ import annotations

_DIGITS = {character: value for value, characters in enumerate(
    ("〇零영", "一일", "二两兩이", "三삼", "四사", "五오", "六육", "七칠", "八팔", "九구")
) for character in characters}  # fmt: skip
_SMALL = {"十": 10, "십": 10, "百": 100, "백": 100, "千": 1_000, "천": 1_000}
_LARGE = {"万": 10**4, "萬": 10**4, "만": 10**4, "亿": 10**8, "億": 10**8, "억": 10**8}


def han(text: str) -> int:
    """The number that ASCII digits, Han characters or Hangul say, as digits or with powers of ten."""
    if text.isdecimal() or text == "ゼロ":
        return int(text.replace("ゼロ", "0"))
    if all(character in _DIGITS for character in text):
        return int("".join(str(_DIGITS[character]) for character in text))
    total = section = digit = 0
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _SMALL:
            section += (digit or 1) * _SMALL[character]
            digit = 0
        else:
            total += (section + digit or 1) * _LARGE[character]
            section = digit = 0
    return total + section + digit
