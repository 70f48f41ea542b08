"""Numbers and shares with the digits that matter."""

import math

from fedjigsaw.columns.contrasts import MOSTLY


def number(value: float, spread: float) -> str:
    """Format a number with the digits that matter beside a standard deviation.

    Examples
    --------
    >>> number(71.23, 11.0), number(5.4321, 0.8), number(123456.7, 9000.0), number(1e-7, 1e-8)
    ('71', '5.43', '123,460', '1e-07')
    >>> number(-0.001, 0.5), number(2.5e9, 1e8), number(15_090.0, 14_000.0)
    ('0.00', '2.5e+09', '15,100')
    """
    if not math.isfinite(value):
        return "unknown"
    digits = math.ceil(1 - math.log10(spread)) if spread > 0 else 2
    digits = min(0, digits + 1) if digits < 0 else digits
    if abs(value) >= 1e7 or digits > 6:
        return f"{value:.3g}"
    return f"{round(value, digits) + 0.0:,.{max(0, digits)}f}"  # + 0.0: no minus before zero


def percent(share: float) -> str:
    """Format a share.

    Examples
    --------
    >>> percent(0.824), percent(0.0042), percent(0.0), percent(1.0), percent(0.9999)
    ('82 %', '0.4 %', '0 %', '100 %', '99.99 %')
    """
    if not math.isfinite(share):
        return "unknown"
    share = min(1.0, max(0.0, share))
    for digits in range(4):
        text = f"{100 * share:.{digits}f}"
        if share in (0.0, 1.0) or 0 < float(text) < 100:
            return f"{text} %"
    return "under 0.001 %" if share < MOSTLY else "over 99.999 %"
