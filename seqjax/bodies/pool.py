"""Order-free networks: each step by itself through a feedforward net, a pool over time, and another net on the pool.

    y = ρ(pool_t φ(x_t)),  pool = sum, mean or max                                      (Zaheer et al. 2017, theorem 2)

A permutation of the steps leaves y as it is. At every step the pool is that of the steps so far.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.bodies.feedforward import Layers, activation_named, draw_layers, feed
from seqjax.body import Body, Shown, require_params, require_state
from seqjax.core import at_least_float32, carry_dtype, factory, require_sizes
from seqjax.dense import Dense, uniform_head
from seqjax.network import Network, network_of
from seqjax.sequences import masked

POOLS = ("mean", "sum", "max")
MOST = 2**31 - 2  # steps that a stream counts; a mean over so many does not move any more


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pooled:
    """Params: the layers on each side of the pool."""

    before: Layers  # φ
    after: Layers  # ρ


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tally:
    """A pool and how many steps it is of."""

    pool: Array  # [H]
    count: Array  # [] int32


@factory
def pooled(
    pool: str = "mean",
    *,
    before: int = 1,
    after: int = 1,
    activation: str = "relu",
    inputs: str = "vector",
    readout: str = "last",
    embedding: int | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
) -> Network:
    """A network that knows no order: the "mean", the "sum" or the "max" of the steps; of no steps it is 0.

    before      layers of H units on every step by itself, 0 to pool what the network reads
    after       layers of H units on the pool
    activation  after every layer, "relu" or "tanh"
    The rest as for `network`. A masked step is not there. Raises ValueError for values outside these.
    """
    if pool not in POOLS:
        raise ValueError(f"pool must be one of {list(POOLS)}, got {pool!r}")
    require_sizes(after=after, **({"before": before} if before is False or before != 0 else {}))
    φ = activation_named(activation)
    options = {"pool": pool, "before": before, "after": after, "activation": activation}
    body = Body(
        name=f"{pool}-pool",
        init=partial(init, before, after),
        reads=reads,
        shows=lambda params: len(params.after[-1].b),
        run=partial(run, pool, φ),
        start=start,
        step=partial(step, pool, φ),
        about=json.dumps({"body": "pooled", "options": options}),
    )
    return network_of(body, inputs=inputs, readout=readout, embedding=embedding, head=head)


def init(before: int, after: int, key: Array, D: int, H: int) -> Pooled:
    """Draw both nets."""
    first, second = jax.random.split(key)
    return Pooled(draw_layers(first, [D] + [H] * before), draw_layers(second, [H if before else D] + [H] * after))


def reads(params: Pooled) -> int:
    """The width of what the first layer reads; ValueError for another body's params."""
    require_params(params, Pooled, "pooled")
    return (params.before + params.after)[0].W.shape[1]


def run(
    pool: str,
    φ: Callable[[Array], Array],
    params: Pooled,
    xs: Array,
    mask: Array | None = None,
    key: Array | None = None,
) -> Shown:
    """Of steps [T, D, B]: ρ of the pool of the steps so far, and of them all."""
    steps = at_least_float32(jax.vmap(partial(feed, φ, params.before))(masked(xs, mask)))
    valid = jnp.ones((len(xs), xs.shape[-1]), bool) if mask is None else mask
    so_far, whole = maxima(steps, valid) if pool == "max" else totals(steps, valid, pool == "mean")
    ys = jax.vmap(partial(feed, φ, params.after))(so_far)
    return Shown(masked(ys, mask), feed(φ, params.after, whole))


def totals(steps: Array, valid: Array, divide: bool) -> tuple[Array, Array]:
    """Sums or means, [T, H, B] of the valid steps so far and [H, B] of all."""
    steps = masked(steps, valid)
    so_far, whole = jnp.cumsum(steps, 0), steps.sum(0)
    if not divide:
        return so_far, whole
    count = jnp.cumsum(valid, 0).astype(steps.dtype)
    every, all_of = jnp.maximum(count, 1)[:, None], jnp.maximum(valid.sum(0), 1).astype(steps.dtype)
    return so_far / every, whole / all_of[None]


def maxima(steps: Array, valid: Array) -> tuple[Array, Array]:
    """The same of maxima, 0 of no step."""
    low = jnp.where(valid[:, None], steps, -jnp.inf)
    so_far, whole = jax.lax.cummax(low), low.max(0, initial=-jnp.inf)
    return of_some(so_far), of_some(whole)


def of_some(pool: Array) -> Array:
    """A maximum, or 0 of no step."""
    return jnp.where(pool == -jnp.inf, 0, pool)


def start(params: Pooled) -> Tally:
    """The pool of nothing."""
    reads(params)
    return Tally(jnp.zeros(params.after[0].W.shape[1], carry_dtype(params)), jnp.int32(0))


def step(pool: str, φ: Callable[[Array], Array], params: Pooled, state: Tally, x: Array) -> tuple[Tally, Array]:
    """One event: its φ into the pool, and ρ of that."""
    require_state(state, jax.eval_shape(start, params))
    new: Any = at_least_float32(feed(φ, params.before, x[:, None])[:, 0])
    count, h = jnp.minimum(state.count, MOST) + 1, state.pool
    if pool == "max":
        h = jnp.where(state.count == 0, new, jnp.maximum(h, new))
    else:
        h = h + (new - h) / count.astype(h.dtype) if pool == "mean" else h + new
    return Tally(h, count), feed(φ, params.after, h[:, None])[:, 0]
