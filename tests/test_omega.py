"""Ω against its closed form, a loop over explicit Jacobians, and finite differences of what is held constant."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from oracle import MAKERS, D, H, all_zero, close, generic, jiggle, random_params, random_state, random_xs

import seqjax
from seqjax import Dropout, Trace, gru, linear, lstm, omega, pullback, rnn, soft_constraint, unroll
from seqjax.core import Affine, Hidden
from seqjax.dense import Dense
from seqjax.jacobian import flat, unflat
from seqjax.losses import squared_error
from seqjax.network import NetworkParams
from seqjax.remedies.penalty import weight_of
from seqjax.sequences import batch_first, batch_last
from seqjax.stack import Layer
from seqjax.tasks import Batch
from seqjax.train.recipe import answers

B, T, K = 3, 4, 6
LENGTHS = jnp.array([T, 3, 0])
HELD = Dropout(zoneout=0.1)
TASK = seqjax.tasks.recall(length=T, alphabet=D)


def recipe_of(cell, readout="last", penalty=None, **options):
    """A network on random tokens."""
    network = seqjax.network(cell, inputs="onehot", readout=readout, **options)
    return seqjax.Recipe(network, replace(TASK, readout=readout), hidden=H, updates=2, batch=B, penalty=penalty)


def drawn(recipe, lengths=LENGTHS, reset=None):
    """Float64 params and a batch."""
    params = jiggle(recipe.network.init(jax.random.key(0), D, H, K), 0)
    xs = jax.random.randint(jax.random.key(1), (B, T), 0, D)
    every = recipe.task.readout == "every"
    return params, Batch(xs, xs if every else xs[:, 0], lengths, reset=reset)


@partial(jax.jit, static_argnums=0)
def penalised(recipe, params, batch, hyper=None):
    """Ω with weight 1 and its gradient."""
    return jax.value_and_grad(lambda p: omega(weight=1.0)(recipe, p, batch, hyper=hyper or {}))(params)


@pytest.mark.parametrize("a", [0.5, -1.5])
def test_of_one_linear_unit(a):
    """h_t = a h_{t-1} + x_t: Ω_t = (|a| - 1)², whose derivative is 2 (|a| - 1) sign(a), at each of T steps."""
    params = Affine(jnp.ones((1, 1)), jnp.full((1, 1), a), None, None)
    task = replace(TASK, loss=squared_error, inputs="vector", D=1, K=1)
    recipe = seqjax.Recipe(seqjax.network(linear()), task, hidden=1)
    whole = NetworkParams(None, (Layer(params),), Dense(jnp.ones((1, 1)), jnp.zeros(1)))
    value, gradient = penalised(recipe, whole, Batch(random_xs(B, T, 1), jnp.arange(3.0)))
    np.testing.assert_allclose(value, T * (abs(a) - 1) ** 2, rtol=1e-12)
    np.testing.assert_allclose(gradient.body[0].forward.W_hh, [[T * 2 * (abs(a) - 1) * np.sign(a)]], rtol=1e-12)


@partial(jax.jit, static_argnums=0)
def taken(cell, own, state, token):
    """One step: u, the state after it, and how what is read there moves with that state, [H, N]."""
    u = cell.project(own, jax.nn.one_hot(token, D))
    after = cell.step(own, state, u)
    return u, after, jax.jacfwd(lambda s: cell.read(own, unflat(after, s)))(flat(after))


@partial(jax.jit, static_argnums=0)
def jacobian(cell, own, moving, state, u):
    """direct + slopes @ matrix, the matrix of the moving params and all else as it is."""
    s, a = flat(state), cell.recur(own, state)
    direct, slopes = jax.jacfwd(lambda s, a: flat(cell.update(own, unflat(state, s), u, a)), (0, 1))(s, a)
    return direct + slopes @ jax.jacfwd(lambda s: cell.recur(moving, unflat(state, s)))(s)


def vectors(recipe, params, batch, row):
    """(state, u, dL/ds) of every step of one row, by the chain rule with explicit Jacobians."""
    cell, own, every = recipe.network.cell, params.body[0].forward, recipe.task.readout == "every"
    W, b, state, steps = np.asarray(params.head.W), np.asarray(params.head.b), cell.start(own), []
    for t in range(int(batch.lengths[row])):
        u, after, shows = taken(cell, own, state, batch.xs[row, t])
        odds = np.exp(W @ np.asarray(cell.read(own, after)) + b)
        to_logits = odds / odds.sum() - np.eye(K)[batch.targets[row, t] if every else batch.targets[row]]
        arriving = np.asarray(shows).T @ W.T @ to_logits / (batch.lengths.sum() if every else B)
        steps.append([state, u, arriving])
        state = after
    v = 0.0 if every else steps[-1][2]
    for step in reversed(steps):
        v = step[2] = v + step[2] if every else v
        v = np.asarray(jacobian(cell, own, own, *step[:2])).T @ v
    return steps


def by_loop(recipe, params, batch):
    """Ω as a function of the params of the recurrent product, with the states and all dL/ds_t at hand."""
    cell, own = recipe.network.cell, params.body[0].forward
    steps = [step for row in range(B) if batch.lengths[row] for step in vectors(recipe, params, batch, row)]

    def value(moving):
        each = ((np.asarray(jacobian(cell, own, moving, *taken)), v) for *taken, v in steps)
        return sum((np.linalg.norm(J.T @ v) / np.linalg.norm(v) - 1) ** 2 for J, v in each) / B

    return value


@pytest.mark.parametrize(("cell", "readout"), [(rnn(), "every"), (lstm(), "last")], ids=["rnn-every", "lstm-last"])
def test_a_loop_over_explicit_jacobians(cell, readout):
    """The same value on ragged rows, and its finite difference in a generic direction of all the cell's params."""
    recipe = recipe_of(cell, readout)
    params, batch = drawn(recipe)
    value, gradient = penalised(recipe, params, batch)
    own, loop = params.body[0].forward, by_loop(recipe, params, batch)
    np.testing.assert_allclose(value, loop(own), rtol=1e-10)
    point, shaped = ravel_pytree(own)
    direction = np.sin(1.0 + np.arange(point.size))
    ahead, behind = (loop(shaped(point + sign * 1e-5 * direction)) for sign in (1, -1))
    np.testing.assert_allclose(flat(gradient.body[0].forward) @ direction, (ahead - behind) / 2e-5, rtol=1e-6)


def one_step(cell, state):
    """Params, and a trace of one step from a state."""
    params, xs = random_params(cell), random_xs(1, D)
    return params, Trace(jax.vmap(partial(cell.project, params))(xs), state, state, None, jnp.zeros((1, H)), None)


@pytest.mark.parametrize("name", ["gru", "lstm-full-gate-recurrence"])
def test_only_the_recurrent_matrix_moves(name):
    """What the matrix of `recur` is made of has a gradient, W_hh at least, everything else exactly 0."""
    cell = MAKERS[name]()
    state = random_state(cell, random_params(cell), 1)
    params, trace = one_step(cell, state)

    def matrix(params):
        own = jax.tree.map(lambda s: s[0], state)
        return generic(jax.jacfwd(lambda s: cell.recur(params, unflat(own, s)))(flat(own)))

    both = jax.jit(jax.grad(lambda p: soft_constraint(cell, p, trace, state).sum())), jax.grad(matrix)
    moves, made_of = (jax.tree.map(lambda g: bool((g != 0).any()), gradient(params)) for gradient in both)
    assert moves == made_of
    assert moves.W_hh
    assert not moves.W_ih


@pytest.mark.parametrize("name", ["mingru", "one-pole", "gru-reset-before"])
def test_cells_without_a_product_are_refused(name):
    """As soon as a training begins."""
    with pytest.raises(ValueError, match=f"{name!r} has no recurrent product"):
        seqjax.train(jax.random.key(0), recipe_of(MAKERS[name](), penalty=omega(weight=1.0)))


def test_units_without_a_slope():
    """Nothing comes back through a relu that is off: Ω_t = 1, and its gradient is 0, not NaN."""
    cell = rnn(activation="relu")
    params, trace = one_step(cell, Hidden(jnp.zeros((1, H))))
    trace = replace(trace, us=trace.us - 100)
    constraint = jax.jit(jax.value_and_grad(lambda p: soft_constraint(cell, p, trace, Hidden(jnp.ones((1, H)))).sum()))
    value, gradient = constraint(params)
    assert value == 1
    assert all_zero(gradient)


@cache
def traced():
    """A GRU's trace over a batch, and dL/ds_t of a loss of its final state."""
    params, xs = random_params(gru()), random_xs(B, T, D)

    @jax.jit
    def run(params, xs):
        trace = unroll(gru(), params, xs, lengths=LENGTHS)
        return trace, pullback(gru(), params, trace, jax.tree.map(jnp.ones_like, trace.final)).direction

    return params, *run(params, xs)


def test_what_adds_nothing():
    """Padding, resets, and vectors below 1e-10, which may have any other length. NaN is not hidden."""
    params, trace, vs = traced()
    terms = jax.jit(lambda scale, reset: soft_constraint(gru(), params, trace, scaled(vs, scale), reset=reset))
    never = jnp.zeros((B, T), bool)
    once, ones = never.at[0, 2].set(True), jnp.ones((B, T))
    found = terms(ones, never)
    assert ((found == 0) == ~trace.mask).all()
    for scale in (1e-9, 1e200):
        close(terms(scale * ones, never), found)
    assert all_zero(terms(1e-11 * ones, never))
    close(terms(ones, once), jnp.where(once, 0, found))
    assert (jnp.isnan(terms(jnp.where(once, jnp.nan, 1), never)) == once).all()
    one = jax.tree.map(lambda a: a[0], (trace, vs))
    close(jax.jit(partial(soft_constraint, gru(), params))(*one), found[0])


def scaled(vs, scale):
    """Vectors [B, T, H], each times its own number."""
    return jax.tree.map(lambda v: v * scale[..., None], vs)


def test_padding_and_resets_of_a_batch():
    """Of L = Σ_t Σ_k of all valid predictions, padded with NaN and reset once, as `pullback` has its gradient."""

    def summed(predictions, targets, where):
        return jnp.where(where, predictions.sum(-1), 0).sum()

    task = replace(TASK, inputs="vector", readout="every", loss=summed)
    recipe = seqjax.Recipe(seqjax.network(rnn(), readout="every"), task, hidden=H)
    params, xs = drawn(recipe)[0], random_xs(B, T, D)
    reset = jnp.zeros((B, T), bool).at[:, 2].set(True)
    own, mask = params.body[0].forward, jnp.arange(T)[None] < LENGTHS[:, None]

    @jax.jit
    def terms(own, xs):
        trace = unroll(rnn(), own, xs, mask=mask, reset=reset)
        to_every = Hidden(mask[..., None] * params.head.W.sum(0)[None, None])
        zero = jax.tree.map(jnp.zeros_like, trace.final)
        vs = pullback(rnn(), own, trace, zero, cotangents=to_every, reset=reset).direction
        return soft_constraint(rnn(), own, trace, vs, reset=reset)

    wanted = terms(own, xs)
    assert ((wanted == 0) == (~mask | reset)).all()
    junk = jnp.where(mask[..., None], xs, jnp.nan)
    value, gradient = penalised(recipe, params, Batch(junk, None, LENGTHS, reset=reset))
    np.testing.assert_allclose(value, wanted.sum() / B, rtol=1e-10)
    assert all(jnp.isfinite(g).all() for g in jax.tree.leaves(gradient))


def test_layers_and_directions_are_added():
    """Of two bidirectional layers: each half's own trace, with the gradient that comes from all above it. Nothing but
    W_hh moves: not the embedding, nor the input weights of the layer above, nor biases, nor the head."""
    network = seqjax.network(rnn(), inputs="embedding", embedding=2, layers=2, bidirectional=True)
    recipe = seqjax.Recipe(network, TASK, hidden=H)
    params, batch = drawn(recipe)
    halves = [half for layer in params.body for half, _ in layer.halves()]

    @jax.jit
    def each(params):
        traces = network.apply(params, batch.xs, lengths=batch.lengths).body.traces
        still = batch_last(tuple(jax.tree.map(jnp.zeros_like, trace.after) for trace in traces))
        vs = jax.grad(lambda z: TASK.loss(answers(recipe, params, batch, perturb=z)[0], batch.targets, None))(still)
        parts = zip(halves, traces, batch_first(vs), strict=True)
        return jnp.stack([soft_constraint(rnn(), *part).sum() / B for part in parts])

    found, (value, gradient) = each(params), penalised(recipe, params, batch)
    np.testing.assert_allclose(value, found.sum(), rtol=1e-10)
    assert (found > 0).all()
    moved = [half for layer in gradient.body for half, _ in layer.halves()]
    assert not any(all_zero(half.W_hh) for half in moved)
    assert all_zero((gradient.embed, [replace(half, W_hh=None) for half in moved], gradient.head))


def test_going_down_on_it_flattens_the_gradient():
    """From a contracting network, a hundred steps of Ω alone: the profile's slope a step comes near 0."""
    recipe = recipe_of(rnn(), readout="last")
    params, batch = drawn(recipe, lengths=None)
    params = jax.tree.map(lambda p: 0.3 * p, params)

    @jax.jit
    def slope(params):
        network = recipe.network
        profile = seqjax.gradient_profile(network, params, batch.xs, batch.targets).mean_log10[0]
        return (profile[-1] - profile[0]) / (T - 1)

    @jax.jit
    def down(params):
        move = lambda p, _: (jax.tree.map(lambda a, g: a - 0.1 * g, p, penalised(recipe, p, batch)[1]), None)  # noqa: E731
        return jax.lax.scan(move, params, length=100)[0]

    assert slope(params) < -0.4
    assert abs(slope(down(params))) < 0.05


def test_in_a_training():
    """Its weight is a number, or a hyperparameter; its value is no part of the recorded loss. In float32."""
    recipe = recipe_of(rnn(), penalty=omega(weight="pull"))
    history = jax.jit(lambda pull: seqjax.train(jax.random.key(0), recipe, pull=pull)[1])
    weak, strong = history(0.5), history(2.0)
    assert weak.loss[0] == strong.loss[0]
    assert weak.gradient_norm[0] < strong.gradient_norm[0]
    assert weight_of(0.5, {}) == weight_of("pull", {"pull": 0.5}) == 0.5
    assert omega(weight="pull") is omega(weight="pull")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: omega(weight=0), "weight must be a finite number above 0"),
        (lambda: omega(weight=True), "weight must be"),
        (lambda: seqjax.train(jax.random.key(0), recipe_of(rnn(), penalty=omega(weight="w"))), "hyperparameter 'w'"),
        (
            lambda: seqjax.train(jax.random.key(0), recipe_of(rnn(), penalty=omega(weight=1.0)), w=1.0),
            "'w' is read by neither",
        ),
        (lambda: soft_constraint(gru(), *traced()[:2], traced()[2].h), "vectors must be shaped like the states"),
        (
            lambda: seqjax.train(jax.random.key(0), recipe_of(rnn(), penalty=omega(weight=1.0), dropout=HELD)),
            "zoneout=0.1",
        ),
    ],
)
def test_bad_calls(call, message):
    """One clear line."""
    with pytest.raises(ValueError, match=message):
        call()
