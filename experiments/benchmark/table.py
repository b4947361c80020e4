"""The numbers of a run: ours, the ratio of the fastest peer's time to it, and everyone's."""

from typing import Any

import numpy as np

from experiments.benchmark.cases import absent, seconds, select, timed
from experiments.benchmark.ratios import OURS, best, growth

WORK = {
    "forward": "{cell} forward, {sizes}",
    "gradient": "{cell} gradient, {sizes}",
    "training": "{cell} Adam step, {sizes}",
    "update": "{cell} {S} seeds, {sizes}",
    "event": "{cell} one event, H = {H}",
    "probe": "{cell} probe, {sizes}",
    "pairs": "{cell} of pairs, {what}, {sizes}",
}
FIELDS = ("ms of (B T D H)", "cores", OURS, "best peer", "others")
MIB = 2**20


def table(config: Any, dataset: Any) -> list[dict[str, str]]:
    """Median milliseconds, temporaries in MiB, and ratios with their quartiles over rounds."""
    rows = []
    for part in ("layer", "sweep", "stream", "pairs", "probe"):
        for case in select(dataset, part=part):
            rows += case_rows(case)
    axes = dict.fromkeys(case.kind.item() for case in select(dataset, part="growth"))
    return rows + [growth_row(list(select(dataset, part="growth", kind=axis))) for axis in axes]


def case_rows(case: Any) -> list[dict[str, str]]:
    """Times; below them what XLA takes, in memory for a gradient and in seconds of compiling for a sweep."""
    labels = {label: case[label].item() for label in ("cell", "H", "S")}
    kind = "pairs" if case.part == "pairs" else case.kind.item()
    work = WORK[kind].format(**labels, what=case.kind.item(), sizes=" ".join(str(case[axis].item()) for axis in "BTDH"))
    times = {name: 1e3 * float(np.median(seconds(case, name))) for name in timed(case)}
    against = best(case, [name for name in times if name != OURS])
    rows = [row(case, work, times, "" if against is None else str(against), absent(case))]
    if case.kind == "gradient" and case.cores <= 1:
        rows += fact_rows(case, "  temporaries, MiB", "temporaries", MIB)
    if case.part == "sweep":
        rows += fact_rows(case, "  compiling, s", "compiling", 1)
    return rows


def row(
    case: Any, work: str, values: dict[str, float], ratio: str = "", missing: dict[str, str] | None = None
) -> dict[str, str]:
    """Ours apart, the others in order, the least first; then who took no part."""
    others = sorted((value, name) for name, value in values.items() if name != OURS)
    words = [f"{name} {value:.3g}" for value, name in others] + [f"{k}: {why}" for k, why in (missing or {}).items()]
    cores = str(case.cores.item() or case.place.item())
    return dict(zip(FIELDS, (work, cores, f"{values[OURS]:.3g}", ratio, ", ".join(words)), strict=True))


def fact_rows(case: Any, work: str, what: str, unit: float) -> list[dict[str, str]]:
    """A row of a number that everyone in JAX has; none where XLA does not tell."""
    values = {name: float(case[what].sel(candidate=name)) / unit for name in timed(case)}
    known = {name: value for name, value in values.items() if not np.isnan(value)}
    return [row(case, work, known)] if OURS in known else []


def growth_row(cases: list[Any]) -> dict[str, str]:
    """How time grows along one axis."""
    found, case = growth(cases), cases[0]
    what = "seeds" if found.axis == "S" else "gradient"
    work = f"{case.cell.item()} {what}, {found.axis} = {found.sizes[0]} to {found.sizes[-1]}, slope"
    each = ", ".join(f"{1e3 * took:.3g}" for took in found.times)
    values = (work, str(case.cores.item() or case.place.item()), f"{found.slope:.2f}", "", f"{each} ms")
    return dict(zip(FIELDS, values, strict=True))
