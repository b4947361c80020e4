"""A sequence in and a sequence out: what a model of pairs is given, and its checks.

The decoder is fed its target shifted by one, led by the end symbol, which so is its start as well:

    target    a b c <end>
    fed       <end> a b c
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.sequences import Steps, add_batch, batch_last, checked_flags, checked_tokens, concrete


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pair:
    """Source and decoder input of a batch. Batch leads outside and is last inside; one pair alone has no batch axis."""

    source: Array  # [B, S] tokens
    source_mask: Array  # [B, S] bool, the valid steps
    fed: Array  # [B, T] tokens, the target shifted by one, the end symbol first
    mask: Array  # [B, T] bool, the steps whose answer counts: the end symbol's among them, padding not
    own: Array | None = None  # [B, T] bool, where the decoder is fed its own last choice instead; None nowhere


def pair_steps(pair: Any, sources: int, targets: int) -> Steps:
    """Check a Pair and take it to the inside layout.

    ValueError for what is no Pair, for tokens outside the two alphabets, for masks of other shapes, and for a row
    without a source.
    """
    if not isinstance(pair, Pair):
        raise ValueError(f"xs must be a Pair in this network, such as tasks.paired makes, got {type(pair).__name__}")
    shapes = np.shape(pair.source), np.shape(pair.fed)
    if not 1 <= len(shapes[0]) == len(shapes[1]) <= 2 or shapes[0][:-1] != shapes[1][:-1]:
        raise ValueError(f"source and fed must be [B, S] and [B, T], or [S] and [T], got {shapes[0]} and {shapes[1]}")
    source_mask = checked_source(pair.source, pair.source_mask, sources)
    mask = checked_flags("mask", pair.mask, shapes[1])
    fed = checked_tokens(pair.fed, mask, targets, "fed")
    own = None if pair.own is None else checked_flags("own", pair.own, shapes[1])
    batched = len(shapes[0]) == 2
    inside = batch_last(add_batch(Pair(jnp.asarray(pair.source), source_mask, fed, mask, own), batched))
    return Steps(inside, None, None, batched)


def checked_source(source: Any, mask: Any, size: int) -> Array:
    """The mask of sources [.., S]; ValueError unless every row has a valid step, and tokens in 0..size-1 there."""
    mask = checked_flags("source_mask", mask, np.shape(source))
    checked_tokens(source, mask, size, "source")
    if concrete(mask):
        empty = np.flatnonzero(~np.atleast_2d(np.asarray(mask)).any(-1))
        if empty.size:
            raise ValueError(f"source must hold at least one symbol in every row, got none in row {empty[0]}")
    return mask
