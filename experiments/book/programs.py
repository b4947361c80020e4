"""The book's programs 081 to 086 out of the pieces of a memory cell, in float32, with a true tanh or the book's own.

The settings are the programs'; `tanh` names one of TANHS everywhere. Programs 081 to 084 take one step of three cells
in part, 085 and 086 run whole cells over a 1 followed by zeros.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.nn import sigmoid
from jax.scipy.special import logit

import seqjax
from experiments.book.msvc import rand, uniform
from seqjax.cells.gates import CANDIDATE, FORGET, OUTPUT, Piece, memory
from seqjax.core import Affine, Hidden
from seqjax.gated import gated, set_bias

INPUTS = (-2.0, -1.0, 0.0, 0.5, 1.0, 1.5)  # 081
SEED = 42
DRAWN = "fiog"  # the gates in the order in which the book draws their weights
WIDTH = 0.1  # gate weights are uniform up to this; the readout's, and all of the RNN's, up to twice this


def book_tanh(z: Any, exp: Any = jnp.exp, where: Any = jnp.where) -> Any:
    """(1 - e) / (1 + e) with e = exp(-2z), and -1 below -20; 0 where exp(-2z) rounds to 1, |z| < 2⁻²⁶ in float32."""
    e = exp(-2 * z)
    return where(z < -20, -1, (1 - e) / (1 + e))


BOOK_CANDIDATE = Piece("ig", lambda z: sigmoid(z["i"]) * book_tanh(z["g"]))
BOOK_OUTPUT = Piece("o", lambda z, c: sigmoid(z["o"]) * book_tanh(c))


def book_rnn(params: Affine, state: Hidden, u: Array, a: Array) -> Hidden:
    """The equation of the plain unit with the book's tanh."""
    return Hidden(h=book_tanh(u + a))


TANHS = {"true": (CANDIDATE, OUTPUT), "book": (BOOK_CANDIDATE, BOOK_OUTPUT)}
RNNS = {"true": seqjax.rnn(), "book": gated("rnn-book", gates="h", state=Hidden, update=book_rnn)}
LSTMS = {name: memory(keep=FORGET, write=write, show=show) for name, (write, show) in TANHS.items()}


def float32(*values: float) -> Array:
    """A vector, whatever JAX's default."""
    return jnp.array(values, jnp.float32)


FULL = np.full(3, np.inf, np.float32)  # a pre-activation at which σ and tanh are 1
PREVIOUS = (0.5, 0.3, 0.8)  # h_{t-1} of 081 and 082, which reaches every gate of its own cell by a weight of 0.1


def forget_line() -> tuple[Array, Array]:
    """081: slope and level of every cell's forget pre-activation as a function of the input, [3] each."""
    return float32(-2, 1, 0.5), 0.1 * float32(*PREVIOUS) + 1


def forget_gates(*inputs: float) -> Array:
    """081: the forget gates of three cells at every input, [inputs, 3]."""
    slope, level = forget_line()
    return FORGET.value({"f": jnp.outer(float32(*inputs), slope) + level[None]})


def writes(tanh: str) -> Array:
    """082: input gate, candidate and their product at an input of 1, [3, 3]; each is seen with the other at 1."""
    write, _ = TANHS[tanh]
    recurrent = 0.1 * float32(*PREVIOUS)
    z = {"i": float32(1, 0.5, -0.5) + recurrent, "g": float32(0.8, -0.3, 0.6) + recurrent}
    return jnp.stack([write.value(z | {"g": FULL}), write.value(z | {"i": FULL}), write.value(z)])


def replaced(tanh: str) -> Array:
    """083: three cells updated, replaced and kept, [3]; the gates' values are the program's."""
    write, _ = TANHS[tanh]
    z = {"f": logit(float32(0.9, 0.1, 1)), "i": logit(float32(0.3, 0.8, 0)), "g": jnp.arctanh(float32(0.5, -0.7, 0.9))}
    return FORGET.value(z) * float32(1, -0.5, 2) + write.value(z)


def shown(tanh: str) -> Array:
    """084: what three cells hold, squashed, and what of it the output gate shows, [2, 3]; the first with gates at 1."""
    _, show = TANHS[tanh]
    gates = jnp.stack([FULL, logit(float32(0.9, 0.2, 0.7))])
    return show.value({"o": gates}, jnp.broadcast_to(float32(1.5, -0.3, 2.8), (2, 3)))


def impulse(length: int, *again: int) -> Array:
    """A 1 at step 0 and at the steps `again`, else zeros, [T, 1]."""
    return float32(*np.isin(np.arange(length), (0, *again)))[:, None]


def lstm_weights(stream: Iterator[int], H: int, *, forget_bias: float = 1.0) -> tuple[Affine, np.ndarray]:
    """Weights of an LSTM on one input and of its readout [H], drawn unit by unit: W of every gate, W_y, then U."""
    draws = uniform(stream, H, 1 + len(DRAWN) * (H + 1), bound=WIDTH)
    W, W_y, U = np.split(draws, [len(DRAWN), len(DRAWN) + 1], axis=1)
    order = [DRAWN.index(gate) for gate in LSTMS["true"].gates]
    W_ih = W.T[order].reshape(-1, 1)
    W_hh = U.reshape(H, H, -1).transpose(2, 0, 1)[order].reshape(-1, H)
    zeros = jnp.zeros(len(W_ih), jnp.float32)
    params = Affine(jnp.asarray(W_ih), jnp.asarray(W_hh), zeros, zeros)
    return set_bias(LSTMS["true"].gates, params, "f", forget_bias), 2 * W_y[:, 0]


def rnn_weights(stream: Iterator[int], H: int) -> tuple[Affine, np.ndarray]:
    """Weights of a plain unit on one input, without biases, and of its readout [H], drawn W_x, W_y, W_h by unit."""
    W_x, W_y, W_h = np.split(uniform(stream, H, 2 + H, bound=2 * WIDTH), [1, 2], axis=1)
    return Affine(jnp.asarray(W_x), jnp.asarray(W_h), None, None), W_y[:, 0]


def four_cells(tanh: str, xs: Array, *, forget_bias: float = 1.0) -> tuple[Array, Array, Array]:
    """085: cells [T, 4], forget gates [T, 4] and outputs [T] of an LSTM with the program's weights."""
    cell = LSTMS[tanh]
    params, W_y = lstm_weights(rand(SEED), 4, forget_bias=forget_bias)
    trace = seqjax.unroll(cell, params, xs)
    z = trace.us + jax.vmap(partial(cell.recur, params))(trace.before)
    f = FORGET.value({"f": jnp.split(z, len(cell.gates), axis=1)[cell.gates.index("f")]})
    return trace.after.c, f, trace.ys @ W_y


def fading(tanh: str, *, trials: int, length: int, H: int = 8) -> np.ndarray:
    """086: mean |output| over trials by length, of the plain unit and the LSTM, [2, T]."""

    def one(cell: seqjax.Cell, params: Affine, W_y: np.ndarray) -> Array:
        return seqjax.unroll(cell, params, impulse(length)).ys @ W_y

    streams = [rand(SEED + trial) for trial in range(trials)]
    plain, gates = [[draw(stream, H) for stream in streams] for draw in (rnn_weights, lstm_weights)]
    ys = [
        jax.vmap(partial(one, cell))(*jax.tree.map(lambda *arrays: jnp.stack(arrays), *weights))
        for cell, weights in ((RNNS[tanh], plain), (LSTMS[tanh], gates))
    ]
    return np.abs(np.stack(ys)).mean(1)


def rounded(function: Any) -> Any:
    """A NumPy function rounded correctly in float32, whatever the processor."""
    return lambda z: function(z.astype(np.float64)).astype(np.float32)


def in_c(tanh: str, xs: Array, *, forget_bias: float = 1.0) -> np.ndarray:
    """085 as C computes it, on a processor that keeps subnormals (XLA rounds them to 0): cells [T, 4]."""
    params, _ = lstm_weights(rand(SEED), 4, forget_bias=forget_bias)
    W, U, b = (np.asarray(array) for array in (params.W_ih[:, 0], params.W_hh, params.b_ih))
    exp = rounded(np.exp)
    φ = {"true": rounded(np.tanh), "book": partial(book_tanh, exp=exp, where=np.where)}[tanh]
    h, c, cs = np.zeros(4, np.float32), np.zeros(4, np.float32), []
    for x in np.asarray(xs[:, 0]):
        i, f, g, o = np.split(W * x + U @ h + b, 4)
        c = c / (1 + exp(-f)) + φ(g) / (1 + exp(-i))
        h = φ(c) / (1 + exp(-o))
        cs.append(c)
    return np.stack(cs)


def rate_at_rest(*, forget_bias: float = 1.0) -> float:
    """The factor a step by which everything in 085 fades in the end: spectral radius of the step's Jacobian at 0."""
    cell, (params, _) = LSTMS["true"], lstm_weights(rand(SEED), 4, forget_bias=forget_bias)
    rest, unravel = ravel_pytree(cell.start(params))
    u = cell.project(params, jnp.zeros(1, jnp.float32))
    return seqjax.spectral_radius(jax.jacfwd(lambda s: ravel_pytree(cell.step(params, unravel(s), u))[0])(rest))


def all_keep(threshold: float) -> tuple[np.ndarray, float]:
    """Exercise 4: the input beyond which each cell of 081 keeps, and the one at which the smallest gate is largest.

    The smallest of three lines is largest where two of them cross.
    """
    slope, level = (np.asarray(each, np.float64) for each in forget_line())
    crossings = [(level[j] - level[k]) / (slope[k] - slope[j]) for j, k in combinations(range(len(slope)), 2)]
    best = max(crossings, key=lambda x: (slope * x + level).min())
    return (np.log(threshold / (1 - threshold)) - level) / slope, float(best)


def parameters(cell: seqjax.Cell, N: int, M: int) -> tuple[int, int]:
    """Numbers in N units on M inputs, with one bias per gate and unit, and in a readout of one number."""
    network = seqjax.network(cell, inputs="vector")
    tree = jax.eval_shape(lambda key: network.init(key, M, N, 1), jax.random.key(0))
    body = replace(tree.body[0].forward, b_hh=None)  # b_ih + b_hh is one bias, kept in two halves
    core, head = (sum(array.size for array in jax.tree.leaves(part)) for part in (body, tree.head))
    return core, head
