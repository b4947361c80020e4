"""Decoding: greedy, sampled and beam search agree where they must, and a wide beam is exact."""

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, same
from pairs import END, NETWORKS, SOURCES, B, K, S, pair_of, params_of

import seqjax
from seqjax.losses import whole
from seqjax.seq2seq import Pair, beam, greedy, sample
from seqjax.seq2seq.beam import searched
from seqjax.seq2seq.writing import Sampling, drawing, likeliest, row_keys, tempered, written

SOURCE, NAME, LIMIT = pair_of().source, "attending", 6
MODEL = NETWORKS[NAME], params_of(NAME), SOURCE
GIVEN = {"lengths": SOURCES, "limit": LIMIT, "end": END}

SYMBOLS, STOP, LONGEST, ROWS = 3, 2, 4, 5  # of a tiny model, whose every hypothesis can be listed
RNG = np.random.default_rng(7)
TABLES = [jnp.asarray(RNG.standard_normal(shape) * 1.5) for shape in ((2, 2), (2, SYMBOLS), (SYMBOLS, 2))]
FIRST = jnp.asarray(RNG.standard_normal((2, ROWS)))


def tiny(fixed, h, token):
    """A step of a tiny recurrent model: h ← tanh(W h + the token's column), logits V h."""
    W, columns, V = TABLES
    h = jnp.tanh(W @ h + columns[:, token])
    return h, V @ h


@cache
def hypotheses():
    """[(tokens, log p [ROWS])] of all that can be written: what stops within LONGEST steps, and what does not."""
    ways = [way for n in range(1, LONGEST + 1) for way in product(range(SYMBOLS), repeat=n)]
    whole_ones = [w for w in ways if STOP not in w[:-1] and (w[-1] == STOP or len(w) == LONGEST)]
    return [(way, np.asarray(log_p_of(way))) for way in whole_ones]


def log_p_of(way):
    """log p [ROWS] of symbols, one by one."""
    h, total, token = FIRST, jnp.zeros(ROWS), STOP
    for symbol in way:
        h, logits = tiny((), h, jnp.full(ROWS, token))
        total, token = total + jax.nn.log_softmax(logits, axis=0)[symbol], symbol
    return total


@pytest.mark.parametrize("alpha", [0.0, 0.7, 2.0])
def test_a_wide_beam_is_exact(alpha):
    """The best of all hypotheses by log p / length^α, whichever it is, for every row."""
    ways = hypotheses()
    assert len(ways) == 1 + 2 + 4 + 8 * 3
    scores = np.array([log_p / len(way) ** alpha for way, log_p in ways])
    start = jnp.full(ROWS, STOP)
    found = jax.jit(
        lambda: searched(tiny, (), FIRST, start, width=len(ways) + 3, alpha=alpha, limit=LONGEST, end=STOP)
    )()
    for row, best in enumerate(scores.argmax(0)):
        way, log_p = ways[best]
        symbols = [symbol for symbol in way if symbol != STOP]
        assert found.tokens[row].tolist() == symbols + [STOP] * (LONGEST - len(symbols))
        assert (found.lengths[row], found.finished[row]) == (len(symbols), STOP in way)
        close(found.log_probability[row], log_p[row])


def test_the_tiny_model_is_no_easy_one():
    """A narrow beam misses the best of some row, and both ends of a row occur."""
    ways, start = hypotheses(), jnp.full(ROWS, STOP)
    best = np.array([log_p for _, log_p in ways]).max(0)
    narrow = searched(tiny, (), FIRST, start, width=1, alpha=0.0, limit=LONGEST, end=STOP)
    assert (narrow.log_probability < best - 1e-6).any()
    assert 0 < narrow.finished.sum() < ROWS


@cache
def answers():
    """Greedy ones, with the weights of the attention."""
    return greedy(*MODEL, weights=True, **GIVEN)


def test_greedy_is_sampling_towards_0_and_a_beam_of_1():
    """Bit for bit in what is written."""
    plain = answers()
    cold = sample(*MODEL, jax.random.key(0), temperature=1e-9, **GIVEN)
    one = beam(*MODEL, width=1, alpha=0.5, **GIVEN)
    for other in (cold, one, sample(*MODEL, jax.random.key(1), top_k=1, **GIVEN)):
        same((other.tokens, other.lengths, other.finished), (plain.tokens, plain.lengths, plain.finished))
        close(other.log_probability, plain.log_probability)


def test_what_is_greedily_written_is_what_teacher_forcing_finds_likeliest():
    """Fed its own answer, every symbol of it is the likeliest, with the same weights and log-probability."""
    (network, params, _), found, pair = MODEL, answers(), pair_of()
    steps = np.arange(LIMIT)[None] < np.asarray(found.lengths + found.finished)[:, None]
    fed = np.concatenate([np.full((B, 1), END), found.tokens[:, :-1]], 1)
    again = Pair(pair.source, pair.source_mask, jnp.asarray(fed), jnp.asarray(steps))
    output = jax.jit(network.apply)(params, again)
    assert whole(output.every, found.tokens, again.mask) == 1
    close(output.body.decoder.weights, found.weights)
    log_p = np.take_along_axis(jax.nn.log_softmax(output.every), np.asarray(found.tokens)[..., None], 2)[..., 0]
    close(found.log_probability, (log_p * steps).sum(1))
    close(found.weights.sum(-1), steps.astype(float))


@pytest.mark.parametrize("way", ["greedy", "sample", "beam"])
def test_a_batch_is_each_row_alone(way):
    """By the row's own key, where there is one; whatever the other rows are, and however they are padded."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(4), jnp.arange(B))
    options = {"greedy": {}, "sample": {"key": jax.random.key(4)}, "beam": {"width": 3}}[way]
    decode = {"greedy": greedy, "sample": sample, "beam": beam}[way]
    both = decode(*MODEL, **options, **GIVEN)
    for row, n in enumerate(SOURCES):
        own = {"key": keys[row : row + 1]} if way == "sample" else options
        alone = decode(*MODEL[:2], SOURCE[row : row + 1, :S], **own, **GIVEN | {"lengths": [n]})
        same((alone.tokens[0], alone.finished[0]), (both.tokens[row], both.finished[row]))
        close(alone.log_probability[0], both.log_probability[row])


def test_one_source_alone():
    """Without a batch axis."""
    one = greedy(*MODEL[:2], SOURCE[0], limit=LIMIT, end=END)
    same(one.tokens, answers().tokens[0])
    assert one.finished.shape == ()


def test_the_limit_is_reported():
    """A row that it cuts short is not finished; one that ends is, at its end symbol."""
    start = jnp.full(ROWS, STOP)
    found = written(tiny, (), FIRST, start, likeliest, limit=LONGEST, end=STOP)[0]
    for row in range(ROWS):
        n = int(found.lengths[row])
        assert (found.tokens[row, n:] == STOP).all()
        assert STOP not in found.tokens[row, :n]
        assert bool(found.finished[row]) == (n < LONGEST)
    short = written(tiny, (), FIRST, start, likeliest, limit=1, end=STOP)[0]
    same(short.tokens, found.tokens[:, :1])


def test_symbols_are_drawn_as_often_as_they_are_likely():
    """At a temperature, from the likeliest k, and from the nucleus: shares within four standard errors."""
    log_p = jnp.log(jnp.array([0.1, 0.4, 0.2, 0.3]))[:, None]
    for how, wanted in (
        (Sampling(), [0.1, 0.4, 0.2, 0.3]),
        (Sampling(0.5), np.array([1, 16, 4, 9]) / 30),
        (Sampling(top_k=2), np.array([0, 4, 0, 3]) / 7),
        (Sampling(top_p=0.6), np.array([0, 4, 0, 3]) / 7),
        (Sampling(top_p=0.4), [0, 1, 0, 0]),
        (Sampling(top_k=3, top_p=0.8), np.array([0, 4, 2, 3]) / 9),
    ):
        close(jax.nn.softmax(tempered(how, log_p)[:, 0]), jnp.asarray(wanted, float), 1e-9)
    n = 4000
    lengths, step = jnp.zeros(n), lambda fixed, carry, token: (carry, jnp.broadcast_to(log_p, (4, n)))
    choose = drawing(row_keys(jax.random.key(0), n), Sampling())
    drawn = written(step, (), lengths, jnp.zeros(n, int), choose, limit=2, end=9)[0].tokens
    for place in np.asarray(drawn).T:
        shares = np.bincount(place, minlength=4) / n
        np.testing.assert_array_less(abs(shares - [0.1, 0.4, 0.2, 0.3]), 4 * 0.5 / n**0.5)
    assert 0.2 < (drawn[:, 0] == drawn[:, 1]).mean() < 0.4  # 0.3 where both are drawn apart


REFUSED = {
    "beam": (beam, {"width": 0}, "width must be an integer of at least 1, got 0"),
    "alpha": (beam, {"width": 2, "alpha": -1}, "alpha must be a number from 0, got -1"),
    "cold": (sample, {"temperature": 0}, "temperature must be a number above 0 .*got 0"),
    "negative": (sample, {"temperature": -1.0}, "temperature must be a number above 0"),
    "none-likely": (sample, {"top_k": 0}, "top_k must be a whole number from 1 to the 6 symbols, or None, got 0"),
    "too-many": (sample, {"top_k": K + 1}, "top_k must be .*got 7"),
    "nothing": (sample, {"top_p": 0.0}, "top_p must be above 0 and at most 1, or None, got 0.0"),
    "more": (sample, {"top_p": 1.5}, "top_p must be above 0 and at most 1"),
    "keys": (sample, {"key": jax.random.split(jax.random.key(0), 2)}, "one key, or one for each of 3 rows"),
    "limit": (greedy, {"limit": 0}, "limit must be an integer of at least 1, got 0"),
    "end": (greedy, {"end": K}, r"end must be the number of a symbol, 0\.\.5, got 6"),
    "empty": (greedy, {"lengths": [1, 0, 2]}, "source must hold at least one symbol in every row, got none in row 1"),
    "longer": (greedy, {"lengths": [1, 9, 2]}, r"lengths must lie in 0\.\.4"),
    "outside": (greedy, {"lengths": None}, r"source must hold tokens in 0\.\.6, got 99"),
}


@pytest.mark.parametrize(("decode", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(decode, options, message):
    """In one line."""
    key = {"key": jax.random.key(0)} if decode is sample else {}
    with pytest.raises(ValueError, match=message):
        decode(*MODEL, **{**GIVEN, **key, **options})


def test_a_network_that_cannot_be_decoded_from_is_refused():
    """One that is no encoder-decoder, and one without attention where weights are asked for."""
    with pytest.raises(ValueError, match="network must be such as encoder_decoder"):
        greedy(seqjax.network(seqjax.lstm()), *MODEL[1:], **GIVEN)
    with pytest.raises(ValueError, match="weights are those of an attention"):
        greedy(NETWORKS["handed"], params_of("handed"), SOURCE, weights=True, **GIVEN)
    for source in (SOURCE[None], SOURCE[:0]):
        with pytest.raises(ValueError, match=r"source must be tokens \[S\] or \[B, S\] of at least one row"):
            greedy(*MODEL[:2], source, **GIVEN | {"lengths": None})
    with pytest.raises(ValueError, match="source must be integer tokens for this network, got <U1"):
        greedy(*MODEL[:2], [["a", "b"]], **GIVEN | {"lengths": None})
