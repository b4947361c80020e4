"""Dropout, variational dropout and zoneout: what is drawn, where it acts, what it leaves alone, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import B, D, H, T, all_zero, close, each_shape, jiggle, prefix, random_params, random_xs, same

from seqjax import (
    CELLS,
    Dropout,
    Plan,
    Recipe,
    evaluate,
    gru,
    init_stack,
    lstm,
    network,
    rnn,
    tasks,
    train,
    train_many,
    unroll,
    unroll_stack,
)
from seqjax.core import Hidden
from seqjax.dropout import noise_of, scaled_mask, zoned
from seqjax.sweep import seed_keys

KEY = jax.random.key(7)
LAYERS = jiggle(init_stack(jax.random.key(0), lstm(), D, H, layers=2), 0)
run = jax.jit(unroll_stack, static_argnums=0, static_argnames=("dropout", "residual"))


def test_a_kept_number_is_scaled_so_that_the_mean_stays():
    """Values 0 and 1/(1 - rate), the share of zeros within five standard errors of the rate."""
    mask = scaled_mask(KEY, 0.3, (100, 1000), float)
    np.testing.assert_allclose(np.unique(mask), [0, 1 / 0.7])
    assert abs(float((mask == 0).mean()) - 0.3) < 5 * (0.3 * 0.7 / mask.size) ** 0.5


@pytest.mark.parametrize("variational", [False, True])
def test_between_acts_on_what_the_upper_layer_reads(variational):
    """The lower layer is as without it; the upper one reads its outputs times one mask a step, or one for all steps."""
    xs = random_xs()
    trace = run(lstm(), LAYERS, xs, dropout=Dropout(between=0.5, variational=variational), key=KEY)
    same(trace.traces[0], run(lstm(), LAYERS, xs).traces[0])
    read = trace.traces[1].us - (LAYERS[1].forward.b_ih)[None, None]
    kept = jnp.linalg.lstsq(LAYERS[1].forward.W_ih, read.reshape(-1, 4 * H).T)[0].T.reshape(B, T, H)
    factor = np.round(np.asarray(kept / trace.traces[0].ys), 6)
    np.testing.assert_array_equal(np.unique(factor), [0, 2])
    assert (factor == factor[:, :1]).all() == variational


def test_recurrent_masks_h_before_the_product_and_nowhere_else():
    """One mask over time: equal to the cell whose recurrent columns are scaled by it, row by row."""
    params, xs, rate = random_params(gru()), random_xs(), 0.4
    layers = init_stack(jax.random.key(0), gru(), D, H)
    layers = (replace(layers[0], forward=params),)
    trace = run(gru(), layers, xs, dropout=Dropout(recurrent=rate), key=KEY)
    forward_key = jax.random.split(KEY, (1, 3))[0][0]
    factor = noise_of(Dropout(recurrent=rate), forward_key, gru(), params, T, B).factor
    assert set(np.unique(factor)) == {0, 1 / (1 - rate)}
    for b in range(B):
        own = replace(params, W_hh=params.W_hh * factor[:, b][None])
        close(trace.ys[b], unroll(gru(), own, xs[b]).ys)


def test_zoneout_keeps_the_old_value_of_some_units():
    """At every step every field's unit is bit for bit the old one or the new one, at about the rate."""
    cell, xs = lstm(), random_xs(64, 20, D)
    params, rate = random_params(cell), 0.25
    trace = run(cell, (replace(LAYERS[0], forward=params),), xs, dropout=Dropout(zoneout=rate), key=KEY).traces[0]
    for name in ("h", "c"):
        before, after = getattr(trace.before, name), getattr(trace.after, name)
        step = jax.vmap(jax.vmap(lambda s, u: cell.step(params, s, u)))
        new = getattr(step(trace.before, trace.us), name)
        held = np.asarray(before == after)
        close(jnp.where(held, before, new), after)
        assert abs(held[:, 1:].mean() - rate) < 5 * (rate * (1 - rate) / held[:, 1:].size) ** 0.5


def test_without_a_key_zoneout_is_its_expectation():
    """s_t = rate s_{t-1} + (1 - rate) step(s_{t-1})."""
    cell, params, xs, rate = rnn(), random_params(rnn()), random_xs(T, D), 0.3
    layers = (replace(LAYERS[0], forward=params),)
    state, states = cell.start(params), []
    for x in xs:
        new = cell.step(params, state, cell.project(params, x))
        state = Hidden(rate * state.h + (1 - rate) * new.h)
        states.append(state.h)
    close(run(cell, layers, xs, dropout=Dropout(zoneout=rate)).ys, jnp.stack(states))


@each_shape
def test_every_cell_takes_zoneout_with_masks_and_clean_gradients(cell):
    """A masked step holds the state whatever zoneout drew; junk in padding changes neither values nor gradients."""
    layers = (replace(LAYERS[0], forward=random_params(cell)),)
    xs, lengths = random_xs(), jnp.array([0, 3, T, 1])
    junk = jnp.where(prefix(lengths)[..., None], xs, jnp.nan)

    @jax.jit
    def loss(layers, xs):
        trace = unroll_stack(cell, layers, xs, lengths=lengths, dropout=Dropout(zoneout=0.3), key=KEY)
        return trace.ys.sum() + sum(s.sum() for s in jax.tree.leaves(trace.final)), trace

    (value, trace), grads = jax.value_and_grad(loss, has_aux=True)(layers, junk)
    (clean, _), wanted = jax.value_and_grad(loss, has_aux=True)(layers, xs)
    close((value, grads), (clean, wanted))
    same(jax.tree.map(lambda s: s[0], trace.final[0]), cell.start(layers[0].forward))
    assert not all_zero(grads)


def test_draws_follow_the_key_alone():
    """The same key gives the same run bit for bit, another key another run; directions and layers differ."""
    xs, dropout = random_xs(), Dropout(between=0.4, recurrent=0.2, zoneout=0.1)
    one, again, other = (run(lstm(), LAYERS, xs, dropout=dropout, key=k).ys for k in (KEY, KEY, jax.random.key(8)))
    same(one, again)
    assert not np.allclose(one, other)
    both = init_stack(jax.random.key(0), rnn(), D, H, bidirectional=True)
    both = (replace(both[0], backward=both[0].forward),)
    mirrored = jnp.concatenate([xs, xs[:, ::-1]], axis=1)  # forward and backward see the same steps in the same order
    ys = run(rnn(), both, mirrored, dropout=Dropout(recurrent=0.5), key=KEY).ys
    assert not np.allclose(ys[:, -1, :H], ys[:, 0, H:])


def test_hold_selects_by_field():
    """`zoned` keeps the old where held, the new elsewhere, and passes through without draws."""
    old, new, hold = Hidden(jnp.zeros(3)), Hidden(jnp.ones(3)), Hidden(jnp.array([True, False, True]))
    same(zoned(hold, new, old), Hidden(jnp.array([0.0, 1.0, 0.0])))
    assert zoned(None, new, old) is new


def test_training_draws_anew_at_every_update_and_evaluation_has_no_noise():
    """A recipe whose network has dropout: first gradient differs from the plain one's, score is deterministic."""
    task = tasks.recall(length=4)
    plain = network(rnn(), inputs="onehot", layers=2)
    noisy = network(rnn(), inputs="onehot", layers=2, dropout=Dropout(between=0.5, zoneout=0.1))
    run = jax.jit(lambda key, net: train(key, Recipe(net, task, 6, updates=3)), static_argnums=1)
    runs = {net: run(jax.random.key(3), net) for net in (plain, noisy)}
    (state, history), (_, without) = runs[noisy], runs[plain]
    assert not np.isclose(history.loss[0], without.loss[0])
    assert (state.failed_at, len(set(np.asarray(history.loss)))) == (-1, 3)
    recipe = Recipe(noisy, task, 6)
    same(*(evaluate(recipe, state.params, jax.random.key(1), examples=50) for _ in range(2)))


def test_between_changes_no_evaluation():
    """Inverted scaling: without a key a network with dropout is the network without it, bit for bit."""
    plain, noisy = (network(gru(), layers=2, dropout=dropout) for dropout in (None, Dropout(between=0.5)))
    params = plain.init(jax.random.key(0), D, H, 2)
    same(noisy.apply(params, random_xs()).last, plain.apply(params, random_xs()).last)
    assert not np.allclose(noisy.apply(params, random_xs(), key=KEY).last, plain.apply(params, random_xs()).last)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dropout(), "does nothing: give one of between, recurrent, zoneout"),
        (lambda: Dropout(between=1.0), r"between must be a rate in \[0, 1\), got 1.0"),
        (lambda: Dropout(zoneout=-0.1), "zoneout must be a rate"),
        (lambda: Dropout(recurrent=float("nan")), "recurrent must be a rate"),
        (lambda: Dropout(zoneout=0.1, variational=True), "variational is about the masks of between"),
        (lambda: network(lstm(), dropout=Dropout(between=0.2)), "between=0.2 drops nothing in 1 layer"),
        (lambda: network(lstm(), residual=True), "residual adds nothing in 1 layer"),
        (lambda: network(CELLS["lru"](), dropout=Dropout(recurrent=0.2)), "recurrent=0.2 cannot act in cell 'lru'"),
        (lambda: network(gru(reset_after=False), dropout=Dropout(recurrent=0.2)), "cannot act in cell"),
        (lambda: Dropout(between="0.5"), "between must be a rate"),
        (lambda: network(lstm(), layers=2, dropout=0.5), "dropout must be a Dropout, such as .*, got 0.5"),
        (lambda: network(lstm), r"cell must be a Cell, such as lstm\(\), got lstm: a factory has to be called"),
        (lambda: unroll_stack(lstm(), random_params(lstm()), random_xs()), "params must be layers, .*, got Affine"),
        (lambda: Dropout(zoneout=True), "zoneout must be a rate"),
        (lambda: Dropout(between=0.5, variational="no"), "variational must be True or False"),
        (lambda: unroll_stack(lstm(), LAYERS, random_xs(), dropout=Dropout(between=0.2)), "go together"),
        (lambda: unroll_stack(lstm(), LAYERS, random_xs(), key=KEY), "go together"),
        (lambda: unroll_stack(lstm(), LAYERS[:1], random_xs(), dropout=Dropout(between=0.2), key=KEY), "1 layer"),
        (lambda: unroll_stack(lstm(), LAYERS[:1], random_xs(), residual=True), "residual adds nothing"),
        (lambda: network(lstm()).apply(network(lstm()).init(KEY, D, H, 1), random_xs(), key=KEY), "draws nothing"),
    ],
)
def test_asking_for_what_would_do_nothing_is_an_error(make, message):
    """By name, with the fix."""
    with pytest.raises(ValueError, match=message):
        make()


def test_the_parts_of_a_complex_number_are_held_together():
    """Zoneout of an LRU holds a mode or it does not; one part alone would turn its phase."""
    cell = CELLS["lru"]()
    hold = noise_of(Dropout(zoneout=0.4), KEY, cell, random_params(cell), 50, B).hold
    same(hold.z.re, hold.z.im)
    assert 0.3 < hold.z.re.mean() < 0.5


def test_what_is_not_asked_for_is_not_drawn():
    """No masks where a rate is 0, and none without a key."""
    params = random_params(lstm())
    both = noise_of(Dropout(between=0.5), KEY, lstm(), params, T, B)
    assert (both.factor, both.hold) == (None, None)
    assert noise_of(Dropout(between=0.5, recurrent=0.5), None, lstm(), params, T, B) is None
    assert noise_of(None, KEY, lstm(), params, T, B) is None


@pytest.mark.parametrize(
    "cell", [rnn(norm="layer"), lstm(norm="layer"), lstm(peephole=True), gru()], ids=lambda c: c.name
)
def test_recurrent_dropout_is_there_for_every_cell_with_a_product(cell):
    """Options of a cell do not stand in its way."""
    net = network(cell, dropout=Dropout(recurrent=0.5))
    params = net.init(jax.random.key(0), D, H, 2)
    assert not np.allclose(net.apply(params, random_xs(), key=KEY).last, net.apply(params, random_xs()).last)


def test_numpy_rates_leave_the_dtype_of_the_carry_alone():
    """Under x64 a numpy number is float64, params may be float32."""
    layers = init_stack(jax.random.key(0), lstm(), D, H)
    for key in (None, KEY):
        rates = Dropout(zoneout=np.float64(0.3), recurrent=np.float64(0.2))
        trace = run(lstm(), layers, random_xs().astype("float32"), dropout=rates, key=key)
        assert {a.dtype for a in jax.tree.leaves(trace.final)} == {jnp.dtype("float32")}


def test_a_sweep_with_dropout_is_its_runs_alone():
    """Every run draws from its own key, whatever the plan; a residual stack with all three kinds of noise."""
    dropout = Dropout(between=0.3, recurrent=0.2, zoneout=0.1)
    net = network(rnn(), inputs="onehot", layers=2, residual=True, dropout=dropout)
    recipe, keys = Recipe(net, tasks.recall(length=3), 5, updates=4), seed_keys(3)[1]
    solo = jax.jit(lambda key: train(key, recipe))
    alone = [solo(key) for key in keys]
    states, history = train_many(recipe, keys, plan=Plan(together=2, shards=2))
    for i, (state, losses) in enumerate(alone):
        close(jax.tree.map(lambda a, i=i: a[i], states.params), state.params, 1e-6)
        close(history.loss[i], losses.loss, 1e-6)
