"""Many runs of one recipe as one program."""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import jax
from jax import Array

from seqjax.plan import Plan, plan_for, staffed
from seqjax.sweep import checked_runs, run_many
from seqjax.train.recipe import Hyper, Recipe
from seqjax.train.run import History, TrainState, advance, begin, evaluate, purposes
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
    progress: Callable[[int, int, Any], None] | None = None,
) -> tuple[TrainState, History]:
    """Train one run per key [R] and hyperparameter [R] as one program: states and histories with R in front.

    Run i equals `train(keys[i], recipe, ...)` to rounding, whatever the plan. Threefry keys only, else ValueError, and
    shards of a plan that divide the batch. States stay on the devices that made them: `processes.fetch` brings them in.
    """
    keys, hyper = checked_runs(keys, hyper or {})
    first, onward, _ = programs(recipe, plan or plan_for(len(keys)))
    return run_many(first, onward, keys, hyper, updates=recipe.updates, progress=progress)
