"""Everything about how far back a stack can learn, in one look: gradients, horizons, gates, spectra and exponents."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import Cell, Params, require_cell, require_sizes
from seqjax.dense import Dense
from seqjax.gradients import all_finite
from seqjax.horizon import Decay, fit_decay, horizon
from seqjax.lyapunov import Lyapunov, lyapunov
from seqjax.network import NetworkParams, network
from seqjax.profile import direct_path, gradient_profile
from seqjax.sequences import steps_of
from seqjax.spectrum import Block, recurrent_blocks
from seqjax.stack import Layer, require_layers, unroll_stack
from seqjax.unroll import Trace

ROWS = 4  # whose exponents are taken
LEAST = 50  # steps, without which exponents mean nothing
EVERY = 5  # steps between two orthonormalisations


@dataclass(frozen=True)
class Half:
    """One layer in one direction."""

    name: str  # "layer 0 forward"
    blocks: dict[str, Block]  # of every gate's recurrent matrix
    retention: np.ndarray | None  # [H] mean of the gate on the direct path, unit by unit; None where there is none
    log10: np.ndarray  # [B, T] the gradient by lag, over its norm at lag 0
    decay: Decay  # over lags 1 to T - 1
    exponents: Lyapunov | None  # of its own inputs, over rows; None for sequences that are too short

    @property
    def horizons(self) -> tuple[float, float]:
        """Steps to 1e-2 and to 1e-6 of the gradient."""
        return horizon(self.decay.factor, 1e-2), horizon(self.decay.factor, 1e-6)


@dataclass(frozen=True)
class Survey:
    """What was found, layer by layer and direction by direction."""

    cell: Cell
    T: int
    halves: tuple[Half, ...]

    @property
    def farthest(self) -> Half:
        """The part in which a gradient reaches farthest: of all where every layer runs forwards, else of the top layer,
        as below it a gradient comes from both ends."""
        top = self.halves[-2:] if self.bidirectional else self.halves
        return max(top, key=lambda half: half.decay.factor)

    @property
    def bidirectional(self) -> bool:
        """Whether layers run in both directions."""
        return self.halves[-1].name.endswith("backward")

    def verdict(self) -> list[str]:
        """Three lines in plain words: how far the gradient reaches, what the state does, what follows for T."""
        lag = self.T // 2 if self.bidirectional else self.T - 1
        return [reach(self.farthest), holding(self.farthest), consequence(self.farthest, lag)]


def survey(
    cell: Cell, params: tuple[Layer, ...], xs: Array, *, lengths: Any = None, k: int = 3, key: Array | None = None
) -> Survey:
    """Look at a stack on a batch xs [B, T, D], such as `interop.torch.load` gives one.

    The gradient is that of v · y, y being what the top layer shows at the end and v a random vector of every row, drawn
    from `key`, to every state below. k is the number of leading exponents. Raises ValueError as `unroll_stack` does,
    and for sequences of fewer than 4 steps.
    """
    require_cell(cell)
    require_sizes(k=k)
    require_finite(params)
    steps = steps_of(xs, rank=2, lengths=lengths)
    B, T = np.shape(xs)[:2] if steps.batched else (0, 0)
    counts = np.full(B, T) if lengths is None else np.asarray(lengths)
    T = int(counts.max(initial=0))
    if T < 4:
        raise ValueError(f"xs must be a batch [B, T, D] with a row of at least 4 steps, got {list(np.shape(xs))}")
    xs = jnp.asarray(xs)[:, :T]
    stack = jax.jit(partial(unroll_stack, cell, lengths=lengths))(params, xs)
    profile = profiled(cell, params, xs, lengths, jax.random.key(0) if key is None else key)
    return Survey(cell, T, described("", cell, params, xs, stack.traces, np.asarray(profile, np.float64), counts, k))


def described(
    unit: str,
    cell: Cell,
    layers: tuple[Layer, ...],
    xs: Array,
    traces: tuple[Trace, ...],
    log10: np.ndarray,
    counts: np.ndarray,
    k: int,
) -> tuple[Half, ...]:
    """Every layer and direction of a stack that ran over xs [B, T, D], `counts` steps a row; log10 [halves, B, lag]."""
    halves, below = [], xs
    rows, steps = longest(counts)
    for depth, layer in enumerate(layers):
        shown = []
        for half, reverse in layer.halves():
            at, place = len(halves), f"{unit}layer {depth} {'backward' if reverse else 'forward'}"
            require_bounded(traces[at], place)
            seen = below[rows, :steps][:, :: -1 if reverse else 1]
            halves.append(half_of(place, cell, half, traces[at], log10[at], seen, k))
            shown.append(traces[at].ys)
        below = jnp.concatenate(shown, axis=-1)
    return tuple(halves)


def require_finite(params: Any) -> None:
    """ValueError unless params are layers, at least one, of finite numbers."""
    require_layers(params)
    if not params:
        raise ValueError("params must hold at least one layer, got none")
    for depth, layer in enumerate(params):
        if not bool(all_finite(layer)):
            raise ValueError(f"params hold NaN or infinity in layer {depth}: nothing can be said of it")


def require_bounded(trace: Trace, place: str) -> None:
    """ValueError where a state stops being finite, of which no gradient says anything."""
    for leaf in jax.tree.leaves(trace.after):
        lost = ~np.isfinite(np.asarray(leaf, np.float64)).all(-1)
        if lost.any():
            row, step = np.argwhere(lost)[0]
            raise ValueError(f"the state of {place} is not finite at step {step} of row {row}: the model explodes")


def longest(counts: np.ndarray) -> tuple[np.ndarray, int]:
    """Rows with most steps, without those that are too short for exponents, and how many steps all of them have."""
    rows = np.argsort(-counts, kind="stable")[:ROWS]
    enough = rows[counts[rows] >= LEAST]
    rows = enough if len(enough) else rows[:1]
    return rows, int(counts[rows].min())


def half_of(name: str, cell: Cell, params: Params, trace: Trace, log10: np.ndarray, xs: Array, k: int) -> Half:
    """One layer and direction, whose inputs in the order of its scan are xs [rows, T, D]."""
    T, N = xs.shape[1], sum(s.size for s in jax.tree.leaves(cell.start(params)))
    exponents = None
    if T >= LEAST:
        options = {"k": min(k, N), "burn_in": T // 10, "settle": T // 5, "every": EVERY, "blocks": 5}
        exponents = jax.jit(partial(lyapunov, cell, **options))(params, xs)
    relative = np.where(np.isneginf(log10), -np.inf, log10 - np.where(np.isneginf(log10[:, :1]), 0, log10[:, :1]))
    decay = fit_decay(relative, last=log10.shape[1] - 1)
    blocks = recurrent_blocks(cell, params) if cell.gates and params.W_hh is not None else {}
    return Half(name, blocks, retention(cell, params, trace), relative, decay, exponents)


def profiled(cell: Cell, params: tuple[Layer, ...], xs: Array, lengths: Any, key: Array) -> Array:
    """log10 of the gradient of v · y to every state, [halves, B, lag]."""
    both = params[0].backward is not None
    net = network(cell, readout="last", layers=len(params), bidirectional=both)
    F = jax.eval_shape(partial(unroll_stack, cell), params, xs).ys.shape[-1]
    dtype = jnp.result_type(*jax.tree.leaves(params))
    head = Dense(jnp.eye(F, dtype=dtype), jnp.zeros(F, dtype))
    v = jax.random.normal(key, (len(xs), F), dtype)

    def along(predictions: Array, targets: Array, mask: Any) -> Array:
        return (predictions * targets).sum()

    def profile(params: Any) -> Array:
        whole = NetworkParams(None, params, head)
        return gradient_profile(net, whole, xs, v, lengths=lengths, loss=along).log10

    return jax.jit(profile)(params)


def retention(cell: Cell, params: Params, trace: Trace) -> np.ndarray | None:
    """The mean factor by which `update` itself passes each unit's memory on, [H]: the forget gate of an LSTM, the keep
    gate of a GRU. None where nothing is passed on, as in a plain RNN, or where the product is in `update`."""
    if not jax.tree.leaves(jax.eval_shape(cell.recur, params, jax.eval_shape(cell.start, params))):
        return None
    path, memory = direct_path(cell), "c" if hasattr(trace.final, "c") else "h"
    if not hasattr(trace.final, memory):
        return None

    def gate(state: Any, u: Any) -> Array:
        still = jax.tree.map(jnp.zeros_like, state)
        one = replace(still, **{memory: jnp.ones_like(getattr(state, memory))})
        return getattr(jax.jvp(lambda s: path.step(params, s, u), (state,), (one,))[1], memory)

    gates = jax.jit(lambda trace: jax.vmap(jax.vmap(gate))(trace.before, trace.us))(trace)
    weights = jnp.ones(gates.shape[:2]) if trace.mask is None else trace.mask
    mean = np.asarray((gates * weights[..., None]).sum((0, 1)) / jnp.maximum(weights.sum(), 1))
    return mean if mean.any() else None


def reach(half: Half) -> str:
    """How fast the gradient shrinks."""
    factor, (hundredth, millionth) = half.decay.factor, half.horizons
    if factor >= 1:
        return f"The gradient does not shrink going back: it changes by {factor:.4g} a step ({half.name})."
    return (
        f"Going back, the gradient shrinks by {factor:.4g} a step: a hundredth is left after {hundredth:.0f} steps, "
        f"a millionth after {millionth:.0f} ({half.name}, which reaches farthest)."
    )


def holding(half: Half) -> str:
    """What the state does by itself."""
    if half.exponents is None:
        return f"Too few steps to say what the state does in the long run: {LEAST} are needed."
    value, error = float(half.exponents.exponents[:, 0].mean()), float(half.exponents.error[:, 0].mean())
    if value == -np.inf:
        return "The state forgets at once: a small difference is gone within a few steps."
    number = f"leading exponent {value:.3g} ± {error:.1g} a step"
    if value > 2 * error and value > 1e-3:
        return f"The state is chaotic: a small difference grows e-fold every {1 / value:.0f} steps ({number})."
    if value > -1e-3 - 2 * error:
        return f"The state holds: a small difference neither grows nor shrinks ({number})."
    return f"The state forgets: a small difference shrinks e-fold every {-1 / value:.0f} steps ({number})."


def consequence(half: Half, lag: int) -> str:
    """What follows for the step that is farthest from an end."""
    log10 = float(np.nanmedian(half.log10[:, lag]))
    return judged(log10, f"{lag} steps back the gradient is 10^{log10:.1f} of what it is at the end")


def judged(log10: float, share: str) -> str:
    """A share of the gradient that is left, in plain words."""
    if log10 > 2:
        return f"It explodes: {share}. Clip it, or scale the recurrent weights down."
    if log10 >= -2:
        return f"The farthest step is within reach: {share}."
    if log10 >= -6:
        return f"The farthest step is hard to learn from: {share}."
    return f"The farthest step is out of reach: {share}."
