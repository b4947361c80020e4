"""The dilated stack of WaveNet (van den Oord et al. 2016, section 2.3 and figure 4): gated units, residual and skips.

    z = tanh(W_f * x) ⊙ σ(W_g * x)        x ← x + R z        y = relu(O relu(Σ over blocks of S z))

with * a causal convolution, R, S and O maps of a step by itself, and biases everywhere.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.bodies.convolution import require_effect
from seqjax.body import Body, Shown, at_ends, require_params, require_state
from seqjax.conv import Conv, Ring, causal, init_conv, receptive_field, start, step
from seqjax.core import factory
from seqjax.dense import Dense, affine, uniform_head
from seqjax.dropout import Dropout, drop_between
from seqjax.network import Network, network_of
from seqjax.sequences import masked


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Block:
    """Params of one dilation."""

    conv: Conv  # [2H, H, k] filter rows, then gate rows
    skip: Dense  # S [H, H]
    residual: Dense | None  # R [H, H]; None in the last block, where nothing reads what it would show


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WaveNet:
    """Params: what is read, taken to H channels; the blocks; and the layer on the sum of their skips."""

    first: Dense  # [H, D]
    blocks: tuple[Block, ...]
    last: Dense  # O [H, H]


@factory
def wavenet(
    kernel: int = 2,
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    *,
    dropout: Dropout | None = None,
    inputs: str = "vector",
    readout: str = "last",
    embedding: int | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
) -> Network:
    """A stack of gated dilated convolutions of H channels, one block a dilation; it sees `receptive_field(kernel,
    dilations)`.

    kernel   taps of every block
    dropout  noise of training: its `between`, of what the convolution of a block reads from the block below
    The rest as for `network`. In every block what comes before the first step reads as zero, and so does a masked step;
    an empty row shows 0. Raises ValueError for values outside these, and for a dropout that would change nothing.
    """
    receptive_field(kernel, dilations)
    depth = len(dilations)
    require_effect(depth, dropout)
    options = {"kernel": kernel, "dilations": dilations}
    body = Body(
        name=f"wavenet-{kernel}-{depth}" + "-dropout" * (dropout is not None),
        init=partial(init, kernel, depth),
        reads=reads,
        shows=lambda params: len(params.last.b),
        run=partial(run, dilations, dropout),
        start=partial(starts, dilations),
        step=partial(one_event, dilations),
        about=json.dumps({"body": "wavenet", "options": options}),
    )
    return network_of(body, inputs=inputs, readout=readout, embedding=embedding, head=head, dropout=dropout)


def init(kernel: int, depth: int, key: Array, D: int, H: int) -> WaveNet:
    """Draw everything as PyTorch would."""
    keys = jax.random.split(key, (depth + 1, 3))
    blocks = []
    for number, k in enumerate(keys[1:], 1):
        residual = uniform_head(k[2], H, H) if number < depth else None
        blocks.append(Block(init_conv(k[0], H, 2 * H, kernel), uniform_head(k[1], H, H), residual))
    return WaveNet(uniform_head(keys[0, 0], H, D), tuple(blocks), uniform_head(keys[0, 1], H, H))


def reads(params: WaveNet) -> int:
    """The width of what it reads; ValueError for another body's params."""
    require_params(params, WaveNet, "wavenet")
    return params.first.W.shape[1]


def gated(a: Array) -> Array:
    """tanh of the first half of the channels [2H, B], times σ of the second."""
    f, g = jnp.split(a, 2)
    return jnp.tanh(f) * jax.nn.sigmoid(g)


def shown(params: WaveNet, skips: Array) -> Array:
    """What the sum of the skips [H, B] becomes."""
    return jax.nn.relu(affine(params.last, jax.nn.relu(skips)))


def run(
    dilations: tuple[int, ...],
    dropout: Dropout | None,
    params: WaveNet,
    xs: Array,
    mask: Array | None = None,
    key: Array | None = None,
) -> Shown:
    """Of steps [T, D, B]: what the stack shows."""
    keys = [None] * len(dilations) if key is None else jax.random.split(key, len(dilations))
    xs = jax.vmap(partial(affine, params.first))(masked(xs, mask))
    skips: Any = 0
    for depth, (block, dilation) in enumerate(zip(params.blocks, dilations, strict=True)):
        read = drop_between(dropout, keys[depth], xs) if depth else xs
        z = jax.vmap(gated)(causal(block.conv, masked(read, mask), dilation))
        skips = skips + jax.vmap(partial(affine, block.skip))(z)
        xs = xs if block.residual is None else xs + jax.vmap(partial(affine, block.residual))(z)
    ys = masked(jax.vmap(partial(shown, params))(skips), mask)
    return Shown(ys, at_ends(ys, mask))


def starts(dilations: tuple[int, ...], params: WaveNet) -> tuple[Ring, ...]:
    """An empty ring for every block."""
    reads(params)
    return tuple(start(block.conv, dilation) for block, dilation in zip(params.blocks, dilations, strict=True))


def one_event(
    dilations: tuple[int, ...], params: WaveNet, state: tuple[Ring, ...], x: Array
) -> tuple[tuple[Ring, ...], Array]:
    """One event up through the blocks."""
    require_state(state, jax.eval_shape(partial(starts, dilations), params))
    x, new = affine(params.first, x[:, None])[:, 0], []
    skips: Any = 0
    for block, ring, dilation in zip(params.blocks, state, dilations, strict=True):
        ring, a = step(block.conv, ring, x, dilation)
        new.append(ring)
        z: Any = gated(a)[:, None]
        skips = skips + affine(block.skip, z)
        x = x if block.residual is None else x + affine(block.residual, z)[:, 0]
    return tuple(new), shown(params, skips)[:, 0]
