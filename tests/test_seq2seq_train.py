"""Encoder-decoders are trained, swept, saved, split over devices, measured and counted like every other network."""

import json
from dataclasses import replace
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close
from pairs import END, NETWORKS, B, S, T, pair_of, params_of

import seqjax
from seqjax.checkpoint import name_of
from seqjax.plan import Plan
from seqjax.seq2seq import Nudge, encoder_decoder, gradient_map, greedy, pair_cost, state_profile
from seqjax.sequences import batch_last
from seqjax.sweep import seed_keys
from seqjax.tasks import Batch, copying, scheduled_sampling
from seqjax.train.saved import about_network, rebuilt

TASK = copying(symbols=3, shortest=1, longest=3)
NET = encoder_decoder(seqjax.rnn(), embedding=4)
RECIPE = seqjax.Recipe(NET, TASK, hidden=8, updates=4, batch=6)
KEYS = seed_keys(2)[1]
each_network = pytest.mark.parametrize("name", NETWORKS)


@cache
def trained(plan=None):
    """Two runs of a few updates."""
    return seqjax.train_many(RECIPE, KEYS, plan=plan)


def test_a_plan_never_changes_a_run():
    """Each run on a device of its own, or all together, with every batch split over two devices."""
    states, history = trained()
    split = trained(Plan(together=2, shards=2))
    chex.assert_trees_all_close((split[0].params, split[1]), (states.params, history), atol=1e-6)
    assert not np.array_equal(*history.loss)


def test_a_run_that_is_resumed_ends_as_the_uninterrupted(tmp_path):
    """Bit for bit; and the network comes back out of the checkpoint."""
    at = seqjax.Checkpoints(tmp_path)
    seqjax.train_many(replace(RECIPE, updates=2), KEYS, checkpoints=at)
    states, history = seqjax.train_many(RECIPE, KEYS, checkpoints=at)
    jax.tree.map(np.testing.assert_array_equal, (states.params, history), (trained()[0].params, trained()[1]))
    found = seqjax.saved(tmp_path, run=1)
    assert found.network.design == NET.design
    jax.tree.map(np.testing.assert_array_equal, found.params, jax.tree.map(lambda a: a[1], states.params))


@each_network
def test_a_network_is_rebuilt_from_what_is_said_of_it(name):
    """As a checkpoint says it: the same design, and params in the same places."""
    network, params = NETWORKS[name], params_of(name)
    leaves = {name_of(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
    sizes = {"D": len(params.body.source), "K": len(params.head.b), "hidden": 3}
    made = rebuilt(json.loads(json.dumps(about_network(network) | sizes)), leaves)
    assert made is not None
    assert made[0].design == network.design
    jax.tree.map(np.testing.assert_array_equal, made[1], params)
    assert rebuilt(about_network(network) | sizes | {"hidden": 4}, leaves) is None


def test_the_score_is_that_of_greedy_decoding():
    """Of a tiny model, half trained on its own choices: what is right under teacher forcing is right without it."""
    task = seqjax.tasks.reversing(symbols=3, shortest=1, longest=3)
    recipe = replace(RECIPE, task=scheduled_sampling(task, lambda update: 0.3), updates=60, batch=16)
    recipe, network = replace(recipe, optimizer=seqjax.adam(3e-2)), NET
    states, history = seqjax.train_many(recipe, KEYS[:1])
    params = jax.tree.map(lambda a: a[0], states.params)
    batch = task.held_out(jax.random.key(5), 300)
    score = float(seqjax.losses.whole(jax.jit(network.apply)(params, batch.xs).every, batch.targets, batch.scored))
    found = greedy(network, params, batch.xs.source, lengths=batch.xs.source_mask.sum(1), limit=4, end=3)
    right = (np.asarray(found.tokens == batch.targets) | ~np.asarray(batch.scored)).all(1)
    assert right.mean() == pytest.approx(score)
    assert 0 < score < 1
    assert history.loss[0, -1] < history.loss[0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 2}, "window, .* has two recurrences, so ask seqjax.seq2seq"),
        ({"task": seqjax.tasks.recall(length=3)}, "inputs="),
    ],
)
def test_what_pairs_do_not_have_is_refused(options, message):
    """In one line."""
    with pytest.raises(ValueError, match=message):
        replace(RECIPE, **options)


def test_the_gradient_map_is_the_jacobian():
    """Entry by entry against plain differentiation of log p; -inf where a symbol cannot have mattered."""
    name, pair = "in-turn", pair_of()
    network, params = NETWORKS[name], params_of(name)
    targets = jnp.where(pair.mask, jnp.roll(pair.fed, -1, 1), END) % END
    found = gradient_map(network, params, Batch(pair, targets, scored=pair.mask))
    assert found.shape == (B, T, S)

    def log_p(x):
        every = network.forward(params, batch_last(pair), perturb=Nudge(source=x)).every
        return jnp.take_along_axis(jax.nn.log_softmax(every, axis=1), targets.T[:, None], axis=1)[:, 0]

    jacobian = jax.jit(jax.jacobian(log_p))(jnp.zeros((S, 2, B)))  # [T, B, S, E, B]
    for b in range(B):
        there = np.asarray(pair.mask[b])[:, None] & np.asarray(pair.source_mask[b])[None]
        norms = np.linalg.norm(jacobian[:, b, :, :, b], axis=2)
        np.testing.assert_allclose(10 ** found[b][there], norms[there], rtol=1e-9)
        assert np.isnan(found[b][~there]).all()


def test_reversal_brings_the_first_symbols_near():
    """Of a decaying unit: the way from the first symbol to the first answer is as short as that of the last was."""
    forwards, backwards = (encoder_decoder(seqjax.rnn(), embedding=2, reversed_source=turn) for turn in (False, True))
    params = params_of_rnn(forwards)
    batch = copying(symbols=3, shortest=4, longest=4).held_out(jax.random.key(0), 8)
    flipped = replace(batch, xs=replace(batch.xs, source=batch.xs.source[:, ::-1]))
    there, back = gradient_map(forwards, params, batch), gradient_map(backwards, params, flipped)
    close(back[:, :, ::-1], there)
    mean = there.mean(0)
    assert (np.diff(mean[0]) > 0.2).all()  # of the first answer, from the first symbol to the last
    profile = state_profile(backwards, params, flipped)
    assert profile.encoder.shape == (1, 8, 4)
    assert profile.decoder.shape == (1, 8, 5)
    assert (np.diff(profile.encoder.mean((0, 1))) < 0).all()  # what is read last is nearest: the first symbol


def params_of_rnn(network):
    """Weights that shrink what they carry."""
    params = jax.tree.map(lambda a: a.astype(float), network.init(jax.random.key(0), 4, 6, 4))
    halves = [
        replace(layer.forward, W_hh=0.5 * jnp.eye(6)) for layer in (params.body.encoder[0], params.body.decoder[0])
    ]
    encoder, decoder = ((replace(params.body.encoder[0], forward=half),) for half in halves)
    return replace(params, body=replace(params.body, encoder=encoder, decoder=decoder))


def test_the_readout_dominates_the_decoder():
    """K = 10,000, H = 512, d = 300 (B9): 5,120,000 multiply-adds of the readout against 1,665,024 parameters."""
    cost = pair_cost(encoder_decoder(seqjax.lstm(), embedding=300), D=10_000, H=512, K=10_000)
    assert cost.target["readout"] == 5_120_000
    assert cost.one_bias["decoder"] == cost.one_bias["encoder"] == 4 * 512 * (512 + 300 + 1) == 1_665_024
    assert cost.parameters["decoder"] == 1_667_072
    assert cost.target["decoder"] == 4 * 512 * (512 + 300)
    assert cost.parameters["readout"] == 5_120_000 + 10_000
    assert "5,120,000" in str(cost)


def test_parameters_are_those_that_are_drawn():
    """Part by part, and the multiply-adds of attention and bridge."""
    network = NETWORKS["attending"]
    cost = pair_cost(network, D=7, H=3, K=6, S=4)
    params = jax.eval_shape(lambda: network.init(jax.random.key(0), 7, 3, 6))
    assert cost.total == sum(a.size for a in jax.tree.leaves(params))
    assert cost.source["attention"] == 5 * 6
    assert cost.target["attention"] == 5 * 3 + 4 * (5 + 6)
    assert cost.handover == 3 * 6
    with pytest.raises(ValueError, match="K must be an integer of at least 1"):
        pair_cost(network, D=7, H=3, K=0)
