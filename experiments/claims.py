"""The list of claims, `claims.toml`, and how an experiment answers one of them."""

import tomllib
from pathlib import Path

from seqjax.report import Claim

CLAIMS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))


def claim(id: str, *, measured: str, holds: bool, note: str = "") -> Claim:
    """The listed claim with what was measured."""
    listed = CLAIMS[id]
    return Claim(
        id,
        listed["statement"],
        listed["expected"],
        measured,
        listed["tolerance"],
        bool(holds),
        "refuted" in listed,
        note,
    )
