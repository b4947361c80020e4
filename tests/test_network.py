"""Networks: every input, every readout, and their doors."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqjax
from seqjax.losses import cross_entropy

T, B, D, H, K = 5, 3, 4, 6, 2
TOKENS = jax.random.randint(jax.random.key(1), (B, T), 0, D)
XS = jax.random.normal(jax.random.key(2), (B, T, D))
LENGTHS = jnp.array([T, 2, 0])


def build(**options):
    """A GRU network in double precision."""
    net = seqjax.network(seqjax.gru(), **options)
    return net, jax.tree.map(lambda a: a.astype(jnp.float64), net.init(jax.random.key(0), D, H, K))


def head(params, y):
    """The readout, one vector at a time."""
    return params.head.W @ y + params.head.b


def test_one_hot_is_the_vector_network_on_one_hot_vectors():
    """And an embedding is the vector network on its rows."""
    net, params = build(inputs="onehot", readout="both")
    vector, _ = build(readout="both")
    want = vector.apply(params, jax.nn.one_hot(TOKENS, D, dtype=jnp.float64))
    chex.assert_trees_all_close(net.apply(params, TOKENS).every, want.every, atol=1e-12)
    embedded, params = build(inputs="embedding", embedding=3, readout="both")
    plain = type(params)(None, params.body, params.head)
    want = vector.apply(plain, params.embed[TOKENS])
    chex.assert_trees_all_close(embedded.apply(params, TOKENS).last, want.last, atol=1e-12)


def test_last_is_each_rows_own_last_step():
    """The readout of the state at length - 1, the output there (B26); of the initial state for an empty row."""
    net, params = build(inputs="onehot", readout="both")
    output = net.apply(params, TOKENS, lengths=LENGTHS)
    ys = seqjax.unroll(seqjax.gru(), params.body[0].forward, jax.nn.one_hot(TOKENS, D), lengths=LENGTHS).ys
    for row, y in enumerate([ys[0, T - 1], ys[1, 1], jnp.zeros(H)]):
        chex.assert_trees_all_close(output.last[row], head(params, y), atol=1e-12)
    chex.assert_trees_all_close(output.every[1, 1], output.last[1], atol=1e-12)


def test_bidirectional_summary_is_both_final_states():
    """Forward at length - 1 and backward at 0, of the top layer."""
    net, params = build(inputs="onehot", layers=2, bidirectional=True)
    output = net.apply(params, TOKENS, lengths=LENGTHS)
    forward, backward = output.body.final[-2:]
    want = jax.vmap(lambda f, b: head(params, jnp.concatenate([f, b])))(forward.h, backward.h)
    chex.assert_trees_all_close(output.last, want, atol=1e-12)
    ys = output.body.ys
    chex.assert_trees_all_close(ys[0, T - 1, :H], forward.h[0], atol=1e-12)
    chex.assert_trees_all_close(ys[0, 0, H:], backward.h[0], atol=1e-12)


def test_one_sequence_is_a_batch_of_one():
    """Outputs, without the batch axis."""
    net, params = build(inputs="onehot", readout="both")
    one, many = net.apply(params, TOKENS[0], lengths=3), net.apply(params, TOKENS[:1], lengths=jnp.array([3]))
    assert one.every.shape == (T, K)
    chex.assert_trees_all_close((one.every, one.last), (many.every[0], many.last[0]), atol=1e-12)


@pytest.mark.parametrize("engine", [{"evaluator": "scan"}, {"chunk": 2}], ids=str)
def test_the_engine_is_the_bodys(engine):
    """Under the same name, as results are the same to rounding: outputs, and gradients to params and states."""
    (net, params), (other, _) = build(), build(**engine)
    assert other is not net
    assert other.name == net.name

    @partial(jax.jit, static_argnums=0)
    def run(net):
        profile = seqjax.gradient_profile(net, params, XS, jnp.zeros(B, int), lengths=LENGTHS)
        loss = jax.value_and_grad(lambda p: jnp.square(net.apply(p, XS, lengths=LENGTHS).last).sum())
        return loss(params), jnp.nan_to_num(profile.whole)

    chex.assert_trees_all_close(run(other), run(net), atol=1e-10)


@pytest.mark.parametrize("junk", [-1, 10**6])
def test_tokens_in_the_padding_never_matter(junk):
    """Values and gradients, whatever stands there."""
    net, params = build(inputs="embedding", embedding=3, readout="last")
    mask = jnp.arange(T)[None] < LENGTHS[:, None]

    @jax.jit
    def loss_and_grad(tokens):
        return jax.value_and_grad(
            lambda p: cross_entropy(net.apply(p, tokens, lengths=LENGTHS).last, jnp.zeros(B, int))
        )(params)

    clean, dirty = loss_and_grad(TOKENS), loss_and_grad(jnp.where(mask, TOKENS, junk))
    chex.assert_trees_all_equal(clean, dirty)
    chex.assert_tree_all_finite(dirty)


@pytest.mark.parametrize("draw", [seqjax.network.__wrapped__.__kwdefaults__["head"]])
def test_default_head_is_pytorchs_linear(draw):
    """U(-1/√F, 1/√F) for weights and bias."""
    dense = draw(jax.random.key(0), 50, 64)
    for array in (dense.W, dense.b):
        assert jnp.abs(array).max() <= 1 / 8
        assert jnp.abs(array).max() > 0.9 / 8


def test_sizes_live_in_the_params():
    """One network value serves every size."""
    net = seqjax.network(seqjax.rnn(), bidirectional=True, layers=2)
    params = net.init(jax.random.key(0), 7, 3, 2)
    assert params.body[0].forward.W_ih.shape == (3, 7)
    assert params.body[1].backward.W_ih.shape == (3, 6)
    assert params.head.W.shape == (2, 6)
    assert net.apply(params, np.zeros((B, T, 7), np.float32)).last.shape == (B, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: seqjax.network(seqjax.gru(), inputs="words"), "inputs must be one of"),
        (lambda: seqjax.network(seqjax.gru(), readout="first"), "readout must be one of"),
        (lambda: seqjax.network(seqjax.gru(), evaluator="fast"), "evaluator must be one of"),
        (lambda: seqjax.network(seqjax.gru(), evaluator="associative"), 'evaluator "associative" needs'),
        (lambda: seqjax.network(seqjax.gru(), chunk=0), "chunk must be"),
        (lambda: seqjax.network(seqjax.gru(), inputs="embedding"), "embedding"),
        (lambda: seqjax.network(seqjax.gru(), embedding=3), "embedding"),
        (lambda: build()[0].init(jax.random.key(0), 0, H, K), "D must be"),
        (lambda: build()[0].init(jax.random.key(0), D, H, 0), "K must be"),
        (lambda: build(layers=0), "layers must be"),
        (lambda: apply(TOKENS, inputs="vector"), "floating point"),
        (lambda: apply(jnp.zeros((B, T, D + 1))), "D = 4"),
        (lambda: apply(jnp.zeros((B, T, D)), inputs="onehot"), "T"),
        (lambda: apply(jnp.zeros((B, T)), inputs="onehot"), "integer tokens"),
        (lambda: apply(TOKENS + D, inputs="onehot"), "tokens in 0..3"),
        (lambda: apply(jnp.zeros((B, 0, D))), "T = 0"),
        (lambda: seqjax.cell_named("elman"), "known cells are"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()


def apply(xs, **options):
    """Build and run."""
    net, params = build(**options)
    return net.apply(params, xs)
