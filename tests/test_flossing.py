"""Flossing against exponents in closed form, a loop over explicit Jacobians, and finite differences."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from oracle import D, H, all_zero, jiggle, random_xs, same

import seqjax
from seqjax import Dropout, deep, floss, floss_first, flossing, gru, linear, lstm, lyapunov, rnn
from seqjax.core import Affine
from seqjax.dense import Dense
from seqjax.init import Orthogonal, with_init
from seqjax.jacobian import flat, unflat
from seqjax.lyapunov import first_frame
from seqjax.network import NetworkParams
from seqjax.remedies.flossing import leading
from seqjax.sequences import batch_last
from seqjax.stack import Layer
from seqjax.tasks import Batch
from seqjax.train import begin

B, T, K = 3, 6, 2
VECTORS = replace(seqjax.tasks.recall(length=T, alphabet=D), inputs="vector")
RNG = np.random.default_rng(0)


def recursion(A):
    """A network of h_t = A h_{t-1}, which reads one number that it does not use."""
    own = Affine(jnp.zeros((len(A), 1)), jnp.asarray(A), None, None)
    return NetworkParams(None, (Layer(own),), Dense(jnp.ones((K, len(A))), jnp.zeros(K)))


@pytest.mark.parametrize("a", [0.5, -1.5])
def test_of_one_linear_unit(a):
    """λ = ln |a|, so that the penalty is w ln² |a| and its derivative 2 w ln |a| / a."""
    recipe = seqjax.Recipe(seqjax.network(linear()), VECTORS, hidden=1)
    batch = Batch(random_xs(B, T, 1), None)
    penalty = jax.jit(jax.value_and_grad(lambda p: flossing(1, weight=3.0)(recipe, p, batch, hyper={})))
    value, gradient = penalty(recursion(np.array([[a]])))
    np.testing.assert_allclose(value, 3 * np.log(abs(a)) ** 2, rtol=1e-12)
    np.testing.assert_allclose(gradient.body[0].forward.W_hh, [[6 * np.log(abs(a)) / a]], rtol=1e-12)


def test_of_a_scaled_orthogonal_matrix():
    """All λ_i = ln g at first, and 0 after it; where a direction vanishes the params stay, beside it in one vmap."""
    Q = np.linalg.qr(RNG.standard_normal((4, 4)))[0]
    nilpotent = np.diag(np.ones(3), 1)
    params = jax.tree.map(lambda *a: jnp.stack(a), recursion(0.5 * Q), recursion(nilpotent))
    run = partial(floss, seqjax.network(linear()), xs=jnp.zeros((T, 1)), k=4, updates=100, learning_rate=0.02)
    after, history = jax.jit(jax.vmap(run))(params)
    np.testing.assert_allclose(history.exponents[0, 0], np.log(0.5), rtol=1e-12)
    np.testing.assert_allclose(history.loss[0, 0], 4 * np.log(0.5) ** 2, rtol=1e-12)
    np.testing.assert_allclose(history.exponents[0, -1], 0, atol=0.01)
    np.testing.assert_allclose(abs(np.linalg.det(after.body[0].forward.W_hh[0])), 1, atol=0.04)
    assert (history.loss[1] == jnp.inf).all()
    same(*(jax.tree.map(lambda a: a[1], each) for each in (after, params)))


@partial(jax.jit, static_argnums=0)
def stepped(cell, params, state, x):
    """The state after a step, and the step's Jacobian."""
    u = cell.project(params, x)
    J = jax.jacfwd(lambda s: flat(cell.step(params, unflat(state, s), u)))(flat(state))
    return cell.step(params, state, u), J


def by_loop(cell, params, xs, valid, reset, k, settle):
    """The k leading exponents of one row, its frame carried over what is padded or reset."""
    state, Q, logs = cell.start(params), np.asarray(first_frame(cell, params, k, jax.random.key(0))), []
    for t in range(len(xs)):
        if valid[t]:
            after, J = stepped(cell, params, cell.start(params) if reset[t] else state, xs[t])
            if not reset[t]:
                Q, R = np.linalg.qr(np.asarray(J) @ Q)
                if t >= settle:
                    logs.append(np.log(np.abs(np.diag(R))))
            state = after
    return np.mean(logs, axis=0) if logs else np.zeros(k)


def test_a_loop_over_explicit_jacobians():
    """Of ragged rows that are reset, of the whole carry of two layers; after `settle`, and of `steps` steps."""
    network = seqjax.network(gru(), layers=2)
    params = jiggle(network.init(jax.random.key(0), D, H, K), 0)
    xs, lengths = random_xs(4, T, D), np.array([T, 3, 1, 0])
    mask = np.arange(T)[None] < lengths[:, None]
    reset = np.zeros((4, T), bool)
    reset[0, 2] = True
    given = batch_last((jnp.where(mask[..., None], xs, jnp.nan), jnp.asarray(mask), jnp.asarray(reset)))
    found, measured = jax.jit(lambda p: leading(network, 3, 1, 4, p, given))(params)
    wanted = [by_loop(deep(gru()), params.body, xs[b, :5], mask[b, :5], reset[b, :5], 3, 1) for b in range(4)]
    np.testing.assert_allclose(found.T, np.stack(wanted), rtol=1e-9)
    np.testing.assert_array_equal(measured, [True, True, False, False])


def test_the_gradient_is_a_finite_difference():
    """Of an LSTM over an embedding, to all weights of the body, and to nothing else; averaged over two rows of three,
    its weight a hyperparameter."""
    network = seqjax.network(lstm(), inputs="embedding", embedding=2)
    task = seqjax.tasks.recall(length=T, alphabet=D)
    recipe = seqjax.Recipe(network, task, hidden=H)
    params = jiggle(network.init(jax.random.key(0), D, H, D), 0)
    batch = Batch(jax.random.randint(jax.random.key(1), (B, T), 0, D), None, jnp.array([T, 4, 2]))
    penalty = partial(flossing(3, weight="pull", rows=2), recipe, hyper={"pull": 0.5})
    whole = jax.jit(jax.value_and_grad(lambda p: penalty(p, batch)))
    value, gradient = whole(params)
    assert all_zero((gradient.embed, gradient.head))
    point, shaped = ravel_pytree(params.body)
    direction = jnp.sin(1.0 + jnp.arange(point.size))
    ahead, behind = (whole(replace(params, body=shaped(point + sign * 1e-6 * direction)))[0] for sign in (1, -1))
    np.testing.assert_allclose(flat(gradient.body) @ direction, (ahead - behind) / 2e-6, rtol=1e-6)
    own, xs, mask = params.body[0].forward, params.embed[batch.xs], np.arange(T)[None] < np.array([[T], [4]])
    each = [by_loop(lstm(), own, xs[b], mask[b], np.zeros(T, bool), 3, 0) for b in range(2)]
    np.testing.assert_allclose(value, 0.5 * np.sum(np.square(each)) / 2, rtol=1e-9)


def test_a_contracting_network_is_prepared():
    """Gain 0.5, k = 8 of 12: the exponents that `lyapunov` finds come from below ln 0.5 to near 0, and the gradient's
    profile from a steep line to a flat one; the head is as it was drawn. As a recipe's edit, in float32."""
    network = seqjax.network(with_init(rnn(), Orthogonal(gain=0.5)), inputs="onehot")
    task = seqjax.tasks.recall(length=20, alphabet=D)
    edit = floss_first(network, task, k=8, updates=150, learning_rate=0.01)
    assert edit is floss_first(network, task, k=8, updates=150, learning_rate=0.01)
    recipe = seqjax.Recipe(network, task, hidden=12, edit=edit)
    recipes = replace(recipe, edit=None), recipe
    fresh, ready = jax.jit(lambda key: [begin(each, key, {}).params for each in recipes])(jax.random.key(0))
    same(ready.head, fresh.head)
    batch = task.draw(jax.random.key(9), 0, 16)

    @jax.jit
    def looked(params):
        xs = jax.nn.one_hot(batch.xs, D, dtype="float32")
        found = lyapunov(rnn(), params.body[0].forward, xs, k=8, blocks=1).exponents.mean(0)
        profile = seqjax.gradient_profile(network, params, batch.xs, batch.targets).mean_log10[0]
        return found, (profile[-1] - profile[0]) / 19

    (before, steep), (after, level) = looked(fresh), looked(ready)
    assert (before < np.log(0.5)).all()
    assert (abs(after) < 0.05).all()
    assert steep < -0.3
    assert abs(level) < 0.03


def made(**options):
    """A network and its params, to be refused."""
    network = seqjax.network(rnn(), **options)
    return network, network.init(jax.random.key(0), D, H, K), random_xs(T, D)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: floss(*made(), k=H + 1, updates=1), f"k must be at most N = {H}"),
        (lambda: floss(*made(), k=0, updates=1), "k must be an integer"),
        (lambda: floss(*made(), k=1, updates=0), "updates must be an integer"),
        (lambda: floss(*made(), k=1, updates=1, learning_rate=0.0), "learning_rate must be above 0"),
        (lambda: floss(*made(), k=1, updates=1, settle=4, steps=3), "at least steps = 3 .*T = 6 less settle 4"),
        (lambda: floss(*made(), k=1, updates=1, settle=T), "at least steps = 1"),
        (lambda: floss(*made(), k=1, updates=1, settle=-1), "settle must be a whole number"),
        (lambda: floss(*made(), k=1, updates=1, steps=0), "steps must be an integer"),
        (lambda: floss(*made(bidirectional=True), k=1, updates=1), "must run forwards"),
        (lambda: floss(*made(dropout=Dropout(zoneout=0.1)), k=1, updates=1), "zoneout=0.1"),
        (lambda: floss_first(made()[0], VECTORS, k=1, updates=1, batch=0), "batch must be"),
        (lambda: flossing(2, weight=-1.0), "weight must be"),
        (lambda: flossing(2, weight=1.0, rows=0), "rows must be"),
    ],
)
def test_bad_calls(call, message):
    """One clear line."""
    with pytest.raises(ValueError, match=message):
        call()
