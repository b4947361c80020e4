"""Steps taken a block at a time, and sums of what is projected and the recurrent product, gate by gate."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import MAKERS, B, D, H, close, differentiated, random_mask, random_params, random_xs, same

from seqjax import gru, lstm
from seqjax.core import Hidden
from seqjax.unroll.batching import start
from seqjax.unroll.blocks import in_blocks
from seqjax.unroll.fitting import equation_of
from seqjax.unroll.hoisted import BLOCK
from seqjax.unroll.meeting import Meeting, meeting_of

STEPS = 2 * BLOCK + 3


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4, 7, 8, None])
def test_blocks_are_one_scan(size, reverse):
    """A running sum of seven numbers, whatever the block, with what is left at its end in time."""

    def run(state, each):
        return jax.lax.scan(lambda s, x: (Hidden(s.h + x), Hidden(s.h + x)), state, each, reverse=reverse)

    final, after = in_blocks(run, size, reverse, Hidden(jnp.ones(())), jnp.arange(7.0))
    sums = 1 + (np.cumsum(np.arange(7)[::-1])[::-1] if reverse else np.cumsum(np.arange(7)))
    np.testing.assert_array_equal(after.h, sums)
    assert final.h == sums[0 if reverse else -1]


@pytest.mark.parametrize(("make", "reverse"), [(lstm, True), (gru, False), (partial(gru, norm="layer"), True)])
def test_gradients_of_several_blocks_and_a_rest(make, reverse):
    """Equal to the plain scan's, to params, inputs and state, with holes, resets and a state that comes in."""
    cell = make()
    params, xs = random_params(cell), random_xs(B, STEPS, D)
    mask, reset = random_mask(B, STEPS), ~random_mask(B, STEPS, seed=8)
    state = jax.tree.map(lambda s: jnp.full((B, *s.shape), 0.3), cell.start(params))
    got, want = (
        differentiated(cell, reverse=reverse, evaluator=evaluator)(params, xs, state, mask, reset)
        for evaluator in ("hoisted", "scan")
    )
    close(got, want)


def summed(cell):
    """How a cell's equation reads u and a."""
    params = random_params(cell)
    a = jnp.zeros((len(params.W_hh), B))
    return meeting_of(equation_of(cell, params, start(cell, params, B), a, a), a, a).summed


def thirds(combine):
    """An update that splits u and a in three and makes a state of them."""
    return lambda p, s, u, a: Hidden(combine(jnp.split(u, 3), jnp.split(a, 3)))


READ = {
    "the sum": (lambda p, s, u, a: Hidden((u + a)[:H]), (True,)),
    "its other order": (lambda p, s, u, a: Hidden((a + u)[:H]), (True,)),
    "the difference": (lambda p, s, u, a: Hidden((u - a)[:H]), (False,)),
    "u again": (lambda p, s, u, a: Hidden((u + a)[:H] + u[:H]), (False,)),
    "u alone": (lambda p, s, u, a: Hidden(u[:H]), (False,)),
    "u twice": (lambda p, s, u, a: Hidden((u + u)[:H] + a[:H]), (False,)),
    "the first gate alone": (thirds(lambda u, a: u[0] + a[0] + u[1] * a[1] + u[2] - a[2]), (True, False, False)),
    "the last": (thirds(lambda u, a: u[0] * a[0] + u[1] * a[1] + (u[2] + a[2])), (False, False, True)),
    "crossed gates": (thirds(lambda u, a: (u[0] + a[1]) + (u[1] + a[0]) + u[2] * a[2]), (False, False, False)),
    "a gate twice": (thirds(lambda u, a: (u[0] + a[0]) * a[0] + (u[1] + a[1]) + (u[2] + a[2])), (False, True, True)),
}


@pytest.mark.parametrize(("update", "wanted"), READ.values(), ids=READ)
def test_sums_are_seen(update, wanted):
    """Gate by gate where an equation splits u and a, and only where nothing else reads them."""
    assert summed(replace(gru(), update=update)) == wanted


OWN = {
    "rnn": (True,),
    "lstm": (True,),
    "lstm-norm": (True,),
    "gru": (True, True, False),
    "gru-norm": (True, True, False),
}


@pytest.mark.parametrize(("name", "wanted"), OWN.items())
def test_sums_of_our_cells(name, wanted):
    """All gates, but for the candidate of a GRU, whose product is reset before it is added."""
    assert summed(MAKERS[name]()) == wanted


@pytest.mark.parametrize("gates", [(True,), (False,), (True, True, False), (False, True, False), (False, False)])
def test_apart_undoes_meeting(gates):
    """z of the u and a that `apart` gives is z again, with time in front or not."""
    u, a = jax.random.normal(jax.random.key(0), (2, 6, B))
    there = Meeting(gates)
    z = there.z(u, a)
    close(there.z(*there.apart(z)), z, 0.0)
    same(jax.tree.map(lambda part: part[0], there.z(u[None], a[None])), z)
