"""Whole models: embed -> body -> readout, as a value like a cell, now over batches of sequences."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.body import Body
from seqjax.core import Cell, factory, require_sizes
from seqjax.dense import Dense, affine, uniform_head
from seqjax.dropout import Dropout
from seqjax.pairs import pair_steps
from seqjax.sequences import Steps, batch_first, drop_batch, steps_of
from seqjax.stack import recurrent

INPUTS = ("onehot", "embedding", "vector")
READOUTS = ("every", "last", "both")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NetworkParams:
    """Params of a network, in the order in which the data meets them."""

    embed: Array | None  # [D, E] one row per token; None for one-hot and vector inputs
    body: Any  # layers of a recurrent network; what the body draws in others
    head: Dense


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Output:
    """What a network says, and the trace of its body."""

    every: Array | None  # [B, T, K] at every step (of the readout's bias alone where masked)
    last: Array | None  # [B, K] at each row's own last step; both directions' final states where there are two
    body: Any  # StackTrace of a recurrent network, Shown of others


@dataclass(frozen=True, repr=False)
class Network:
    """A model as a record of pure functions; sizes live in the params only."""

    body: Body
    inputs: str  # one of INPUTS, or "pair" of an encoder-decoder
    readout: str  # one of READOUTS
    init: Callable[[Array, int, int, int], NetworkParams]  # (key, D, H, K) -> params
    forward: Callable[..., Output]  # (params, xs, mask, perturb, ...) -> Output, time first and batch last
    dropout: Dropout | None = None

    def __repr__(self) -> str:
        return f"<Network {self.name}, inputs {self.inputs}, readout {self.readout}>"

    @property
    def name(self) -> str:
        """That of its body."""
        return self.body.name

    @property
    def cell(self) -> Cell:
        """The cell of a recurrent network; ValueError for others."""
        require_recurrent(self, "cell")
        cell: Any = self.body.cell
        return cell

    @property
    def residual(self) -> bool:
        """Whether every layer above the first adds what it reads to what it shows."""
        return self.body.residual

    def width(self, params: NetworkParams) -> int:
        """D: how many tokens it knows, or how many numbers a step it reads. ValueError for another network's params."""
        D = self.body.reads(params.body)
        return D if params.embed is None else params.embed.shape[0]

    def vectors(self, params: NetworkParams, xs: Array, mask: Array | None) -> Array:
        """What the body reads, [T, D, B], of xs or tokens in the inside layout."""
        return vectors(self.body, self.inputs, params, xs, mask)

    def steps(self, params: NetworkParams, xs: Array, *, lengths: Any = None, mask: Any = None) -> Steps:
        """Check one sequence or a batch and take it to the inside layout: tokens [T] or [B, T] for one-hot and
        embedding, a Pair for pairs, else vectors [.., T, D].

        Raises ValueError as `unroll` does, for tokens outside the alphabet, for vectors of another width, and for T = 0
        where a last step is read.
        """
        if self.inputs == "pair":
            if lengths is not None or mask is not None:
                raise ValueError("a Pair holds its own masks: leave lengths and mask out")
            return pair_steps(xs, self.width(params), params.head.W.shape[0])
        rank, size = 2 if self.inputs == "vector" else 1, self.width(params)
        steps = steps_of(xs, rank=rank, lengths=lengths, mask=mask, size=size)
        if rank == 2 and steps.xs.shape[1] != size:
            raise ValueError(f"xs must hold D = {size} numbers a step, as the params do, got {steps.xs.shape[1]}")
        if self.readout != "every" and steps.xs.shape[0] == 0:
            raise ValueError("xs has T = 0 steps, so it has no last state to read: give at least one step")
        return steps

    def apply(
        self, params: NetworkParams, xs: Array, *, lengths: Any = None, mask: Any = None, key: Array | None = None
    ) -> Output:
        """Run over one sequence or a batch; arguments and errors as for `steps`, lengths and mask as for `unroll`.

        `key` draws the noise of a training step; ValueError where the network has no dropout.
        """
        if key is not None and self.dropout is None:
            raise ValueError(
                "key draws nothing in a network without dropout: leave it out, or give the network dropout"
            )
        steps = self.steps(params, xs, lengths=lengths, mask=mask)
        return drop_batch(batch_first(self.forward(params, steps.xs, steps.mask, key=key)), steps.batched)


def require_recurrent(network: Network, what: str, instead: str = "") -> None:
    """ValueError for a network without a recurrence, or with two, of which nobody can ask `what`."""
    if network.body.cell is None:
        has = f"no recurrence{instead}" if network.inputs != "pair" else "two recurrences, so ask seqjax.seq2seq"
        raise ValueError(f"{what} needs a recurrent network: {network.name!r} has {has}")


@factory
def network(
    cell: Cell,
    *,
    inputs: str = "vector",
    readout: str = "last",
    layers: int = 1,
    bidirectional: bool = False,
    embedding: int | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
    residual: bool = False,
    dropout: Dropout | None = None,
    evaluator: str = "auto",
    chunk: int | None = None,
) -> Network:
    """A recurrent network of one kind of cell.

    inputs     "onehot" or "embedding" of integer tokens (D is then the size of the alphabet), or "vector"
    readout    "every" step, each row's own "last" step, or "both" (one head serves both)
    embedding  width of the embedding, which is drawn from N(0, 1); only with inputs="embedding"
    head       how the readout is drawn, (key, K, F) -> Dense
    residual   every layer above the first adds what it reads to what it shows
    dropout    noise of training: `train` draws it at every update, evaluation has none
    evaluator  how the steps of every layer are taken, and `chunk` what a gradient keeps of them: as for `unroll`
    Raises ValueError for values outside these, and for a residual or dropout that would change nothing.
    """
    check_options(inputs, readout, embedding)
    body = recurrent(
        cell,
        layers=layers,
        bidirectional=bidirectional,
        residual=residual,
        dropout=dropout,
        evaluator=evaluator,
        chunk=chunk,
    )
    return network_of(body, inputs=inputs, readout=readout, embedding=embedding, head=head, dropout=dropout)


@factory
def network_of(
    body: Body,
    *,
    inputs: str = "vector",
    readout: str = "last",
    embedding: int | None = None,
    head: Callable[[Array, int, int], Dense] = uniform_head,
    dropout: Dropout | None = None,
) -> Network:
    """A network around any body, whose own dropout is said again here; the rest as for `network`."""
    check_options(inputs, readout, embedding)
    init = partial(init_network, body, embedding, head)
    run = partial(forward, body, inputs, readout)
    return Network(body, inputs, readout, init, run, dropout)


def init_network(
    body: Body,
    embedding: int | None,
    head: Callable[[Array, int, int], Dense],
    key: Array,
    D: int,
    H: int,
    K: int,
) -> NetworkParams:
    """Draw the embedding, the body and the head, which reads what the body shows."""
    require_sizes(D=D, H=H, K=K)
    first, second, third = jax.random.split(key, 3)
    table = None if embedding is None else jax.random.normal(first, (D, embedding), jnp.float32)
    params = body.init(second, D if embedding is None else embedding, H)
    return NetworkParams(table, params, head(third, K, body.shows(params)))


def check_options(inputs: str, readout: str, embedding: int | None) -> None:
    """ValueError for what `network` does not know."""
    for name, value, known in (("inputs", inputs, INPUTS), ("readout", readout, READOUTS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {list(known)}, got {value!r}")
    if embedding is not None:
        require_sizes(embedding=embedding)
    if (embedding is not None) != (inputs == "embedding"):
        raise ValueError('embedding, a width, goes with inputs="embedding" and with nothing else')


def forward(
    body: Body,
    inputs: str,
    readout: str,
    params: NetworkParams,
    xs: Array,
    mask: Array | None = None,
    perturb: Any = None,
    key: Array | None = None,
    state: Any = None,
    reset: Array | None = None,
) -> Output:
    """One pass in the inside layout, xs [T, D, B] or tokens [T, B]; the rest as for `scan_stack`.

    ValueError for a perturb, a state or a reset of a body that is no recurrence.
    """
    given = {"perturb": perturb, "state": state, "reset": reset}
    given = {name: value for name, value in given.items() if value is not None}
    if given and body.cell is None:
        raise ValueError(f"{min(given)} needs a recurrent network: {body.name!r} has no recurrence")
    trace = body.run(params.body, vectors(body, inputs, params, xs, mask), mask=mask, key=key, **given)
    every = None if readout == "last" else jax.vmap(partial(affine, params.head))(trace.ys)
    last = None if readout == "every" else affine(params.head, body.last(params.body, trace))
    return Output(every, last, trace)


def vectors(body: Body, inputs: str, params: NetworkParams, xs: Array, mask: Array | None) -> Array:
    """What a body reads, [T, D, B]: xs themselves, or of tokens [T, B] rows of the embedding, or one-hot."""
    if inputs == "vector":
        return xs
    tokens = xs if mask is None else jnp.where(mask, xs, 0)
    if params.embed is None:
        return jax.nn.one_hot(tokens, body.reads(params.body), axis=1, dtype=params.head.W.dtype)
    return jnp.moveaxis(params.embed[tokens], -1, 1)
