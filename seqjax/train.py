"""Training as one pure function of a key, and sweeps of whole trainings as one program."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from seqjax.core import Params, require_sizes
from seqjax.gradients import adam, all_finite, all_true, global_norm
from seqjax.network import Network
from seqjax.sequences import batch_last, mask_of
from seqjax.stopwatch import TIMES, stopwatch
from seqjax.sweep import Plan, Read, checked_axes, checked_runs, gather, grid, plan_for, run_many, seed_keys, staffed
from seqjax.tasks.task import Batch, Task

Hyper = Mapping[str, Any]
CAUSES = ("", "loss", "gradient", "params", "optimizer")
ADAM = adam(3e-3)


@dataclass(frozen=True)
class Recipe:
    """Everything about a training run that is not a number to be swept.

    `optimizer` is any optax transformation, or a function of the hyperparameters that returns one; `edit` changes the
    fresh params by the hyperparameters, (key, params, hyper) -> params.
    """

    network: Network
    task: Task
    hidden: int
    updates: int = 1500
    batch: int = 64
    optimizer: optax.GradientTransformation | Callable[[Hyper], optax.GradientTransformation] = ADAM
    edit: Callable[[Array, Params, Hyper], Params] | None = None

    def __post_init__(self) -> None:
        require_sizes(hidden=self.hidden, updates=self.updates, batch=self.batch)
        for name in ("inputs", "readout"):
            ours, its = getattr(self.network, name), getattr(self.task, name)
            if ours != its and (ours, its) != ("embedding", "onehot"):
                raise ValueError(f"task {self.task.name!r} needs a network with {name}={its!r}, got {ours!r}")


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

    loss: Array  # [updates]
    gradient_norm: Array  # [updates] global norm, before clipping


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
    if unread := set(hyper) - hyper.names:
        raise ValueError(f"hyperparameter {min(unread)!r} is read by neither the recipe's optimizer nor its edit")
    return TrainState(params, opt_state, data, jnp.int32(0), jnp.int32(-1), jnp.int32(0))


def optimizer_of(recipe: Recipe, hyper: Hyper) -> optax.GradientTransformation:
    """The recipe's optimiser at these hyperparameters."""
    given = recipe.optimizer
    return given if isinstance(given, optax.GradientTransformation) else given(hyper)


def judge(
    recipe: Recipe, params: Params, batch: Batch, measure: Callable[..., Array], key: Array | None = None
) -> Array:
    """A loss or score of the network on a batch, over valid steps only; `key` draws what dropout drops."""
    mask = None if batch.lengths is None else batch_last(mask_of(batch.lengths, batch.xs.shape[1]))
    output = recipe.network.forward(params, batch_last(batch.xs), mask, key=key)
    predictions = jnp.moveaxis(getattr(output, recipe.task.readout), -1, 0)
    return measure(predictions, batch.targets, None if recipe.task.readout == "last" or mask is None else mask.T)


def update(recipe: Recipe, hyper: Hyper, state: TrainState) -> tuple[TrainState, History]:
    """One update. A run whose loss, gradient, new params or optimiser state turn non-finite keeps its last finite
    params for good."""
    batch = recipe.task.draw(state.key, state.step, recipe.batch)
    noise = None if recipe.network.dropout is None else noise_key(state)
    loss, grads = jax.value_and_grad(lambda p: judge(recipe, p, batch, recipe.task.loss, noise))(state.params)
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
        step=state.step + 1,
        failed_at=jnp.where(~before & failed, state.step, state.failed_at),
        cause=jnp.where(~before & failed, finite.argmin() + 1, state.cause).astype(jnp.int32),
    )
    return after, History(*(jnp.where(before, jnp.nan, value) for value in (loss, norm)))


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


def test_keys(keys: Array) -> Array:
    """Of many runs, the keys of what each is tested on."""
    return jax.vmap(lambda key: purposes(key)[1])(keys)


@lru_cache(maxsize=64)
def programs(recipe: Recipe, plan: Plan) -> tuple[Callable[..., Any], Callable[[int], Any], Callable[..., Any]]:
    """Compiled begin, advance(n) and evaluate(examples) over many runs of one recipe."""
    advances = cache(lambda updates: staffed(partial(advance, recipe, updates), plan))
    scores = cache(lambda examples: staffed(partial(evaluate, recipe, examples=examples), plan))
    return staffed(partial(begin, recipe), plan), advances, scores


def begin_many(recipe: Recipe, keys: Array, hyper: Hyper | None = None, *, plan: Plan | None = None) -> TrainState:
    """The states from which `train_many` sets out."""
    keys, hyper = checked_runs(keys, hyper or {})
    return programs(recipe, plan or plan_for(len(keys)))[0](keys, hyper)


def train_many(
    recipe: Recipe,
    keys: Array,
    hyper: Hyper | None = None,
    *,
    plan: Plan | None = None,
    progress: Callable[[int, int, Any], None] | None = None,
) -> tuple[TrainState, History]:
    """Train one run per key [R] and hyperparameter [R] as one program: states and histories with R in front.

    Run i equals `train(keys[i], recipe, ...)` to rounding, whatever the plan. Threefry keys only, else ValueError.
    """
    keys, hyper = checked_runs(keys, hyper or {})
    first, onward, _ = programs(recipe, plan or plan_for(len(keys)))
    return run_many(first, onward, keys, hyper, updates=recipe.updates, progress=progress)


def sweep_recipe(
    recipe: Recipe,
    *,
    seeds: int | Iterable[int] = 5,
    axes: Mapping[str, Sequence[float]] | None = None,
    examples: int = 2000,
    plan: Plan | None = None,
    title: str | None = None,
) -> Any:
    """Train and score every combination of dynamic hyperparameters and seeds as one program.

    Returns an `xarray.Dataset` with dims (*axes, seed [, update]): score, loss, gradient_norm, failed_at (-1 for none)
    and cause; its attributes say by which plan, and in how many compile_seconds and run_seconds. A failed run scores
    NaN. `title` shows a progress bar under that name.
    """
    import xarray as xr

    from seqjax.progress import progress_bar

    require_sizes(examples=examples)
    axes = checked_axes({}, axes or {})[1]
    numbers, keys = seed_keys(seeds)
    many, hyper = grid(keys, axes)
    plan = plan or plan_for(len(many))
    with progress_bar(title) if title else nullcontext() as show, stopwatch() as taken:
        states, history = train_many(recipe, many, hyper, plan=plan, progress=show)
        scores = np.asarray(programs(recipe, plan)[2](examples)(states.params, test_keys(many)))
    failed = np.asarray(states.failed_at)
    shape, dims = [*map(len, axes.values()), len(numbers)], (*axes, "seed")
    runs = {"score": np.where(failed < 0, scores, np.nan), "failed_at": failed, "cause": np.array(CAUSES)[states.cause]}
    updates = {"loss": history.loss, "gradient_norm": history.gradient_norm}
    variables = {name: (dims, np.reshape(value, shape)) for name, value in runs.items()} | {
        name: ((*dims, "update"), value.reshape(*shape, -1)) for name, value in updates.items()
    }
    return xr.Dataset(variables, {**axes, "seed": numbers}, {"plan": str(plan), **taken})


def sweep(
    make: Callable[..., Recipe],
    *,
    static: Mapping[str, Sequence[Any]] | None = None,
    dynamic: Mapping[str, Sequence[float]] | None = None,
    **options: Any,
) -> Any:
    """Sweep recipes: `make(**point)` for every combination of `static` axes (one compilation each), and within each
    every combination of `dynamic` axes and seeds as one program.

    Options and result are those of `sweep_recipe`, with the static axes leading.
    """
    static, dynamic = checked_axes(static or {}, dynamic or {})
    recipes = [make(**dict(zip(static, values, strict=True))) for values in product(*static.values())]
    if len({recipe.updates for recipe in recipes}) > 1:
        raise ValueError("every recipe of one sweep must have the same number of updates: sweep each number by itself")
    parts = [sweep_recipe(recipe, axes=dynamic, **options) for recipe in recipes]
    taken = {name: sum(part.attrs[name] for part in parts) for name in TIMES}
    return gather(parts, static).assign_attrs(plan=parts[0].attrs["plan"], **taken)
