"""How far back a gradient reaches: ‖dL/ds_t‖ over the whole carry, from one backward pass, in log10.

In a network whose layers run forwards the pass rescales at every step, so that nothing overflows or underflows at any
length; where a layer runs backwards, or under zoneout, the gradient is autodiff's, in the range of its dtype.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.adjoints import poisoned, pull
from seqjax.core import Cell
from seqjax.deep import as_one, climb, deep
from seqjax.gradients import safe_norm
from seqjax.losses import cross_entropy
from seqjax.network import Network, affine
from seqjax.sequences import Steps, batch_first, checked_mask, checked_tokens
from seqjax.stack import unperturbed
from seqjax.unroll import over_batch, over_time

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
    ValueError as `network.apply` does, for other readouts, and for targets that are not one row each.
    """
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

    reverses = [reverse for layer in params.body for _, reverse in layer.halves()]
    zoned = network.dropout is not None and bool(network.dropout.zoneout)
    adjoints, scale = (plainly if zoned or any(reverses) else rescaling)(network, params, steps, total)
    return by_lag(adjoints, scale, steps.mask, reverses)


def summed(loss: Callable[..., Array], predictions: Array, targets: Array, mask: Array | None) -> Array:
    """The sum of every row's own loss."""

    def own(predictions: Array, targets: Array, mask: Array | None) -> Array:
        return loss(predictions[None], targets[None], None if mask is None else mask[None])

    return jax.vmap(own)(predictions, targets, mask).sum()


def plainly(network: Network, params: Any, steps: Steps, total: Callable[[Array], Array]) -> tuple[Any, Any]:
    """(dL/ds_t, fields [T, H, B] per layer and direction; the logarithm of their scale, which is 1 here)."""
    zeros = unperturbed(jax.eval_shape(lambda: network.forward(params, steps.xs, steps.mask)).body)

    def perturbed(perturb: Any) -> Array:
        return total(getattr(network.forward(params, steps.xs, steps.mask, perturb), network.readout))

    return jax.grad(perturbed)(zeros), 0.0


def rescaling(network: Network, params: Any, steps: Steps, total: Callable[[Array], Array]) -> tuple[Any, Any]:
    """(dL/ds_t over exp(scale), scale [T, B]) of a network whose layers all run forwards, which make one recurrence."""
    whole = deep(network.cell, residual=network.residual)
    trace = as_one(network.forward(params, steps.xs, steps.mask).body)

    def read(after: Any, final: Any) -> Array:
        if network.readout == "last":
            return total(affine(params.head, over_batch(whole.read)(params.body, final)))
        return total(jax.vmap(lambda y: affine(params.head, y))(over_time(whole.read)(params.body, after)))

    to_after, to_final = jax.grad(read, (0, 1))(trace.after, trace.final)
    arriving = to_after if network.readout == "every" else None
    nudged = partial(climb, network.cell, network.residual)
    found = pull(whole, params.body, trace.us, trace.before, steps.mask, None, to_final, arriving, nudged=nudged)
    return found.direction, poisoned(found.log_norm, trace.after)


def by_lag(adjoints: Any, scale: Any, mask: Array | None, reverses: list[bool]) -> Profile:
    """log10 of the norms of adjoints, fields [T, H, B] over exp(scale), in the order of the lag."""
    T, _, B = jax.tree.leaves(adjoints[0])[0].shape
    lengths = jnp.full(B, T) if mask is None else mask.sum(0)
    lag = jnp.broadcast_to(jnp.arange(T), (B, T))

    def order(part: Array, reverse: bool) -> Array:  # [T, .., B] -> [B, lag]
        log10 = (jnp.log(safe_norm(part, axis=1)) + scale) / LN10
        step = lag if reverse else lengths[:, None] - 1 - lag
        values = jnp.take_along_axis(log10.T, jnp.clip(step, 0, T - 1), axis=1)
        return jnp.where(lag < lengths[:, None], values, jnp.nan)

    def stacked(part: Callable[[Any], Array]) -> Array:
        pairs = zip(adjoints, reverses, strict=True)
        return jnp.stack([order(part(adjoint), reverse) for adjoint, reverse in pairs])

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
    return by_lag([{"x": jnp.moveaxis(gradient, 0, -1)}], 0.0, None if mask is None else mask.T, [False])


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
