"""One run's batch over many devices: each takes its share through the network, gradients are summed once an update."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
from jax import Array
from jax.sharding import PartitionSpec

from seqjax.network import Network, NetworkParams, Output
from seqjax.tasks.task import Batch, Task
from seqjax.train.recipe import Recipe
from seqjax.unroll import batch_size


def sharded(recipe: Recipe, shards: int) -> Recipe:
    """The recipe with every batch split over the mesh axis "batch" of a plan (see `plan.spread`).

    ValueError unless the batch divides. Whatever the task's loss is, it is that of the whole batch.
    """
    if recipe.batch % shards:
        raise ValueError(f"shards of a plan must divide the recipe's batch of {recipe.batch}, got {shards}")
    if shards == 1:
        return recipe
    task, network = recipe.task, recipe.network
    return replace(
        recipe,
        task=replace(task, draw=split_draw(task)),
        network=replace(network, forward=split_forward(network, shards)),
    )


def split_draw(task: Task) -> Callable[..., Batch]:
    """The task's `draw`, each device keeping its share of the batch."""

    def draw(key: Array, step: Array, batch: int) -> Batch:
        return jax.lax.with_sharding_constraint(task.draw(key, step, batch), PartitionSpec("batch"))

    return draw


def split_forward(network: Network, shards: int) -> Callable[..., Output]:
    """The network's `forward`, each device on its share of the batch, the last axis of all that goes in and comes out.

    Left to XLA, which sums the gradient at every step of a scan, are dropout, whose draws are those of the whole batch,
    and a batch that does not divide.
    """

    def forward(
        params: NetworkParams,
        xs: Any,
        mask: Array | None = None,
        perturb: Any = None,
        key: Array | None = None,
        state: Any = None,
        reset: Array | None = None,
    ) -> Output:
        def run(params: NetworkParams, given: tuple[Any, ...]) -> Output:
            xs, mask, perturb, state, reset = given
            return network.forward(params, xs, mask, perturb, key, state, reset)

        given = (xs, mask, perturb, state, reset)
        if key is not None or batch_size(xs) % shards:
            return run(params, given)
        specs = jax.tree.map(last, (given, jax.eval_shape(run, params, given)))
        return jax.shard_map(
            run, in_specs=(PartitionSpec(), specs[0]), out_specs=specs[1], axis_names={"batch"}, check_vma=False
        )(params, given)

    return forward


def last(a: Any) -> PartitionSpec:
    """An array split along its last axis."""
    return PartitionSpec(*[None] * (a.ndim - 1), "batch")
