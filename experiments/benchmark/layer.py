"""One recurrent layer without a readout: outputs, the gradient of their mean square to all weights, an Adam step.

Everyone takes the same xs [B, T, D] and the same weights, and must give our numbers before being timed.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import seqjax
from experiments.benchmark.peers import LIBRARIES, OWN_EQUATION, absence, module_of
from experiments.benchmark.peers.seqjax import CELLS
from experiments.benchmark.timing import Call, interleaved
from seqjax.core import Affine

CLOSE = 1e-5  # outputs are below 1
LEARNING_RATE = 1e-3


def measure(
    *, cell: str, B: int, T: int, D: int, H: int, kinds: tuple[str, ...], rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """A case for each kind of work, one of forward, gradient and training."""
    params, xs = inputs(cell, B, T, D, H)
    notes = {library: absence(library, cell) for library in LIBRARIES}
    cases = []
    for kind in kinds:
        calls: dict[str, Call] = {}
        facts: dict[str, dict[str, Any]] = {library: {"note": note} for library, note in notes.items()}
        for library in (library for library, note in notes.items() if not note):
            calls[library], known = prepare(library, kind, cell, params, xs)
            facts[library] = known | {"note": OWN_EQUATION.get((library, cell), "")}
        require_agreement(cell, kind, params, xs, {library: call() for library, call in calls.items()})
        for library, times in interleaved(calls, rounds=rounds, seconds=seconds).items():
            facts[library] |= times
        sizes = {"B": B, "T": T, "D": D, "H": H}
        cases.append({"part": "layer", "kind": kind, "cell": cell, **sizes, "candidates": facts})
    return cases


def inputs(cell: str, B: int, T: int, D: int, H: int) -> tuple[Affine, Array]:
    """Float32 weights of two biases, but none inside a GRU's reset product, where nnx has none, and xs [B, T, D]."""
    rng, gates = np.random.default_rng(0), len(CELLS[cell].gates)
    shapes = ((gates * H, D), (gates * H, H), (gates * H,), (gates * H,))
    W_ih, W_hh, b_ih, b_hh = (rng.uniform(-(H**-0.5), H**-0.5, shape).astype(np.float32) for shape in shapes)
    if cell == "gru":
        b_hh[2 * H :] = 0
    xs = rng.normal(size=(B, T, D)).astype(np.float32)
    return Affine(*map(jnp.asarray, (W_ih, W_hh, b_ih, b_hh))), jnp.asarray(xs)


def prepare(library: str, kind: str, cell: str, params: Affine, xs: Array) -> tuple[Call, dict[str, float]]:
    """A call that does the work and returns its result, with nothing left to compile; and what XLA says of it."""
    module = module_of(library)
    if library == "torch":
        return module.prepared(cell, params, xs, kind), {}
    weights, apply = module.layer(cell, params)
    return KINDS[kind](weights, apply, xs)


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], dict[str, float]]:
    """A compiled function of arguments like these, with seconds of compiling and bytes of XLA's temporaries."""
    began = time.perf_counter()
    program = jax.jit(function).lower(*args).compile()
    facts = {"compiling": time.perf_counter() - began}
    memory = program.memory_analysis()
    return program, facts | ({} if memory is None else {"temporaries": float(memory.temp_size_in_bytes)})


def forward(weights: Any, apply: Callable[[Any, Any], Any], xs: Array) -> tuple[Call, dict[str, float]]:
    """Outputs."""
    program, facts = compiled(apply, weights, xs)
    return lambda: jax.block_until_ready(program(weights, xs)), facts


def loss_and_gradient(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Of the mean square of all outputs, to all weights."""
    return jax.value_and_grad(lambda weights, xs: jnp.square(apply(weights, xs)).mean())


def gradient(weights: Any, apply: Callable[[Any, Any], Any], xs: Array) -> tuple[Call, dict[str, float]]:
    """Loss and gradient."""
    return forward(weights, loss_and_gradient(apply), xs)


def training(weights: Any, apply: Callable[[Any, Any], Any], xs: Array) -> tuple[Call, dict[str, float]]:
    """A step of Adam, each from where the last one ended; returns nothing."""
    return stepper(weights, loss_and_gradient(apply), xs)


def stepper(weights: Any, learn: Callable[[Any, Any], Any], data: Any) -> tuple[Call, dict[str, float]]:
    """The same, of a function of weights and data that returns loss and gradient."""
    adam = optax.adam(LEARNING_RATE)

    def step(state: tuple[Any, Any], data: Any) -> tuple[Any, Any]:
        steps, moments = adam.update(learn(state[0], data)[1], state[1], state[0])
        return optax.apply_updates(state[0], steps), moments

    state = (weights, adam.init(weights))
    program, facts = compiled(step, state, data)

    def call() -> None:
        nonlocal state
        state = jax.block_until_ready(program(state, data))

    return call, facts


KINDS = {"forward": forward, "gradient": gradient, "training": training}


def require_agreement(cell: str, kind: str, params: Affine, xs: Array, results: dict[str, Any]) -> None:
    """RuntimeError for a library whose outputs, or loss (and in PyTorch, whose weights are ours, gradient), are not
    ours: it computes something else."""
    if kind == "training":
        return
    ours = results["seqjax"]
    for library, theirs in results.items():
        own = ours if (library, cell) not in OWN_EQUATION else reset_before(params, xs, kind)
        if kind == "forward":
            error = apart(own, theirs)
        else:
            error = abs(float(theirs[0]) / float(own[0]) - 1)
            if library == "torch":
                pairs = zip(jax.tree.leaves(own[1]), theirs[1], strict=True)
                error = max(error, *(apart(a, b) / float(np.abs(a).max()) for a, b in pairs))
        if not error <= CLOSE:
            raise RuntimeError(f"{library} computes another {cell} than seqjax: {kind} off by {error:.2g}")


def apart(ours: Any, theirs: Any) -> float:
    """The largest difference of two arrays or tensors."""
    theirs = theirs.cpu().numpy() if hasattr(theirs, "cpu") else theirs
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())


def reset_before(params: Affine, xs: Array, kind: str) -> Any:
    """What our GRU that resets before the product gives, (loss, nothing) or outputs."""
    ys = jax.jit(partial(seqjax.unroll, seqjax.gru(reset_after=False)))(params, xs).ys
    return ys if kind == "forward" else (jnp.square(ys).mean(), None)
