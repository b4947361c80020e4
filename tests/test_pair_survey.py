"""How far back an encoder-decoder can learn: closed forms, rows alone, and the commands on a training's checkpoints."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close
from pairs import END, NETWORKS, SOURCES, TARGETS, pair_of, params_of

import seqjax
from seqjax import pair_survey
from seqjax.cli import main
from seqjax.seq2seq import encoder_decoder, state_profile
from seqjax.tasks import Batch, copying, paired

HALF = np.log10(0.5)


def still(reversed_source):
    """A tanh unit that reads nothing but zeros and so stays at zero, where a step halves whatever is in its state."""
    network = encoder_decoder(seqjax.rnn(), embedding=2, reversed_source=reversed_source)
    params = jax.tree.map(lambda a: a.astype(float), network.init(jax.random.key(0), 4, 6, 4))
    body = jax.tree.map(lambda a: jnp.where(a.ndim == 1, 0, a), params.body)
    body = replace(body, source=jnp.zeros((4, 2)), target=jnp.zeros((4, 2)))
    for unit in ("encoder", "decoder"):
        (layer,) = getattr(body, unit)
        half = replace(layer.forward, W_hh=0.5 * jnp.eye(6))
        body = replace(body, **{unit: (replace(layer, forward=half),)})
    return network, replace(params, body=body)


@pytest.mark.parametrize("turned", [False, True])
def test_a_unit_that_halves_what_it_holds(turned):
    """A half a step within each unit, and from a symbol written to one read a half for every step between them."""
    network, params = still(turned)
    S, T = 5, 7
    batch = paired(np.zeros((2, S), int), np.full(2, S), np.full((2, T - 1), 3), np.full(2, T - 1), end=3)
    found = pair_survey(network, params, batch)
    assert [half.name for half in found.halves] == ["encoder layer 0 forward", "decoder layer 0 forward"]
    for half, steps in zip(found.halves, (S, T), strict=True):
        close(half.log10, np.broadcast_to(HALF * np.arange(steps), (2, steps)))
        close(half.decay.factor, 0.5)
    written, read = np.mgrid[:T, :S]
    steps = written + (read if turned else S - 1 - read)
    close(found.distance - found.distance.max(), HALF * steps)
    first, second, third = found.verdict()
    assert "shrinks by 0.5 a step" in first
    assert "decoder layer 0" in first
    assert "encoder layer 0" in second
    assert f"10^{HALF * steps[-1, 0]:.1f} of the largest" in third


@pytest.mark.parametrize("name", ["handed", "attending"])
def test_a_row_of_a_ragged_batch_is_the_row_alone(name):
    """By steps back from the row's own ends, whichever way a layer runs; and every layer says something."""
    network, params, pair = NETWORKS[name], params_of(name), pair_of(symbols=5)
    batch = Batch(pair, jnp.where(pair.mask, jnp.roll(pair.fed, -1, 1), END) % END, scored=pair.mask)
    halves = pair_survey(network, params, batch).halves
    ways = [reverse != network.design.reversed_source for layer in params.body.encoder for _, reverse in layer.halves()]
    assert len(halves) == len(ways) + len(params.body.decoder)
    n, m = SOURCES[0], TARGETS[0] + 1
    xs = replace(pair, source=pair.source[:, :n], source_mask=pair.source_mask[:, :n])
    xs = replace(xs, fed=xs.fed[:, :m], mask=xs.mask[:, :m])
    alone = jax.tree.map(lambda a: a[:1], Batch(xs, batch.targets[:, :m], scored=xs.mask))
    far, near = (state_profile(network, params, alone, last=last) for last in (False, True))
    wanted = [np.asarray(one[0])[:: 1 if way else -1] for one, way in zip(far.encoder, ways, strict=True)]
    wanted += [np.asarray(one[0])[::-1] for one in near.decoder]
    for half, one in zip(halves, wanted, strict=True):
        close(half.log10[0, : len(one)], one - one[0])
        assert np.isnan(half.log10[0, len(one) :]).all()
        assert half.exponents is None  # of so few steps
        assert half.blocks


def test_the_last_symbol_alone():
    """Of targets of one symbol it is the whole; of others the gradients differ in the decoder's earlier states."""
    network, params = NETWORKS["bridged"], params_of("bridged")
    for length, same in ((0, True), (2, False)):
        batch = paired(np.ones((2, 3), int), np.full(2, 3), np.ones((2, length), int), np.full(2, length), end=END)
        whole, last = (state_profile(network, params, batch, last=only) for only in (False, True))
        assert np.allclose(whole.decoder, last.decoder) == same


def test_what_nothing_can_be_said_of():
    """In one line."""
    network, params = still(False)
    batch = copying(symbols=3, shortest=3, longest=3).held_out(jax.random.key(0), 2)
    with pytest.raises(ValueError, match="at least 4 symbols on both sides, got 3 and 4 at most"):
        pair_survey(network, params, batch)
    with pytest.raises(ValueError, match="params hold NaN or infinity"):
        pair_survey(network, jax.tree.map(lambda a: a * jnp.nan, params), batch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of two runs of a small encoder-decoder."""
    network = encoder_decoder(seqjax.gru(), embedding=3, bidirectional=True, bridge=True, attention=2)
    recipe = seqjax.Recipe(network, copying(symbols=3, shortest=1, longest=3), hidden=4, updates=2, batch=4)
    path = tmp_path_factory.mktemp("trained")
    seqjax.train_many(recipe, jax.random.split(jax.random.key(0), 2), checkpoints=seqjax.Checkpoints(path))
    return path


def test_horizon_of_a_training(folder, tmp_path, capsys):
    """The table, three lines, both pictures in one, and all numbers."""
    out = tmp_path / "found"
    args = ["--run", "1", "--length", "6", "--sequences", "2", "--out", str(out)]
    assert main(["horizon", str(folder), *args]) == 0
    numbers = json.loads((out / "horizon.json").read_text(), parse_constant=pytest.fail)
    parts = [part["part"] for part in numbers["parts"]]
    assert parts == ["encoder layer 0 forward", "encoder layer 0 backward", "decoder layer 0 forward"]
    assert np.shape(numbers["log10_gradient_from_written_to_read"]) == (7, 6)
    assert numbers["verdict"][0][:30] in capsys.readouterr().out
    assert (out / "figure.png").stat().st_size > 0


def test_inspect_of_a_training(folder, capsys):
    """Every array and what a symbol costs."""
    assert main(["inspect", str(folder), "--length", "6"]) == 0
    printed = capsys.readouterr().out
    assert "4 source symbols, 4 target symbols, 4 hidden units" in " ".join(printed.split())
    for word in ("encoder.0.backward.W_ih", "align.v", "multiply-adds a target symbol, readout"):
        assert word in printed


@pytest.mark.parametrize("args", [["--data", "x.npy"], ["--inputs", "gaussian:1"]])
def test_numbers_are_refused_where_symbols_are_read(folder, tmp_path, capsys, args):
    """In one line, and nothing is written."""
    assert main(["horizon", str(folder), *args, "--out", str(tmp_path / "out")]) == 2
    assert "seqjax.pair_survey takes pairs of your own" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
