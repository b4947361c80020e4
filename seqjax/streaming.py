"""Streaming: one event in, one prediction out, at a cost that does not depend on how many came before."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import State, factory
from seqjax.dense import affine
from seqjax.network import Network, NetworkParams
from seqjax.sequences import concrete


@dataclass(frozen=True)
class Stream:
    """A network one event at a time, as two pure functions; the state is all that it remembers.

    start  params -> the state before the first event
    step   (params, state, x) -> (state, y [K]) for a token, or for a vector [D]

    `step` gives the buffers of the state it was handed to the state it returns, so the old state cannot be read again:
    JAX then says that the array was deleted or donated. Copy a state that is to be kept, or to go on in two ways:
    `jax.tree.map(jnp.copy, state)`. A state of float32 or wider numbers is a tree like any other, to be saved and
    restored; `network.apply(params, xs).body.final`, of one sequence and a recurrent network, is the state after it.
    """

    start: Callable[[NetworkParams], State]  # no batch axis; one per layer of a recurrent network
    step: Callable[[NetworkParams, State, Any], tuple[State, Array]]


@factory
def streaming(network: Network) -> Stream:
    """The stream of a network: y after t events is what `network.apply` reads at the last of those t steps.

    Dropout is off, as in evaluation, and a step is taken as it is written, whatever the network's evaluator. `step`
    compiles at its first call; its input is best a plain int or a NumPy array, which it checks and sends in some
    microseconds. `jax.vmap(stream.step, (None, 0, 0))` steps many streams at once.
    Raises ValueError for what is not a network, for a body that has no streaming form, for params of two directions
    (the backward half needs the future), for a state of other shapes or dtypes, and, as `apply`, for x of another shape
    or dtype, tokens outside the alphabet and NaN or infinity.
    """
    if not isinstance(network, Network):
        raise ValueError(f"network must be a Network, such as network(lstm()) returns, got {network!r}")
    if network.body.start is None or network.body.step is None:
        raise ValueError(f"{network.name!r} cannot stream: its body has no `start` and `step`")
    compiled = jax.jit(partial(advance, network), donate_argnums=1)

    def step(params: NetworkParams, state: State, x: Any) -> tuple[State, Array]:
        return compiled(params, state, event(network.inputs, network.width(params), x))

    return Stream(partial(start, network), step)


def start(network: Network, params: NetworkParams) -> State:
    """What the body remembers at first, in buffers of its own: a start may be a parameter, which stays."""
    first: Any = network.body.start
    return jax.tree.map(jnp.copy, first(params.body))


def advance(network: Network, params: NetworkParams, state: State, x: Array) -> tuple[State, Array]:
    """One step of the body; what it checks costs nothing once it is compiled."""
    step: Any = network.body.step
    read = network.vectors(params, x[None, ..., None], None)[0, :, 0]
    new, y = step(params.body, state, read)
    require_same(state, new)
    return new, affine(params.head, y[:, None])[:, 0]


def event(inputs: str, size: int, x: Any) -> Any:
    """A checked event; one whose values can be looked at as a NumPy array, tokens as int32 whatever they came as."""
    if not concrete(x):
        require_kind(inputs, size, x)
        return x
    x = np.asarray(x)
    require_kind(inputs, size, x)
    if inputs == "vector":
        if not np.isfinite(x).all():
            raise ValueError(f"x holds NaN or infinity: mend it, or leave the event out; got {x}")
        return x
    if not 0 <= int(x) < size:
        raise ValueError(f"x must be a token in 0..{size - 1}, got {x}")
    return np.int32(x)


def require_kind(inputs: str, size: int, x: Any) -> None:
    """ValueError unless x is one token, or one vector [D] of floating-point numbers."""
    kind, shape = (jnp.floating, (size,)) if inputs == "vector" else (jnp.integer, ())
    if x.shape != shape or not jnp.issubdtype(x.dtype, kind):
        want = f"a floating-point vector of shape {list(shape)}" if shape else "one integer token"
        raise ValueError(f"x must be {want} in this network, got {x.dtype} of shape {list(x.shape)}")


def require_same(state: State, new: State) -> None:
    """ValueError unless a step leaves the dtypes of the state as they are."""
    for given, got in zip(jax.tree.leaves(state), jax.tree.leaves(new), strict=True):
        if given.dtype != got.dtype:
            raise ValueError(
                f"the state is {given.dtype}, but x and params would make it {got.dtype}: cast x or the state"
            )
