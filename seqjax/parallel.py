"""All states of a recurrence at once: depth O(log T) where a scan has T steps, for more arithmetic and memory.

Opt-in, and for accelerators: on a CPU they are slower than the scan, 2 to 140 times and more. `associative` holds for
recurrences that are linear element by element; `newton` for any differentiable one whose dynamics contract (largest
Lyapunov exponent below 0), as it then takes a few iterations whatever T is. Newton's method is DEER (Lim et al. 2024),
its diagonal variant quasi-DEER (Gonzalez et al. 2024): one iteration solves the linearised recurrence
    δ_t = J_t δ_{t-1} + step(s_{t-1}, x_t) - s_t
by an associative scan and adds δ. Memory is O(T B N²) for the Jacobians J of a state of N numbers; the diagonal variant
takes O(T B N) for values, and the same O(T B N²) for derivatives, which need whole Jacobians to be exact.

Time leads, and the batch is the last axis of every field, as everywhere inside the engine.
"""

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from seqjax.core import Complex, State, linear_step, require_sizes

Sweep = Callable[[Array], Array]  # [T, B, N] -> [T, B, N], row t of row t alone: all steps, or v_t -> J_t v_t


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Solution:
    """What `newton` found, and how."""

    final: State  # fields [.., B], the state after the last step in the order of the scan
    after: State  # fields [T, .., B], the state that left step t
    converged: Array  # bool, of the whole batch; where it is False the states are a sequential scan's
    iterations: Array  # int, how many were made


def associative(
    decay: State, write: State, first: State, *, fresh: Array | None = None, reverse: bool = False
) -> tuple[State, State]:
    """All states of s_t = decay_t ⊙ s_{t-1} + write_t by an associative scan: (final, after).

    decay, write   fields [T, ...], arrays or `Complex`
    first          the state before the first step, fields [...]
    fresh          [T] or [T, B] bool: here s_t = write_t whatever came before, NaN and infinity included, in values
                   and gradients; a decay of 0 alone would keep them, as 0 NaN is NaN
    reverse        from the last step back to the first
    Equals a scan of `linear_step` to rounding, with O(T N) memory. Products of decays may underflow, which is harmless;
    they overflow only where the states could.
    """
    if not jax.tree.leaves(write)[0].shape[0]:
        return first, write  # XLA may abort where an array of no steps is led and cut again
    flags = None if fresh is None else jax.tree.map(partial(aligned, fresh), write)
    begin = jax.tree.map(jnp.zeros_like, first), first, jax.tree.map(lambda f: jnp.zeros(f.shape[1:], bool), flags)
    maps = led(begin, (decay, write, flags), reverse)
    _, states, _ = jax.lax.associative_scan(compose, maps, reverse=reverse)
    pick, rest = (0, slice(-1)) if reverse else (-1, slice(1, None))
    return jax.tree.map(lambda ss: ss[pick], states), jax.tree.map(lambda ss: ss[rest], states)


def compose(earlier: Any, later: Any) -> Any:
    """Two stretches of time as one: each maps a state to decay ⊙ state + write, and forgets it where it is flagged."""
    (d, w, flag), (decay, write, flags) = earlier, later
    if flags is not None:  # before the products, so that neither they nor their gradients meet a NaN
        d, w, flag = cleared(flags, d), cleared(flags, w), jax.tree.map(jnp.logical_or, flag, flags)
    both = jax.tree.map(operator.mul, decay, d, is_leaf=lambda x: isinstance(x, Complex))
    return both, linear_step(decay, w, write), flag


def cleared(flags: Any, tree: Any) -> Any:
    """0 where flagged, NaN or not."""
    return jax.tree.map(lambda flag, a: jnp.where(flag, 0, a), flags, tree)


def aligned(fresh: Array, write: Array) -> Array:
    """Flags [T] or [T, B] with axes of 1 between, so that they have as many axes as a field [T, .., B]."""
    T, *batch = fresh.shape
    return fresh.reshape(T, *[1] * (write.ndim - fresh.ndim), *batch)


def led(first: Any, rest: Any, reverse: bool = False) -> Any:
    """[T, ...] -> [T + 1, ...], with the first in front, or behind in reverse."""
    return jax.tree.map(lambda s, ss: jnp.concatenate([ss, s[None]] if reverse else [s[None], ss]), first, rest)


def newton(
    step: Callable[[State, Any], State],
    first: State,
    inputs: Any,
    *,
    diagonal: bool = False,
    reverse: bool = False,
    tolerance: float | None = None,
    iterations: int = 100,
) -> Solution:
    """All states of s_t = step(s_{t-1}, x_t) as the root of a system of T equations, by Newton's method.

    step        any differentiable step of a batch, of whatever it closes over too; the last axis of every field is the
                batch, whose examples must not see each other; it keeps shapes and dtypes
    first       the state before the first step, fields [.., B]
    inputs      a pytree of arrays [T, ...], of any dtype and with a batch axis or without, at least one
    diagonal    keep only the diagonal of every Jacobian: more iterations, each cheaper
    tolerance   of the last change and of the residual s_t - step(s_{t-1}, x_t), over 1 + |s_t|; 1024 ε by default, as
                slowly forgetting dynamics add up rounding; an error of about this size is left where it is diagonal
    iterations  at most; T + 1 always suffice in exact arithmetic, as every iteration settles one more step
    Where it does not converge for every example, a sequential scan gives the states, and a RuntimeWarning says so.
    Derivatives of any order are those of the trajectory, by the implicit function theorem. Call it inside jit.
    """
    require_sizes(iterations=iterations)
    inputs = flipped(inputs, reverse)
    ravel, unravel = ravelling(first)
    start, T = ravel(first), jax.tree.leaves(inputs)[0].shape[0]
    tolerance = 1024 * float(jnp.finfo(start.dtype).eps) if tolerance is None else tolerance

    def advance(before: Array) -> Array:
        return jax.vmap(lambda s, x: ravel(step(unravel(s), x)))(before, inputs)

    ss, converged, count = search(advance, diagonal, start, T, tolerance, min(iterations, T + 1))
    after = jax.lax.cond(
        converged,
        lambda: jax.vmap(unravel)(differentiable(advance, start, ss)),
        lambda: scanned(step, first, inputs, partial(warn, tolerance), converged, count),
    )
    final = jax.tree.map(lambda s, ss: ss[-1] if T else s, first, after)
    return Solution(final, flipped(after, reverse), converged, count)


def flipped(tree: Any, reverse: bool) -> Any:
    """Arrays [T, ...] with time running backwards, or as they are."""
    return jax.tree.map(lambda a: a[::-1], tree) if reverse else tree


def ravelling(state: State) -> tuple[Callable[[State], Array], Callable[[Array], State]]:
    """The way from a batch of states, fields [.., B], to one matrix [B, N], and back."""
    example = jax.tree.map(lambda s: jnp.zeros(s.shape[:-1], s.dtype), state)
    return jax.vmap(lambda s: ravel_pytree(s)[0], -1), jax.vmap(ravel_pytree(example)[1], out_axes=-1)


def shifted(first: Array, after: Array) -> Array:
    """The states [T, B, N] one step earlier, led by the first."""
    return led(first, after[:-1]) if len(after) else after


def search(
    advance: Sweep, diagonal: bool, first: Array, T: int, tolerance: float, iterations: int
) -> tuple[Array, Array, Array]:
    """Newton's iterations from the guess that nothing moves: (states [T, B, N], whether they converged, their count).

    An entry that is not finite goes back to the guess, so that the next iteration can settle more steps; it counts as
    not converged. No derivatives pass.
    """
    jacobians, guess = diagonals if diagonal else columns, jnp.broadcast_to(first, (T, *first.shape))

    def unfinished(carry: Any) -> Array:
        count, _, error = carry
        return (count < iterations) & ~(error <= tolerance)  # NaN is not convergence

    def improve(carry: Any) -> Any:
        count, ss, _ = carry
        after, push = jax.linearize(advance, shifted(first, ss))
        change = recursion(jacobians(push, ss), after - ss)
        new = jnp.where(jnp.isfinite(ss + change), ss + change, guess)
        residual = advance(shifted(first, new)) - new
        error = jnp.max(jnp.maximum(jnp.abs(change), jnp.abs(residual)) / (1 + jnp.abs(new)), initial=0)
        return jax.lax.stop_gradient((count + 1, new, error))

    begin = jnp.int32(0), guess, jnp.full((), jnp.inf, first.dtype)
    count, ss, error = jax.lax.while_loop(unfinished, improve, jax.lax.stop_gradient(begin))
    return ss, error <= tolerance, count


def columns(push: Sweep, like: Array) -> Array:
    """The Jacobians [T, B, N, N], a column per basis vector, pushed through all steps and examples at once."""
    basis = jnp.eye(like.shape[-1], dtype=like.dtype)
    return jax.vmap(lambda e: push(jnp.broadcast_to(e, like.shape)), out_axes=-1)(basis)


def diagonals(push: Sweep, like: Array) -> Array:
    """The diagonals [T, B, N] of the Jacobians, exact, one basis vector after another so that no matrix is held."""
    basis = jnp.eye(like.shape[-1], dtype=like.dtype)
    picked = jax.lax.map(lambda j: push(jnp.broadcast_to(basis[j], like.shape))[..., j], jnp.arange(len(basis)))
    return jnp.moveaxis(picked, 0, -1)


def recursion(Js: Array, writes: Array) -> Array:
    """v_t = J_t v_{t-1} + write_t from zero, for writes [T, B, N] and Jacobians [T, B, N, N], or their diagonals."""
    if Js.ndim == writes.ndim:
        return associative(Js, writes, jnp.zeros(writes.shape[1:], writes.dtype))[1]

    def compose(earlier: Any, later: Any) -> Any:
        (A, b), (J, write) = earlier, later
        return product(J, A), applied(J, b) + write

    return jax.lax.associative_scan(compose, (Js, writes))[1]


def product(A: Array, B: Array) -> Array:
    """A B, in full precision: what an accelerator does by default may round to 10 bits, and here T times over."""
    return jnp.matmul(A, B, precision="highest")


def applied(Js: Array, vs: Array) -> Array:
    """J v, for every step and example."""
    return product(Js, vs[..., None])[..., 0]


def differentiable(advance: Sweep, first: Array, ss: Array) -> Array:
    """The states with the derivatives of the trajectory that they are, by implicit differentiation of two equations,

    before_t = s_{t-1} and s_t = advance(before)_t: apart, so that J_t can be read off alone, and small numbers survive.
    """

    def equations(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        before, after = pair
        return before - shifted(first, after), after - advance(before)

    def solve(linear: Any, wanted: tuple[Array, Array]) -> tuple[Array, Array]:
        Js = columns(lambda v: -linear((v, jnp.zeros_like(v)))[1], ss)
        moved, write = wanted
        after = recursion(Js, write + applied(Js, moved))
        return shifted(jnp.zeros_like(first), after) + moved, after

    pair = shifted(first, ss), ss
    return jax.lax.custom_root(equations, pair, lambda equations, found: found, solve)[1]


def scanned(step: Any, first: State, inputs: Any, notice: Callable[..., None], *news: Array) -> State:
    """The states by a scan, of which the host gets notice."""
    jax.debug.callback(notice, *news)
    return jax.lax.scan(lambda s, x: (step(s, x),) * 2, first, inputs)[1]


def warn(tolerance: float, converged: Array, count: Array) -> None:
    """Say on the host that Newton's method gave way to a scan; under vmap, for those alone where it did."""
    if not converged:
        warnings.warn(
            f"newton did not bring change and residual below {tolerance:.1e} in {count} iterations, so a sequential "
            "scan gave the states: for dynamics that do not contract (largest Lyapunov exponent >= 0) use "
            'evaluator="scan"',
            RuntimeWarning,
            stacklevel=2,
        )
