"""An encoder-decoder with attention, as `run g2p` trains it: the gradient of its loss, and an Adam step.

Ours and PyTorch's start from the same weights, on the same ragged pairs, and must agree before they are timed.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import seqjax
from experiments.benchmark.layer import CLOSE, LEARNING_RATE, compiled, stepper
from experiments.benchmark.peers import absence, module_of
from experiments.benchmark.peers.seqjax import CELLS
from experiments.benchmark.timing import Call, interleaved
from seqjax.losses import cross_entropy
from seqjax.tasks import paired
from seqjax.tasks.task import Batch

EMBEDDING, ATTENTION = 64, 128
LETTERS, SOUNDS = 27, 40  # D and K; the last sound is the end


def measure(*, cell: str, B: int, T: int, H: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """A case for the gradient and one for a training step."""
    network = seqjax.encoder_decoder(
        CELLS[cell], embedding=EMBEDDING, bidirectional=True, bridge=True, attention=ATTENTION
    )
    params, batch = network.init(jax.random.key(0), LETTERS, H, SOUNDS), batch_of(B, T)

    def loss(params: Any, batch: Batch) -> Any:
        logits: Any = network.apply(params, batch.xs).every
        return cross_entropy(logits, batch.targets, batch.xs.mask)

    learn = jax.value_and_grad(loss)
    program, known = compiled(learn, params, batch)
    calls: dict[str, dict[str, Call]] = {
        "gradient": {"seqjax": lambda: jax.block_until_ready(program(params, batch))},
        "training": {},
    }
    calls["training"]["seqjax"], known_too = stepper(params, learn, batch)
    facts: dict[str, dict[str, dict[str, Any]]] = {
        kind: {"seqjax": {"note": "", **each}, "torch": {"note": absence("torch", cell)}}
        for kind, each in (("gradient", known), ("training", known_too))
    }
    if not absence("torch", cell):
        theirs = module_of("torch_pairs").prepared(cell, params, batch, LEARNING_RATE)
        for kind, call in zip(calls, theirs, strict=True):
            calls[kind]["torch"] = call
        require_agreement(cell, calls["gradient"]["seqjax"](), calls["gradient"]["torch"]())
    cases = []
    for kind, each in calls.items():
        for name, times in interleaved(each, rounds=rounds, seconds=seconds).items():
            facts[kind][name] |= times
        sizes = {"B": B, "T": T, "D": EMBEDDING, "H": H}
        cases.append({"part": "pairs", "kind": kind, "cell": cell, **sizes, "candidates": facts[kind]})
    return cases


def batch_of(B: int, T: int) -> Batch:
    """Pairs of at most T symbols each, of every length from a third of that on."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(max(1, T // 3), T + 1, (2, B))
    source, target = (jnp.asarray(rng.integers(size, size=(B, T))) for size in (LETTERS, SOUNDS - 1))
    return paired(source, jnp.asarray(lengths[0]), target, jnp.asarray(lengths[1]), end=SOUNDS - 1)


def require_agreement(cell: str, ours: Any, theirs: Any) -> None:
    """RuntimeError where PyTorch's loss or gradient are not ours."""
    named = module_of("torch_pairs").weights_of(ours[1])
    error = abs(float(theirs[0]) / float(ours[0]) - 1)
    for name, gradient in named.items():
        own = np.asarray(gradient)
        error = max(error, float(np.abs(own - theirs[1][name].cpu().numpy()).max() / np.abs(own).max()))
    if not error <= 10 * CLOSE:
        raise RuntimeError(f"torch computes another encoder-decoder of {cell} than seqjax: gradient off by {error:.2g}")
