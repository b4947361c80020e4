"""Poles and modes of a linear recursion: how long each holds, how it turns, and whether it decays or grows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqjax.spectrum import square

HOLDS = 1e-9  # how far from the unit circle a pole, known to rounding, still counts as on it


@dataclass(frozen=True)
class Mode:
    """One real pole, or a pair of complex ones, of a recursion: its part of the state goes as pole^t."""

    pole: complex  # of a pair the one with positive imaginary part
    radius: float  # |pole|, the factor of a step
    angle: float  # degrees a step, 0 to 180
    period: float  # steps a turn, infinite where it does not turn
    regime: str  # as `regime` says
    time_constant: float  # steps in which it changes by a factor e, down or up; infinite where it holds

    @property
    def horizon(self) -> float:
        """Steps to 1/e; ValueError where the mode grows."""
        return memory_horizon(self.pole)


def poles(A: Any) -> np.ndarray:
    """Eigenvalues of A, largest first, complex128; ValueError unless it is a finite number or square matrix."""
    values = np.linalg.eigvals(square(np.atleast_2d(np.asarray(A)))).astype(np.complex128)
    return values[np.lexsort((-values.imag, -values.real, -np.abs(values).round(12)))]


def modes(A: Any) -> list[Mode]:
    """The modes of h_t = A h_{t-1}, slowest first, a complex pair of a real matrix being one; errors as for `poles`."""
    values, real = poles(A), np.isrealobj(np.asarray(A))
    return [mode(value) for value in values if not real or value.imag >= 0]


def mode(pole: complex) -> Mode:
    """All about one pole."""
    angle = abs(float(np.degrees(np.angle(pole))))
    return Mode(
        complex(pole),
        abs(pole),
        angle,
        360 / angle if angle else float("inf"),
        regime(pole),
        abs(time_constant(pole)),
    )


def time_constant(pole: complex) -> float:
    """-1 / ln |pole|: steps to 1/e, below 0 where it grows, infinite on the unit circle, 0 at 0."""
    radius = abs(pole)
    if not np.isfinite(radius):
        raise ValueError(f"pole must be finite, got {pole}")
    if abs(radius - 1) <= HOLDS:
        return float("inf")
    return float(-1 / np.log(radius)) if radius else 0.0


def memory_horizon(pole: complex) -> float:
    """Steps after which a pole has let go of all but 1/e, -1 / ln |pole|; infinite on the unit circle.

    ValueError for a pole outside it, which grows and has no horizon, with the steps to e times.
    """
    steps = time_constant(pole)
    if steps < 0:
        raise ValueError(f"pole {pole:.6g} grows, by a factor e every {-steps:.2f} steps, so it has no horizon")
    return steps


def regime(pole: complex) -> str:
    """What a pole does: "decay", "hold", "grow", "alternate" (real and below 0) or "oscillate" (complex)."""
    if abs(pole.imag) > HOLDS * max(abs(pole), 1):
        return "oscillate"
    if pole.real < 0:
        return "alternate"
    if abs(pole.real - 1) <= HOLDS:
        return "hold"
    return "decay" if pole.real < 1 else "grow"
