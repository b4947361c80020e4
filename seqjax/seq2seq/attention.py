"""Additive attention over what the encoder shows (Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2):

e_tj = v · tanh(W s_{t-1} + U h_j)        α_t = softmax over the valid j        c_t = Σ_j α_tj h_j
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.sequences import masked

SLICES = 64  # source steps up to which a sum over them is written out


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
    weights = masked_softmax(score(params.v, memory.keys, params.W @ s), memory.mask)
    return jnp.einsum("sfb,sb->fb", memory.values, weights), weights


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def spread(q: Array, S: int) -> Array:
    """q [A, B] for every source step, [S, A, B].

    On the way back that is a sum over S. XLA's CPU reduction over a leading axis strides through memory, and took 20
    times as long as the sum of slices that the transpose of a stack is (S = 9, A = B = 256).
    """
    return jnp.broadcast_to(q[None], (S, *q.shape))


@spread.defjvp
def spread_rule(S: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The same map of the tangent; of long sources as a broadcast, so that the program does not grow with S."""
    (q,), (dq,) = primals, tangents
    return spread(q, S), jnp.stack([dq] * S) if S <= SLICES else jnp.broadcast_to(dq[None], (S, *dq.shape))


@partial(jax.checkpoint, prevent_cse=False)
def score(v: Array, keys: Array, q: Array) -> Array:
    """e [S, B] of keys U h_j [S, A, B] and a query W s [A, B].

    The tanh is taken again on the way back: to keep it would be S·A·B numbers a step, which are slower to move.
    """
    return (v[None, :, None] * jnp.tanh(keys + spread(q, len(keys)))).sum(1)


def masked_softmax(e: Array, mask: Array) -> Array:
    """softmax over axis 0 of the entries where the mask holds, 0 elsewhere; no NaN where it holds nowhere."""
    low = jnp.where(mask, e, jnp.finfo(e.dtype).min)
    return jnp.where(mask, jax.nn.softmax(low, axis=0), 0)
