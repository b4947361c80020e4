"""What ratios of one run decide. A peer that is missing is named, and decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.benchmark.cases import absent
from experiments.benchmark.peers import ABSENT
from experiments.benchmark.ratios import best, growth, ratio


@dataclass(frozen=True)
class Verdict:
    """What was measured, and whether it is what was aimed at; None where nothing follows."""

    measured: str
    holds: bool | None
    note: str = ""


def at_least(least: float, cases: Sequence[Any], peers: Sequence[str]) -> Verdict | None:
    """Whether the fastest peer takes at least so many times as long as we do in every case; None without cases.

    Not judged where no peer took part in some case, unless another case decides it.
    """
    if not cases:
        return None
    ratios = [best(case, peers) for case in cases]
    found = [(each, case) for each, case in zip(ratios, cases, strict=True) if each is not None]
    missing = sorted({name for case in cases for name, why in absent(case).items() if name in peers and why == ABSENT})
    note = f"Not installed: {', '.join(missing)}." if missing else ""
    if not found:
        return Verdict("no peer took part", None, note)
    worst, at = min(found, key=lambda pair: pair[0].median)
    reached = sum(each.median >= least for each, _ in found)
    measured = f"{reached} of {len(cases)} cases; least {worst}, {at.cell.item()} at H = {at.H.item()}"
    undecided = reached == len(found) < len(cases)
    return Verdict(measured, None if undecided else reached == len(found), note)


def at_most(most: float, cases: Sequence[Any], other: str) -> Verdict | None:
    """Whether we take at most so many times as long as another piece of work, in the first case; None without one."""
    if not cases:
        return None
    found = ratio(cases[0], other)
    share = 1 / found.median
    return Verdict(f"{share:.2f} ({1 / found.high:.2f} to {1 / found.low:.2f}) times {other}", share <= most)


def in_proportion(cases: Sequence[Any], low: float, high: float) -> Verdict | None:
    """Whether time grows along an axis with an exponent between two bounds; None without cases."""
    if not cases:
        return None
    found = growth(cases)
    each = 1e3 * found.times / found.sizes
    span = f"{found.axis} = {found.sizes[0]} to {found.sizes[-1]}"
    measured = f"slope {found.slope:.2f} from {span}, {each.min():.3g} to {each.max():.3g} ms each"
    return Verdict(measured, low <= found.slope <= high)


def together(*verdicts: Verdict | None) -> Verdict | None:
    """All of them: False where one is, else not judged where one is; None where one was not measured."""
    given = [verdict for verdict in verdicts if verdict is not None]
    if len(given) < len(verdicts):
        return None
    holds = [verdict.holds for verdict in given]
    notes = dict.fromkeys(verdict.note for verdict in given if verdict.note)
    return Verdict(
        "; ".join(verdict.measured for verdict in given),
        False if False in holds else None if None in holds else True,
        " ".join(notes),
    )
