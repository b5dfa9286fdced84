"""Numbers as people write them: 37,296 and not 3.73e+04."""

from __future__ import annotations

import math

_WORDS = ((1e12, "tn"), (1e9, "bn"), (1e6, "M"))
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def write_number(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits, and thousands apart from 10,000 on.

    Examples
    --------
    >>> from polyadic.inspection import write_number
    >>> [write_number(value) for value in (37296.4, 1952, 0.84342, -0.5, 3.1e-7)]
    ['37,296', '1952', '0.8434', '−0.5', '3.1 × 10⁻⁷']
    """
    if not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-4 <= abs(value) < 1e15:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        power = str(int(exponent)).translate(_SUPERSCRIPTS)
        return f"{_trim(mantissa)} × 10{power}".replace("-", "−")
    size = math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:,.{max(0, digits - 1 - size)}f}"
    text = _trim(text)
    if abs(value) < 9999.5:
        text = text.replace(",", "")
    return "0" if text == "-0" else text.replace("-", "−")


def write_part(value: float) -> str:
    """Return a part of a whole in per cent.

    Examples
    --------
    >>> from polyadic.inspection import write_part
    >>> [write_part(value) for value in (0.3512, 0.07, 1e-5, 0.0)]
    ['35.1 %', '7.0 %', '< 0.1 %', '0 %']
    """
    if value <= 0:
        return "0 %"
    return f"{100 * value:,.1f} %" if value >= 0.001 else "< 0.1 %"


def write_tick(value: float, _place: int | None = None) -> str:
    """Return a number for an axis: short, and as exact as axes need it.

    Examples
    --------
    >>> from polyadic.inspection._numbers import write_tick
    >>> [write_tick(value) for value in (0.1 + 0.2, 20000, 1.5e6, 1e-9)]
    ['0.3', '20,000', '1.5 M', '10⁻⁹']
    """
    for unit, word in _WORDS:
        if unit <= abs(value) < 1e15:
            return f"{value / unit:.6g} {word}".replace("-", "−")
    if value != 0 and not 1e-4 <= abs(value) < 1e15:
        return write_number(value, 6).removeprefix("1 × ")
    return write_number(value, 8)


def _trim(text: str) -> str:
    """Remove the zeros after the point that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text else text
