"""One training run: a pure function of a key, which stops by itself where numbers stop being finite."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from seqjax.clipping import clip_of
from seqjax.core import Params
from seqjax.gradients import all_finite, all_true, global_norm
from seqjax.sweep import Read
from seqjax.tasks.task import Batch
from seqjax.train.recipe import Hyper, Recipe, answers, judge, optimizer_of
from seqjax.train.windows import Window, over_windows, require_window, truncated

CAUSES = ("", "loss", "gradient", "params", "optimizer")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """One run at one moment; all that is needed to go on."""

    params: Params
    opt_state: Any
    key: Array  # of the data
    step: Array  # updates done
    failed_at: Array  # the update that was not finite, -1 for none
    cause: Array  # index into CAUSES


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class History:
    """What each update saw before it was applied; NaN after a run has failed."""

    loss: Array  # [updates] of the task, without a penalty
    score: Array  # [updates] of the training batch
    gradient_norm: Array  # [updates] global norm, before clipping
    clipped: Array  # [updates] share of the gradient's entries that `seqjax.clip` changed; NaN without one
    turned: Array  # [updates] degrees by which it turned the gradient


def purposes(key: Array) -> Array:
    """A run's key split once: for its initial params, its test data, its training data and its recipe's edit."""
    return jax.random.split(key, 4)


def begin(recipe: Recipe, key: Array, hyper: Hyper) -> TrainState:
    """A run before its first update. ValueError for a hyperparameter that nothing in the recipe reads."""
    hyper = Read(hyper)
    start, _, data, edit = purposes(key)
    params: Params = recipe.network.init(start, recipe.task.D, recipe.hidden, recipe.task.K)
    if recipe.edit is not None:
        params = recipe.edit(edit, params, hyper)
    opt_state = optimizer_of(recipe, hyper).init(params)
    drawn = partial(jax.eval_shape, lambda: recipe.task.draw(data, jnp.int32(0), recipe.batch))
    if recipe.window is not None:
        require_window(recipe.window, drawn().xs.shape[1], params)
    if recipe.penalty is not None:  # which may read some of them
        jax.eval_shape(partial(recipe.penalty, recipe, hyper=hyper), params, drawn())
    if unread := set(hyper) - hyper.names:
        raise ValueError(
            f"hyperparameter {min(unread)!r} is read by neither the recipe's optimizer nor its edit nor its penalty"
        )
    return TrainState(params, opt_state, data, jnp.int32(0), jnp.int32(-1), jnp.int32(0))


def update(recipe: Recipe, hyper: Hyper, state: TrainState) -> tuple[TrainState, History]:
    """One update, of one batch. A run whose loss, gradient, new params or optimiser state turn non-finite keeps its
    last finite params for good."""
    batch = recipe.task.draw(state.key, state.step, recipe.batch)
    noise = None if recipe.network.dropout is None else noise_key(state)
    if recipe.step_every == "window":
        after, loss, score, seen = descend_by_window(recipe, hyper, state, batch, noise)
    else:
        loss, score, total, grads = gradient(recipe, state.params, batch, hyper, noise)
        after, seen = descend(recipe, hyper, state, total, grads)
    recorded = (jnp.where(state.failed_at >= 0, jnp.nan, value) for value in (loss, score, *seen))
    return replace(after, step=state.step + 1), History(*recorded)


def gradient(
    recipe: Recipe, params: Params, batch: Batch, hyper: Hyper, key: Array | None
) -> tuple[Array, Array, Array, Params]:
    """Loss and score of a batch, what is gone down on, and its gradient."""
    if recipe.window is not None:
        loss, score, grads = truncated(recipe, params, batch, key)
        return loss, score, loss, grads
    down = jax.value_and_grad(objective, 1, has_aux=True)
    (total, (loss, score)), grads = down(recipe, params, batch, hyper, key)
    return loss, score, total, grads


def descend_by_window(
    recipe: Recipe, hyper: Hyper, state: TrainState, batch: Batch, key: Array | None
) -> tuple[TrainState, Array, Array, tuple[Array, ...]]:
    """A step of the optimiser for every window in which something counts; of norms and clips, the largest is seen."""

    def take(state: TrainState, window: Window, loss: Array, grads: Params) -> tuple[TrainState, Any]:
        after, seen = descend(recipe, hyper, state, loss, grads)
        moved = jax.tree.map(lambda new, old: jnp.where(window.share > 0, new, old), after, state)
        return moved, jax.tree.map(lambda value: jnp.where(window.share > 0, value, 0), seen)

    after, loss, score, seen = over_windows(recipe, batch, key, state, lambda state: state.params, take)
    return after, loss, score, jax.tree.map(jnp.max, seen)


def objective(
    recipe: Recipe, params: Params, batch: Batch, hyper: Hyper, key: Array | None
) -> tuple[Array, tuple[Array, Array]]:
    """What an update goes down on, loss and penalty; and the loss and the score of the batch by themselves."""
    predictions, where = answers(recipe, params, batch, key=key)
    loss, score = (measure(predictions, batch.targets, where) for measure in (recipe.task.loss, recipe.task.score))
    penalty = 0 if recipe.penalty is None else recipe.penalty(recipe, params, batch, hyper=hyper)
    return loss + penalty, (loss, jax.lax.stop_gradient(score))


def descend(
    recipe: Recipe, hyper: Hyper, state: TrainState, loss: Array, grads: Params
) -> tuple[TrainState, tuple[Array, ...]]:
    """One step of the optimiser, or none where something is not finite; the gradient's norm, and what clipping did."""
    steps, opt_state = optimizer_of(recipe, hyper).update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, steps)
    norm = global_norm(grads)
    sound = jax.tree.map(lambda n, o: jnp.isfinite(n) | ~jnp.isfinite(o), opt_state, state.opt_state)
    finite = jnp.stack([jnp.isfinite(loss), jnp.isfinite(norm), all_finite(params), all_true(sound)])
    before, failed = state.failed_at >= 0, ~finite.all()
    kept = jax.tree.map(
        lambda n, o: jnp.where(before | failed, o, n), (params, opt_state), (state.params, state.opt_state)
    )
    after = TrainState(
        *kept,
        key=state.key,
        step=state.step,
        failed_at=jnp.where(~before & failed, state.step, state.failed_at),
        cause=jnp.where(~before & failed, finite.argmin() + 1, state.cause).astype(jnp.int32),
    )
    return after, (norm, *clip_of(opt_state))


def noise_key(state: TrainState) -> Array:
    """The key of one update's dropout: counted down from the top, as those of the data count up from 0."""
    return jax.random.fold_in(state.key, jnp.uint32(2**32 - 1) - state.step.astype(jnp.uint32))


def advance(recipe: Recipe, updates: int, state: TrainState, hyper: Hyper) -> tuple[TrainState, History]:
    """So many updates of one run, as one scan."""
    return jax.lax.scan(lambda s, _: update(recipe, hyper, s), state, length=updates)


def train(key: Array, recipe: Recipe, **hyper: float) -> tuple[TrainState, History]:
    """Train one run from a key: a pure function, which can be jitted and vmapped, of one scan over all updates.

    `hyper` are the numbers that the recipe's `optimizer` and `edit` ask for.
    """
    return advance(recipe, recipe.updates, begin(recipe, key, hyper), hyper)


def evaluate(recipe: Recipe, params: Params, key: Array, *, examples: int = 2000) -> Array:
    """Score on data that training has not seen: so many fresh sequences, or the whole test set where there is one."""
    return judge(recipe, params, recipe.task.held_out(key, examples), recipe.task.score)
