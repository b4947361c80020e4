"""Initialisers as edits: values called with (key, cell, params) that redraw one part of a gated cell's params.

    cell = with_init(rnn(), Orthogonal(gain=1.0), InputGaussian(variance=1.0), Bias(0.0))

Edits are equal by value, so a cell built twice is one cell to jit. They also take traced numbers, so that a gain or
a forget bias can be an axis of a sweep: `GateBias("f", value)(key, cell, params)`. All draws are in float32, cast once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import sequential_vmap
from jax.nn import initializers

from seqjax.core import Affine, Cell, Params, factory
from seqjax.gated import set_bias
from seqjax.sequences import concrete

Edit = Callable[[Array, Cell, Params], Params]

# LAPACK's kernels in JAX share a batch of matrices out among XLA's threads and wait for it on one of them: a few at a
# time can wait for each other for ever.
one_at_a_time = sequential_vmap


@factory
def with_init(cell: Cell, *edits: Edit) -> Cell:
    """The same cell, whose `init` applies the edits in order to its own draw."""

    def init(key: Array, D: int, H: int) -> Params:
        first, *keys = jax.random.split(key, len(edits) + 1)
        params = cell.init(first, D, H)
        for k, edit in zip(keys, edits, strict=True):
            params = edit(k, cell, params)
        return params

    return replace(cell, init=init)


def require_gates(cell: Cell) -> str:
    """The letters of a cell's gates; ValueError where it has none."""
    if not cell.gates:
        raise ValueError(f"cell {cell.name!r} has no gates, so this initialiser does not apply to it")
    return cell.gates


def per_gate(key: Array, cell: Cell, params: Affine, draw: Callable[[Array, int], Array]) -> Affine:
    """Replace every gate's recurrent block [H, H] by a draw of its own; a draw over all gates at once would give
    blocks of the wrong singular values."""
    require_gates(cell)
    if params.W_hh is None:
        raise ValueError(f"cell {cell.name!r} has no recurrent blocks, so this initialiser does not apply to it")
    H = params.W_hh.shape[1]
    blocks = [draw(k, H) for k in jax.random.split(key, len(cell.gates))]
    return replace(params, W_hh=jnp.concatenate(blocks).astype(params.W_hh.dtype))


@dataclass(frozen=True)
class Uniform:
    """Every array but a LayerNorm gain from U(-bound, bound); bound None is PyTorch's 1/√H."""

    bound: float | None = None

    def __call__(self, key: Array, cell: Cell, params: Params) -> Params:
        require_gates(cell)
        bound = (params.W_ih.shape[0] / len(cell.gates)) ** -0.5 if self.bound is None else self.bound
        leaves, tree = jax.tree.flatten(params)
        keys = jax.random.split(key, len(leaves))
        draws = [
            jax.random.uniform(k, a.shape, jnp.float32, -bound, bound).astype(a.dtype)
            for k, a in zip(keys, leaves, strict=True)
        ]
        return replace(jax.tree.unflatten(tree, draws), gain=params.gain)


@dataclass(frozen=True)
class Gaussian:
    """Recurrent blocks with entries N(0, variance/H), so that the spectral radius tends to √variance (circular law),
    or rescaled until the largest singular value is `sigma_max`. Give exactly one."""

    variance: float | None = None
    sigma_max: float | None = None

    def __post_init__(self) -> None:
        if (self.variance is None) == (self.sigma_max is None):
            raise ValueError("give exactly one of variance and sigma_max to Gaussian")
        size: Any = self.sigma_max if self.variance is None else self.variance
        if concrete(size) and not size >= 0:
            raise ValueError(f"variance or sigma_max must be at least 0, got {size}")

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        return per_gate(key, cell, params, self.block)

    def block(self, key: Array, H: int) -> Array:
        """One gate's draw [H, H]."""
        W = jax.random.normal(key, (H, H), jnp.float32) * H**-0.5
        if self.variance is not None:
            return W * jnp.sqrt(self.variance)
        return W * (self.sigma_max / one_at_a_time(lambda W: jnp.linalg.norm(W, 2))(W))


@dataclass(frozen=True)
class Orthogonal:
    """Recurrent blocks `gain` times a random orthogonal matrix, each gate's its own (Saxe et al. 2014)."""

    gain: float = 1.0

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        return per_gate(key, cell, params, self.block)

    def block(self, key: Array, H: int) -> Array:
        """One gate's draw [H, H]."""
        draw = initializers.orthogonal()
        return self.gain * one_at_a_time(lambda k: draw(k, (H, H), jnp.float32))(key)


@dataclass(frozen=True)
class ScaledIdentity:
    """Recurrent blocks scale times the identity (Le et al. 2015)."""

    scale: float = 1.0

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        return per_gate(key, cell, params, lambda k, H: self.scale * jnp.eye(H))


@dataclass(frozen=True)
class InputGaussian:
    """Input kernels N(0, variance/D): inputs of unit variance alone give pre-activations of this variance."""

    variance: float = 1.0

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        require_gates(cell)
        W = jax.random.normal(key, params.W_ih.shape, jnp.float32)
        W = W * jnp.sqrt(self.variance / params.W_ih.shape[1])
        return replace(params, W_ih=W.astype(params.W_ih.dtype))


@dataclass(frozen=True)
class InputIdentity:
    """The input matrix is the identity, so that unit k reads input k alone; ValueError unless D = H and G is 1."""

    def __call__(self, key: Array, cell: Cell, params: Params) -> Params:
        rows, D = params.W_ih.shape
        if rows != D:
            raise ValueError(f"W_ih must be square to be the identity, got {[rows, D]}: give as many units as inputs")
        return replace(params, W_ih=jnp.eye(D, dtype=params.W_ih.dtype))


@dataclass(frozen=True)
class Bias:
    """The effective bias b_ih + b_hh of every gate."""

    value: float = 0.0

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        for gate in require_gates(cell):
            params = set_bias(cell.gates, params, gate, self.value)
        return params


@dataclass(frozen=True)
class NoBias:
    """No biases at all, b_ih = b_hh = None, as PyTorch's `bias=False`."""

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        require_gates(cell)
        return replace(params, b_ih=None, b_hh=None)


@dataclass(frozen=True)
class GateBias:
    """The effective bias b_ih + b_hh of one gate by its letter: "f" of an LSTM, the keep gate "z" of a GRU."""

    gate: str
    value: float

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        return set_bias(cell.gates, params, self.gate, self.value)


def ForgetBias(value: float) -> GateBias:
    """Effective forget bias of an LSTM: σ(value) of the cell is kept at every step (Gers et al. 2000)."""
    return GateBias("f", value)


def KeepBias(value: float) -> GateBias:
    """Effective keep bias of a GRU: σ(value) of the hidden state is kept at every step."""
    return GateBias("z", value)


@dataclass(frozen=True)
class Chrono:
    """Forget biases b_f = ln U(1, longest - 1), input biases b_i = -b_f (Tallec and Ollivier 2018)."""

    longest: int

    def __post_init__(self) -> None:
        if concrete(self.longest) and not self.longest >= 3:
            raise ValueError(f"longest must be at least 3 for a chrono bias, got {self.longest}")

    def __call__(self, key: Array, cell: Cell, params: Affine) -> Affine:
        H = params.W_ih.shape[0] // len(require_gates(cell))
        b = jnp.log(jax.random.uniform(key, (H,), jnp.float32, 1.0, self.longest - 1.0))
        return set_bias(cell.gates, set_bias(cell.gates, params, "f", b), "i", -b)
