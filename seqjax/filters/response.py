"""What a linear recursion does to an impulse, to a sine and to a constant, in closed form on the host in float64."""

from typing import Any

import numpy as np

from seqjax.core import require_sizes
from seqjax.filters.modes import HOLDS, poles
from seqjax.spectrum import square


def impulse_response(A: Any, B: Any, C: Any = None, *, steps: int) -> np.ndarray:
    """y_t = C A^t B for t = 0 .. steps - 1, the output after a 1 at t = 0: [steps, K, D], of numbers [steps].

    C is the identity where it is left out. Every power by repeated squaring, not by a recursion. Raises ValueError for
    shapes that do not go together.
    """
    require_sizes(steps=steps)
    A, B, C, shape = matrices(A, B, C)
    return np.stack([C @ np.linalg.matrix_power(A, t) @ B for t in range(steps)]).reshape((steps, *shape))


def transfer(A: Any, B: Any, C: Any, z: Any) -> np.ndarray:
    """H(z) = C (I - A/z)⁻¹ B at complex numbers z [..]: [.., K, D], of numbers [..].

    Raises ValueError at a pole, and as `impulse_response` does.
    """
    A, B, C, shape = matrices(A, B, C)
    z = np.asarray(z, np.complex128)
    if not z.all() or np.abs(z[..., None] - poles(A)).min(initial=np.inf) <= HOLDS:
        raise ValueError("z must be neither 0 nor a pole, where the transfer function has no value")
    found = C @ np.linalg.solve(np.eye(len(A)) - A / z[..., None, None], np.broadcast_to(B, (*z.shape, *B.shape)))
    return found.reshape((*z.shape, *shape))


def frequency_response(A: Any, B: Any, C: Any = None, *, frequencies: Any) -> np.ndarray:
    """H(exp(iω)) at frequencies ω in radians a step, π being the highest; shapes and errors as for `transfer`."""
    return transfer(A, B, C, np.exp(1j * np.asarray(frequencies, np.float64)))


def dc_gain(A: Any, B: Any, C: Any = None) -> np.ndarray:
    """H(1) = C (I - A)⁻¹ B, what a constant input of 1 comes to: b/(1 - a) of a one-pole filter.

    Raises ValueError where a pole is on or outside the unit circle, as the output then never settles.
    """
    largest = abs(poles(A)[0])
    if largest >= 1 - HOLDS:
        raise ValueError(f"a pole of size {largest:.6g} is not inside the unit circle: a constant input never settles")
    found = transfer(A, B, C, 1)
    return found if any(map(np.iscomplexobj, (A, B, C))) else np.real(found)


def matrices(A: Any, B: Any, C: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, ...]]:
    """A [N, N], B [N, D] and C [K, N], and the shape of one value of the response: () where all are numbers."""
    scalar = all(X is None or np.ndim(X) == 0 for X in (A, B, C))
    A = square(np.atleast_2d(np.asarray(A)))
    B = wide(B)
    B = B.reshape(-1, 1) if B.ndim < 2 else B
    C = np.eye(len(A)) if C is None else np.atleast_2d(wide(C))
    for name, X, fits in (("B", B, len(B) == len(A)), ("C", C, C.shape[-1] == len(A))):
        if X.ndim != 2 or not fits:
            raise ValueError(f"{name} must go with A {list(A.shape)}: B is [N, D] and C [K, N], got {list(X.shape)}")
    return A, B, C, () if scalar else (len(C), B.shape[1])


def wide(X: Any) -> np.ndarray:
    """An array in double precision, complex where it is."""
    return np.asarray(X, np.complex128 if np.iscomplexobj(X) else np.float64)
