"""A one-pole filter that learns its pole, its gradient being a recursion of its own.

y_t = α y_{t-1} + β x_t
∂y_t/∂α = y_{t-1} + α ∂y_{t-1}/∂α        ∂y_t/∂β = x_t + α ∂y_{t-1}/∂β
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.filters.lms import require_pairs, vector


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OnePolePath:
    """Where an adaptive one-pole filter went, step by step."""

    alpha: Array  # [T] after the step
    beta: Array  # [T] after the step
    ys: Array  # [T] the output
    errors: Array  # [T] target less output
    guarded: Array  # [T] bool, where the guard moved the pole back


def one_pole_gradients(xs: Any, alpha: Any, beta: Any) -> tuple[Array, Array, Array]:
    """(ys, ∂y/∂α, ∂y/∂β) for xs [T], each [T], by their recursions, the pole being the same throughout."""

    def advance(carry: tuple[Array, Array, Array], x: Array) -> Any:
        new = advanced(carry, x, alpha, beta)
        return new, new

    xs = vector("xs", xs)
    zero = jnp.zeros((), xs.dtype)
    return jax.lax.scan(advance, (zero, zero, zero), xs)[1]


def advanced(carry: tuple[Array, Array, Array], x: Array, alpha: Any, beta: Any) -> tuple[Array, Array, Array]:
    """(y, ∂y/∂α, ∂y/∂β) one step on."""
    y, by_alpha, by_beta = carry
    return alpha * y + beta * x, y + alpha * by_alpha, x + alpha * by_beta


def adapt_one_pole(
    xs: Any, targets: Any, *, alpha: float = 0.0, beta: float = 0.0, step: float, guard: float | None = 0.999
) -> OnePolePath:
    """Adapt pole and gain to make xs [T] into targets [T] by stochastic gradient descent on half the squared error.

    guard  the largest |α| that a step may leave, back to which it is moved; None lets the pole leave the unit circle,
           where output and gradient grow without bound
    Raises ValueError for vectors of different lengths, a step that is not above 0, and a guard outside (0, 1).
    """
    require_pairs(xs, targets)
    if not step > 0:
        raise ValueError(f"step must be above 0, got {step}")
    if guard is not None and not 0 < guard < 1:
        raise ValueError(f"guard must lie in (0, 1), inside the unit circle, or be None, got {guard}")
    xs = vector("xs", xs)

    def adapt(carry: Any, each: tuple[Array, Array]) -> Any:
        α, β, inner = carry
        x, target = each
        y, by_alpha, by_beta = inner = advanced(inner, x, α, β)
        error = target - y
        moved, β = α + step * error * by_alpha, β + step * error * by_beta
        α = moved if guard is None else jnp.clip(moved, -guard, guard)
        return (α, β, inner), OnePolePath(α, β, y, error, moved != α)

    zero = jnp.zeros((), xs.dtype)
    first = (jnp.asarray(alpha, xs.dtype), jnp.asarray(beta, xs.dtype), (zero, zero, zero))
    return jax.lax.scan(adapt, first, (xs, vector("targets", targets).astype(xs.dtype)))[1]


def cost_surface(xs: Any, targets: Any, alphas: Any, betas: Any) -> Array:
    """J(α, β), the mean squared error of every pair over xs [T], [len(alphas), len(betas)]; errors as above."""
    require_pairs(xs, targets)
    xs, targets = vector("xs", xs), vector("targets", targets)
    unit = jax.vmap(lambda α: one_pole_gradients(xs, α, jnp.ones((), xs.dtype))[0])(jnp.asarray(alphas, xs.dtype))
    power, cross = (unit**2).mean(1), (unit * targets[None]).mean(1)
    β = jnp.asarray(betas, xs.dtype)[None]
    return (targets**2).mean() - 2 * cross[:, None] * β + power[:, None] * β**2
