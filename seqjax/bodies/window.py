"""A window of T_max steps, flattened, through a feedforward net: every position has weights of its own.

What is longer is cut, at the end that is stated; what is shorter is filled up with zeros.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.bodies.feedforward import Layers, activation_named, draw_layers, feed
from seqjax.body import Body, Shown, require_params, require_state
from seqjax.conv import Conv, Ring, causal, lagged, push
from seqjax.core import carry_dtype, factory, require_sizes
from seqjax.dense import Dense, uniform_head
from seqjax.network import Network, network_of
from seqjax.sequences import ends, masked

KEEPS = ("last", "first")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Windowed:
    """Params of the layers; the first reads the window, its steps one after the other."""

    layers: Layers  # the first W is [H, T_max*D]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Filling:
    """What a window of first steps adds up to so far, and how many steps there were."""

    total: Array  # [H]
    count: Array  # [] int32


@factory
def windowed(
    T_max: int,
    *,
    keep: str = "last",
    layers: int = 1,
    activation: str = "relu",
    inputs: str = "vector",
    readout: str = "last",
    embedding: int | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
) -> Network:
    """A feedforward network on the flattened window of T_max steps.

    keep        "last": the window ends at the step where it is read, zeros before the first step; "first": it holds the
                first T_max steps, of those so far, zeros after them
    layers      of H units, the first of them on the window
    activation  after every layer, "relu" or "tanh"
    The rest as for `network`. A masked step in a window reads as zero. Rows that were cut are flagged in
    `apply(...).body.cut`; `cut_rows` counts them. Raises ValueError for values outside these.
    """
    require_sizes(T_max=T_max, layers=layers)
    if keep not in KEEPS:
        raise ValueError(f"keep must be one of {list(KEEPS)}, got {keep!r}")
    φ = activation_named(activation)
    options = {"T_max": T_max, "keep": keep, "layers": layers, "activation": activation}
    body = Body(
        name=f"window-{T_max}-{keep}",
        init=lambda key, D, H: Windowed(draw_layers(key, [T_max * D] + [H] * layers)),
        reads=partial(reads, T_max),
        shows=lambda params: len(params.layers[-1].b),
        run=partial(run, T_max, keep == "last", φ),
        start=partial(start, T_max, keep == "last"),
        step=partial(step, T_max, keep == "last", φ),
        about=json.dumps({"body": "windowed", "options": options}),
    )
    return network_of(body, inputs=inputs, readout=readout, embedding=embedding, head=head)


def cut_rows(lengths: Any, T_max: int) -> int:
    """How many rows of these lengths, [B], a window of T_max steps cuts."""
    require_sizes(T_max=T_max)
    return int((np.asarray(lengths) > T_max).sum())


def reads(T_max: int, params: Windowed) -> int:
    """The width of one step of the window; ValueError for another body's params, or another window's."""
    require_params(params, Windowed, "windowed")
    D, rest = divmod(params.layers[0].W.shape[1], T_max)
    if rest:
        raise ValueError(f"params are of another window than of {T_max} steps: {D * T_max + rest} numbers do not fit")
    return D


def by_position(T_max: int, params: Windowed) -> Array:
    """The weights on the window, [H, T_max, D]."""
    W = params.layers[0].W
    return W.reshape(len(W), T_max, -1)


def run(
    T_max: int,
    last: bool,
    φ: Callable[[Array], Array],
    params: Windowed,
    xs: Array,
    mask: Array | None = None,
    key: Array | None = None,
) -> Shown:
    """Of steps [T, D, B]: the net on the window of every step, and on that of every row's last."""
    T, _, B = xs.shape
    sizes, bias = ends(mask, T, B), params.layers[0].b[:, None]
    W, xs = by_position(T_max, params), masked(xs, mask)
    every, whole = ending(W, xs, None if mask is None else sizes) if last else beginning(W, xs)
    rest = partial(feed, φ, params.layers[1:])
    ys = jax.vmap(lambda a: rest(φ(a + bias)))(every)
    return Shown(masked(ys, mask), rest(φ(whole + bias)), sizes > T_max)


def ending(W: Array, xs: Array, sizes: Array | None) -> tuple[Array, Array]:
    """What windows that end at every step, and at every row's last, add up to: [T, H, B] and [H, B]."""
    H, T_max = W.shape[:2]
    every = causal(Conv(jnp.swapaxes(W, 1, 2), jnp.zeros(H, W.dtype)), xs, 1)
    filled = jnp.concatenate([jnp.zeros((T_max, *xs.shape[1:]), xs.dtype), xs])
    if sizes is None:
        window = filled[len(xs) :]
    else:
        window = jnp.take_along_axis(filled, (sizes[None] + jnp.arange(T_max)[:, None])[:, None], axis=0)
    return every, jnp.einsum("htd,tdb->hb", W, window)


def beginning(W: Array, xs: Array) -> tuple[Array, Array]:
    """The same of windows of the first steps, of which every step sees those so far."""
    T, T_max = len(xs), W.shape[1]
    seen = min(T, T_max)
    each = jnp.einsum("htd,tdb->thb", W[:, :seen], xs[:seen])
    every = jnp.cumsum(each, 0)[jnp.minimum(jnp.arange(T), T_max - 1)]
    return every, each.sum(0)


def start(T_max: int, last: bool, params: Windowed) -> Ring | Filling:
    """An empty window."""
    D, dtype = reads(T_max, params), carry_dtype(params)
    if last:
        return Ring(jnp.zeros((T_max, D), dtype), jnp.int32(0))
    return Filling(jnp.zeros(len(params.layers[0].W), dtype), jnp.int32(0))


def step(
    T_max: int, last: bool, φ: Callable[[Array], Array], params: Windowed, state: Any, x: Array
) -> tuple[Any, Array]:
    """One event: into the window, and the net on that."""
    require_state(state, jax.eval_shape(partial(start, T_max, last), params))
    W = by_position(T_max, params)
    if last:
        state = push(state, x)
        total = jnp.einsum("htd,td->h", W, lagged(state, np.arange(T_max)[::-1]))
    else:
        own = jax.lax.dynamic_index_in_dim(W, jnp.minimum(state.count, T_max - 1), 1, keepdims=False)
        total = state.total + jnp.where(state.count < T_max, own @ x, 0)
        state = Filling(total, jnp.minimum(state.count + 1, T_max))
    y = φ(total + params.layers[0].b)
    return state, feed(φ, params.layers[1:], y[:, None])[:, 0]
