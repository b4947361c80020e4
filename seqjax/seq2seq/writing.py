"""Writing symbol by symbol: each choice is fed back, until every row has written the end symbol or the limit is there.

A model is no more here than a step, (fixed, carry, tokens [B]) -> (carry, logits [K, B]), whatever its carry is and
whatever it has that stays fixed; the batch is the last axis of both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import require_sizes
from seqjax.sequences import select

Step = Callable[[Any, Any, Array], tuple[Any, Array]]
Choose = Callable[[Array, Array], Array]  # (number of the step, log p [K, B]) -> tokens [B]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Decoded:
    """What was written, batch first."""

    tokens: Array  # [B, limit], the end symbol from where a row ends
    lengths: Array  # [B] symbols before the end symbol
    finished: Array  # [B] bool; False where the limit came before an end symbol
    log_probability: Array  # [B] by the model, of all that was written, the end symbol among it
    weights: Array | None = None  # [B, limit, S] of the attention, at every symbol written; None where not asked for


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sampling:
    """How symbols are drawn: from the `top_k` likeliest, and of these from the fewest that have `top_p` together."""

    temperature: Any = 1.0  # of the softmax; towards 0 the likeliest symbol alone
    top_k: Any = None
    top_p: Any = None


def written(
    step: Step, fixed: Any, carry: Any, token: Array, choose: Choose, *, limit: int, end: int
) -> tuple[Decoded, Any]:
    """What is written from a carry and the first tokens to be fed [B], and each row's carry when its last was chosen.

    A row that has written its end symbol keeps its carry; all stop when each has, or after `limit` steps.
    """
    carry = widened(step, fixed, carry, token)
    B, dtype = len(token), jax.eval_shape(step, fixed, carry, token)[1].dtype

    def going(now: Any) -> Array:
        t, _, _, finished, *_ = now
        return (t < limit) & ~finished.all()

    def body(now: Any) -> Any:
        t, carry, token, finished, tokens, total = now
        new, logits = step(fixed, carry, token)
        log_p = jax.nn.log_softmax(logits, axis=0)
        token = jnp.where(finished, end, choose(t, log_p).astype(token.dtype))
        total = total + jnp.where(finished, 0, jnp.take_along_axis(log_p, token[None], axis=0)[0])
        tokens = tokens.at[t].set(token)
        return t + 1, select(~finished, new, carry), token, finished | (token == end), tokens, total

    first = (jnp.int32(0), carry, token, jnp.zeros(B, bool), jnp.full((limit, B), end, token.dtype))
    _, carry, _, finished, tokens, total = jax.lax.while_loop(going, body, (*first, jnp.zeros(B, dtype)))
    return Decoded(tokens.T, (tokens != end).sum(0), finished, total), carry


def widened(step: Step, fixed: Any, carry: Any, token: Array) -> Any:
    """A carry in the dtypes that a step returns."""
    after = jax.eval_shape(step, fixed, carry, token)[0]
    return jax.tree.map(lambda s, n: s.astype(jnp.promote_types(s.dtype, n.dtype)), carry, after)


def likeliest(t: Array, log_p: Array) -> Array:
    """The choice of greedy decoding."""
    return log_p.argmax(0)


def drawing(keys: Array, how: Sampling) -> Choose:
    """The choice of sampling, by a key of its own for every row [B], so that no row's draws depend on the others."""

    def choose(t: Array, log_p: Array) -> Array:
        scaled = tempered(how, log_p)
        own = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
        return jax.vmap(jax.random.categorical, (0, 1))(own, scaled)

    return choose


def tempered(how: Sampling, log_p: Array) -> Array:
    """Log-probabilities [K, B] at a temperature, up to a constant; -inf for symbols that are not drawn from."""
    scaled = (log_p - log_p.max(0, keepdims=True)) / how.temperature
    if how.top_k is not None:
        kept = jnp.sort(scaled, axis=0)[-how.top_k]
        scaled = jnp.where(scaled < kept[None], -jnp.inf, scaled)
    if how.top_p is not None:
        order = jnp.argsort(scaled, axis=0, descending=True)
        p = jnp.take_along_axis(jax.nn.softmax(scaled, axis=0), order, axis=0)
        nucleus = jnp.cumsum(p, axis=0) - p < how.top_p  # always the first
        scaled = jnp.where(jnp.take_along_axis(nucleus, jnp.argsort(order, axis=0), axis=0), scaled, -jnp.inf)
    return scaled


def row_keys(key: Array, B: int) -> Array:
    """A key for every row: one key folded by the number of the row, or those that are given [B]."""
    if jnp.ndim(key) == 0:
        return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(B))
    if jnp.shape(key) != (B,):
        raise ValueError(f"key must be one key, or one for each of {B} rows, got {jnp.shape(key)}")
    return key


def require_writing(limit: Any, end: Any, K: int) -> None:
    """ValueError for a limit below 1, and for an end symbol that is not one of the K."""
    require_sizes(limit=limit)
    if isinstance(end, bool) or not isinstance(end, Integral) or not 0 <= int(end) < K:
        raise ValueError(f"end must be the number of a symbol, 0..{K - 1}, got {end!r}")


def require_sampling(temperature: Any, top_k: Any, top_p: Any, K: int) -> Sampling:
    """How to sample; ValueError for a temperature of 0 or below, and for what keeps no symbol or more than all K."""
    if not is_number(temperature) or not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be a number above 0 (towards 0, use greedy), got {temperature!r}")
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, Integral) or not 1 <= int(top_k) <= K):
        raise ValueError(f"top_k must be a whole number from 1 to the {K} symbols, or None, got {top_k!r}")
    if top_p is not None and (not is_number(top_p) or not 0 < top_p <= 1):
        raise ValueError(f"top_p must be above 0 and at most 1, or None, got {top_p!r}")
    return Sampling(temperature, top_k, top_p)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, and no switch."""
    return isinstance(value, Real) and not isinstance(value, bool)
