"""Beam search: of everything that can be written, `width` hypotheses are kept at every step.

Finished ones keep their place in the one list, and all are ranked by log p / length^α at every step (Wu et al. 2016,
equation 14, with the length itself as the penalty), the end symbol being counted. So width 1 is greedy decoding, and a
width of at least as many hypotheses as there can be is exact.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.seq2seq.writing import Decoded, Step, widened


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Beam:
    """W hypotheses of every row, the best first."""

    carry: Any  # [.., W*B], hypothesis after hypothesis
    token: Array  # [W, B] the last one of each
    tokens: Array  # [limit, W, B]
    total: Array  # [W, B] log p; -inf where there are not so many hypotheses
    steps: Array  # [W, B] symbols written, the end symbol among them
    finished: Array  # [W, B] bool


def searched(
    step: Step, fixed: Any, carry: Any, token: Array, *, width: int, alpha: Any, limit: int, end: int
) -> Decoded:
    """The best hypothesis of every row that a beam finds, from a carry and the first tokens to be fed [B]."""
    B = len(token)
    fixed, carry, token = jax.tree.map(lambda a: tiled(a, width), (fixed, carry, token))
    carry = widened(step, fixed, carry, token)
    dtype = jax.eval_shape(step, fixed, carry, token)[1].dtype
    total = jnp.broadcast_to(jnp.where(jnp.arange(width) == 0, 0, -jnp.inf).astype(dtype)[:, None], (width, B))
    blank = jnp.full((limit, width, B), end, token.dtype)
    first = Beam(carry, token.reshape(width, B), blank, total, jnp.zeros((width, B), int), jnp.zeros((width, B), bool))

    def going(now: tuple[Array, Beam]) -> Array:
        return (now[0] < limit) & ~decided(now[1], alpha, limit).all()

    def body(now: tuple[Array, Beam]) -> tuple[Array, Beam]:
        return now[0] + 1, extended(step, fixed, now[1], now[0], alpha, end)

    beam = jax.lax.while_loop(going, body, (jnp.int32(0), first))[1]
    tokens = beam.tokens[:, 0]
    return Decoded(tokens.T, (tokens != end).sum(0), beam.finished[0], beam.total[0])


def tiled(a: Array, width: int) -> Array:
    """[.., B] -> [.., W*B], once for every hypothesis."""
    return jnp.tile(a, (*[1] * (a.ndim - 1), width))


def extended(step: Step, fixed: Any, beam: Beam, t: Array, alpha: Any, end: int) -> Beam:
    """The best of all hypotheses with one symbol more, and of those that are finished as they are."""
    W, B = beam.total.shape
    carry, logits = step(fixed, beam.carry, beam.token.reshape(-1))
    K = len(logits)
    log_p = jax.nn.log_softmax(logits, axis=0).reshape(K, W, B)
    stay = jnp.where(jnp.arange(K) == end, 0, -jnp.inf).astype(log_p.dtype)[:, None, None]
    total = beam.total[None] + jnp.where(beam.finished[None], stay, log_p)
    steps = beam.steps + ~beam.finished
    ranked = total / (steps[None] ** alpha).astype(total.dtype)
    best = jax.lax.top_k(jnp.moveaxis(ranked, 0, 1).reshape(W * K, B).T, W)[1].T  # [W, B], of hypothesis, symbol
    parent, token = best // K, (best % K).astype(beam.token.dtype)
    mine = (parent * B + jnp.arange(B)[None]).reshape(-1)
    of_parent = lambda a: jnp.take_along_axis(a, parent, axis=0)  # noqa: E731
    return Beam(
        jax.tree.map(lambda new: jnp.take(new, mine, axis=-1), carry),
        token,
        jnp.take_along_axis(beam.tokens, parent[None], axis=1).at[t].set(token),
        jnp.take_along_axis(jnp.moveaxis(total, 0, 1).reshape(W * K, B), best, axis=0),
        of_parent(steps),
        of_parent(beam.finished) | (token == end),
    )


def decided(beam: Beam, alpha: Any, limit: int) -> Array:
    """Of every row [B], whether its best hypothesis is finished and no other can come before it.

    log p only falls, and what is not finished is divided by limit^α at most.
    """
    dtype = beam.total.dtype
    best = beam.total[0] / (jnp.maximum(beam.steps[0], 1) ** alpha).astype(dtype)
    hope = jnp.where(beam.finished, -jnp.inf, beam.total / jnp.asarray(limit**alpha, dtype)).max(0)
    return beam.finished[0] & (best >= hope)
