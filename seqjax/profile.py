"""How far back a gradient reaches: ‖dL/ds_t‖ over the whole carry, from one backward pass, in log10.

The pass rescales at every step, in every layer and direction, so that nothing overflows or underflows at any length.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.adjoints import Adjoints
from seqjax.core import Cell
from seqjax.dense import affine
from seqjax.gradients import safe_norm
from seqjax.layerwise import layerwise
from seqjax.losses import cross_entropy
from seqjax.network import Network, require_recurrent
from seqjax.sequences import Steps, batch_first, checked_mask, checked_tokens

LN10 = math.log(10)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Profile:
    """log10 of the norm of the gradient to the state by lag, counted back from each row's own last step (lag 0).

    A backward half counts from the first step, where its scan ends. NaN where a row has no such lag, -inf for zero.
    """

    log10: Array  # [L, B, T] over the whole carry, one L per layer and direction: l0 forward, l0 backward, l1 ...
    log10_fields: dict[str, Array]  # name of a state field -> [L, B, T]

    @property
    def whole(self) -> Array:
        """The norms, [L, B, T], as far as a float can hold them."""
        return 10**self.log10

    @property
    def fields(self) -> dict[str, Array]:
        """The norms of every field, [L, B, T] each."""
        return {name: 10**values for name, values in self.log10_fields.items()}

    @property
    def mean_log10(self) -> Array:
        """Over the rows that have the lag, [L, T]: log10 of the geometric mean."""
        return jnp.nanmean(self.log10, axis=1)


def gradient_profile(
    network: Network,
    params: Any,
    xs: Array,
    targets: Array,
    *,
    lengths: Any = None,
    loss: Callable[..., Array] = cross_entropy,
) -> Profile:
    """‖dL/ds_t‖ of a batch xs [B, T, ..], L being each row's own loss, for every layer, direction and lag.

    `network` reads "last" or "every", to which `loss(predictions, targets, mask)` is applied row by row. Raises
    ValueError as `network.apply` does, for a network without a recurrence (see `input_profile`), for other readouts,
    and for targets that are not one row each.
    """
    require_recurrent(network, "gradient_profile", ", so ask input_profile")
    if network.readout not in ("last", "every"):
        raise ValueError(f'network must read "last" or "every", so that there is one loss, got {network.readout!r}')
    steps = network.steps(params, xs, lengths=lengths)
    if not steps.batched or not len(xs) or jnp.shape(targets)[:1] != steps.xs.shape[-1:]:
        given = f"{jnp.shape(xs)} and {jnp.shape(targets)}"
        raise ValueError(f"xs must be a batch, of at least one row, with one row of targets each, got {given}")
    judged = steps.mask.T if network.readout == "every" and steps.mask is not None else None
    if loss is cross_entropy:
        checked_tokens(targets, judged, params.head.W.shape[0], "targets")

    def total(predictions: Array) -> Array:
        return summed(loss, batch_first(predictions), jnp.asarray(targets), judged)

    adjoints = of_network(network, params, steps, total)
    reverses = [reverse for layer in params.body for _, reverse in layer.halves()]
    return by_lag([each.direction for each in adjoints], [each.log_norm for each in adjoints], steps.mask, reverses)


def summed(loss: Callable[..., Array], predictions: Array, targets: Array, mask: Array | None) -> Array:
    """The sum of every row's own loss."""

    def own(predictions: Array, targets: Array, mask: Array | None) -> Array:
        return loss(predictions[None], targets[None], None if mask is None else mask[None])

    return jax.vmap(own)(predictions, targets, mask).sum()


def of_network(network: Network, params: Any, steps: Steps, total: Callable[[Array], Array]) -> list[Adjoints]:
    """dL/ds_t of every layer and direction, L being a function of the predictions, batch last."""
    body = network.forward(params, steps.xs, steps.mask).body

    def read(ys: Array, final: Any) -> Array:
        if network.readout == "every":
            return total(jax.vmap(partial(affine, params.head))(ys))
        return total(affine(params.head, network.body.last(params.body, replace(body, final=final))))

    to_ys, to_final = jax.grad(read, (0, 1))(body.ys, body.final)
    return layerwise(
        network.cell,
        params.body,
        network.vectors(params, steps.xs, steps.mask),
        body,
        steps.mask,
        to_ys if network.readout == "every" else None,
        to_final,
        residual=network.residual,
        zoneout=0.0 if network.dropout is None else float(network.dropout.zoneout),
    )


def by_lag(adjoints: list[Any], scales: list[Any], mask: Array | None, reverses: list[bool]) -> Profile:
    """log10 of the norms of adjoints, fields [T, H, B] each over exp of its scale, in the order of the lag."""
    T, _, B = jax.tree.leaves(adjoints[0])[0].shape
    lengths = jnp.full(B, T) if mask is None else mask.sum(0)
    lag = jnp.broadcast_to(jnp.arange(T), (B, T))

    def order(part: Array, scale: Any, reverse: bool) -> Array:  # [T, .., B] -> [B, lag]
        log10 = (jnp.log(safe_norm(part, axis=1)) + scale) / LN10
        step = lag if reverse else lengths[:, None] - 1 - lag
        values = jnp.take_along_axis(log10.T, jnp.clip(step, 0, T - 1), axis=1)
        return jnp.where(lag < lengths[:, None], values, jnp.nan)

    def stacked(part: Callable[[Any], Array]) -> Array:
        parts = zip(adjoints, scales, reverses, strict=True)
        return jnp.stack([order(part(adjoint), scale, reverse) for adjoint, scale, reverse in parts])

    names = [
        jax.tree_util.keystr(path, simple=True, separator=".")
        for path, _ in jax.tree_util.tree_leaves_with_path(adjoints[0])
    ]
    fields = {name: stacked(lambda adjoint, i=i: jax.tree.leaves(adjoint)[i]) for i, name in enumerate(names)}
    return Profile(stacked(lambda adjoint: jnp.concatenate(jax.tree.leaves(adjoint), axis=1)), fields)


def input_profile(
    predict: Callable[[Array], Array],
    xs: Array,
    targets: Array,
    *,
    lengths: Any = None,
    loss: Callable[..., Array] = cross_entropy,
) -> Profile:
    """‖dL/dx_t‖ by lag of any model: `predict` takes vectors xs [B, T, D] to predictions [B, ..], row by row.

    In a convolutional model it ends at the receptive field, in a pooled one it is flat. One layer, one field "x".
    Raises ValueError for xs that are no batch of vectors, and for lengths outside 0..T.
    """
    if jnp.ndim(xs) != 3 or jnp.shape(targets)[:1] != jnp.shape(xs)[:1]:
        raise ValueError(f"xs must be a batch [B, T, D] with one row of targets each, got {jnp.shape(xs)}")
    xs = jnp.asarray(xs)
    mask = checked_mask(lengths, None, xs.shape[:1], xs.shape[1])
    if loss is cross_entropy:
        checked_tokens(targets, None, jax.eval_shape(predict, xs).shape[-1], "targets")
    gradient = jax.grad(lambda xs: summed(loss, predict(xs), jnp.asarray(targets), None))(xs)
    return by_lag([{"x": jnp.moveaxis(gradient, 0, -1)}], [0.0], None if mask is None else mask.T, [False])


@cache
def direct_path(cell: Cell) -> Cell:
    """The same cell with the gradient through its recurrent product cut, values unchanged.

    What is left is what `update` passes straight through: the forget-gate product along an LSTM's cell line, the keep
    gate along a GRU's, and nothing at all in a plain RNN. A cell whose product is in `update` raises ValueError.
    """

    def recur(params: Any, state: Any) -> Any:
        a = cell.recur(params, state)
        if not jax.tree.leaves(a):
            raise ValueError(f"cell {cell.name!r} has no recurrent product of its own (in `recur`) that could be cut")
        return jax.lax.stop_gradient(a)

    return replace(cell, recur=recur)
