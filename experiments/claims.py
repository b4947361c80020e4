"""The list of claims, `claims.toml`, how an experiment answers one of them, and how it compares printed figures."""

import tomllib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from seqjax.report import Claim

CLAIMS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))


def claim(id: str, *, measured: str, holds: bool | None, note: str = "") -> Claim:
    """The listed claim with what was measured; `holds` is None where that decides nothing."""
    listed = CLAIMS[id]
    return Claim(
        id,
        listed["statement"],
        listed["expected"],
        measured,
        listed["tolerance"],
        None if holds is None else bool(holds),
        "refuted" in listed,
        note,
    )


def agrees(value: float, figure: str) -> bool:
    """Whether a value is within half a unit of a figure's last digit; a zero in scientific notation means zero."""
    if "e" in figure and not float(figure):
        return value == 0
    return abs(value - float(figure)) <= 0.5 * 10.0 ** int(Decimal(figure).as_tuple().exponent)


def all_agree(values: Iterable[float], printed: Iterable[str]) -> bool:
    """Whether every value agrees with its figure."""
    return all(agrees(float(value), figure) for value, figure in zip(values, printed, strict=True))
