"""The soft constraint Ω, under which recurrent weights hand a gradient back at the length at which it came.

    Ω_t = (‖J_tᵀ v_t‖ / ‖v_t‖ - 1)²,  v_t = dL/ds_t,  J_t = ds_t/ds_{t-1}             (Pascanu et al. 2013, equation 9)
    Jᵀ v = directᵀ v + matrixᵀ (slopesᵀ v)

over the whole carry. States, v_t and the slopes of `update` are constants, so that the gradient of Ω_t is its immediate
derivative (equation 10): to what the matrix of `recur` is made of, W_hh, and exactly 0 to all else. A step is asked to
keep the length in the one direction in which the loss has something to say, v_t, and free to forget in all others.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.adjoints import flags_of, like, whole_norm
from seqjax.core import Cell, Params, State, factory, require_cell
from seqjax.remedies.penalty import require_own_steps, require_weight, weight_of
from seqjax.sequences import add_batch, batch_first, batch_last, drop_batch, segment_ends
from seqjax.stack import unperturbed
from seqjax.tasks.task import Batch
from seqjax.train.recipe import Hyper, Recipe, outputs, predictions_of
from seqjax.unroll import Trace, over_time

LEAST = 1e-10  # ‖v_t‖ below which there is no direction to ask about; the paper's program has 1e-20 on its square


@factory
def omega(*, weight: float | str) -> Callable[..., Array]:
    """The penalty weight · Ω of a recipe: Σ_t Ω_t of every row, averaged over the rows of a batch.

    weight  a number, or the name of the hyperparameter that it is

    L is the task's loss of the batch, without what dropout drops; v_t is all of dL/ds_t, by way of every readout and of
    the layers above. Each layer and direction has a sum of its own, of its own J_t, and these are added. Steps that are
    padded or reset, or at which ‖v_t‖ < 1e-10, add nothing. (The paper's own program squares both norms, and takes the
    mean over the steps that count.) An update of a training takes three to four times as long.
    ValueError for a weight that is neither, and on use for a cell without a `recur` and for zoneout.
    """
    require_weight(weight)

    def penalty(recipe: Recipe, params: Params, batch: Batch, *, hyper: Hyper) -> Array:
        return weight_of(weight, hyper) * total(recipe, params, batch)

    return penalty


def total(recipe: Recipe, params: Params, batch: Batch) -> Array:
    """Ω of a network on a batch, summed over steps, layers and directions, averaged over rows."""
    require_own_steps(recipe.network)
    fixed = jax.lax.stop_gradient(params)

    def loss(perturb: Any) -> tuple[Array, Any]:
        output = outputs(recipe, fixed, batch, perturb=perturb)
        predictions, where = predictions_of(recipe, batch, output)
        return recipe.task.loss(predictions, batch.targets, where), output.body.traces

    still = unperturbed(jax.eval_shape(lambda: outputs(recipe, fixed, batch).body))
    vs, traces = jax.grad(loss, has_aux=True)(still)
    reset = batch_last(batch.reset)
    halves = [half for layer in params.body for half in layer.halves()]
    each = []
    for (half, reverse), trace, v in zip(halves, traces, vs, strict=True):
        flags = segment_ends(reset, trace.mask) if reverse and reset is not None else reset
        each.append(terms(recipe.network.cell, half, trace, v, flags).sum(0).mean())
    return sum(each[1:], each[0])


def soft_constraint(cell: Cell, params: Params, trace: Trace, vectors: State, *, reset: Any = None) -> Array:
    """Ω_t of every step of a trace of `unroll`, [.., T]; 0 at steps that are padded or reset, and for ‖v_t‖ < 1e-10.

    vectors  v_t, fields [.., T, H]: dL/ds_t, or the direction of `pullback`
    reset    as the trace was made with, as a trace does not tell
    Differentiable in the matrix of `recur`, and in nothing else. Raises ValueError for a cell without one, for vectors
    that are not shaped like the states, and for a reset of the wrong shape.
    """
    require_cell(cell)
    batched, flags = trace.ys.ndim == 3, flags_of(trace, reset)
    if jax.tree.map(jnp.shape, vectors) != jax.tree.map(jnp.shape, trace.after):
        raise ValueError(f"vectors must be shaped like the states, got {jax.tree.map(jnp.shape, vectors)}")
    parts = (trace, like(trace.after, vectors), flags)
    inside = batch_last(add_batch(parts, batched))
    return drop_batch(batch_first(terms(cell, params, *inside)), batched)


def terms(cell: Cell, params: Params, trace: Trace, vs: State, reset: Array | None) -> Array:
    """`soft_constraint` in the inside layout, unchecked: fields [T, .., B], reset [T, B] -> [T, B]."""
    norms = jax.vmap(whole_norm)(vs)
    counted = ~(norms < LEAST)  # so that what is not finite counts
    for flags in (trace.mask, None if reset is None else ~reset):
        counted = counted if flags is None else counted & flags
    sizes = jnp.where(counted, norms, 1)
    unit = jax.tree.map(lambda v: jnp.where(wide(counted, v), v / wide(sizes, v), 0), vs)
    constants = jax.lax.stop_gradient((trace.before, trace.us, unit))
    back = over_time(partial(handed_back, cell))(params, *constants)
    return jnp.where(counted, (jax.vmap(whole_norm)(back) - 1) ** 2, 0)


def wide(numbers: Array, like: Array) -> Array:
    """Numbers of every step and example [T, B], over all of an array [T, .., B]."""
    return jnp.broadcast_to(numbers.reshape(len(numbers), *[1] * (like.ndim - 2), -1), like.shape)


def handed_back(cell: Cell, params: Params, state: State, u: Any, v: State) -> State:
    """Jᵀ v of one step, to be differentiated in the matrix of `recur`."""
    fixed = jax.lax.stop_gradient(params)
    a = cell.recur(fixed, state)
    if not jax.tree.leaves(a):
        raise ValueError(f"cell {cell.name!r} has no recurrent product of its own (in `recur`) that could be asked")
    direct, slopes = jax.vjp(lambda s, a: cell.update(fixed, s, u, a), state, a)[1](v)
    (through,) = jax.vjp(partial(cell.recur, params), state)[1](slopes)
    return jax.tree.map(jnp.add, direct, through)
