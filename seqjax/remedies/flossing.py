"""Gradient flossing: the leading Lyapunov exponents of a network are pulled to 0, where gradients neither vanish nor
explode, before a training or all along it.

    L = Σ_{i ≤ k} λ_i²,  λ_i = mean over t of ln |R_t|_ii,  Q_t R_t = J_t Q_{t-1}        (Engelken 2023, section 3)

differentiated through the orthonormalisations and through the states at which J_t is taken. What moves is the body of
the network, its input weights, recurrent weights and biases, as in Engelken's own program; embedding and head stay. A
stack that runs forwards is one recurrence.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from seqjax.clipping import adam
from seqjax.core import Cell, Params, factory, require_sizes
from seqjax.deep import deep
from seqjax.gradients import all_finite
from seqjax.losses import masked_mean
from seqjax.lyapunov import first_frame, growth, require_steps
from seqjax.network import Network, NetworkParams
from seqjax.remedies.penalty import require_own_steps, require_weight, weight_of
from seqjax.sequences import batch_last, concrete
from seqjax.stack import Layer
from seqjax.tasks.task import Batch, Task
from seqjax.train.recipe import Hyper, Recipe, valid

Inside = tuple[Array, Array | None, Array | None]  # xs [T, .., B], mask and reset [T, B]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FlossHistory:
    """What each update of `floss` saw before it was applied."""

    loss: Array  # [updates] Σ λ_i², averaged over rows
    exponents: Array  # [updates, k] averaged over rows


@factory
def flossing(
    k: int, *, weight: float | str, rows: int = 1, settle: int = 0, steps: int | None = None
) -> Callable[..., Array]:
    """The penalty weight · Σ_{i ≤ k} λ_i² of a recipe, averaged over the first rows of a batch.

    weight         a number, or the name of the hyperparameter that it is
    rows           how many, one in Engelken's program: every row takes k orthonormal directions along
    settle, steps  as for `floss`
    ValueError for a weight that is neither, and on use as `floss` does.
    """
    require_weight(weight)
    require_sizes(k=k, rows=rows)

    def penalty(recipe: Recipe, params: NetworkParams, batch: Batch, *, hyper: Hyper) -> Array:
        own = replace(jax.lax.stop_gradient(params), body=params.body)
        some = inside(jax.tree.map(lambda a: a[:rows], batch))
        return weight_of(weight, hyper) * squared(*leading(recipe.network, k, settle, steps, own, some))

    return penalty


def floss(
    network: Network,
    params: NetworkParams,
    xs: Array,
    *,
    k: int,
    updates: int,
    learning_rate: float = 1e-3,
    lengths: Any = None,
    settle: int = 0,
    steps: int | None = None,
) -> tuple[NetworkParams, FlossHistory]:
    """Go down on Σ_{i ≤ k} λ_i² by Adam, at every update on the same inputs xs, which are those of `network.apply`.

    k       how many exponents, the leading ones, of the whole carry
    settle  first steps that are not measured: the state comes to where it lives, the frame to the leading directions
    steps   how many are measured then, None for the rest; the gradient goes through settle + steps and no more
    An update that is not finite, as where one of the k directions vanishes and its exponent is -inf, is left out. Pure,
    for jit and vmap. Raises ValueError as `network.apply` does, for k > N, for too few steps, for zoneout, and where a
    layer runs backwards.
    """
    given = network.steps(params, xs, lengths=lengths)
    measure = partial(leading, network, k, settle, steps)
    return descended(measure, params, lambda update: (given.xs, given.mask, None), updates, learning_rate)


@factory
def floss_first(
    network: Network,
    task: Task,
    *,
    k: int,
    updates: int,
    learning_rate: float = 1e-3,
    batch: int = 1,
    settle: int = 0,
    steps: int | None = None,
) -> Callable[[Array, Params, Hyper], Params]:
    """The `edit` of a recipe that flosses the fresh params, at every update on a fresh batch of the task.

    batch  rows at a time, one in Engelken's program; other options and errors as for `floss`
    """
    require_sizes(k=k, updates=updates, batch=batch)
    measure = partial(leading, network, k, settle, steps)

    def edit(key: Array, params: Params, hyper: Hyper) -> Params:
        def drawn(update: Array) -> Inside:
            return inside(task.draw(key, update, batch))

        return descended(measure, params, drawn, updates, learning_rate)[0]

    return edit


def inside(batch: Batch) -> Inside:
    """What drives the network, in the inside layout."""
    return batch_last((batch.xs, valid(batch), batch.reset))


def leading(
    network: Network, k: int, settle: int, steps: int | None, params: NetworkParams, given: Inside
) -> tuple[Array, Array]:
    """The k leading exponents of every row, [k, B], and which rows have a step to measure, neither padded nor reset."""
    require_own_steps(network)
    require_sizes(steps=1 if steps is None else steps)
    require_steps(len(given[0]), 1 if steps is None else steps, "steps", settle=settle)
    end = None if steps is None else settle + steps
    xs, mask, reset = jax.tree.map(lambda a: a[:end], (network.vectors(params, *given[:2]), *given[1:]))
    cell, own = recurrence(network, params.body)
    frame = first_frame(cell, own, k, jax.random.key(0))
    logs = growth(cell, own, xs, None, frame, 0, settle, 1, mask, reset)
    moved = jnp.ones((len(logs), logs.shape[-1]), bool)
    for flags in (mask, None if reset is None else ~reset):
        moved = moved if flags is None else moved & flags[settle:]
    logs = jnp.where(jnp.broadcast_to(moved[:, None], logs.shape), logs, 0)
    return logs.sum(0) / jnp.maximum(moved.sum(0), 1)[None], moved.any(0)


def recurrence(network: Network, body: tuple[Layer, ...]) -> tuple[Cell, Any]:
    """The cell and its params, or of several layers all of them as one."""
    if len(body) == 1 and body[0].backward is None:
        return network.cell, body[0].forward
    return deep(network.cell, residual=network.residual), body


def squared(exponents: Array, measured: Array) -> Array:
    """Σ λ_i², averaged over the rows that are measured."""
    return masked_mean((exponents**2).sum(0), measured)


def descended(
    measure: Callable[[NetworkParams, Inside], tuple[Array, Array]],
    params: Params,
    inputs: Callable[[Array], Inside],
    updates: int,
    learning_rate: float,
) -> tuple[NetworkParams, FlossHistory]:
    """Params after so many updates by Adam, and what each of them saw."""
    require_sizes(updates=updates)
    if concrete(learning_rate) and not 0 < learning_rate < float("inf"):
        raise ValueError(f"learning_rate must be above 0 and finite, got {learning_rate}")
    optimizer = adam(learning_rate)

    def loss(body: Any, update: Array) -> tuple[Array, Array]:
        exponents, measured = measure(replace(params, body=body), inputs(update))
        return squared(exponents, measured), jax.vmap(masked_mean, (0, None))(exponents, measured)

    def step(before: Any, update: Array) -> tuple[Any, FlossHistory]:
        (value, exponents), grads = jax.value_and_grad(loss, has_aux=True)(before[0], update)
        moves, state = optimizer.update(grads, before[1], before[0])
        after = optax.apply_updates(before[0], moves), state
        sound = jnp.isfinite(value) & all_finite(after)
        return jax.tree.map(lambda n, o: jnp.where(sound, n, o), after, before), FlossHistory(value, exponents)

    fresh: Any = params.body
    start = fresh, optimizer.init(fresh)
    (body, _), history = jax.lax.scan(step, start, jnp.arange(updates))
    return replace(params, body=body), history
