"""The book's programs as one labelled dataset, and the part of it that stands beside every printed row."""

from typing import Any

import numpy as np
import xarray as xr

from experiments.book import programs
from experiments.book.printed import LENGTHS, PRINTED

LONG = 400  # steps of exercises 1 and 2, until float32 has nothing left
BIASES = (1.0, 0.0)  # of the forget gate, in exercises 1 and 2
MODELS = {"RNN": programs.RNNS["true"], "LSTM": programs.LSTMS["true"]}
SIZES = {"N = 64, M = 32": (64, 32), "N = 128, M = 64": (128, 64), "N = 4, M = 1": (4, 1)}
KEEP, ERASE = 0.8, 0.3  # a forget gate above the one keeps, below the other erases


def measure(tanh: str, trials: int) -> xr.Dataset:
    """Programs 082 to 086 and exercises 1 and 2 with one tanh."""
    c, f, _ = programs.four_cells(tanh, programs.impulse(10, 8))
    long = programs.impulse(LONG)
    runs = [programs.four_cells(tanh, long, forget_bias=bias) for bias in BIASES]
    c0 = [[c[:, 0] for c, _, _ in runs], [programs.in_c(tanh, long, forget_bias=bias)[:, 0] for bias in BIASES]]
    return xr.Dataset(
        {
            "write": (("part", "unit"), programs.writes(tanh)),
            "replaced": ("unit", programs.replaced(tanh)),
            "shown": (("view", "unit"), programs.shown(tanh)),
            "c": (("t", "cell"), c),
            "f": (("t", "cell"), f),
            "output": (("model", "length"), programs.fading(tanh, trials=trials, length=LENGTHS[-1])),
            "c0": (("arithmetic", "bias", "step"), np.array(c0)),
            "f0": (("bias", "step"), np.array([f[:, 0] for _, f, _ in runs])),
        },
        {
            "part": ["i", "g", "i g"],
            "view": ["tanh c", "h"],
            "model": list(MODELS),
            "length": np.arange(1, LENGTHS[-1] + 1),
            "arithmetic": ["XLA", "C"],
            "bias": list(BIASES),
        },
    )


def without_tanh() -> xr.Dataset:
    """Program 081, the rate at which 085 fades in the end, and the parameter counts."""
    counts = [[programs.parameters(cell, N, M) for N, M in SIZES.values()] for cell in MODELS.values()]
    return xr.Dataset(
        {
            "forget": (("x", "unit"), programs.forget_gates(*programs.INPUTS)),
            "rate": ("bias", [programs.rate_at_rest(forget_bias=bias) for bias in BIASES]),
            "parameters": (("model", "size", "block"), counts),
        },
        {
            "x": list(programs.INPUTS),
            "bias": list(BIASES),
            "model": list(MODELS),
            "size": list(SIZES),
            "block": ["core", "readout"],
        },
    )


def computed(dataset: Any, tanh: str) -> dict[tuple[str, str], np.ndarray]:
    """What stands beside every row of PRINTED, in its order, with one tanh."""
    at = dataset.sel(tanh=tanh)
    exercise, bias_0 = (at.c0.sel(arithmetic="C", bias=bias).values for bias in BIASES)
    total = at.parameters.sum("block").sel(size="N = 64, M = 32")
    _, best = programs.all_keep(KEEP)
    values = [
        *at.forget.values,
        *at.write.values,
        at.replaced.values,
        *at.shown.values,
        at.c.values[:5, 0],
        at.c.values[5:9, 0],
        *at.output.sel(length=list(LENGTHS)).values,
        exercise[10:51:10],
        exercise[60:101:10],
        bias_0[[1, 10, 50]] / bias_0[[0, 9, 49]],
        total.sel(model=["LSTM", "RNN"]).values,
        np.array([float(programs.forget_gates(best).min()), best]),
    ]
    return dict(zip(PRINTED, values, strict=True))
