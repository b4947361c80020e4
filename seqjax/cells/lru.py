"""The linear recurrent unit (Orvieto et al. 2023): a diagonal of complex poles, read by a real matrix.

    s_t = λ ⊙ s_{t-1} + γ ⊙ (B x_t),  λ = exp(-exp(ν) + i exp(θ)),  y_t = Re(C s_t)

|λ| < 1 whatever ν is, up to rounding. The paper's D x_t, which bypasses the recurrence, is what a residual stack adds.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import (
    Cell,
    Complex,
    at_least_float32,
    carry_dtype,
    factory,
    linear_step,
    require_sizes,
    require_width,
)

LEAST = 2.0**-24  # of a draw from U(0, 1), whose logarithm is taken


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LRU:
    """Poles on a logarithmic scale, input and readout matrices with real and imaginary parts in turn."""

    ν: Array  # [H] ln(-ln |λ|)
    θ: Array  # [H] ln of the angle
    γ: Array  # [H] ln of the input scale
    W_ih: Array  # [2H, D] B, real rows then imaginary rows
    W_ho: Array  # [H, 2H] (Re C, -Im C), so that y = W_ho [Re s; Im s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Modes:
    """One complex number per mode, N = 2H."""

    z: Complex  # [H] each


def init(radius: tuple[float, float], angle: float, key: Array, D: int, H: int) -> LRU:
    """Poles uniform on the ring radius[0] <= |λ| < radius[1], angles U(0, angle), γ = √(1 - |λ|²), so that white
    inputs give states of one scale; B from N(0, 1/(2D)), C from N(0, 1/H) per part (the paper's appendix A)."""
    require_sizes(D=D, H=H)
    keys = jax.random.split(key, 4)
    draw, phase = (jax.random.uniform(k, (H,), jnp.float32, LEAST) for k in keys[:2])
    inner, outer = (r**2 for r in radius)
    gap = jnp.minimum(1 - outer + draw * (outer - inner), 1 - LEAST)  # 1 - |λ|², which near the circle |λ|² would lose
    W_ih = jax.random.normal(keys[2], (2 * H, D), jnp.float32) * (2 * D) ** -0.5
    W_ho = jax.random.normal(keys[3], (H, 2 * H), jnp.float32) * H**-0.5
    return LRU(jnp.log(-0.5 * jnp.log1p(-gap)), jnp.log(angle * phase), 0.5 * jnp.log(gap), W_ih, W_ho)


def start(params: LRU) -> Modes:
    """s_0 = 0; ValueError for another cell's params."""
    if not isinstance(params, LRU):
        raise ValueError(f"params of lru must be LRU, got {type(params).__name__}: are they another cell's?")
    zeros = (jnp.zeros(params.ν.shape, carry_dtype(params)) for _ in range(2))
    return Modes(Complex(*zeros))


def project(params: LRU, x: Array) -> Complex:
    """u = γ ⊙ (B x)."""
    require_width(params, x)
    γ = jnp.exp(at_least_float32(params.γ))
    re, im = jnp.split(params.W_ih @ x, 2)
    return Complex(γ * re, γ * im)


def poles(params: LRU) -> Complex:
    """λ = exp(-exp(ν) + i exp(θ)), in float32 or wider: narrower numbers near 1 would round to the circle or beyond."""
    radius, angle = jnp.exp(-jnp.exp(at_least_float32(params.ν))), jnp.exp(at_least_float32(params.θ))
    return Complex(radius * jnp.cos(angle), radius * jnp.sin(angle))


def coefficients(params: LRU, u: Complex) -> tuple[Modes, Modes]:
    """decay = λ, write = u."""
    return Modes(poles(params)), Modes(u)


def update(params: LRU, state: Modes, u: Complex, a: tuple[()]) -> Modes:
    """s_t = λ ⊙ s_{t-1} + u_t."""
    decay, write = coefficients(params, u)
    return linear_step(decay, state, write)


def read(params: LRU, state: Modes) -> Array:
    """y = Re(C s)."""
    return params.W_ho @ jnp.concatenate([state.z.re, state.z.im])


@factory
def lru(*, radius: tuple[float, float] = (0.0, 1.0), angle: float = 2 * np.pi) -> Cell:
    """Complex diagonal linear recurrence of H modes that shows H real numbers; the loop has no product.

    radius  inner and outer |λ| of the initial poles, 0 <= inner < outer <= 1; near 1 is long memory
    angle   largest initial angle of a pole, in radians, in (0, 2π]
    Raises ValueError for values outside these.
    """
    if not isinstance(radius, tuple) or len(radius) != 2 or not 0 <= radius[0] < radius[1] <= 1:
        raise ValueError(f"radius must be (inner, outer) with 0 <= inner < outer <= 1, got {radius}")
    if not 0 < angle <= 2 * np.pi:
        raise ValueError(f"angle must lie in (0, 2π] radians, got {angle}")
    return Cell(
        "lru",
        partial(init, radius, angle),
        start,
        project,
        lambda params, state: (),
        update,
        read,
        coefficients=coefficients,
    )
