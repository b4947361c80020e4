"""Whole models: embed -> body -> readout, as a value like a cell, now over batches of sequences."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, factory, require_cell, require_sizes, require_switches
from seqjax.dropout import Dropout
from seqjax.sequences import Steps, batch_first, drop_batch, steps_of
from seqjax.stack import Layer, StackTrace, init_stack, require_effect, scan_stack
from seqjax.unroll import over_batch, require_engine

INPUTS = ("onehot", "embedding", "vector")
READOUTS = ("every", "last", "both")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """An affine readout."""

    W: Array  # [K, F]
    b: Array  # [K]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NetworkParams:
    """Params of a network, in the order in which the data meets them."""

    embed: Array | None  # [D, E] one row per token; None for one-hot and vector inputs
    body: tuple[Layer, ...]
    head: Dense


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Output:
    """What a network says, and the trace of its body."""

    every: Array | None  # [B, T, K] at every step (of the readout's bias alone where masked)
    last: Array | None  # [B, K] at each row's own last step; both directions' final states where there are two
    body: StackTrace


def uniform_head(key: Array, K: int, F: int) -> Dense:
    """Weights and bias from U(-1/√F, 1/√F), as PyTorch's `nn.Linear`."""
    W, b = (
        jax.random.uniform(k, s, jnp.float32, -(F**-0.5), F**-0.5)
        for k, s in zip(jax.random.split(key), ((K, F), (K,)), strict=True)
    )
    return Dense(W, b)


def gaussian_head(key: Array, K: int, F: int) -> Dense:
    """Weights from N(0, 1/F), zero bias."""
    return Dense(jax.random.normal(key, (K, F), jnp.float32) * F**-0.5, jnp.zeros(K, jnp.float32))


@dataclass(frozen=True, repr=False)
class Network:
    """A model as a record of pure functions; sizes live in the params only."""

    name: str
    cell: Cell
    inputs: str  # one of INPUTS
    readout: str  # one of READOUTS
    init: Callable[[Array, int, int, int], NetworkParams]  # (key, D, H, K) -> params
    forward: Callable[..., Output]  # (params, xs, mask, perturb, ...) -> Output, time first and batch last
    dropout: Dropout | None = None
    residual: bool = False

    def __repr__(self) -> str:
        return f"<Network {self.name}, inputs {self.inputs}, readout {self.readout}>"

    def steps(self, params: NetworkParams, xs: Array, *, lengths: Any = None, mask: Any = None) -> Steps:
        """Check one sequence or a batch and take it to the inside layout: tokens [T] or [B, T] for one-hot and
        embedding, else vectors [.., T, D].

        Raises ValueError as `unroll` does, for tokens outside the alphabet, and for T = 0 where a last step is read.
        """
        rank, size = (2, 0) if self.inputs == "vector" else (1, alphabet(params))
        steps = steps_of(xs, rank=rank, lengths=lengths, mask=mask, size=size)
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


def alphabet(params: NetworkParams) -> int:
    """How many tokens a network knows."""
    return params.body[0].forward.W_ih.shape[1] if params.embed is None else params.embed.shape[0]


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
    require_cell(cell)
    check_options(inputs, readout, layers, embedding)
    require_switches(bidirectional=bidirectional)
    require_effect(cell, layers, residual, dropout)
    require_engine(cell, evaluator, chunk)

    marks = {"-bidirectional": bidirectional, f"-{layers}": layers > 1, "-residual": residual, "-dropout": dropout}
    name = cell.name + "".join(mark for mark, holds in marks.items() if holds)
    stack = partial(init_stack, cell=cell, layers=layers, bidirectional=bidirectional)
    init = partial(init_network, stack, embedding, head)
    body = partial(scan_stack, cell, residual=residual, dropout=dropout, evaluator=evaluator, chunk=chunk)
    run = partial(forward, cell, body, inputs, readout, residual)
    return Network(name, cell, inputs, readout, init, run, dropout, residual)


def init_network(
    body: Callable[..., tuple[Layer, ...]],
    embedding: int | None,
    head: Callable[[Array, int, int], Dense],
    key: Array,
    D: int,
    H: int,
    K: int,
) -> NetworkParams:
    """Draw the embedding, the body and the head, which reads what the top layer shows."""
    require_sizes(D=D, H=H, K=K)
    first, second, third = jax.random.split(key, 3)
    table = None if embedding is None else jax.random.normal(first, (D, embedding), jnp.float32)
    layers = body(second, D=D if embedding is None else embedding, H=H)
    return NetworkParams(table, layers, head(third, K, H * len(layers[-1].halves())))


def check_options(inputs: str, readout: str, layers: int, embedding: int | None) -> None:
    """ValueError for what `network` does not know."""
    for name, value, known in (("inputs", inputs, INPUTS), ("readout", readout, READOUTS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {list(known)}, got {value!r}")
    require_sizes(layers=layers, **({} if embedding is None else {"embedding": embedding}))
    if (embedding is not None) != (inputs == "embedding"):
        raise ValueError('embedding, a width, goes with inputs="embedding" and with nothing else')


def forward(
    cell: Cell,
    body: Callable[..., StackTrace],
    inputs: str,
    readout: str,
    residual: bool,
    params: NetworkParams,
    xs: Array,
    mask: Array | None = None,
    perturb: Any = None,
    key: Array | None = None,
    state: Any = None,
    reset: Array | None = None,
    evaluator: str | None = None,
) -> Output:
    """One pass in the inside layout, xs [T, D, B] or tokens [T, B]; the rest as for `scan_stack`.

    `evaluator` takes the place of the network's own.
    """
    xs = vectors(inputs, params, xs, mask)
    body = body if evaluator is None else partial(body, evaluator=evaluator)
    trace = body(params.body, xs, state, mask, reset, perturb, key=key)
    every = None if readout == "last" else jax.vmap(partial(affine, params.head))(trace.ys)
    last = None if readout == "every" else affine(params.head, summary(cell, params.body, trace, residual))
    return Output(every, last, trace)


def vectors(inputs: str, params: NetworkParams, xs: Array, mask: Array | None) -> Array:
    """What the body reads, [T, D, B]: xs themselves, or of tokens [T, B] rows of the embedding, or one-hot."""
    if inputs == "vector":
        return xs
    tokens = xs if mask is None else jnp.where(mask, xs, 0)
    if params.embed is None:
        return jax.nn.one_hot(tokens, alphabet(params), axis=1, dtype=params.head.W.dtype)
    return jnp.moveaxis(params.embed[tokens], -1, 1)


def summary(cell: Cell, body: tuple[Layer, ...], trace: StackTrace, residual: bool) -> Array:
    """What the top layer shows at the end of its scans, [H, B] or [forward; backward].

    In a residual stack that is the sum over all layers, as every layer adds what it reads.
    """
    read, finals, shown = over_batch(cell.read), iter(trace.final), []
    for layer in body:
        shown.append(jnp.concatenate([read(half, next(finals)) for half, _ in layer.halves()]))
    return sum(shown[1:], shown[0]) if residual else shown[-1]


def affine(head: Dense, y: Array) -> Array:
    """[F, B] -> [K, B]."""
    return head.W @ y + head.b[:, None]
