"""Where does a gradient go? dL/ds_t for all t by one backward pass, beside the gradient that training needs anyway.

seqjax            `gradient_profile`, ‖dL/ds_t‖ for all t
forward+backward  value and gradient of the same loss to the params
jacrev            ds_T/ds_t for all t, one backward pass for every number of the final state
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import seqjax
from experiments.benchmark.layer import compiled
from experiments.benchmark.peers.seqjax import CELLS
from experiments.benchmark.timing import Call, interleaved
from seqjax.losses import cross_entropy
from seqjax.sequences import batch_last
from seqjax.tasks import recall


def measure(*, cell: str, B: int, T: int, H: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """One case: seconds of each on a batch of recall."""
    task, net = recall(length=T), seqjax.network(CELLS[cell], inputs="onehot", readout="last")
    params = net.init(jax.random.key(0), task.D, H, task.K)
    batch = task.held_out(jax.random.key(1), B)

    def profile(params: Any, xs: Array, targets: Array) -> Any:
        return seqjax.gradient_profile(net, params, xs, targets).whole

    def loss(params: Any, xs: Array, targets: Array) -> Array:
        logits: Any = net.apply(params, xs).last
        return cross_entropy(logits, targets, None)

    def jacobians(params: Any, xs: Array, targets: Array) -> Any:
        def final(nudges: Any) -> Any:
            return net.forward(params, batch_last(xs), None, nudges).body.final

        return jax.jacrev(final)(jax.tree.map(jnp.zeros_like, states(net, params, xs)))

    functions = {"seqjax": profile, "forward+backward": jax.value_and_grad(loss), "jacrev": jacobians}
    calls: dict[str, Call] = {}
    facts: dict[str, dict[str, Any]] = {}
    for name, function in functions.items():
        program, known = compiled(function, params, batch.xs, batch.targets)
        calls[name] = lambda program=program: jax.block_until_ready(program(params, batch.xs, batch.targets))
        facts[name] = {"note": ""} | known
    for name, times in interleaved(calls, rounds=rounds, seconds=seconds).items():
        facts[name] |= times
    return [{"part": "probe", "kind": "probe", "cell": cell, "B": B, "T": T, "D": task.D, "H": H, "candidates": facts}]


def states(net: seqjax.Network, params: Any, xs: Array) -> Any:
    """Shapes of all states of a run, layer by layer."""
    shapes = jax.eval_shape(lambda: net.forward(params, batch_last(xs))).body.traces
    return tuple(trace.after for trace in shapes)
