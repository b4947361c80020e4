"""Order diagnostics on models that can be read off: of the last event, of the event before two others, of no order."""

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, noise_like
from scipy.stats import ttest_1samp

import seqjax
from seqjax import ablation_test, reversal_test, shuffle_test, truncation_test
from seqjax.losses import accuracy, cross_entropy
from seqjax.sensitivity import Truncation
from seqjax.tasks import Batch

D, T, JUNK = 3, 5, 99
XS = np.array(
    [[0, 1, 2, 1, 2], [2, 1, JUNK, JUNK, JUNK], [1, 2, 2, 1, JUNK], [1, JUNK, JUNK, JUNK, JUNK], [2, 0, 1, JUNK, JUNK]]
)
LENGTHS = np.array([5, 2, 4, 1, 3])
ENDS = np.array([row[n - 1] for row, n in zip(XS, LENGTHS, strict=True)])  # 2, 1, 1, 1, 1
OF_LAST = Batch(XS, ENDS, LENGTHS)
KEY = jax.random.key(0)


@lru_cache
def tap(lag):
    """A convolution whose logits are the token `lag` events before the last, and its params."""
    net = seqjax.convolutional(lag + 1, inputs="onehot")
    params = noise_like(net.init, D, D, D)
    W = np.zeros((D, D, lag + 1))
    W[:, :, 0] = np.eye(D)  # the oldest tap
    layer = seqjax.Conv(jnp.asarray(W), jnp.zeros(D))
    return net, replace(params, body=replace(params.body, layers=(layer,)), head=identity(params.head))


def identity(head):
    """A readout that shows what it reads."""
    return replace(head, W=jnp.eye(D), b=jnp.zeros(D))


def forgetful():
    """A plain recurrent network that keeps nothing: its logits are the last token too."""
    net = seqjax.network(seqjax.rnn(), inputs="onehot", readout="both")
    params = noise_like(net.init, D, D, D)
    cell = params.body[0].forward
    zeros = jax.tree.map(jnp.zeros_like, cell)
    layer = replace(params.body[0], forward=replace(zeros, W_ih=jnp.eye(D)))
    return net, replace(params, body=(layer,), head=identity(params.head))


LAST = pytest.mark.parametrize("model", [tap(0), forgetful()], ids=["convolution", "recurrent"])


@LAST
def test_a_model_of_the_last_event(model):
    """Right by it, wrong where another comes last, whatever else is lost; scores, rows, and the paired interval."""
    back = reversal_test(*model, OF_LAST, accuracy)
    assert (back.before.value, back.before.low, back.before.high) == (1, 1, 1)
    firsts = (XS[:, 0] == ENDS).astype(float)  # 0, 0, 1, 1, 0
    low, high = ttest_1samp(firsts - 1, 0).confidence_interval()
    close((back.after.value, back.difference.value), (2 / 5, -3 / 5), 1e-12)
    close((back.difference.low, back.difference.high), (low, high), 1e-12)
    size = back.largest
    assert size == pytest.approx(1 if model[0].body.cell is None else np.tanh(1))
    close(back.typical, size * 3 * 2 / 15, 1e-6)  # two of three outputs, in three rows of five
    assert back.rows == 4
    without = ablation_test(*model, OF_LAST, accuracy, event="last")
    close(without.after.value, 0, 0)  # before the last stand 1, 2, 2, nothing (which reads as 0) and 0
    assert without.rows == 5
    first = ablation_test(*model, OF_LAST, accuracy, event="first")
    assert (first.after.value, first.rows) == (4 / 5, 5)  # a row of one event has none left
    found = truncation_test(*model, OF_LAST, accuracy, ks=(1, 2, 4))
    assert [(k, each.difference.value, each.largest, each.rows) for k, each in found.changes.items()] == [
        (1, 0, 0, 4),
        (2, 0, 0, 3),
        (4, 0, 0, 1),
    ]
    assert found.needed() == 1


def test_shuffling_has_the_answer_of_chance():
    """Over many draws a row is right as often as its target is among its events."""
    found = shuffle_test(*tap(0), OF_LAST, accuracy, KEY, draws=200)
    shares = [np.mean(row[:n] == end) for row, n, end in zip(XS, LENGTHS, ENDS, strict=True)]
    assert found.after.value == pytest.approx(np.mean(shares), abs=4 * 0.5 / np.sqrt(200 * 5))
    assert found.difference.value == pytest.approx(found.after.value - 1)
    assert (found.largest, found.rows) == (1, 4)
    assert found == shuffle_test(*tap(0), OF_LAST, accuracy, KEY, draws=200)
    assert "outputs move by" in str(found)


def test_a_model_that_looks_two_events_back():
    """Blind with one or two events, right with three, which is what it needs."""
    rows = np.array([[0, 1, 2, 0], [2, 0, 0, JUNK], [0, 2, 0, 0]])
    batch = Batch(rows, np.array([1, 2, 2]), np.array([4, 3, 4]))
    found = truncation_test(*tap(2), batch, accuracy, ks=(4, 1, 2, 3))
    assert {k: each.after.value for k, each in found.changes.items()} == {1: 0, 2: 0, 3: 1, 4: 1}
    assert found.needed() == 3
    assert Truncation({k: found.changes[k] for k in (1, 2)}).needed() is None
    assert found.needed(tolerance=1.0) == 1


@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
def test_a_pool_is_moved_by_no_order(pool):
    """The score not at all, outputs by rounding, and not even that in a maximum; by what is lost, yes."""
    net = seqjax.pooled(pool, inputs="embedding", embedding=3)
    params = noise_like(net.init, D, 4, D)
    loss = cross_entropy
    for found in (shuffle_test(net, params, OF_LAST, loss, KEY), reversal_test(net, params, OF_LAST, loss)):
        rounding = 0 if pool == "max" else 1e-14
        assert found.largest <= rounding
        assert abs(found.difference.value) <= rounding
    assert ablation_test(net, params, OF_LAST, loss, event="last").largest > 1e-3


def test_full_rows_of_vectors():
    """Without lengths every row has all T steps; vectors move as wholes."""
    net = seqjax.network(seqjax.gru())
    params, xs = noise_like(net.init, D, 4, 2), np.random.default_rng(0).standard_normal((4, T, D))
    batch = Batch(xs, np.array([0, 1, 1, 0]))
    back = reversal_test(net, params, batch, cross_entropy)
    run = jax.jit(lambda xs: net.apply(params, xs).last)
    before, after = run(xs), run(xs[:, ::-1])
    close((back.largest, back.typical), (np.abs(after - before).max(), np.abs(after - before).mean()), 1e-9)
    close(back.before.value, cross_entropy(before, batch.targets), 1e-9)
    close(back.after.value, cross_entropy(after, batch.targets), 1e-9)
    ragged = replace(batch, lengths=np.array([5, 2, 3, 4]))
    dirty = replace(ragged, xs=np.where(np.arange(T)[None, :, None] < ragged.lengths[:, None, None], xs, np.nan))
    assert reversal_test(net, params, dirty, cross_entropy) == reversal_test(net, params, ragged, cross_entropy)


EVERY = seqjax.network(seqjax.rnn(), inputs="onehot", readout="every")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reversal_test(EVERY, None, OF_LAST, accuracy), 'network must read "last" or "both"'),
        (lambda: reversal_test(seqjax.gru(), None, OF_LAST, accuracy), "network must read"),
        (lambda: reversal_test(*tap(0), replace(OF_LAST, reset=XS > 1), accuracy), "resets cut them"),
        (lambda: reversal_test(*tap(0), replace(OF_LAST, targets=XS), accuracy), "one target each"),
        (
            lambda: reversal_test(*tap(0), replace(OF_LAST, lengths=LENGTHS + 1), accuracy),
            "lengths must lie in",
        ),
        (lambda: reversal_test(*tap(0), replace(OF_LAST, lengths=None), accuracy), r"tokens in 0\.\.2, got 99"),
        (lambda: shuffle_test(*tap(0), OF_LAST, accuracy, KEY, draws=0), "draws must be"),
        (lambda: truncation_test(*tap(0), OF_LAST, accuracy, ks=()), "ks must be"),
        (lambda: truncation_test(*tap(0), OF_LAST, accuracy, ks=(1, 0)), r"ks\[1\] must be"),
        (lambda: ablation_test(*tap(0), OF_LAST, accuracy, event="middle"), "event must be"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()
