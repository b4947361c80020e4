"""Cells as users write them, which do what the contract allows and our own cells do not."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import Array
from oracle import H, close, generic, random_mask, random_params, random_xs

from seqjax import gru, rnn, unroll
from seqjax.core import Affine, Hidden


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Counted:
    """A state with a clock."""

    h: Array  # [H]
    steps: Array  # []


def of_rnn(**parts):
    """A tanh network with some of its functions replaced, as a user would write it."""
    return replace(rnn(), **parts)


USERS = {
    "a product that is not affine": of_rnn(recur=lambda p, s: p.W_hh @ jnp.sin(s.h) + 0.1 * s.h**2),
    "two products": of_rnn(recur=lambda p, s: p.W_hh @ jnp.tanh(p.W_hh @ s.h)),
    "a product in two parts": of_rnn(
        recur=lambda p, s: {"W": p.W_hh @ s.h, "v": p.b_hh * s.h},
        update=lambda p, s, u, a: Hidden(jnp.tanh(u + a["W"]) * jnp.cos(a["v"])),
    ),
    "a start that is learned": of_rnn(start=lambda p: Hidden(jnp.tanh(p.b_ih))),
    "shapes read": of_rnn(update=lambda p, s, u, a: Hidden(jnp.tanh(u + a) * jnp.ones(a.shape[0], a.dtype))),
    "a matrix in the equation": of_rnn(update=lambda p, s, u, a: Hidden(jnp.tanh(u + a + p.W_ih.sum(1)))),
    "a product in the equation": of_rnn(update=lambda p, s, u, a: Hidden(jnp.tanh(u + p.W_hh @ jnp.sin(a)))),
    "a clock": of_rnn(
        start=lambda p: Counted(jnp.zeros(p.b_ih.shape), jnp.zeros((), jnp.int32)),
        update=lambda p, s, u, a: Counted(jnp.tanh(u + a / (1 + s.steps)), s.steps + 1),
    ),
    "a constant": of_rnn(update=lambda p, s, u, a: Hidden(jnp.ones_like(s.h) * p.b_ih[0])),
    "a gradient stopped": of_rnn(recur=lambda p, s: jax.lax.stop_gradient(p.W_hh @ s.h)),
    "no hidden units but sums": of_rnn(update=lambda p, s, u, a: Hidden(u + a)),
}


def assert_plain(cell, params):
    """The gradients of the fast engine are those of the plain scan."""

    def loss(evaluator, params, xs):
        trace = unroll(cell, params, xs, mask=random_mask(), reset=~random_mask(seed=8), evaluator=evaluator)
        return generic(trace.ys), trace

    got, want = (
        jax.jit(jax.value_and_grad(partial(loss, evaluator), (0, 1), has_aux=True))(params, random_xs())
        for evaluator in ("auto", "scan")
    )
    close(got, want)


@pytest.mark.parametrize("cell", USERS.values(), ids=USERS.keys())
def test_any_cell_of_a_user_has_the_gradients_of_the_plain_scan(cell):
    """Whatever it does beyond what the contract says of a cell."""
    assert_plain(cell, jax.tree.map(lambda p: 0.5 * p, random_params(rnn())))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled(Affine):
    """Weights with a number of their own for every unit."""

    scale: Array | None = None  # [H]


def test_weights_that_the_products_do_not_know():
    """A GRU whose state is scaled unit by unit."""
    update = gru().update
    cell = replace(
        gru(),
        start=lambda p: Hidden(jnp.zeros(p.scale.shape)),
        update=lambda p, s, u, a: Hidden(p.scale * update(p, s, u, a).h),
    )
    assert_plain(cell, Scaled(**vars(random_params(gru())), scale=jnp.linspace(0.5, 0.9, H)))
