"""Many runs of one recipe as one program."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax import Array

from seqjax.checkpoint import Checkpoints, Saver, kind, name_of, opened, require_leaves
from seqjax.plan import Plan, plan_for, staffed
from seqjax.processes import copied, fetch, of_first, require_of_first
from seqjax.sweep import checked_runs, joined_history, run_many
from seqjax.train.recipe import Hyper, Recipe
from seqjax.train.run import History, TrainState, advance, begin, evaluate, purposes
from seqjax.train.saved import about_network
from seqjax.train.shards import sharded


def test_keys(keys: Array) -> Array:
    """Of many runs, the keys of what each is tested on."""
    return jax.vmap(lambda key: purposes(key)[1])(keys)


@lru_cache(maxsize=64)
def programs(recipe: Recipe, plan: Plan) -> tuple[Callable[..., Any], Callable[[int], Any], Callable[..., Any]]:
    """Compiled begin, advance(n) and evaluate(examples) over many runs of one recipe.

    ValueError where the plan's shards do not divide the recipe's batch.
    """
    recipe = sharded(recipe, plan.shards)
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
    states: TrainState | None = None,
    progress: Callable[[int, int, Any], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[TrainState, History]:
    """Train one run per key [R] and hyperparameter [R] as one program: states and histories with R in front.

    Run i equals `train(keys[i], recipe, ...)` to rounding, whatever the plan. `states`, which another recipe of the
    same network may have ended in, are gone on from, as in a curriculum. `progress(done, updates, history)` is called
    on the way. States stay on the devices that made them: `processes.fetch` brings them in. With `checkpoints` the runs
    go on from the last one in that folder, to the same numbers, on the same machine bit for bit. ValueError for keys
    other than threefry, states of other shapes, shards of a plan that do not divide the batch, a checkpoint of another
    run, and a folder that cannot be written.
    """
    keys, hyper = checked_runs(keys, hyper or {})
    first, onward, _ = programs(recipe, plan or plan_for(len(keys)))
    updates, begun = recipe.updates, first(keys, hyper) if states is None else states
    if states is not None:
        require_states(recipe, keys, hyper, states)
    watch: list[Any] = [] if progress is None else [lambda done, _, parts: progress(done, updates, parts[-1])]
    if checkpoints is None:
        return run_many(begun, onward, hyper, updates=updates, watch=watch)
    with ExitStack() as stack:
        saver = first_opens(checkpoints, about_run(recipe, keys, hyper, begun.step), stack)
        states, before, done = resumed(recipe, saver, begun, hyper)
        watch.append(partial(save_if_due, saver, updates))
        return run_many(states, onward, hyper, updates=updates, before=before, done=done, watch=watch)


def require_states(recipe: Recipe, keys: Array, hyper: Mapping[str, Array], states: TrainState) -> None:
    """ValueError for the first leaf that is not as in a run of this recipe."""
    like = jax.eval_shape(jax.vmap(partial(begin, recipe)), keys, hyper)
    paths, wanted = (jax.tree_util.tree_leaves_with_path(tree) for tree in (states, like))
    given = {name_of(path): kind(leaf) for path, leaf in paths}
    require_leaves("states", given, {name_of(path): leaf for path, leaf in wanted})


def first_opens(checkpoints: Checkpoints, about: Mapping[str, Any], stack: ExitStack) -> Saver | None:
    """The checkpoints, at process 0, which alone reads and writes them; what is wrong with them is raised at all."""
    held: list[Saver] = []
    require_of_first(lambda: held.append(stack.enter_context(opened(checkpoints, about))))
    return held[0] if held else None


def about_run(recipe: Recipe, keys: Array, hyper: Mapping[str, Array], done: Array) -> dict[str, Any]:
    """What a run is, as JSON has it: what its checkpoints are known by, and what the network is rebuilt from."""
    network = recipe.network
    return {
        **about_network(network),
        "task": recipe.task.name,
        "D": recipe.task.D,
        "K": recipe.task.K,
        "hidden": recipe.hidden,
        "batch": recipe.batch,
        "window": recipe.window,
        "step_every": recipe.step_every,
        "updates_before": fetch(done).tolist(),
        "keys": jax.random.key_data(keys).tolist(),
        "hyper": {name: values.tolist() for name, values in hyper.items()},
    }


def resumed(
    recipe: Recipe, saver: Saver | None, states: TrainState, hyper: Mapping[str, Array]
) -> tuple[TrainState, list[History], int]:
    """(states, history, updates done) of the last checkpoint, at every process; as given where there is none."""
    last = None if saver is None else saver.latest()
    done = of_first(-1 if last is None else last)
    if done < 0:
        return states, [], 0
    if done > recipe.updates:
        raise ValueError(f"updates must be at least {done}, which the checkpoint has done, got {recipe.updates}")
    like = states, jax.eval_shape(jax.vmap(partial(advance, recipe, done)), states, hyper)[1]
    held: list[Any] = []
    require_of_first(lambda: held.append(saver and saver.restore(done, like)))
    states, history = copied(held[0] if held else None, like)
    return states, [history], done


def save_if_due(saver: Saver | None, updates: int, done: int, states: TrainState, parts: list[History]) -> None:
    """A checkpoint where process 0 says that it is time for one, and at the end."""
    if not of_first(saver is not None and (saver.due(done) or done == updates)):
        return
    tree, loss = (fetch(states), joined_history(parts)), parts[-1].loss
    mean = float(loss[np.isfinite(loss)].mean()) if np.isfinite(loss).any() else float("inf")
    require_of_first(lambda: saver and saver.save(done, tree, loss=mean))
