"""One step of an LSTM with its numbers on the wires, and its Jacobian along the cell line.

Source   lecture, the worked LSTM step (B20)
Command  python -m experiments run cell_step
Time     about 10 seconds on 2 CPU cores, with compilation
Expect   c goes from (1.5, -0.5) to (1.47, -0.37), unit 1 shows 0.63, the cell line's Jacobian is diag(0.9, 0.1)

The source gives neither weights nor the output gate of unit 2. The weights here are the cell's own draw, with biases
that put every gate where the source has it; of unit 2 it is only known that h = -0.354 o, and `output` chooses its o.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.nn import sigmoid
from jax.scipy.special import logit

import seqjax
from experiments.cell_step.figure import figure
from experiments.claims import all_agree, claim
from seqjax.cells.gates import LSTMState
from seqjax.core import Affine, Cell
from seqjax.report import Claim, Experiment

CELL = seqjax.lstm()
OPEN = {"i": sigmoid, "f": sigmoid, "g": jnp.tanh, "o": sigmoid}
INVERSE = {"i": logit, "f": logit, "g": jnp.arctanh, "o": logit}
GATES = {"i": (0.2, 0.8), "f": (0.9, 0.1), "g": (0.6, -0.4)}
BEFORE = {"h": (0.5, -0.3), "c": (1.5, -0.5)}  # h is not the source's: the biases make up for any


@dataclass(frozen=True)
class Config:
    """Settings; of the two output gates, the first is the source's, the second a choice."""

    output: tuple[float, float] = (0.7, 0.5)


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    if not all(0 < o < 1 for o in config.output):
        raise ValueError(f"output must hold numbers between 0 and 1, as a gate does, got {config.output}")


def with_gates(cell: Cell, params: Affine, state: Any, values: Mapping[str, Any]) -> Affine:
    """The same weights with biases that put every gate at a value [H], in a state and at an input of zeros."""
    wanted = jnp.concatenate([INVERSE[gate](jnp.asarray(values[gate], state.h.dtype)) for gate in cell.gates])
    bare = replace(params, b_hh=jnp.zeros_like(wanted))
    return replace(bare, b_ih=wanted - cell.recur(bare, state))


def run(config: Config, point: Any) -> xr.Dataset:
    """One step and its Jacobians; dims unit, gate, path."""
    return point(partial(measure, config), **asdict(config))


def measure(config: Config) -> xr.Dataset:
    """All of it in float32."""
    values = {**GATES, "o": config.output}
    before = LSTMState(**{name: jnp.array(value, jnp.float32) for name, value in BEFORE.items()})
    params = with_gates(CELL, CELL.init(jax.random.key(0), 1, len(before.c)), before, values)
    u = CELL.project(params, jnp.zeros(1, jnp.float32))
    after = CELL.step(params, before, u)
    z = (u + CELL.recur(params, before)).reshape(len(CELL.gates), -1)
    cells = {"total": CELL, "direct": seqjax.direct_path(CELL)}
    return xr.Dataset(
        {
            "z": (("gate", "unit"), z),
            "value": (("gate", "unit"), [OPEN[gate](row) for gate, row in zip(CELL.gates, z, strict=True)]),
            "before": ("unit", before.c),
            "c": ("unit", after.c),
            "h": ("unit", after.h),
            "jacobian": (
                ("path", "row", "column"),
                [carry_jacobian(cell, params, before, u) for cell in cells.values()],
            ),
        },
        {"gate": list(CELL.gates), "unit": [1, 2], "path": list(cells)},
    )


def carry_jacobian(cell: Cell, params: Affine, state: LSTMState, u: Array) -> np.ndarray:
    """ds_t/ds_{t-1} over the whole carry, [h1 h2 c1 c2] by [h1 h2 c1 c2]."""
    J = jax.jacfwd(lambda s: cell.step(params, s, u))(state)
    return np.block([[np.asarray(row.h), np.asarray(row.c)] for row in (J.h, J.c)])


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B20: the numbers, and diag(f) as all that the cell line passes on when the loop through h is cut."""
    c, h = dataset.c.values, dataset.h.values
    J = dataset.jacobian.sel(path="direct").values
    line = J[2:, 2:]
    diagonal = np.allclose(line, np.diag(GATES["f"]), atol=1e-6) and not J[:, :2].any()
    measured = "c = ({:.4f}, {:.4f}), h1 = {:.4f}, diag({:.4f}, {:.4f})".format(*c, h[0], *np.diag(line))
    holds = diagonal and all_agree((*c, h[0]), ("1.47", "-0.37", "0.63"))
    note = f"The source leaves o2 open: h2 is {np.tanh(c[1]):.3f} o2, anywhere between {np.tanh(c[1]):.3f} and 0."
    return [claim("B20", measured=measured, holds=holds, note=note)]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Every wire's two numbers."""
    wires = {
        "c before": dataset.before,
        "f, forget gate": dataset.value.sel(gate="f"),
        "i, input gate": dataset.value.sel(gate="i"),
        "g, candidate": dataset.value.sel(gate="g"),
        "c": dataset.c,
        "o, output gate (unit 2: a choice)": dataset.value.sel(gate="o"),
        "h": dataset.h,
        "dc/dc before": dataset.jacobian.sel(path="direct")[2:, 2:].values.diagonal(),
    }
    pairs = {name: [f"{float(value):.4f}" for value in pair] for name, pair in wires.items()}
    return [{"wire": name, "unit 1": one, "unit 2": two} for name, (one, two) in pairs.items()]


EXPERIMENT = Experiment(
    name="cell_step",
    summary="What does one step of an LSTM do, number by number?",
    config=Config,
    quick={"output": (0.7, 0.4)},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
