"""Many seeds of recall, each a whole training: ours as one program, PyTorch in a loop over seeds, linen vmapped.

Everyone trains the same network by the same Adam on fresh batches of its own generator (linen draws ours); weights are
each library's own draw, which takes no part of the time worth speaking of.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

import seqjax
from experiments.benchmark.peers import absence, module_of
from experiments.benchmark.timing import Call, interleaved
from experiments.benchmark.worker import cores
from experiments.models import Training, recall_recipe
from seqjax.sweep import seed_keys

SLOW = 3  # times slower with all threads than with one


def measure(*, cell: str, T: int, S: int, updates: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """One case: seconds of one update of all seeds together."""
    config = Training(updates=updates)
    recipe, keys = recall_recipe(cell, T, config), seed_keys(S)[1]
    calls: dict[str, Call] = {"seqjax": lambda: jax.block_until_ready(seqjax.train_many(recipe, keys))}
    facts: dict[str, dict[str, Any]] = {name: {"note": absence(name, cell)} for name in ("seqjax", "torch", "linen")}
    if not facts["torch"]["note"]:
        loops, facts["torch"]["note"] = torch_loops(cell, recipe, T, S, config.learning_rate)
        calls |= loops
    if not facts["linen"]["note"]:
        program = linen_program(cell, recipe, config.learning_rate)
        calls["linen"] = lambda: jax.block_until_ready(program(keys))
    first = {name: seconds_of(call) for name, call in calls.items()}
    times = interleaved(calls, rounds=rounds, seconds=seconds)
    for name, clocks in times.items():
        compiling = {"compiling": first[name] - min(clocks["wall"])} if "torch" not in name else {}
        each = {clock: [took / updates for took in values] for clock, values in clocks.items()}
        facts[name] = compiling | each
    sizes = {"B": config.batch, "T": T, "D": recipe.task.D, "H": config.hidden, "S": S}
    return [{"part": "sweep", "kind": "update", "cell": cell, **sizes, "candidates": facts}]


def torch_loops(cell: str, recipe: seqjax.Recipe, T: int, S: int, learning_rate: float) -> tuple[dict[str, Call], str]:
    """PyTorch's loop over seeds with all threads and with one, and why that with all is left out, if it is.

    On a busy machine threads wait for each other at every step: where one seed takes over 3 times as long with all of
    them as with one, only that with one is timed.
    """
    train, every = module_of("torch_loop").train, cores()
    loops: dict[str, Call] = {"torch": partial(train, cell, recipe, T, S, learning_rate, every)}
    if every == 1:
        return loops, ""
    loops["torch, 1 thread"] = partial(train, cell, recipe, T, S, learning_rate, 1)
    seed = partial(train, cell, recipe, T, 1, learning_rate)
    seed(1)  # what is done once
    slower = seconds_of(partial(seed, every)) / seconds_of(partial(seed, 1))
    if slower < SLOW:
        return loops, ""
    del loops["torch"]
    return loops, f"{slower:.0f} times slower with {every} threads"


def seconds_of(call: Call) -> float:
    """Wall time of a first call, with compilation."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def linen_program(cell: str, recipe: seqjax.Recipe, learning_rate: float) -> Callable[[Array], Any]:
    """`jit` of `vmap(train)` of a linen model; keys [S] -> its params and losses [S, updates]."""
    from experiments.benchmark.peers.linen import Last

    model, task = Last(cell, recipe.hidden, recipe.task.K), recipe.task
    adam = optax.adam(learning_rate)

    def inputs(batch: Any) -> Array:
        return jax.nn.one_hot(batch.xs, task.D)

    def start(key: Array) -> Any:
        return model.init(key, inputs(task.draw(key, jnp.int32(0), recipe.batch)))

    def train(params: Any, data: Array) -> Any:
        def update(state: Any, step: Array) -> Any:
            params, moments = state
            batch = task.draw(data, step, recipe.batch)

            def loss(params: Any) -> Array:
                logits: Any = model.apply(params, inputs(batch))
                return optax.softmax_cross_entropy_with_integer_labels(logits, batch.targets).mean()

            value, grads = jax.value_and_grad(loss)(params)
            steps, moments = adam.update(grads, moments, params)
            return (optax.apply_updates(params, steps), moments), value

        (params, _), losses = jax.lax.scan(update, (params, adam.init(params)), jnp.arange(recipe.updates))
        return params, losses

    def program(keys: Array) -> Any:
        keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        # linen draws by QR, which can hang where a CPU does many at once: one seed at a time
        return jax.vmap(train)(jax.lax.map(start, keys[0]), keys[1])

    return jax.jit(program)
