"""A slow and obvious twin of `unroll`: one row and one step at a time, in Python; and random things to run it on."""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from seqjax import CELLS, Cell, Trace, gru, lstm, memory, rnn, unroll
from seqjax.cells.gates import CANDIDATE, FORGET

B, T, D, H = 4, 6, 3, 5  # all different, so that no axis passes for another

MAKERS = CELLS | {
    "rnn-relu": partial(rnn, activation="relu"),
    "rnn-norm": partial(rnn, norm="layer"),
    "gru-reset-before": partial(gru, reset_after=False),
    "gru-norm": partial(gru, norm="layer"),
    "lstm-peephole": partial(lstm, peephole=True),
    "lstm-norm": partial(lstm, norm="layer"),
    "lstm-everything": partial(lstm, peephole=True, coupled=True, norm="layer"),
    "memory-forget": partial(memory, keep=FORGET),
    "memory-choose": partial(memory, keep=FORGET, write=CANDIDATE),
}
each_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
each_cell = pytest.mark.parametrize("cell", [make() for make in MAKERS.values()], ids=MAKERS.keys())
# Beside these, the others differ in a piece of the equation alone: of the contract they run what is about equations.
VARIATIONS = ("-norm", "-sum", "-max", "-relu", "-pole", "-coupled", "-peephole")
ALIKE = [name for name in MAKERS if name.startswith(("lstm-no", "memory-")) or name.endswith(VARIATIONS)]
DISTINCT = {name: make for name, make in MAKERS.items() if name not in ALIKE}
# One of every shape of state, and of every way in which an equation is written.
SHAPES = ("running-mean", "linear", "lru", "mgu", "gru-reset-before", "lstm-everything")
each_shape = pytest.mark.parametrize("cell", [DISTINCT[name]() for name in SHAPES], ids=SHAPES)
each_distinct_cell = pytest.mark.parametrize("cell", [make() for make in DISTINCT.values()], ids=DISTINCT.keys())
both_directions = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])


def loop(cell: Cell, params: Any, xs: Array, *, mask: Any = None, state: Any = None, **options: Any) -> Trace:
    """`unroll` of a batch [B, T, D]; mask and reset [B, T] must be concrete, the rest may be differentiated."""
    rows = []
    for b in range(len(xs)):
        one = {name: value if isinstance(value, bool) else value[b] for name, value in options.items()}
        own = cell.start(params) if state is None else jax.tree.map(lambda a, b=b: a[b], state)
        rows.append(loop_row(cell, params, xs[b], None if mask is None else mask[b], own, **one))
    return stacked(rows)


def loop_row(
    cell: Cell, params: Any, xs: Array, mask: Any, state: Any, *, reverse: bool = False, reset: Any = None
) -> Trace:
    """`unroll` of one sequence [T, D], T >= 1."""
    steps = []
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        valid = mask is None or bool(mask[t])
        if valid and reset is not None and reset[t]:
            state = cell.start(params)
        before = state
        u, new, y = one_step(cell, params, before, xs[t] if valid else jnp.zeros_like(xs[t]))
        state = new if valid else before
        steps.append((u, before, state, y if valid else jnp.zeros_like(y)))
    us, before, after, ys = stacked(steps[::-1] if reverse else steps)
    return Trace(us, before, after, state, ys, None if mask is None else jnp.asarray(mask))


@partial(jax.jit, static_argnums=0)
def one_step(cell: Cell, params: Any, state: Any, x: Array) -> tuple[Any, Any, Array]:
    """Project, step and read one example."""
    u = cell.project(params, x)
    new = cell.step(params, state, u)
    return u, new, cell.read(params, new)


def stacked(trees: list[Any]) -> Any:
    """Trees of arrays as one tree with a leading axis."""
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *trees)


def jiggle(tree: Any, seed: int, scale: float = 0.4) -> Any:
    """A tree in float64 plus noise, so that no entry is special: biases are not zero, matrices do not commute."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a, float) + scale * rng.standard_normal(a.shape)), tree)


def noise_like(init: Callable[..., Any], *sizes: int, seed: int = 0, scale: float = 0.4) -> Any:
    """Float64 noise in the shapes of what `init` draws from a key, undrawn, as a draw takes long to compile."""
    shapes = jax.eval_shape(lambda: init(jax.random.key(0), *sizes))
    return jiggle(jax.tree.map(lambda a: np.zeros(a.shape), shapes), seed, scale)


@cache
def random_params(cell: Cell, D: int = D, H: int = H, *, seed: int = 0) -> Any:
    """Float64 params of a cell, around its own draw, which takes long to compile and so is made once."""
    return jiggle(jax.jit(cell.init, static_argnums=(1, 2))(jax.random.key(seed), D, H), seed)


def random_state(cell: Cell, params: Any, *batch: int, seed: int = 1) -> Any:
    """Float64 states [*batch, H] of a cell."""
    start = cell.start(params)
    return jiggle(jax.tree.map(lambda s: jnp.broadcast_to(s, (*batch, *s.shape)), start), seed)


def random_xs(*shape: int, seed: int = 2) -> Array:
    """Float64 inputs."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape or (B, T, D)))


def random_mask(*shape: int, seed: int = 3) -> Array:
    """A mask with holes: about a third of the steps are not valid."""
    return jnp.asarray(np.random.default_rng(seed).random(shape or (B, T)) > 1 / 3)


def prefix(lengths: Any) -> Array:
    """The mask [B, T] of the steps before each length."""
    return jnp.arange(T)[None] < jnp.asarray(lengths)[:, None]


def generic(tree: Any) -> Array:
    """A fixed linear function, with a weight of its own for every entry of every float array, to differentiate."""
    flat = jnp.concatenate([a.ravel() for a in jax.tree.leaves(tree) if a.dtype != bool])
    return flat @ jnp.sin(1.0 + jnp.arange(flat.size))


def loss_of(run: Callable[..., Trace]) -> Callable[..., tuple[Array, Trace]]:
    """A generic loss of all outputs (the same for equal steps, whatever T) and the final state, and the trace."""

    def loss(params: Any, xs: Array, state: Any, mask: Array, reset: Array) -> tuple[Array, Trace]:
        trace = run(params, xs, state=state, mask=mask, reset=reset)
        weights = (jnp.sin(1.0 + jnp.arange(size)) for size in trace.ys.shape)
        return jnp.einsum("bth,b,t,h->", trace.ys, *weights) + generic(trace.final), trace

    return loss


@lru_cache
def differentiated(cell: Cell, **options: Any) -> Callable[..., Any]:
    """The one program that most tests share: (params, xs, state, mask, reset) -> (loss, trace), their gradients."""
    return jax.jit(jax.value_and_grad(loss_of(partial(unroll, cell, **options)), (0, 1, 2), has_aux=True))


def close(actual: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    """Assert equal trees, up to the tolerance (absolute, and relative to what is wanted)."""
    chex.assert_trees_all_close(actual, wanted, rtol=tolerance, atol=tolerance)


def same(actual: Any, wanted: Any) -> None:
    """Assert trees that are equal bit for bit."""
    chex.assert_trees_all_equal(actual, wanted, strict=True)


def all_zero(tree: Any) -> bool:
    """Whether every entry of every array is exactly zero."""
    return all(bool((a == 0).all()) for a in jax.tree.leaves(tree))
