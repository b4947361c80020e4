"""A decoder alone: a network that has learned to say the next symbol goes on from a prompt, or from a state."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import require_sizes
from seqjax.network import Network, NetworkParams, require_recurrent
from seqjax.seq2seq.writing import (
    Decoded,
    Sampling,
    drawing,
    likeliest,
    require_sampling,
    require_writing,
    row_keys,
    written,
)
from seqjax.sequences import Steps, batch_first, drop_batch, mask_of, steps_of
from seqjax.stack import states_inside
from seqjax.unroll import start

NEVER = -1  # the number of an end symbol that is never written


def generate(
    network: Network,
    params: NetworkParams,
    key: Array | None = None,
    *,
    prompt: Any,
    lengths: Any = None,
    state: Any = None,
    limit: int,
    end: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> tuple[Decoded, Any]:
    """What a network of tokens that reads "every" step writes after a prompt [P] or [B, P]; and the state to go on.

    key      of the draws, as for `sample`; None for the likeliest symbol at every step
    lengths  [B] symbols of every prompt, at least one each
    state    before the prompt, one per layer, as `network.apply(...).body.final` holds it; None for the cell's own
    limit    symbols at most, the end symbol among them; `end` is its number, None where there is none
    The state returned has read everything but the last symbol that was written, which is the prompt to go on with.
    Raises ValueError as `network.apply` does, for a network that does not fit or runs in both directions, an empty
    prompt, a state of another depth or size, and options as `sample` refuses them.
    """
    K = require_generator(network, params)
    require_sizes(limit=limit)
    if end is not None:
        require_writing(limit, end, K)
    how = require_sampling(temperature, top_k, top_p, K)
    steps = steps_of(prompt, rank=1, lengths=lengths, size=network.width(params))
    if not steps.xs.shape[0] or (lengths is not None and np.min(lengths) < 1):
        raise ValueError("prompt must hold at least one symbol in every row: the end symbol, where a text begins")
    inside = own_start(network, params, steps) if state is None else given_start(network, params, state, steps)
    keys = None if key is None else row_keys(key, steps.xs.shape[-1])
    numbers = how.temperature, how.top_p
    found, after = going_on(
        network, params, steps.xs, steps.mask, inside, keys, numbers, limit=limit, end=end, top_k=top_k
    )
    return drop_batch((found, batch_first(after)), steps.batched)


def require_generator(network: Network, params: NetworkParams) -> int:
    """How many symbols there are; ValueError for a network that does not say a next symbol for every one it reads."""
    if not isinstance(network, Network):
        raise ValueError(f"network must be a Network, such as network(lstm()) returns, got {network!r}")
    require_recurrent(network, "generate")
    if network.inputs == "vector" or network.readout != "every":
        raise ValueError(f'network must have inputs="embedding" or "onehot" and readout="every", got {network!r}')
    K, D = params.head.W.shape[0], network.width(params)
    if K > D:
        raise ValueError(f"network must read all that it writes, got {K} symbols written and {D} read")
    return K


def own_start(network: Network, params: NetworkParams, steps: Steps) -> Any:
    """The cell's own start in every layer, batch last; ValueError for layers of two directions."""
    first: Any = network.body.start
    first(params.body)
    return tuple(start(network.cell, layer.forward, steps.xs.shape[-1]) for layer in params.body)


def given_start(network: Network, params: NetworkParams, state: Any, steps: Steps) -> Any:
    """A given state, batch last; ValueError unless there is one per layer, of its shapes."""
    own_start(network, params, steps)
    return states_inside(network.cell, params.body, state, steps)


@partial(jax.jit, static_argnames=("network", "limit", "end", "top_k"))
def going_on(
    network: Network,
    params: NetworkParams,
    prompt: Array,
    mask: Array | None,
    state: Any,
    keys: Array | None,
    numbers: tuple[Any, Any],
    *,
    limit: int,
    end: int | None,
    top_k: int | None,
) -> tuple[Decoded, Any]:
    """Read the prompt [P, B] up to its last symbol, and write from there; the state is batch last."""
    P, B = prompt.shape
    lengths = jnp.full(B, P) if mask is None else mask.sum(0)
    token = jnp.take_along_axis(prompt, lengths[None] - 1, axis=0)[0]
    if P > 1:
        state = network.forward(params, prompt[:-1], mask_of(lengths - 1, P - 1).T, state=state).body.final

    def step(fixed: Any, state: Any, token: Array) -> tuple[Any, Array]:
        output = network.forward(params, token[None], state=state)
        every: Any = output.every
        return output.body.final, every[0]

    choose = likeliest if keys is None else drawing(keys, Sampling(numbers[0], top_k, numbers[1]))
    return written(step, (), state, token, choose, limit=limit, end=NEVER if end is None else end)
