"""The book's programs, figure by figure, and what its own tanh does to them.

Source   book, programs 081 to 086 and their exercises 1 to 4 (A1 to A18, A22)
Command  python -m experiments run book
Time     about 30 seconds on 2 CPU cores, with compilation
Expect   every printed figure comes out with the book's tanh; with a true one the plain unit of 086 prints 5.679e-11,
         9.116e-15 and 5.188e-22 at lengths 20, 30 and 50, where the book has 0: its tanh is 0 below 2^-26
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from experiments.book import programs
from experiments.book.dataset import BIASES, ERASE, KEEP, LONG, computed, measure, without_tanh
from experiments.book.figure import figure
from experiments.book.printed import LENGTHS, PRINTED, figures, line
from experiments.claims import agrees, all_agree, claim
from seqjax.cells.gates import FORGET, UNGATED_OUTPUT
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.sweep import gather

TINY = np.finfo(np.float32).tiny  # the smallest normal number, 1.2e-38
SMALLEST = np.finfo(np.float32).smallest_subnormal  # 1.4e-45


@dataclass(frozen=True)
class Config:
    """Settings; the default is the source's."""

    trials: int = 20
    """Draws of the weights over which program 086 averages."""


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_sizes(trials=config.trials)


def run(config: Config, point: Any) -> Any:
    """Run every program with either tanh; dims tanh, unit, t, model, length, and those of the exercises."""
    parts = [point(partial(measure, tanh, config.trials), tanh=tanh, **asdict(config)) for tanh in programs.TANHS]
    return xr.merge([gather(parts, {"tanh": tuple(programs.TANHS)}), without_tanh()])


def claims(config: Config, dataset: Any) -> list[Claim]:
    """A1 to A18 and A22: what the book says of its programs' numbers."""
    found = {tanh: computed(dataset, tanh) for tanh in programs.TANHS}
    return [
        *of_one_step(dataset, found["true"]),
        *of_four_cells(dataset, found["book"]),
        *of_fading_outputs(found),
        *of_its_tanh(dataset, found),
        *of_the_exercises(dataset, found),
    ]


def reproduced(id: str, program: str, found: dict[Any, Any], *, also: bool = True, note: str = "") -> Claim:
    """A claim that every printed figure of a program comes out, and something `also`."""
    rows = [row for row in PRINTED if row[0] == program]
    measured = "; ".join(f"{row[1]}: {line(row, found[row])}" for row in rows)
    return claim(id, measured=measured, holds=also and all(all_agree(found[r], figures(r)) for r in rows), note=note)


def label(f: float) -> str:
    """What 081 calls a forget gate."""
    return "keep" if f > KEEP else "erase" if f < ERASE else "partial"


def first(condition: np.ndarray) -> np.ndarray:
    """The first step at which something holds."""
    return condition.argmax(-1)


def of_one_step(dataset: Any, found: Any) -> list[Claim]:
    """A1 to A5."""
    one = float(FORGET.value({"f": 1.0}))
    labels = [" ".join(map(label, dataset.forget.sel(x=x).values)) for x in (-2.0, 1.5)]
    g = dataset.write.sel(tanh="true", part="g").values
    share = 100 * g[2] / g[0]
    large = [float(UNGATED_OUTPUT.value({}, np.float32(c))) for c in (4, 6)]
    note = "tanh(4) = {:.6f}, tanh(6) = {:.6f}".format(*large)
    return [
        reproduced("A1", "081", found, also=agrees(one, "0.7311"), note=f"σ(1) = {one:.6f}"),
        claim("A2", measured="; ".join(labels), holds=labels == ["keep erase partial", "erase keep keep"]),
        reproduced("A3", "082", found, also=agrees(share, "86"), note=f"Candidate 2 is {share:.1f} percent of 0."),
        reproduced("A4", "083", found),
        reproduced("A5", "084", found, also=all_agree(large, ("0.9993", "1.0000")), note=note),
    ]


def outputs(found: Any) -> list[np.ndarray]:
    """What 086 computes for the RNN and for the LSTM, by length."""
    return [found[row].astype(float) for row in PRINTED if row[0] == "086"]


def of_fading_outputs(found: Any) -> list[Claim]:
    """A7, A11 and A22: program 086 as printed."""
    (rnn, lstm), (_, true_lstm) = outputs(found["book"]), outputs(found["true"])
    ahead, gaps = lstm[:2] / rnn[:2], np.diff(LENGTHS)
    factors, true_factors = ((each[1:] / each[:-1]) ** (1 / gaps) for each in (lstm, true_lstm))
    factors = [*factors, (rnn[1] / rnn[0]) ** (1 / gaps[0])]
    lost = [1 - each[1] / each[0] for each in (rnn, lstm)]
    return [
        reproduced(
            "A7",
            "086",
            found["book"],
            also=all_agree(ahead, ("5", "347")),
            note="The LSTM is ahead {:.2f}-fold and {:.1f}-fold.".format(*ahead),
        ),
        claim(
            "A11",
            measured=" ".join(f"{factor:.4f}" for factor in factors),
            holds=all_agree(factors, (".736", ".744", ".755", ".755", ".31")),
            note=f"With a true tanh the LSTM's last one is {true_factors[-1]:.4f}.",
        ),
        claim("A22", measured="{:.4f} and {:.3f}".format(*lost), holds=lost[0] > 0.997 and agrees(lost[1], "0.8")),
    ]


def of_its_tanh(dataset: Any, found: Any) -> list[Claim]:
    """A8 to A10: program 086 with a true tanh."""
    rnn_row, lstm_row = (figures(row) for row in PRINTED if row[0] == "086")
    (_, lstm), (true_rnn, true_lstm) = outputs(found["book"]), outputs(found["true"])
    dies = first(dataset.output.sel(tanh="book", model="RNN").values == 0) + 1
    correct = "{:.3e}, {:.3e}, {:.3e}".format(*true_rnn[2:])
    off = 100 * (1 - lstm[-1] / true_lstm[-1])
    return [
        claim(
            "A8",
            measured=f"{true_rnn[2]:.3e} with a true tanh",
            holds=true_rnn[2] < SMALLEST,
            note=f"The book's tanh is 0 where exp(-2z) rounds to 1; with it the output is first 0 at length {dies}.",
        ),
        claim("A9", measured=correct, holds=all_agree(true_rnn[2:], rnn_row[2:]), note=f"Right: {correct}."),
        claim(
            "A10",
            measured=f"{true_lstm[-1]:.3e}",
            holds=agrees(true_lstm[-1], lstm_row[-1]),
            note=f"The book's tanh takes {off:.0f} percent off the right value, {true_lstm[-1]:.3e}.",
        ),
    ]


def of_four_cells(dataset: Any, found: Any) -> list[Claim]:
    """A6, A12 and A13: program 085."""
    at = dataset.sel(tanh="book")
    c, f = at.c.values[:, :2].astype(float), at.f.values[1:8, :2].mean(0)
    kept = (c[1:8] / c[:7])[[0, -1]].T.ravel()
    left = c[7, 0] / c[0, 0]
    note = "A step leaves {:.3f} to {:.3f} of c[0] and {:.3f} to {:.3f} of c[1]: more than the gates keep, for the "
    return [
        reproduced("A6", "085", found),
        claim(
            "A12",
            measured="gates {:.4f} and {:.4f} on the empty steps".format(*f),
            holds=all_agree(f, (".74", ".80")),
            note=note.format(*kept) + "recurrent part of i g writes as well.",
        ),
        claim(
            "A13",
            measured=f"{c[8, 0]:.4f} and {left:.3f}",
            holds=agrees(c[8, 0], "0.043") and abs(left - 1 / 8) < 0.01,
        ),
    ]


def of_the_exercises(dataset: Any, found: Any) -> list[Claim]:
    """A14 to A18."""
    c0 = dataset.c0.sel(tanh=["book", "true"])
    one, zero = (c0.sel(arithmetic="C", bias=bias).values for bias in BIASES)
    left = one[:, 100].astype(float) / one[:, 0]
    subnormal, flushed = first(one < TINY), first(c0.sel(arithmetic="XLA", bias=1.0).values == 0)
    beyond = "below {:.3f}, above {:.3f}, above {:.3f}".format(*programs.all_keep(KEEP)[0])
    halved, gone = first(zero < TINY), first(zero[1] == 0)
    rates = dataset.rate.values
    return [
        claim(
            "A14",
            measured=f"{left[0]:.1e}",
            holds=abs(left[0] / 0.74**100 - 1) < 0.1,
            note=f"With a true tanh {left[1]:.1e}; the last factor a step is then {rates[0]:.4f}, not σ(1) = 0.7311.",
        ),
        claim(
            "A15",
            measured=f"subnormal from {subnormal[0]} (true tanh: {subnormal[1]}), {one[0, -1]:.1e} at {LONG - 1}; "
            f"XLA: 0 from {flushed[0]} (true tanh: {flushed[1]})",
            holds=[*subnormal, *flushed] == [269, 281, 269, 280] and one[0, -1] == SMALLEST,
            note="Never 0 in C: 0.7311 of the smallest subnormal rounds back up to it. XLA rounds subnormals to 0.",
        ),
        reproduced(
            "A16",
            "exercise 2",
            found["book"],
            also=[*halved, gone] == [122, 125, 149]
            and agrees(float(dataset.f0.sel(bias=0.0, tanh="book")[-1]), "0.5000"),
            note=f"Subnormal from t = {halved[0]} (true tanh: {halved[1]}, and 0 from t = {gone}, as half the smallest "
            f"subnormal rounds to 0). The last factor a step is {rates[1]:.4f} with a true tanh.",
        ),
        reproduced("A17", "exercise 3", found["true"]),
        reproduced("A18", "exercise 4", found["true"], note=f"Cells 0, 1, 2 keep only at x {beyond}."),
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Every printed figure beside what its program gives here, with the book's tanh and with a true one."""
    book, true = (computed(dataset, tanh) for tanh in ("book", "true"))
    return [
        {
            "program": row[0],
            "row": row[1],
            "printed": PRINTED[row],
            "here, the book's tanh": line(row, book[row]),
            "here, a true tanh": line(row, true[row]),
        }
        for row in PRINTED
    ]


EXPERIMENT = Experiment(
    name="book",
    summary="Do the book's programs give its numbers, and what does its own tanh do to them?",
    config=Config,
    quick={"trials": 2},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
