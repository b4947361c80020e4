"""Truncated backpropagation through time (Williams and Peng 1990): windows of k steps, of which the state goes on by
its value alone, so that no gradient reaches an earlier window.

One window is differentiated at a time, inside the scan over windows, so that memory does not grow with T.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Params, State
from seqjax.sequences import batch_last
from seqjax.tasks.task import Batch
from seqjax.train.recipe import Recipe, counted, valid
from seqjax.unroll import start


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Window:
    """k steps of a batch in the inside layout; stacked, all W windows."""

    xs: Array  # [k, ..., B]
    targets: Array  # [B, k], or [B] for a task read at the last step
    mask: Array | None  # [k, B]; None where every step is valid
    reset: Array | None  # [k, B]
    where: Array | None  # [B, k] steps that count, or [B] rows that end here; None for all
    share: Array  # of all that counts
    number: Array


def windows_of(batch: Batch, k: int, readout: str) -> Window:
    """A batch cut into W = ⌈T / k⌉ windows, the first filled up in front with masked steps, so that the last is whole:
    the gradient of a full row's last step goes back over k steps."""
    T = batch.xs.shape[1]
    W = math.ceil(T / k)
    mask = valid(batch)
    mask = jnp.ones(batch.xs.shape[:2], bool) if mask is None and T % k else mask
    cut = partial(windowed, W=W, k=k)
    if readout == "last":
        last = jnp.full(len(batch.xs), T) if batch.lengths is None else batch.lengths
        where = (jnp.maximum(last - 1, 0) + W * k - T)[None] // k == jnp.arange(W)[:, None]
        targets = jnp.broadcast_to(batch.targets, (W, *batch.targets.shape))
    else:
        counts = counted(batch)
        where = cut(jnp.ones(batch.xs.shape[:2], bool) if counts is None else counts)
        targets = cut(batch.targets)
    inside = jax.tree.map(lambda a: jax.vmap(batch_last)(cut(a)), (batch.xs, mask, batch.reset))
    number = where.sum(tuple(range(1, where.ndim)))
    return Window(inside[0], targets, inside[1], inside[2], where, number / jnp.maximum(number.sum(), 1), jnp.arange(W))


def windowed(array: Array, W: int, k: int) -> Array:
    """[B, T, ...] -> [W, B, k, ...], filled up with zeros in front."""
    fill = [(0, 0), (W * k - array.shape[1], 0)] + [(0, 0)] * (array.ndim - 2)
    cut = jnp.pad(array, fill).reshape(array.shape[0], W, k, *array.shape[2:])
    return jnp.moveaxis(cut, 1, 0)


def own_loss(
    recipe: Recipe, key: Array | None, params: Params, state: State, window: Window
) -> tuple[Array, tuple[Array, State]]:
    """The mean loss of what counts in one window; its score, and the state that it ends in."""
    noise = None if key is None else jax.random.fold_in(key, window.number)
    output = recipe.network.forward(params, window.xs, window.mask, key=noise, state=state, reset=window.reset)
    predictions = jnp.moveaxis(getattr(output, recipe.task.readout), -1, 0)
    loss, score = (
        measure(predictions, window.targets, window.where) for measure in (recipe.task.loss, recipe.task.score)
    )
    return loss, (score, output.body.final)


def over_windows(
    recipe: Recipe,
    batch: Batch,
    key: Array | None,
    held: Any,
    params_of: Callable[[Any], Params],
    take: Callable[[Any, Window, Array, Params], tuple[Any, Any]],
) -> tuple[Any, Array, Array, Any]:
    """Differentiate window after window: what is held in the end, the loss and score of the batch, and what was seen.

    `take(held, window, loss, gradient)` gives what is held after a window and what is seen of it; the params of a
    window are those of what is held before it. Every window draws dropout of its own.
    """
    windows = windows_of(batch, recipe.window or batch.xs.shape[1], recipe.task.readout)
    gradient = jax.value_and_grad(partial(own_loss, recipe, key), has_aux=True)

    def step(carry: Any, window: Window) -> tuple[Any, Any]:
        held, state = carry
        (loss, (score, state)), grads = gradient(params_of(held), state, window)
        held, seen = take(held, window, loss, grads)
        return (held, state), (loss * window.share, score * window.share, seen)

    first = jax.tree.map(lambda a: a[0], windows)
    state = first_state(recipe, params_of(held), first)
    (held, _), (losses, scores, seen) = jax.lax.scan(step, (held, state), windows)
    return held, losses.sum(), scores.sum(), seen


def first_state(recipe: Recipe, params: Params, window: Window) -> State:
    """The states of every layer before the first window, in the dtypes that a window returns."""
    B, cell = window.xs.shape[-1], recipe.network.cell
    own = tuple(start(cell, half, B) for layer in params.body for half, _ in layer.halves())
    after = jax.eval_shape(partial(own_loss, recipe, None), params, own, window)[1][1]
    return jax.tree.map(lambda s, like: s.astype(like.dtype), own, after)


def truncated(recipe: Recipe, params: Params, batch: Batch, key: Array | None) -> tuple[Array, Array, Params]:
    """Loss and score of a batch, equal to those of the whole pass, and the gradient within windows."""

    def add(total: Params, window: Window, loss: Array, grads: Params) -> tuple[Params, tuple]:
        return jax.tree.map(lambda t, g: t + g * window.share.astype(g.dtype), total, grads), ()

    zeros = jax.tree.map(jnp.zeros_like, params)
    grads, loss, score, _ = over_windows(recipe, batch, key, zeros, lambda _: params, add)
    return loss, score, grads


def require_window(window: int, T: int, params: Params) -> None:
    """ValueError for a window longer than the sequences, and for layers that read the future."""
    if window > T:
        raise ValueError(f"window must be at most the T = {T} steps of the task, got {window}: leave it out")
    if any(layer.backward is not None for layer in params.body):
        raise ValueError("window needs layers that run forwards: a backward one starts in the last window")
