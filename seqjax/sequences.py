"""Ragged batches: layout, lengths and masks, and the checks that every public door makes once.

Outside, the batch leads and one sequence has no batch axis: xs [B, T, D] or [T, D], mask [B, T] or [T].
Inside, time leads and the batch is last: xs [T, D, B], mask [T, B]. Moving one axis takes any array across.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer


@dataclass(frozen=True)
class Steps:
    """A checked batch in the inside layout; `batched` is False where one bare sequence came in."""

    xs: Array  # [T, ..., B]
    mask: Array | None  # [T, B] bool; None where every step is valid
    reset: Array | None  # [T, B] bool; None where no step is flagged
    batched: bool


def batch_last(tree: Any) -> Any:
    """[B, ...] -> [..., B] for every array."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), tree)


def batch_first(tree: Any) -> Any:
    """[..., B] -> [B, ...] for every array."""
    return jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), tree)


def add_batch(tree: Any, batched: bool) -> Any:
    """Give one sequence's arrays a batch axis of 1 in front; a batch passes through."""
    return tree if batched else jax.tree.map(lambda a: jnp.asarray(a)[None], tree)


def drop_batch(tree: Any, batched: bool) -> Any:
    """Undo `add_batch`."""
    return tree if batched else jax.tree.map(lambda a: a[0], tree)


def masked(xs: Array, mask: Array | None) -> Array:
    """Inside, [T, F, B] with zeros where the mask [T, B] does not hold."""
    return xs if mask is None else jnp.where(mask[:, None], xs, 0)


def ends(mask: Array | None, T: int, B: int) -> Array:
    """Inside, how many steps every row has up to its last valid one, [B]."""
    if mask is None:
        return jnp.full(B, T)
    return jnp.where(mask, jnp.arange(1, T + 1)[:, None], 0).max(0, initial=0)


def select(mask: Array | None, new: Any, old: Any) -> Any:
    """Per example, `new` where the mask [B] holds and `old` elsewhere, for every array [..., B] of a state."""
    if mask is None:
        return new
    return jax.tree.map(lambda n, o: jnp.where(jnp.broadcast_to(mask, n.shape), n, o), new, old)


def concrete(x: Any) -> bool:
    """Whether the values of x can be looked at (they cannot inside jit, grad or vmap)."""
    return not isinstance(x, Tracer)


def mask_of(lengths: Any, T: int) -> Array:
    """The steps t < length of every row: [B] -> [B, T] bool. ValueError for lengths below 0, above T or not integer."""
    given, lengths = lengths, jnp.asarray(lengths)
    if not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ValueError(f"lengths must be integers, got dtype {lengths.dtype}: convert them, e.g. lengths.astype(int)")
    if concrete(lengths):
        values = np.ravel(given)  # as given: a jax array of 32 bits may have wrapped
        bad = np.flatnonzero((values < 0) | (values > T))
        if bad.size:
            row, value = int(bad[0]), int(values[bad[0]])
            raise ValueError(f"lengths must lie in 0..{T} (the number of steps), got {value} in row {row}")
    return jnp.broadcast_to(jnp.arange(T), (*lengths.shape, T)) < lengths[..., None]


def checked_mask(lengths: Any, mask: Any, batch: tuple[int, ...], T: int) -> Array | None:
    """The mask [*batch, T] that `lengths` or `mask` stand for, or None where neither is given."""
    if lengths is not None and mask is not None:
        raise ValueError("give lengths or mask, not both: a mask already says which steps are valid")
    if lengths is not None:
        if np.shape(lengths) != batch:
            want = f"one length per row, shape {batch}" if batch else "one integer for one sequence"
            raise ValueError(f"lengths must be {want}, got shape {np.shape(lengths)}")
        return mask_of(lengths, T)
    return None if mask is None else checked_flags("mask", mask, (*batch, T))


def checked_flags(name: str, flags: Any, shape: tuple[int, ...]) -> Array:
    """Boolean flags of exactly this shape; ValueError otherwise."""
    flags = jnp.asarray(flags)
    if flags.shape != shape or flags.dtype != bool:
        raise ValueError(
            f"{name} must be boolean of shape {list(shape)}, got {flags.dtype} of shape {list(flags.shape)}"
        )
    return flags


def checked_floats(xs: Any, mask: Array | None) -> Array:
    """Floating-point inputs [.., T, D], finite wherever the mask holds; ValueError otherwise."""
    xs = jnp.asarray(xs)
    if not jnp.issubdtype(xs.dtype, jnp.floating):
        raise ValueError(
            f"xs must be floating point, got {xs.dtype}: pass xs.astype(jnp.float32), "
            "or one-hot encode or embed tokens first"
        )
    if concrete(xs) and (mask is None or concrete(mask)):
        valid = np.isfinite(np.asarray(xs, np.float64)).all(-1)
        valid = valid if mask is None else valid | ~np.asarray(mask)
        if not valid.all():
            *row, step = (int(i) for i in np.argwhere(~valid)[0])
            place = f"row {row[0]}, step {step}" if row else f"step {step}"
            raise ValueError(
                f"xs holds NaN or infinity in a valid step (first: {place}): give lengths, mask it or mend it"
            )
    return xs


def checked_tokens(xs: Any, mask: Array | None, size: int, name: str = "xs") -> Array:
    """Integer tokens or labels in 0..size-1 wherever the mask of the same shape holds; ValueError otherwise."""
    dtype = xs.dtype if hasattr(xs, "dtype") else np.asarray(xs).dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"{name} must be integer tokens for this network, got {dtype}")
    given, xs = xs, jnp.asarray(xs)
    if concrete(xs) and (mask is None or concrete(mask)):
        values = np.asarray(given)  # as given: a jax array of 32 bits may have wrapped
        bad = (values < 0) | (values >= size)
        bad = bad if mask is None else bad & np.asarray(mask)
        if bad.any():
            raise ValueError(f"{name} must hold tokens in 0..{size - 1}, got {int(values[bad][0])} in a valid step")
    return xs


def steps_of(xs: Any, *, rank: int, lengths: Any = None, mask: Any = None, reset: Any = None, size: int = 0) -> Steps:
    """Check one sequence or one batch and take it to the inside layout.

    `rank` counts the axes of one sequence: 2 for vectors [T, D], 1 for tokens [T] drawn from `size` symbols.
    `reset` is [T], for every row, or [B, T]. Raises ValueError naming the argument, what was given and what is allowed.
    """
    shape = np.shape(xs)
    if len(shape) not in (rank, rank + 1):
        one, many = ("[T, D]", "[B, T, D]") if rank == 2 else ("[T]", "[B, T]")
        raise ValueError(f"xs must be one sequence {one} or a batch {many}, got shape {list(shape)}")
    batched = len(shape) == rank + 1
    batch, T = shape[:batched], shape[batched]
    mask = checked_mask(lengths, mask, batch, T)
    xs = checked_floats(xs, mask) if rank == 2 else checked_tokens(xs, mask, size)
    if reset is not None:
        shared = np.shape(reset) == (T,)
        reset = checked_flags("reset", reset, (T,) if shared else (*batch, T))
        reset = jnp.broadcast_to(reset, (*batch, T))
    xs, mask, reset = batch_last(add_batch((xs, mask, reset), batched))
    return Steps(xs, mask, reset, batched)


def segment_ends(reset: Array, mask: Array | None) -> Array:
    """The steps [T, B] whose next valid step is flagged: where a reverse scan enters another segment."""
    T = reset.shape[0]
    valid = jnp.ones_like(reset) if mask is None else mask
    here = jnp.where(valid, jnp.arange(T)[:, None], T)
    following = jax.lax.cummin(here, axis=0, reverse=True)
    following = jnp.concatenate([following[1:], jnp.full_like(following[:1], T)])
    flags = jnp.concatenate([reset, jnp.zeros_like(reset[:1])])
    return jnp.take_along_axis(flags, following, axis=0)
