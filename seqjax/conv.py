"""Causal convolution over time: what a step shows depends on steps up to it and on none after it, by construction.

    y_t = b + Σ_j W_j x_{t - (k-1-j) d},  j = 0 .. k-1          (van den Oord et al. 2016, section 2.1)

with k taps, the oldest first, d steps apart. What comes before the first step reads as zero, and so does a masked step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import carry_dtype, require_sizes
from seqjax.sequences import batch_first, drop_batch, masked, steps_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Conv:
    """Taps of a convolution in the layout of PyTorch's `nn.Conv1d`."""

    W: Array  # [F, C, k] the oldest tap first
    b: Array  # [F]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ring:
    """The last S inputs of a stream, in a buffer that is written round and round."""

    held: Array  # [S, C], zeros at first
    at: Array  # [] int32, where the next input goes: on the oldest


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Field:
    """What an output depends on."""

    reach: int  # inputs from the earliest one that matters to the output's own, both counted; 0 for none
    holes: tuple[int, ...]  # lags below the reach at which nothing matters


def init_conv(key: Array, C: int, F: int, kernel: int) -> Conv:
    """Taps and bias from U(-1/√(C k), 1/√(C k)), as PyTorch's `nn.Conv1d`."""
    require_sizes(C=C, F=F, kernel=kernel)
    bound = (C * kernel) ** -0.5
    W, b = (
        jax.random.uniform(k, shape, jnp.float32, -bound, bound)
        for k, shape in zip(jax.random.split(key), ((F, C, kernel), (F,)), strict=True)
    )
    return Conv(W, b)


def convolve(params: Conv, xs: Array, *, dilation: int = 1, lengths: Any = None, mask: Any = None) -> Array:
    """One sequence [T, C] -> [T, F], or a batch [B, T, C] -> [B, T, F]; zero where masked.

    Layout and errors as for `unroll`; ValueError too for a dilation below 1 and for inputs of another width.
    """
    require_sizes(dilation=dilation)
    steps = steps_of(xs, rank=2, lengths=lengths, mask=mask)
    if steps.xs.shape[1] != params.W.shape[1]:
        raise ValueError(f"xs must hold {params.W.shape[1]} numbers a step, as W does, got {steps.xs.shape[1]}")
    ys = causal(params, masked(steps.xs, steps.mask), dilation)
    return drop_batch(batch_first(masked(ys, steps.mask)), steps.batched)


def causal(params: Conv, xs: Array, dilation: int) -> Array:
    """`convolve` in the inside layout, unchecked: [T, C, B], with zeros where masked, -> [T, F, B].

    y_t = b + Σ_j W_j x_{t - (k - 1 - j) dilation}, a product for each tap: on CPUs XLA's own convolution is six times
    slower within a loop, where training has it.
    """
    dtype, (T, C, B), k = jnp.promote_types(xs.dtype, params.W.dtype), xs.shape, params.W.shape[2]
    W, before = params.W.astype(dtype), jnp.zeros(((k - 1) * dilation, C, B), dtype)
    padded = jnp.concatenate([before, xs.astype(dtype)])
    taps = [jnp.einsum("fc,tcb->tfb", W[..., j], padded[j * dilation : j * dilation + T]) for j in range(k)]
    return sum(taps[1:], taps[0]) + params.b[None, :, None]


def start(params: Conv, dilation: int = 1) -> Ring:
    """The ring of a stream before its first input: as many zeros as the taps span."""
    require_sizes(dilation=dilation)
    _, C, k = params.W.shape
    return Ring(jnp.zeros(((k - 1) * dilation + 1, C), carry_dtype(params)), jnp.int32(0))


def push(ring: Ring, x: Array) -> Ring:
    """The ring with an input [C] in the place of its oldest."""
    held = ring.held.astype(jnp.promote_types(ring.held.dtype, x.dtype))
    held = jax.lax.dynamic_update_index_in_dim(held, x.astype(held.dtype), ring.at, 0)
    return Ring(held, (ring.at + 1) % len(held))


def lagged(ring: Ring, lags: Any) -> Array:
    """The inputs [n, C] at so many steps before the last, [n]; each below S."""
    return ring.held[(ring.at - 1 - jnp.asarray(lags)) % len(ring.held)]


def step(params: Conv, ring: Ring, x: Array, dilation: int = 1) -> tuple[Ring, Array]:
    """One input [C] of a stream: the ring after it, and y [F] as `convolve` has it there, at k products' cost."""
    ring = push(ring, x)
    taps = lagged(ring, dilation * np.arange(params.W.shape[2])[::-1])
    return ring, jnp.einsum("fck,kc->f", params.W, taps) + params.b


def receptive_field(kernel: int, dilations: Sequence[int]) -> int:
    """Inputs that one output of a stack depends on, its own included: 1 + (kernel - 1) Σ dilations, one a layer.

    Raises ValueError for a kernel or dilations below 1, and for no layers.
    """
    if not isinstance(dilations, Sequence):
        raise ValueError(f"dilations must be one integer a layer, such as (1, 2, 4), got {dilations!r}")
    require_sizes(kernel=kernel, layers=len(dilations), **{f"dilations[{i}]": d for i, d in enumerate(dilations)})
    return 1 + (kernel - 1) * sum(dilations)


def measured_field(read: Callable[[Array], Array], xs: Array) -> Field:
    """The receptive field of any model, off its Jacobian at every row of a batch xs [B, T, C].

    `read` takes one sequence [T, C] to what is read at its last step, [F]. A lag matters where any of ∂y/∂x is not 0,
    in any row: a unit that is off hides what it reads, so take a few rows, of more steps than the field is thought to
    have. ValueError for xs that are no such batch.
    """
    xs = jnp.asarray(xs)
    if xs.ndim != 3 or 0 in xs.shape or not jnp.issubdtype(xs.dtype, jnp.floating):
        raise ValueError(f"xs must be a floating-point batch [B, T, C] of something, got {xs.dtype} {list(xs.shape)}")
    slopes = jax.jit(jax.vmap(jax.jacrev(read)))(xs)  # [B, F, T, C]
    matters = np.asarray((slopes != 0).any((0, 1, 3)))[::-1]
    reach = int(np.flatnonzero(matters)[-1]) + 1 if matters.any() else 0
    return Field(reach, tuple(int(lag) for lag in np.flatnonzero(~matters[:reach])))
