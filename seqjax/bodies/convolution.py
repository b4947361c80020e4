"""Networks of causal convolutions over time, which see as far back as their receptive field and no further."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jax import Array

from seqjax.bodies.feedforward import activation_named
from seqjax.body import Body, Shown, at_ends, require_params, require_state
from seqjax.conv import Conv, Ring, causal, init_conv, receptive_field, start, step
from seqjax.core import factory, require_switches
from seqjax.dense import Dense, uniform_head
from seqjax.dropout import Dropout, drop_between
from seqjax.network import Network, network_of
from seqjax.sequences import masked


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Convolutions:
    """Params of the layers."""

    layers: tuple[Conv, ...]


@factory
def convolutional(
    kernel: int,
    dilations: tuple[int, ...] = (1,),
    *,
    activation: str = "relu",
    residual: bool = False,
    dropout: Dropout | None = None,
    inputs: str = "vector",
    readout: str = "last",
    embedding: int | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
) -> Network:
    """A stack of causal convolutions of H units, one layer a dilation; it sees `receptive_field(kernel, dilations)`.

    kernel      taps of every layer
    activation  after every layer, "relu" or "tanh"
    residual    every layer above the first adds what it reads to what it shows
    dropout     noise of training: its `between`, of what a layer reads from the layer below
    The rest as for `network`. In every layer what comes before the first step reads as zero, and so does a masked step;
    an empty row shows 0. Raises ValueError for values outside these, and for a residual or dropout that would change
    nothing.
    """
    receptive_field(kernel, dilations)
    φ, depth = activation_named(activation), len(dilations)
    require_effect(depth, dropout, residual)
    options = {"kernel": kernel, "dilations": dilations, "activation": activation, "residual": residual}
    body = Body(
        name=f"convolution-{kernel}-{depth}" + "-residual" * residual + "-dropout" * (dropout is not None),
        init=partial(init, kernel, depth),
        reads=reads,
        shows=lambda params: len(params.layers[-1].b),
        run=partial(run, dilations, φ, residual, dropout),
        start=partial(starts, dilations),
        step=partial(one_event, dilations, φ, residual),
        about=json.dumps({"body": "convolutional", "options": options}),
        residual=residual,
    )
    return network_of(body, inputs=inputs, readout=readout, embedding=embedding, head=head, dropout=dropout)


def require_effect(layers: int, dropout: Dropout | None, residual: bool = False) -> None:
    """ValueError for a residual or a dropout that would change nothing in so many layers, or that is for a state."""
    require_switches(residual=residual)
    if residual and layers == 1:
        raise ValueError("residual adds nothing in 1 layer: add dilations, or leave it out")
    if dropout is None:
        return
    if not isinstance(dropout, Dropout):
        raise ValueError(f"dropout must be a Dropout, such as Dropout(between=0.5), got {dropout!r}")
    if dropout.recurrent or dropout.zoneout:
        raise ValueError(f"a convolution has no state to drop from or to hold: use between alone, got {dropout}")
    if layers == 1:
        raise ValueError(f"between={dropout.between} drops nothing in 1 layer: add dilations, or leave it out")


def init(kernel: int, depth: int, key: Array, D: int, H: int) -> Convolutions:
    """Draw every layer."""
    keys = jax.random.split(key, depth)
    return Convolutions(tuple(init_conv(k, H if layer else D, H, kernel) for layer, k in enumerate(keys)))


def reads(params: Convolutions) -> int:
    """The width of what the first layer reads; ValueError for another body's params."""
    require_params(params, Convolutions, "convolutional")
    return params.layers[0].W.shape[1]


def run(
    dilations: tuple[int, ...],
    φ: Callable[[Array], Array],
    residual: bool,
    dropout: Dropout | None,
    params: Convolutions,
    xs: Array,
    mask: Array | None = None,
    key: Array | None = None,
) -> Shown:
    """Of steps [T, D, B]: what the top layer shows."""
    keys = [None] * len(dilations) if key is None else jax.random.split(key, len(dilations))
    xs = masked(xs, mask)
    for depth, (layer, dilation) in enumerate(zip(params.layers, dilations, strict=True)):
        read = drop_between(dropout, keys[depth], xs) if depth else xs
        shown = masked(φ(causal(layer, read, dilation)), mask)
        xs = shown + xs if residual and depth else shown
    return Shown(xs, at_ends(xs, mask))


def starts(dilations: tuple[int, ...], params: Convolutions) -> tuple[Ring, ...]:
    """An empty ring for every layer."""
    reads(params)
    return tuple(start(layer, dilation) for layer, dilation in zip(params.layers, dilations, strict=True))


def one_event(
    dilations: tuple[int, ...],
    φ: Callable[[Array], Array],
    residual: bool,
    params: Convolutions,
    state: tuple[Ring, ...],
    x: Array,
) -> tuple[tuple[Ring, ...], Array]:
    """One event up through the layers."""
    require_state(state, jax.eval_shape(partial(starts, dilations), params))
    new: list[Any] = []
    for depth, (layer, ring, dilation) in enumerate(zip(params.layers, state, dilations, strict=True)):
        ring, y = step(layer, ring, x, dilation)
        new.append(ring)
        x = φ(y) + x if residual and depth else φ(y)
    return tuple(new), x
