"""Training watched from outside: scores and forget gates of every seed on the way."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

import seqjax
from seqjax.core import Cell
from seqjax.network import NetworkParams
from seqjax.plan import plan_for, spread
from seqjax.processes import fetch
from seqjax.progress import progress_bar
from seqjax.sweep import seed_keys
from seqjax.train import programs, test_keys

OPEN = 0.95  # a gate above this is open


def looks_of(updates: int, every: int) -> list[int]:
    """When to look: before the first update, after every so many, and after the last."""
    return [*range(0, updates, every), updates]


def watch(recipe: seqjax.Recipe, cell: Cell, *, seeds: int, every: int, examples: int, title: str) -> xr.Dataset:
    """Train every seed and look at them all every so many updates; dims seed, update [, unit].

    score and, where the cell has forget gates, forget (the mean gate of every unit) and open_share (the share of all
    values above 0.95), on fresh sequences; loss, the mean over the updates since the last look; failed_at. A seed that
    has failed is NaN from there on.
    """
    numbers, keys = seed_keys(seeds)
    plan, tests = plan_for(seeds), test_keys(keys)
    onward, look = programs(recipe, plan)[1], jax.jit(spread(partial(look_at, recipe, cell, examples), plan))
    states, moments = seqjax.begin_many(recipe, keys), looks_of(recipe.updates, every)
    looks, losses = [fetch(look(states.params, tests))], [np.full(seeds, np.nan)]
    with progress_bar(title) as show:
        for done, until in pairwise(moments):
            states, history = onward(until - done)(states, {})
            found, history = fetch((look(states.params, tests), history))
            looks.append(found)
            losses.append(history.loss.mean(1))
            show(until, recipe.updates, history)
    score, forget, share = (np.stack(each, axis=1) for each in zip(*looks, strict=True))
    failed = fetch(states.failed_at)
    sound = (failed[:, None] < 0) | (np.array(moments) <= failed[:, None])
    variables = {
        "score": (("seed", "update"), np.where(sound, score, np.nan)),
        "loss": (("seed", "update"), np.stack(losses, axis=1)),
        "forget": (("seed", "update", "unit"), np.where(sound[..., None], forget, np.nan)),
        "open_share": (("seed", "update"), np.where(sound, share, np.nan)),
        "failed_at": ("seed", failed),
    }
    return xr.Dataset(variables, {"seed": numbers, "update": moments})


def look_at(
    recipe: seqjax.Recipe, cell: Cell, examples: int, params: NetworkParams, key: Array
) -> tuple[Array, Array, Array]:
    """One seed: its score, the mean forget gate of every unit [H], and the share of all gate values above 0.95; the
    gates are NaN for a cell without any."""
    score = seqjax.evaluate(recipe, params, key, examples=examples)
    if "f" not in cell.gates:
        return score, jnp.full(recipe.hidden, jnp.nan), jnp.array(jnp.nan)
    gates = forget_gates(recipe.network, cell, params, recipe.task.held_out(key, examples).xs)
    return score, gates.mean((0, 1)), (gates > OPEN).mean()


def forget_gates(network: seqjax.Network, cell: Cell, params: NetworkParams, xs: Array) -> Array:
    """σ(f) of the first layer at every step, [B, T, H], of a cell with neither peepholes nor LayerNorm: the gate's
    pre-activation is then u + a, by the cell's own pieces."""
    trace = network.apply(params, xs).body.traces[0]
    recur = partial(cell.recur, params.body[0].forward)
    z = trace.us + jax.vmap(jax.vmap(recur))(trace.before)
    return jax.nn.sigmoid(jnp.split(z, len(cell.gates), axis=-1)[cell.gates.index("f")])
