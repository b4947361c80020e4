"""Encoder-decoders: a Python loop, PyTorch by hand, and what must not matter."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, noise_like
from pairs import END, NETWORKS, B, D, E, H, K, S, T, pair_of, params_of, slow

import seqjax
from seqjax.losses import cross_entropy
from seqjax.seq2seq import Nudge, decoder, encoder_decoder
from seqjax.sequences import batch_last

each_network = pytest.mark.parametrize("name", NETWORKS)


def runs(name, pair, **options):
    """(logits, weights) of a network, zero where masked."""
    output = jax.jit(lambda p: NETWORKS[name].apply(p, pair, **options))(params_of(name))
    weights = output.body.decoder.weights
    return np.where(pair.mask[..., None], output.every, 0), weights


@each_network
def test_a_network_is_the_loop(name):
    """Every layer, direction, bridge, context and reversal, row by row and step by step."""
    pair = pair_of(K if name == "shared" else D)
    logits, weights = runs(name, pair)
    want = slow(NETWORKS[name], params_of(name), pair)
    close(logits, want[0])
    if weights is None:
        assert params_of(name).body.align is None
    else:
        close(weights, want[1])


@pytest.mark.parametrize("name", ["handed", "attending"])
def test_own_choices_are_fed_back(name):
    """Where `own` says so; with it nowhere, the run is that of the faster ways."""
    own = np.random.default_rng(1).random((B, T)) < 0.6
    pair = pair_of(own=own)
    close(runs(name, pair)[0], slow(NETWORKS[name], params_of(name), pair)[0])
    never = pair_of(own=np.zeros((B, T), bool))
    close(runs(name, never)[0], runs(name, pair_of())[0])


def loss(network, params, pair, key=None):
    """Cross-entropy of some targets."""
    following = jnp.pad(jnp.where(pair.mask, pair.fed, END)[:, 1:], ((0, 0), (0, 1)), constant_values=END)
    targets = jnp.where(jnp.pad(pair.mask[:, 1:], ((0, 0), (0, 1))), following, END)
    return cross_entropy(network.apply(params, pair, key=key).every, targets, pair.mask)


NOISY = {
    "norm": encoder_decoder(seqjax.lstm(norm="layer"), embedding=E, attention=3),
    "deep": encoder_decoder(
        seqjax.gru(), embedding=E, decoder_layers=2, bridge=True, attention=3, dropout=seqjax.Dropout(between=0.4)
    ),
}


@pytest.mark.parametrize("name", NOISY)
def test_the_loop_without_its_weight_gradients_is_the_loop(name, monkeypatch):
    """Gradients and tangents of the hoisted attention are those of a plain scan, under dropout as well."""
    network, pair = NOISY[name], pair_of()
    key = None if network.dropout is None else jax.random.key(2)
    params = noise_like(network.init, D, H, K, scale=0.6)
    one = partial(loss, network, pair=pair, key=key)
    fast = jax.jit(jax.grad(one))(params)
    if name == "norm":
        along = sum((g * p).sum() for g, p in zip(jax.tree.leaves(fast), jax.tree.leaves(params), strict=True))
        close(jax.jit(lambda p: jax.jvp(one, (p,), (p,))[1])(params), along, 1e-9)
    monkeypatch.setattr(decoder, "fits", lambda *given: False)
    close(fast, jax.jit(lambda p: jax.grad(one)(p))(params), 1e-9)


@pytest.mark.parametrize("name", ["handed", "attending", "in-turn"])
def test_padding_never_matters(name):
    """Junk in it: the same loss and gradients, bit for bit."""
    network, params, pair = NETWORKS[name], params_of(name), pair_of()
    down = jax.jit(jax.value_and_grad(lambda p, pair: loss(network, p, pair)))
    clean = replace(pair, source=jnp.where(pair.source_mask, pair.source, 0), fed=jnp.where(pair.mask, pair.fed, END))
    first = down(params, clean)
    jax.tree.map(np.testing.assert_array_equal, down(params, pair), first)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(first))


def test_a_row_without_anything_is_finite():
    """No source and no target: no NaN in its gradients, and none in the others'."""
    name, pair = "attending", pair_of()
    empty = replace(pair, source_mask=pair.source_mask.at[0].set(False), mask=pair.mask.at[0].set(False))
    run = lambda p: NETWORKS[name].forward(p, batch_last(empty)).every  # noqa: E731
    grads = jax.jit(jax.grad(lambda p: (run(p) ** 2).sum()))(params_of(name))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_one_pair_alone():
    """Without a batch axis, as in a batch."""
    pair = pair_of()
    logits, weights = runs("attending", jax.tree.map(lambda a: a[2], pair))
    close(logits, slow(NETWORKS["attending"], params_of("attending"), pair)[0][2])
    assert weights.shape == (T, S)


def test_dropout_acts_on_all_that_is_no_recurrence():
    """In the engine's way: rates near 1 leave the states to the recurrence alone, and the readout to its bias."""
    network = encoder_decoder(seqjax.lstm(), embedding=E, dropout=seqjax.Dropout(between=0.999999))
    params, pair = noise_like(network.init, D, H, K, scale=0.6), pair_of()
    run = jax.jit(network.apply)
    output = run(params, pair, key=jax.random.key(0))
    np.testing.assert_allclose(output.every, np.broadcast_to(params.head.b, (B, T, K)))
    blank = replace(params.body, source=0 * params.body.source, target=0 * params.body.target)
    silent = run(replace(params, body=blank), pair)
    close(output.body.encoder.ys, silent.body.encoder.ys)
    assert not np.allclose(run(params, pair).every, output.every)


def test_a_nudge_is_what_its_gradient_is_to():
    """Added to the source vectors it is another embedding; to a state, another state."""
    network, params, pair = NETWORKS["attending"], params_of("attending"), pair_of()
    one = replace(params.body, source=params.body.source + 0.3)
    inside = batch_last(pair)
    run = jax.jit(network.forward)
    moved = run(params, inside, perturb=Nudge(source=jnp.full((S, E, B), 0.3)))
    close(moved.every, run(replace(params, body=one), inside).every)
    still = run(params, inside).body.decoder
    push = jax.tree.map(lambda s: jnp.zeros(s.shape).at[-1].set(0.5), still.after)
    pushed = run(params, inside, perturb=Nudge(decoder=push)).body.decoder
    close(pushed.final, jax.tree.map(lambda s: s + 0.5, still.final))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_nudged_state_is_seen_at_once(name):
    """By the readout at the same step, as well as by all steps after it."""
    network, params, pair = NETWORKS[name], params_of(name), batch_last(pair_of(symbols=5))
    run = jax.jit(lambda nudge: network.forward(params, pair, perturb=nudge).body.decoder)
    push = jax.tree.map(lambda s: jnp.full(s.shape, 0.5), run(Nudge()).after)
    moved = run(Nudge(decoder=push))
    top = moved.after[-1].h
    close(moved.ys[:, : top.shape[1]], jnp.where(pair.mask[:, None], top, 0))


REFUSED = {
    "bidirectional": ({"bidirectional": True}, "both directions, the decoder in one, .* bridge=True"),
    "depth": ({"layers": 2, "decoder_layers": 1}, "2 layers, the decoder 1, .* bridge=True"),
    "cell": ({"decoder": seqjax.gru()}, "a 'lstm' cell's state is not one of 'gru', .* bridge=True"),
    "attention": ({"attention": 0}, "attention must be an integer of at least 1, got 0"),
    "embedding": ({"embedding": None}, "embedding must be an integer"),
    "bridge": ({"bridge": 1}, "bridge must be True or False"),
    "zoneout": ({"dropout": seqjax.Dropout(zoneout=0.1)}, "its between alone, got zoneout=0.1"),
    "dropout": ({"dropout": 0.1}, "dropout must be a Dropout"),
    "decoder": ({"decoder": seqjax.gru}, "cell must be a Cell"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(options, message):
    """In one line."""
    with pytest.raises(ValueError, match=message):
        encoder_decoder(seqjax.lstm(), **{"embedding": E, **options})


def test_sizes_that_do_not_fit_are_refused():
    """Where they are known: at the draw, and at the data."""
    with pytest.raises(ValueError, match=r"encoder has 4 units, the decoder 3, .* give bridge=True"):
        encoder_decoder(seqjax.lstm(), embedding=E, encoder_hidden=4).init(jax.random.key(0), D, H, K)
    with pytest.raises(ValueError, match="one alphabet, got 7 source symbols and 6 target symbols"):
        encoder_decoder(seqjax.lstm(), embedding=E, shared=True).init(jax.random.key(0), D, H, K)
    network, params, pair = NETWORKS["handed"], params_of("handed"), pair_of()
    bad = {
        "must be a Pair": pair.source,
        r"source must hold tokens in 0..6, got 7": replace(pair, source=pair.source.at[0, 0].set(7)),
        r"fed must hold tokens in 0..5, got 6": replace(pair, fed=pair.fed.at[0, 0].set(6)),
        "at least one symbol in every row, got none in row 1": replace(
            pair, source_mask=pair.source_mask.at[1].set(False)
        ),
        r"source_mask must be boolean of shape \[3, 4\]": replace(pair, source_mask=pair.mask),
        "source and fed must be": replace(pair, fed=pair.fed[0]),
        "own must be boolean": replace(pair, own=pair.mask[:, :2]),
    }
    for message, given in bad.items():
        with pytest.raises(ValueError, match=message):
            network.apply(params, given)
    with pytest.raises(ValueError, match="a Pair holds its own masks"):
        network.apply(params, pair, lengths=[1, 1, 1])
    with pytest.raises(ValueError, match="state means nothing in an encoder-decoder"):
        network.forward(params, pair, state=())
    with pytest.raises(ValueError, match="params must be TranslatorParams"):
        network.apply(replace(params, body=()), pair)


def test_a_network_is_pytorch_by_hand():
    """A bidirectional LSTM that is packed, a bridge, and additive attention around an LSTM cell."""
    torch = pytest.importorskip("torch")
    network = encoder_decoder(seqjax.lstm(), embedding=E, bidirectional=True, bridge=True, attention=5)
    params, pair = noise_like(network.init, D, H, K, scale=0.6), pair_of()
    p, of = params.body, lambda a: torch.tensor(np.asarray(a))
    encoder = torch.nn.LSTM(E, H, bidirectional=True, batch_first=True, dtype=torch.float64)
    cell = torch.nn.LSTMCell(E + 2 * H, H, dtype=torch.float64)
    halves = ((half, end) for half, end in ((p.encoder[0].forward, ""), (p.encoder[0].backward, "_reverse")))
    names = {"W_ih": "weight_ih", "W_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    with torch.no_grad():
        for half, end in halves:
            for ours, its in names.items():
                getattr(encoder, f"{its}_l0{end}").copy_(of(getattr(half, ours)))
        for ours, its in names.items():
            getattr(cell, its).copy_(of(getattr(p.decoder[0].forward, ours)))
        xs = of(p.source)[of(np.where(pair.source_mask, pair.source, 0))]
        lengths = of(pair.source_mask.sum(1))
        packed = torch.nn.utils.rnn.pack_padded_sequence(xs, lengths, batch_first=True, enforce_sorted=False)
        hs, (h, c) = encoder(packed)
        hs = torch.nn.utils.rnn.pad_packed_sequence(hs, batch_first=True)[0]
        flat = torch.cat([h[0], c[0], h[1], c[1]], 1)
        h, c = torch.chunk(flat @ of(p.bridge[0].W).T + of(p.bridge[0].b), 2, 1)
        every, blank = [], ~of(pair.source_mask)
        for t in range(T):
            keys = torch.tanh((h @ of(p.align.W).T)[:, None] + hs @ of(p.align.U).T)
            α = (keys @ of(p.align.v)).masked_fill(blank, -torch.inf).softmax(1)
            context = (α[:, :, None] * hs).sum(1)
            x = of(p.target)[of(np.where(pair.mask, pair.fed, 0))[:, t]]
            h, c = cell(torch.cat([x, context], 1), (h, c))
            every.append(torch.cat([h, context], 1) @ of(params.head.W).T + of(params.head.b))
    ours = jax.jit(lambda params: network.apply(params, pair).every)(params)
    mask = np.asarray(pair.mask)
    np.testing.assert_allclose(ours[mask], torch.stack(every, 1).numpy()[mask], rtol=1e-9, atol=1e-9)
