"""Change of statistics after a fault: has the signal's memory changed, though its level has not?"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import accuracy, cross_entropy
from seqjax.tasks.task import Batch, Task


@factory
def regime(*, length: int, before: float = 0.5, after: float = -0.5, share: float = 0.5) -> Task:
    """x_t = a x_{t-1} + √(1 - a²) ε_t with a = `before`, and a = `after` from the fault on; has the fault happened?

    x_t is N(0, 1) at every step, whatever a: only the correlation of neighbours gives a fault away. It comes in a
    `share` of the sequences, at a step drawn from 1..length - 1. Chance is that of the best constant answer; as no
    share is above 1/2, whoever also knows which step it is scores no more. No answer scores 1, as a fault takes steps
    to show. ValueError unless length >= 2, both coefficients lie in (-1, 1) and differ, and 0 < share <= 1/2.
    """
    require_fault(length, before, after, share)

    def sample(key: Array, examples: int) -> Batch:
        first, second, third = jax.random.split(key, 3)
        fails = jax.random.bernoulli(first, share, (examples, 1))
        change = jnp.where(fails, jax.random.randint(second, (examples, 1), 1, length), length)
        faulty = jnp.arange(length)[None] >= change
        noise = jax.random.normal(third, (examples, length + 1))
        xs = autoregressive(jnp.where(faulty, after, before), noise)
        return Batch(xs[..., None], faulty.astype(int))

    wrong = float(np.mean(share * np.arange(length) / (length - 1)))  # share of steps after a fault, at most 1/4
    return Task(
        name="regime",
        draw=lambda key, update, batch: sample(jax.random.fold_in(key, update), batch),
        held_out=sample,
        inputs="vector",
        readout="every",
        D=1,
        K=2,
        loss=cross_entropy,
        score=accuracy,
        chance=1 - wrong,
        chance_loss=float(-wrong * np.log(wrong) - (1 - wrong) * np.log(1 - wrong)),
    )


def autoregressive(coefficients: Array, noise: Array) -> Array:
    """x_t = a_t x_{t-1} + √(1 - a_t²) ε_t, [B, T], of a [B, T] and ε [B, T + 1], whose first column is x_{-1}."""

    def step(x: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        a, e = given
        x = a * x + jnp.sqrt(1 - a**2) * e
        return x, x

    return jax.lax.scan(step, noise[:, 0], (coefficients.T, noise[:, 1:].T))[1].T


def require_fault(length: int, before: float, after: float, share: float) -> None:
    """ValueError for what `regime` cannot draw, or what would make its chance level wrong."""
    require_sizes(length=length)
    if length < 2:
        raise ValueError(f"length must be at least 2, a step before the fault and one after it, got {length}")
    for name, value in (("before", before), ("after", after)):
        if not -1 < value < 1:
            raise ValueError(f"{name} must lie in (-1, 1), where the signal is stationary, got {value}")
    if before == after:
        raise ValueError(f"after must differ from before, {before}, or the fault changes nothing")
    if not 0 < share <= 0.5:
        raise ValueError(f"share must lie in (0, 1/2], or a clock alone would beat chance, got {share}")
