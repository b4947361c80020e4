"""Gradient profiles against Jacobians multiplied by hand, and the closed forms of a horizon."""

from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqjax
from seqjax import direct_path
from seqjax.losses import cross_entropy, squared_error
from seqjax.profile import by_lag, summed
from seqjax.stack import unperturbed

T, B, D, H, K = 6, 3, 3, 4, 5
CELLS = {
    "rnn": seqjax.rnn(),
    "lstm": seqjax.lstm(),
    "gru": seqjax.gru(),
    "gru-before": seqjax.gru(reset_after=False),
}


def float64(tree):
    """Freshly drawn params in double precision."""
    return jax.tree.map(lambda a: a.astype(jnp.float64), tree)


def example(cell, **options):
    """A network, its params and a batch."""
    net = seqjax.network(cell, **options)
    params = float64(net.init(jax.random.key(0), D, H, K))
    xs = jax.random.normal(jax.random.key(1), (B, T, D))
    return net, params, xs, jnp.arange(B) % K


def cross_entropy_of_state(cell, params, target):
    """The loss of one example as a function of the ravelled final state."""

    def loss(state):
        logits = params.head.W @ cell.read(params.body[0].forward, state) + params.head.b
        return -jax.nn.log_softmax(logits)[target]

    return loss


def norms_by_hand(cell, params, xs, target):
    """‖dL/ds_t‖ of one example, newest first: the loss's gradient times one step Jacobian after another."""
    p = params.body[0].forward
    states = [cell.start(p)]
    for x in xs:
        states.append(cell.step(p, states[-1], cell.project(p, x)))
    flat, unravel = jax.flatten_util.ravel_pytree(states[-1])
    cotangent = jax.grad(lambda s: cross_entropy_of_state(cell, params, target)(unravel(s)))(flat)
    found = [jnp.linalg.norm(cotangent)]
    for state, x in zip(states[-2:0:-1], xs[:0:-1], strict=True):
        flat = jax.flatten_util.ravel_pytree(state)[0]
        step = lambda s, x=x: jax.flatten_util.ravel_pytree(cell.step(p, unravel(s), cell.project(p, x)))[0]  # noqa: E731
        cotangent = jax.jacfwd(step)(flat).T @ cotangent
        found.append(jnp.linalg.norm(cotangent))
    return jnp.array(found)


@pytest.mark.parametrize("name", CELLS)
def test_profile_is_the_product_of_step_jacobians(name):
    """Over the whole carry, exactly; ragged rows count their lags from their own last step."""
    cell = CELLS[name]
    net, params, xs, targets = example(cell)
    lengths = jnp.array([T, 1, 4])
    profile = jax.jit(lambda: seqjax.gradient_profile(net, params, xs, targets, lengths=lengths))()
    for row, length in enumerate([T, 1, 4]):
        want = norms_by_hand(cell, params, xs[row, :length], targets[row])
        chex.assert_trees_all_close(profile.whole[0, row, :length], want, atol=0, rtol=1e-10)
        assert np.isnan(profile.whole[0, row, length:]).all()


def test_fields_make_up_the_whole():
    """The norms of an LSTM's h and c parts add up, in squares, to that of the whole carry."""
    net, params, xs, targets = example(seqjax.lstm())
    profile = seqjax.gradient_profile(net, params, xs, targets)
    assert set(profile.fields) == {"h", "c"}
    chex.assert_trees_all_close(jnp.hypot(profile.fields["h"], profile.fields["c"]), profile.whole, rtol=1e-12)


def test_direct_path_of_an_lstm_is_the_forget_gate_product():
    """With the recurrent product cut, dL/dc at each lag is the one before times the forget gate between."""
    cell = seqjax.lstm()
    net, params, xs, targets = example(direct_path(cell))
    p = params.body[0].forward
    profile = seqjax.gradient_profile(net, params, xs, targets)
    trace = seqjax.unroll(cell, p, xs)
    pre = trace.us + trace.before.h @ p.W_hh.T + jnp.broadcast_to(p.b_hh, trace.us.shape)
    f = jax.nn.sigmoid(pre[..., H : 2 * H])
    o, c = jax.nn.sigmoid(pre[..., 3 * H :]), trace.after.c
    logits = trace.final.h @ params.head.W.T + jnp.broadcast_to(params.head.b, (B, K))
    dh = (jax.nn.softmax(logits) - jax.nn.one_hot(targets, K)) @ params.head.W
    line = dh * o[:, -1] * (1 - jnp.tanh(c[:, -1]) ** 2)
    for lag in range(1, T):
        line = line * f[:, T - lag]
        chex.assert_trees_all_close(profile.whole[0, :, lag], jnp.linalg.norm(line, axis=1), rtol=1e-10)


def test_direct_path_keeps_values_and_is_empty_in_a_plain_unit():
    """Only gradients are cut; a plain RNN passes nothing on but through its matrix."""
    cell = seqjax.rnn()
    net, params, xs, targets = example(direct_path(cell))
    p = params.body[0].forward
    chex.assert_trees_all_close(seqjax.unroll(direct_path(cell), p, xs).ys, seqjax.unroll(cell, p, xs).ys, atol=1e-14)
    whole = seqjax.gradient_profile(net, params, xs, targets).whole
    assert (whole[..., 0] > 0).all()
    chex.assert_trees_all_equal(whole[..., 1:], jnp.zeros((1, B, T - 1)))


def test_every_layer_and_direction_is_reported():
    """One row per layer and direction, in the order of the final states."""
    net, params, xs, targets = example(seqjax.gru(), layers=2, bidirectional=True)
    assert seqjax.gradient_profile(net, params, xs, targets).whole.shape == (4, B, T)


def by_autodiff(net, params, steps, total):
    """The profile by autodiff of the network itself, in the range of its dtype."""
    zeros = unperturbed(jax.eval_shape(lambda: net.forward(params, steps.xs, steps.mask)).body)
    perturbed = lambda z: total(getattr(net.forward(params, steps.xs, steps.mask, z), net.readout))  # noqa: E731
    reverses = [reverse for layer in params.body for _, reverse in layer.halves()]
    return by_lag(jax.grad(perturbed)(zeros), [0.0] * len(reverses), steps.mask, reverses)


@pytest.mark.parametrize(
    ("readout", "options"),
    [
        ("every", {"residual": False}),
        ("last", {"residual": True}),
        ("every", {"bidirectional": True, "residual": True}),
        ("last", {"dropout": seqjax.Dropout(zoneout=0.5), "bidirectional": True}),
    ],
    ids=["plain", "residual", "both", "zoneout"],
)
def test_a_stack_has_the_gradients_of_autodiff(readout, options):
    """In every layer and direction, by way of the layers above too; of zoneout its expectation."""
    net, params, xs, _ = example(seqjax.mgu(), layers=2, readout=readout, **options)
    targets, lengths = jnp.ones((B, T) if readout == "every" else B, int), jnp.array([T, 1, 4])
    steps = net.steps(params, xs, lengths=lengths)
    judged = steps.mask.T if readout == "every" else None

    def total(predictions):
        return summed(cross_entropy, jnp.moveaxis(predictions, -1, 0), targets, judged)

    @jax.jit
    def both(params):
        found = seqjax.gradient_profile(net, params, xs, targets, lengths=lengths)
        return found, by_autodiff(net, params, steps, total)

    chex.assert_trees_all_close(*both(params), atol=1e-10)


def test_nothing_underflows_in_either_direction():
    """Two bidirectional layers over 600 steps in float32, beside autodiff in float64: below 1e-90 in the middle of the
    lower layer, where it comes from both ends."""
    cell = seqjax.init.with_init(seqjax.rnn(), seqjax.init.ScaledIdentity(0.5))
    net = seqjax.network(cell, layers=2, bidirectional=True)
    params = net.init(jax.random.key(0), D, H, 2)
    xs, targets = jax.random.normal(jax.random.key(1), (1, 600, D), jnp.float32), jnp.zeros(1, int)
    wide, steps = jax.tree.map(lambda a: a.astype(float), params), net.steps(params, xs.astype(float))
    total = lambda predictions: summed(cross_entropy, jnp.moveaxis(predictions, -1, 0), targets, None)  # noqa: E731
    found = jax.jit(lambda p: seqjax.gradient_profile(net, p, xs, targets).log10)(params)
    wanted = jax.jit(lambda p: by_autodiff(net, p, steps, total).log10)(wide)
    assert wanted[0, 0, 300] < -90
    np.testing.assert_allclose(found, wanted, atol=2e-2)


def test_a_state_that_is_not_finite_has_no_gradient():
    """NaN, not the zero that relu's slope makes of NaN; rows beside it are not touched, and overflow is no decay."""
    net, params, xs, targets = example(seqjax.rnn(activation="relu"))
    xs = jnp.abs(xs).at[0, 2].set(1e308)
    half = params.body[0].forward
    params = replace(params, body=(replace(params.body[0], forward=replace(half, W_ih=50 + jnp.abs(half.W_ih))),))
    log10 = seqjax.gradient_profile(net, params, xs, targets).log10[0]
    assert np.isnan(log10[0, -3:]).all()
    assert np.isfinite(log10[1:]).all()
    with pytest.raises(ValueError, match="the gradient overflowed"):
        seqjax.fit_decay(np.array([[0.0, np.inf, 1.0, 2.0]]))


def test_backward_half_counts_its_lags_from_the_first_step():
    """Where its scan ends: reversing the batch and swapping the halves swaps the profiles."""
    net, params, xs, targets = example(seqjax.gru(), bidirectional=True)
    (layer,), W = params.body, params.head.W
    swapped = replace(
        params,
        body=(replace(layer, forward=layer.backward, backward=layer.forward),),
        head=replace(params.head, W=jnp.concatenate([W[:, H:], W[:, :H]], axis=1)),
    )
    profile = seqjax.gradient_profile(net, params, xs, targets).whole
    mirrored = seqjax.gradient_profile(net, swapped, xs[:, ::-1], targets).whole
    chex.assert_trees_all_close(profile, mirrored[::-1], rtol=1e-10)


def test_every_step_readout():
    """Where every step is judged, the gradient at the last step is that step's share of the row's own mean."""
    net, params, xs, _ = example(seqjax.rnn(), readout="every")
    targets = jnp.zeros((B, T))
    lengths = jnp.array([T, 2, 4])
    profile = seqjax.gradient_profile(net, params, xs, targets, lengths=lengths, loss=squared_error)
    ys = net.apply(params, xs, lengths=lengths).every[..., 0]
    last = jnp.take_along_axis(ys, lengths[:, None] - 1, axis=1)[:, 0]
    want = jnp.abs(2 * last) * jnp.linalg.norm(params.head.W[0]) / lengths
    chex.assert_trees_all_close(profile.whole[0, :, 0], want, rtol=1e-10)


def test_a_row_of_a_ragged_batch_is_the_row_alone():
    """Where every step is judged, too: L is the row's own loss."""
    net, params, xs, _ = example(seqjax.rnn(), readout="every")
    targets, lengths = jnp.ones((B, T), int), jnp.array([2, T, 4])
    batch = seqjax.gradient_profile(net, params, xs, targets, lengths=lengths).whole
    for row in range(B):
        alone = seqjax.gradient_profile(
            net, params, *(a[row : row + 1] for a in (xs, targets)), lengths=lengths[row : row + 1]
        )
        chex.assert_trees_all_close(batch[:, row], alone.whole[:, 0], rtol=1e-10)


def test_a_row_of_length_zero_has_no_lags():
    """NaN at every lag, and the other rows untouched."""
    net, params, xs, targets = example(seqjax.gru())
    profile = seqjax.gradient_profile(net, params, xs, targets, lengths=jnp.array([T, 0, T]))
    assert np.isnan(profile.whole[0, 1]).all()
    chex.assert_trees_all_close(profile.whole[0, 0], seqjax.gradient_profile(net, params, xs, targets).whole[0, 0])


def test_horizon_closed_forms():
    """T_eps = ln eps / ln gamma: 50.34, 15.08 and 27.05 steps to 1e-6 at .76, .40 and .6; 28 needs .6105 (B16)."""
    found = [seqjax.horizon(g) for g in (0.76, 0.40, 0.6)]
    np.testing.assert_allclose(found, [50.34, 15.08, 27.05], atol=5e-3)
    assert round(seqjax.horizon(0.6105), 1) == 28.0
    assert seqjax.horizon(1.0) == seqjax.horizon(1.2) == np.inf
    assert seqjax.horizon(0.0) == 0


@pytest.mark.parametrize(("factor", "eps"), [(-0.1, 1e-6), (np.nan, 1e-6), (0.5, 0.0), (0.5, 1.0)])
def test_horizon_refuses(factor, eps):
    """Factors below 0 and tolerances outside (0, 1)."""
    with pytest.raises(ValueError, match="factor >= 0 and 0 < eps < 1"):
        seqjax.horizon(factor, eps)


def test_half_life_and_reachable_steps():
    """ln 0.5 / ln γ; and how many lags are at 1e-20 or above, as Pascanu et al. count, with missing ones left out."""
    np.testing.assert_allclose(seqjax.half_life(0.9), 6.579, atol=1e-3)
    log10 = np.array([[0.0, -10, -20, -30], [0.0, -1, np.nan, np.nan], [-np.inf] * 4])
    assert seqjax.reachable_steps(log10).tolist() == [3, 2, 0]
    assert seqjax.reachable_steps(log10, bound=1e-9).tolist() == [1, 2, 0]
    with pytest.raises(ValueError, match="bound must be above 0"):
        seqjax.reachable_steps(log10, bound=0.0)


def test_profile_of_a_hundred_thousand_steps():
    """In float32, of a network that shrinks gradients by 0.7 and of one that lets them grow by 1.1 a step."""
    steps = 100_000
    for g in (0.7, 1.1):
        net = seqjax.network(seqjax.one_pole(), readout="last")
        params = net.init(jax.random.key(0), 1, 2, 2)
        pole = replace(params.body[0].forward, α=jnp.full(2, g, "float32"))
        params = replace(params, body=(replace(params.body[0], forward=pole),))
        profile = seqjax.gradient_profile(net, params, jnp.zeros((1, steps, 1), "float32"), jnp.zeros(1, int))
        decay = seqjax.fit_decay(profile.log10[0], last=steps)
        np.testing.assert_allclose(decay.factor, g, rtol=1e-6)
        np.testing.assert_allclose(
            profile.log10[0, 0, -1] - profile.log10[0, 0, 0], (steps - 1) * np.log10(g), rtol=1e-5
        )
    assert (jnp.diff(profile.mean_log10[0]) > 0).all()


def test_input_profile_ends_at_the_receptive_field_and_is_flat_in_a_pool():
    """Of models without a state: a causal convolution of four taps, read at the end, and a mean over time."""
    taps, xs, targets = jnp.array([0.4, 0.3, 0.2, 0.1]), jax.random.normal(jax.random.key(0), (B, T, K)), jnp.arange(B)
    conv = lambda xs: jnp.einsum("k,bkd->bd", taps[::-1], xs[:, -4:])  # noqa: E731
    found = seqjax.input_profile(conv, xs, targets).log10[0]
    assert (found[:, 4:] == -np.inf).all()
    np.testing.assert_allclose(10 ** (found[:, :4] - found[:, :1]), jnp.tile(taps / taps[0], (B, 1)), rtol=1e-10)
    pooled = seqjax.input_profile(lambda xs: xs.mean(1), xs, targets, lengths=jnp.array([T, 2, 0])).log10[0]
    np.testing.assert_allclose(pooled[0], pooled[0, 0])
    assert np.isnan(pooled[1, 2:]).all()
    assert np.isnan(pooled[2]).all()
    with pytest.raises(ValueError, match="one row of targets each"):
        seqjax.input_profile(conv, xs, targets[:2])
    with pytest.raises(ValueError, match=r"targets must hold tokens in 0\.\.4"):
        seqjax.input_profile(conv, xs, targets + 4)


def test_fit_decay_recovers_geometric_decay():
    """Exactly without noise; within its own interval with it."""
    lags = np.arange(41)
    exact = seqjax.fit_decay(np.log10(np.tile(0.8**lags, (5, 1))))
    np.testing.assert_allclose([exact.factor, exact.low, exact.high], 0.8, rtol=1e-12)
    assert (exact.rows, exact.dead) == (5, 0)
    noise = np.random.default_rng(0).normal(0, 0.3, (200, 41))
    noisy = seqjax.fit_decay((np.log(0.8) * lags + noise) / np.log(10))
    assert noisy.low < 0.8 < noisy.high
    assert noisy.high - noisy.low < 0.002


def test_fit_decay_of_ragged_and_dying_rows():
    """Each row up to its own end or first zero; rows of one lag are left out; all dead decays by 0."""
    full = np.log10(0.5) * np.arange(10.0)
    short, dying, dead, missing = full.copy(), full.copy(), full.copy(), full.copy()
    short[4:], dying[6:], dead[1:], missing[1:] = np.nan, -np.inf, -np.inf, np.nan
    found = seqjax.fit_decay(np.stack([full, short, dying, dead, missing]))
    np.testing.assert_allclose([found.factor, found.low, found.high], 0.5)
    assert (found.rows, found.dead) == (3, 1)
    assert seqjax.fit_decay(dead[None]).factor == 0
    with pytest.raises(ValueError, match="must be"):
        seqjax.fit_decay(full)
    with pytest.raises(ValueError, match="at least two"):
        seqjax.fit_decay(missing[None])


def test_profile_refuses():
    """Two readouts at once, rows without targets, and what the network's own door refuses."""
    net, params, xs, targets = example(seqjax.rnn(), readout="both")
    with pytest.raises(ValueError, match="must read"):
        seqjax.gradient_profile(net, params, xs, targets)
    net, params, xs, targets = example(seqjax.rnn())
    for sequences, answers in ((xs[0], targets), (xs, targets[:2]), (xs[:0], targets[:0])):
        with pytest.raises(ValueError, match="one row of targets each"):
            seqjax.gradient_profile(net, params, sequences, answers)
    with pytest.raises(ValueError, match=r"targets must hold tokens in 0\.\.4"):
        seqjax.gradient_profile(net, params, xs, targets - 1)
    cut, params, xs, targets = example(direct_path(seqjax.gru(reset_after=False)))
    with pytest.raises(ValueError, match="no recurrent product"):
        seqjax.gradient_profile(cut, params, xs, targets)
    with pytest.raises(ValueError, match=r"lengths must lie in 0\.\.6"):
        seqjax.gradient_profile(net, params, xs, targets, lengths=jnp.array([7, 1, 1]))
