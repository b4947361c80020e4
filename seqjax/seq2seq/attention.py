"""Additive attention over what the encoder shows (Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2):

e_tj = v · tanh(W s_{t-1} + U h_j)        α_t = softmax over the valid j        c_t = Σ_j α_tj h_j
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.sequences import masked


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Alignment:
    """Params: how well what is about to be written goes with what was read."""

    W: Array  # [A, H] of what the decoder's top layer shows
    U: Array  # [A, F] of what the encoder shows
    v: Array  # [A]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Memory:
    """What there is to attend to, batch last; U h_j is the same at every step, so it is worked out once."""

    keys: Array  # U h_j [S, A, B]
    values: Array  # h_j [S, F, B], zero where masked
    mask: Array  # [S, B] bool


def init_alignment(key: Array, A: int, H: int, F: int) -> Alignment:
    """Every array from U(-1/√n, 1/√n), n being what one of its rows reads, as PyTorch's `nn.Linear`."""
    shapes = ((A, H), (A, F), (A,))
    draws = (
        jax.random.uniform(k, shape, jnp.float32, -(shape[-1] ** -0.5), shape[-1] ** -0.5)
        for k, shape in zip(jax.random.split(key, 3), shapes, strict=True)
    )
    return Alignment(*draws)


def memory_of(params: Alignment, ys: Array, mask: Array) -> Memory:
    """What the encoder shows, [S, F, B], made ready to be attended to where the mask [S, B] holds."""
    values = masked(ys, mask)
    return Memory(jax.vmap(lambda h: params.U @ h)(values), values, mask)


def attend(params: Alignment, memory: Memory, s: Array) -> tuple[Array, Array]:
    """The context [F, B] and the weights [S, B] of a state s [H, B]; zeros for a row with nothing to attend to."""
    z = jnp.tanh(memory.keys + (params.W @ s)[None])
    weights = masked_softmax((params.v[None, :, None] * z).sum(1), memory.mask)
    return jnp.einsum("sfb,sb->fb", memory.values, weights), weights


def masked_softmax(e: Array, mask: Array) -> Array:
    """softmax over axis 0 of the entries where the mask holds, 0 elsewhere; no NaN where it holds nowhere."""
    low = jnp.where(mask, e, jnp.finfo(e.dtype).min)
    return jnp.where(mask, jax.nn.softmax(low, axis=0), 0)
