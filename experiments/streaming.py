"""What does one more event cost a model that is already running?

Source   article, "constant-time update with a fixed state" (D4)
Command  python -m experiments run streaming
Time     about 2 minutes on 2 CPU cores, with compilation
Expect   the same time an event after ten events as after ten thousand, where the whole sequence again costs more and
         more; the answers of the stream and of the whole sequence agree to 1e-5 at every event

Untrained networks, H = 64, events of 16 numbers. Medians of the wall-clock time of an event, state kept, by how many
came before, in rounds in which each number has its turn; and of the whole sequence so far, compiled for its length.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import require_known, without
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, label_ends, panels
from seqjax.sweep import gather

BODIES = {
    "rnn": lambda: seqjax.network(seqjax.rnn(), readout="every"),
    "lstm": lambda: seqjax.network(seqjax.lstm(), readout="every"),
    "gru": lambda: seqjax.network(seqjax.gru(), readout="every"),
    "wavenet": lambda: seqjax.wavenet(2, (1, 2, 4, 8, 16, 32), readout="every"),
    "mean": lambda: seqjax.pooled("mean", readout="every"),
}
NAMES = {"rnn": "tanh RNN", "lstm": "LSTM", "gru": "GRU", "wavenet": "WaveNet, field 64", "mean": "mean pool"}
COLOUR = {"wavenet": "#CC79A7", "mean": "#000000"} | {cell: COLOURS[cell] for cell in ("rnn", "lstm", "gru")}
HOWS = {"stream": "one event", "again": "the whole sequence again"}
CLOSE, FLAT = 1e-5, 1.25
REPEATS = 7
Step = Callable[[Any, np.ndarray], tuple[Any, jax.Array]]


@dataclass(frozen=True)
class Config:
    """Settings; marks are numbers of events before the one that is timed, a power of ten apart or so."""

    bodies: tuple[str, ...] = tuple(BODIES)
    hidden: int = 64
    width: int = 16
    marks: tuple[int, ...] = (10, 100, 1000, 10000)
    around: int = 200  # events that are timed from a mark on


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    require_known("bodies", config.bodies, BODIES)
    marks = {f"marks[{i}]": mark for i, mark in enumerate(config.marks)}
    require_sizes(hidden=config.hidden, width=config.width, around=config.around, **marks)
    if list(config.marks) != sorted(set(config.marks)):
        raise ValueError(f"marks must grow, got {config.marks}")


def run(config: Config, point: Any) -> Any:
    """seconds [body, how, mark] of an event by "stream" and by "again", and difference [body] of their answers."""

    settings = without(config, "bodies")
    parts = [point(partial(measured, config, body), body=body, **settings) for body in config.bodies]
    return gather(parts, {"body": config.bodies})


def measured(config: Config, body: str) -> xr.Dataset:
    """One body, untrained."""
    network: Any = BODIES[body]()
    T = config.marks[-1] + config.around
    params = network.init(jax.random.key(0), config.width, config.hidden, 2)
    xs = np.random.default_rng(1).normal(size=(T, config.width)).astype(np.float32)
    stream = seqjax.streaming(network)
    step = partial(stream.step, params)
    answers, states = streamed(step, stream.start(params), xs, config.marks)
    whole = np.asarray(jax.jit(lambda xs: network.apply(params, xs).every)(xs))
    again = [timed(jax.jit(lambda xs: network.apply(params, xs).every[-1]), xs[:mark]) for mark in config.marks]
    kept = side_by_side(step, states, {mark: xs[mark : mark + config.around] for mark in config.marks})
    found = {"seconds": (("how", "mark"), [kept, again]), "difference": float(abs(answers - whole).max())}
    return xr.Dataset(found, {"how": [*HOWS], "mark": list(config.marks)})


def streamed(step: Step, state: Any, xs: np.ndarray, marks: tuple[int, ...]) -> tuple[np.ndarray, dict[int, Any]]:
    """Answers [T, K] of events that come one by one, and a copy of the state after each number of `marks`."""
    answers, states = [], {}
    for t, x in enumerate(xs):
        if t in marks:
            states[t] = jax.tree.map(jnp.copy, state)
        state, y = step(state, x)
        answers.append(np.asarray(y))
    return np.stack(answers), states


def side_by_side(step: Step, states: dict[int, Any], xs: dict[int, np.ndarray]) -> list[float]:
    """Median seconds of an event that comes after so many others, of rounds in which each number has its turn."""
    seconds: dict[int, list[float]] = {mark: [] for mark in states}
    for mark in [*states] * REPEATS:
        state = jax.tree.map(jnp.copy, states[mark])
        for x in xs[mark]:
            began = time.perf_counter()
            state, y = step(state, x)
            np.asarray(y)
            seconds[mark].append(time.perf_counter() - began)
    return [float(np.median(each)) for each in seconds.values()]


def timed(call: Callable[[Any], Any], xs: np.ndarray) -> float:
    """Median seconds of a compiled call."""
    call(xs).block_until_ready()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call(xs).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def claims(config: Config, dataset: Any) -> list[Claim]:
    """D4."""
    stream, worst = dataset.seconds.sel(how="stream"), float(dataset.difference.max())
    growth = float((stream.isel(mark=-1) / stream.isel(mark=0)).max())
    told = f"time after {config.marks[-1]} events at most {growth:.2f} times that after {config.marks[0]}"
    return [claim("D4", measured=f"largest difference {worst:.1g}; {told}", holds=worst < CLOSE and growth < FLAT)]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Microseconds."""

    def row(body: str, how: str) -> dict[str, str]:
        times = {mark: float(dataset.seconds.sel(body=body, how=how, mark=mark)) for mark in config.marks}
        return {"model": NAMES[body], "": HOWS[how]} | {
            f"after {mark}": f"{s * 1e6:.0f} µs" for mark, s in times.items()
        }

    return [row(body, how) for body in config.bodies for how in HOWS]


def figure(config: Config, dataset: Any) -> Any:
    """Time an event against the events before it."""
    fig, (axes,) = panels(1, width=8)
    ends = []
    for body in config.bodies:
        for how, style in (("stream", "-"), ("again", ":")):
            times = dataset.seconds.sel(body=body, how=how).values * 1e6
            axes.plot(config.marks, times, style, marker="o", color=COLOUR[body], markersize=4)
        ends.append((float(dataset.seconds.sel(body=body, how="stream").values[-1] * 1e6), NAMES[body], COLOUR[body]))
    axes.set(xscale="log", yscale="log", xlabel="events before", ylabel="time of one more event, µs")
    axes.set_title("State kept (lines), and the whole sequence again (dotted)")
    label_ends(axes, ends)
    return fig


EXPERIMENT = Experiment(
    name="streaming",
    summary="What does one more event cost a model that is already running?",
    config=Config,
    quick={"bodies": ("gru", "mean"), "hidden": 4, "width": 3, "marks": (5, 20), "around": 10},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
    version=3,
)
