"""Networks without a recurrence: a slow twin of each, streams, padding, order, training, and what none can be asked."""

from dataclasses import replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, noise_like, random_xs, same
from test_conv import by_loop

import seqjax
from seqjax import Dropout, convolutional, pooled, wavenet, windowed
from seqjax.bodies import BODIES
from seqjax.conv import Field, measured_field, receptive_field
from seqjax.streaming import streaming
from seqjax.sweep import seed_keys

T, D, H, K, T_MAX = 6, 3, 4, 2, 3
DILATIONS = (1, 2)
NETS = {
    "mean": pooled("mean", readout="both"),
    "sum": pooled("sum", before=0, after=2, activation="tanh", readout="both"),
    "max": pooled("max", before=2, readout="both"),
    "window-last": windowed(T_MAX, layers=2, readout="both"),
    "window-first": windowed(T_MAX, keep="first", readout="both"),
    "convolution": convolutional(2, DILATIONS, readout="both"),
    "residual": convolutional(2, DILATIONS, residual=True, activation="tanh", readout="both"),
    "wavenet": wavenet(2, DILATIONS, readout="both"),
}
FIELDS = {"window-last": T_MAX} | dict.fromkeys(("convolution", "residual", "wavenet"), receptive_field(2, DILATIONS))
each_net = pytest.mark.parametrize("name", NETS)
XS = random_xs(T, T, D)  # as many rows as steps
MASKS = jnp.array([[1] * 6, [1, 1, 0, 1, 0, 0], [0] * 6, [1, 1, 1, 1, 1, 0], [0, 1, 1, 0, 1, 1], [1] + [0] * 5], bool)
RELU = partial(np.maximum, 0)


@lru_cache
def drawn(name):
    """Float64 params with biases that are not zero, of a seed under which every network has units that are on."""
    return noise_like(NETS[name].init, D, H, K, seed=2, scale=0.8)


@lru_cache
def program(name):
    """(params, xs, mask) -> outputs and what was cut, gradients of all outputs, slopes of step 2's to inputs."""
    net = NETS[name]

    def outputs(mask, params, xs):
        output = net.apply(params, xs, mask=mask)
        return (output.every, output.last), output.body.cut

    def run(params, xs, mask):
        shown, back, cut = jax.vjp(partial(outputs, mask), params, xs, has_aux=True)
        every, last = (jnp.zeros_like(a) for a in shown)
        ways = [jax.tree.map(jnp.cos, shown), (every.at[:, 2].set(1.0), last)]
        both = jax.vmap(back)(jax.tree.map(lambda *a: jnp.stack(a), *ways))
        gradients, slopes = (jax.tree.map(lambda a, i=i: a[i], both) for i in range(2))
        return (*shown, cut), gradients, slopes[1]

    return jax.jit(run)


def fed(φ, layers, x):
    """Layers on one vector."""
    for layer in layers:
        x = φ(np.asarray(layer.W) @ x + np.asarray(layer.b))
    return x


def pool_twin(name, p, xs, valid):
    """What a pool shows of the steps so far; of all at the end."""
    φ = np.tanh if name == "sum" else RELU
    pool, width = {"mean": np.mean, "sum": np.sum, "max": np.max}[name], D if name == "sum" else H
    steps = [fed(φ, p.before, x) for x in xs]
    shown = []
    for t in [*range(T), T]:
        chosen = [step for step, ok in zip(steps[: t + 1], valid, strict=False) if ok]
        shown.append(fed(φ, p.after, pool(chosen, axis=0) if chosen else np.zeros(width)))
    return shown[:T], shown[T]


def window_twin(name, p, xs, valid):
    """What is shown of the window of every step, and of that of the last."""
    xs, end = xs * valid[:, None], int(np.flatnonzero(valid)[-1]) + 1 if valid.any() else 0

    def of(seen):
        window = np.zeros((T_MAX, D))
        if name == "window-last":
            seen = seen[-T_MAX:]
            window[T_MAX - len(seen) :] = seen
        else:
            seen = seen[:T_MAX]
            window[: len(seen)] = seen
        return fed(RELU, p.layers, window.ravel())

    return [of(xs[: t + 1]) for t in range(T)], of(xs[:end])


def stack_twin(name, p, xs, valid):
    """What convolutions show; nothing at the end of an empty row."""
    clean, xs = valid[:, None], xs * valid[:, None]
    if name == "wavenet":
        xs, skips = np.array([fed(lambda a: a, [p.first], x) for x in xs]), 0
        for block, dilation in zip(p.blocks, DILATIONS, strict=True):
            f, g = np.split(by_loop(block.conv, xs * clean, dilation), 2, axis=1)
            z = np.tanh(f) / (1 + np.exp(-g))
            skips = skips + np.array([fed(lambda a: a, [block.skip], each) for each in z])
            if block.residual is not None:
                xs = xs + np.array([fed(lambda a: a, [block.residual], each) for each in z])
        ys = np.array([fed(RELU, [p.last], RELU(each)) for each in skips])
    else:
        φ, ys = np.tanh if name == "residual" else RELU, xs
        for depth, (layer, dilation) in enumerate(zip(p.layers, DILATIONS, strict=True)):
            shown = φ(by_loop(layer, ys * clean, dilation)) * clean
            ys = shown + ys if name == "residual" and depth else shown
    return list(ys), ys[np.flatnonzero(valid)[-1]] if valid.any() else np.zeros(H)


def twin(name, params, xs, valid):
    """One row's outputs, every [T, K] and last [K], in NumPy."""
    kind = pool_twin if name in ("mean", "sum", "max") else window_twin if "window" in name else stack_twin
    ys, last = kind(name, params.body, np.asarray(xs), np.asarray(valid))
    ys = [y * ok for y, ok in zip(ys, valid, strict=True)]
    return np.array([fed(lambda a: a, [params.head], y) for y in ys]), fed(lambda a: a, [params.head], last)


@each_net
def test_values_masks_and_causality(name):
    """Equal to the twin with padding, holes and an empty row; junk there changes nothing, values and gradients; no
    output has a slope to a later step, or to a masked one."""
    params, run = drawn(name), program(name)
    output, gradients, slope = run(params, jnp.where(MASKS[..., None], XS, 0), MASKS)
    for row in range(T):
        every, last = twin(name, params, XS[row], MASKS[row])
        close((output[0][row], output[1][row]), (every, last), 1e-12)
    for junk in (jnp.nan, jnp.inf):
        same(run(params, jnp.where(MASKS[..., None], XS, junk), MASKS), (output, gradients, slope))
    assert all(bool(jnp.isfinite(a).all()) for a in jax.tree.leaves(gradients))
    assert not slope[:, 3:].any()
    assert not gradients[1][~MASKS].any()
    assert slope[:, 2].any()


@each_net
def test_a_stream_equals_the_batch_at_every_prefix(name):
    """From the first event, where all there is before it are biases; a state of another shape is refused."""
    params, net = drawn(name), NETS[name]
    prefixes = jnp.arange(T)[None] <= jnp.arange(T)[:, None]
    every, last, _ = program(name)(params, jnp.broadcast_to(XS[:1], XS.shape), prefixes)[0]
    stream = streaming(net)
    state = first = stream.start(params)
    copy = jax.tree.map(jnp.copy, first)
    for t in range(T):
        state, y = stream.step(params, state, np.asarray(XS[0, t]))
        close((y, y), (last[t], every[-1, t]), 1e-12)
    with pytest.raises(ValueError, match="state must be shaped"):
        stream.step(params, jax.tree.map(lambda a: a[None], copy), np.asarray(XS[0, 0]))


@each_net
def test_dtypes(name):
    """Float32 stays float32; narrow params carry at least float32 from event to event, and never change the state."""
    net = NETS[name]
    for dtype in ("float32", "bfloat16"):
        params = jax.tree.map(lambda a, d=dtype: a.astype(d), drawn(name))
        output = jax.eval_shape(net.apply, params, jax.ShapeDtypeStruct((2, T, D), dtype))
        assert {str(a.dtype) for a in (output.every, output.last)} <= {dtype, "float32"}
        state = streaming(net).start(params)
        new, _ = jax.eval_shape(streaming(net).step, params, state, jax.ShapeDtypeStruct((D,), dtype))
        assert [(a.shape, a.dtype) for a in jax.tree.leaves(new)] == [
            (a.shape, a.dtype) for a in jax.tree.leaves(state)
        ]
        assert {str(a.dtype) for a in jax.tree.leaves(state)} <= {"float32", "int32"}


@pytest.mark.parametrize("name", ["mean", "sum", "max"])
def test_a_pool_knows_no_order(name):
    """Each row's valid steps permuted: the same to rounding, and a maximum to the bit."""
    lengths = np.array([6, 4, 0, 5, 2, 1])
    mask = jnp.arange(T)[None] < lengths[:, None]
    rng = np.random.default_rng(0)
    orders = np.array([[*rng.permutation(n), *range(n, T)] for n in lengths])
    shuffled = jnp.take_along_axis(XS, orders[..., None], axis=1)
    before, after = (program(name)(drawn(name), xs, mask)[0][1] for xs in (XS, shuffled))
    close(after, before, 0 if name == "max" else 1e-13)


@each_net
def test_fields_off_the_jacobian(name):
    """As by the formula and without holes; all of the row for a pool, the first steps of it for a window of those."""
    params, net = drawn(name), NETS[name]
    found = measured_field(lambda xs: net.apply(params, xs).last, XS)
    if name == "window-first":
        assert found == Field(T, tuple(range(T - T_MAX)))
    else:
        assert found == Field(FIELDS.get(name, T), ())


def test_windows_say_what_they_cut():
    """Row by row in the output, and counted from lengths; others cut nothing."""
    for name in ("window-last", "window-first"):
        cut = program(name)(drawn(name), XS, MASKS)[0][2]
        np.testing.assert_array_equal(cut, [1, 1, 0, 1, 1, 0])
    assert program("mean")(drawn("mean"), XS, MASKS)[0][2] is None
    assert seqjax.cut_rows(jnp.array([6, 4, 0, 3, 2, 1]), T_MAX) == 2


def test_a_window_has_weights_for_every_position():
    """B6: 15,360,000 on the window of T = 100 steps of d = 300 numbers at H = 512, where a shared block has 153,600."""
    window = jax.eval_shape(lambda: windowed(100).init(jax.random.key(0), 300, 512, 1)).body.layers[0].W
    block = jax.eval_shape(lambda: seqjax.network(seqjax.rnn()).init(jax.random.key(0), 300, 512, 1)).body[0]
    assert (window.size, block.forward.W_ih.size) == (15_360_000, 153_600)


@pytest.mark.parametrize("inputs", ["onehot", "embedding"])
def test_tokens(inputs):
    """The vector network on one-hot vectors, or on rows of the embedding, in batches and in streams."""
    width = {"embedding": 2} if inputs == "embedding" else {}
    net, plain = pooled("mean", inputs=inputs, readout="every", **width), pooled("mean", readout="every")
    params = noise_like(net.init, D, H, K)
    tokens = np.array([[2, 0, 1, 1], [1, 2, 0, 99]])
    table = np.eye(D) if params.embed is None else params.embed
    lengths, vectors = jnp.array([4, 3]), np.asarray(table)[np.minimum(tokens, D - 1)]
    want = jax.jit(plain.apply)(replace(params, embed=None), vectors, lengths=lengths).every
    close(jax.jit(net.apply)(params, tokens, lengths=lengths).every, want, 1e-12)
    state, ys = streaming(net).start(params), []
    for token in tokens[0]:
        state, y = streaming(net).step(params, state, token)
        ys.append(y)
    close(jnp.stack(ys), want[0], 1e-12)


def test_no_steps_at_all():
    """T = 0 is read at every step, of which there are none."""
    for name, net in NETS.items():
        every = replace(net, readout="every", forward=partial(net.forward.func, net.body, "vector", "every"))
        assert jax.eval_shape(every.apply, drawn(name), jnp.zeros((2, 0, D))).every.shape == (2, 0, K)


@pytest.mark.parametrize("make", [convolutional, wavenet])
def test_dropout_is_between_layers(make):
    """Drawn from a key, and none without one; what the first layer reads is whole."""
    net, name = make(2, DILATIONS, dropout=Dropout(between=0.5)), "wavenet" if make is wavenet else "convolution"
    params, run = drawn(name), jax.jit(lambda key: net.apply(drawn(name), XS, key=key).last)
    one, two = (run(key) for key in jax.random.split(jax.random.key(0)))
    assert (one != two).any()
    close(jax.jit(net.apply)(params, XS).last, program(name)(params, XS, jnp.ones((T, T), bool))[0][1], 1e-14)


def test_two_seeds_train_save_and_come_back(tmp_path):
    """As any network: each seed has numbers of its own, and a checkpoint gives network and params back."""
    net = convolutional(2, DILATIONS, inputs="embedding", embedding=3, dropout=Dropout(between=0.1))
    recipe = seqjax.Recipe(net, seqjax.tasks.order(shortest=2, longest=5, kinds=3), hidden=4, updates=3, batch=8)
    states, history = seqjax.train_many(recipe, seed_keys(2)[1], checkpoints=seqjax.Checkpoints(tmp_path))
    assert history.loss.shape == (2, 3)
    assert np.isfinite(history.loss).all()
    assert (history.gradient_norm > 0).all()
    assert (history.loss[0] != history.loss[1]).all()
    found = seqjax.saved(tmp_path, run=1)
    assert (found.network, found.step) == (net, 3)
    same(found.params, jax.tree.map(lambda a: jnp.asarray(a[1]), states.params))


RECIPE = seqjax.Recipe(pooled(inputs="onehot"), seqjax.tasks.order(shortest=2, longest=5), hidden=4, batch=2)
MEAN = pooled()


def begun(**options):
    """A training of a pool, set up."""
    return seqjax.begin_many(replace(RECIPE, **options), seed_keys(1)[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: replace(RECIPE, window=2), "window, which carries a state, needs a recurrent network: 'mean-pool'"),
        (lambda: begun(penalty=seqjax.omega(weight=1.0)), "needs a recurrent network"),
        (lambda: begun(penalty=seqjax.flossing(1, weight=1.0)), "needs a recurrent network"),
        (lambda: begun(edit=seqjax.floss_first(MEAN, RECIPE.task, k=1, updates=1)), "needs a recurrent network"),
        (lambda: seqjax.floss(MEAN, drawn("mean"), XS, k=1, updates=1), "needs a recurrent network"),
        (lambda: seqjax.gradient_profile(MEAN, drawn("mean"), XS, jnp.zeros(T, int)), "so ask input_profile"),
        (lambda: MEAN.forward(drawn("mean"), XS, reset=MASKS), "reset needs a recurrent network"),
        (lambda: MEAN.forward(drawn("mean"), XS, state=()), "state needs a recurrent network"),
        (lambda: MEAN.forward(drawn("mean"), XS, perturb=()), "perturb needs a recurrent network"),
        (lambda: MEAN.cell, "cell needs a recurrent network"),
        (lambda: seqjax.survey(MEAN, drawn("mean").body, XS, key=jax.random.key(0)), "cell must be a Cell"),
        (lambda: seqjax.unroll_stack(seqjax.rnn(), drawn("mean").body, XS), "params must be"),
        (lambda: seqjax.lyapunov(seqjax.rnn(), drawn("mean").body, XS, blocks=1, k=1), "params"),
        (lambda: seqjax.cost(MEAN, B=1, T=1, D=1, H=1), "cell must be a Cell"),
        (lambda: MEAN.apply(drawn("wavenet"), XS), "params must be Pooled"),
        (lambda: MEAN.apply(drawn("mean"), XS[..., :2]), "D = 3 numbers"),
        (lambda: streaming(windowed(3)).start(drawn("mean")), "params must be Windowed"),
        (lambda: windowed(5).apply(drawn("window-last"), XS), "params are of another window than of 5 steps"),
        (lambda: streaming(replace(MEAN, body=replace(MEAN.body, step=None))), "cannot stream"),
        (lambda: streaming(MEAN).step(drawn("mean"), (), np.ones(2)), r"shape \[3\]"),
        (lambda: MEAN.apply(drawn("mean"), XS, key=jax.random.key(0)), "key draws nothing"),
        (lambda: pooled("median"), "pool must be one of"),
        (lambda: pooled(before=-1), "before must be"),
        (lambda: pooled(after=0), "after must be"),
        (lambda: pooled(activation="gelu"), "activation must be one of"),
        (lambda: pooled(inputs="words"), "inputs must be one of"),
        (lambda: windowed(0), "T_max must be"),
        (lambda: windowed(3, keep="middle"), "keep must be one of"),
        (lambda: windowed(3, layers=0), "layers must be"),
        (lambda: seqjax.cut_rows([1, 2], 0), "T_max must be"),
        (lambda: convolutional(0), "kernel must be"),
        (lambda: convolutional(2, [1, 2]), "dilations must be a plain, hashable value"),
        (lambda: convolutional(2, 3), "dilations must be one integer a layer"),
        (lambda: convolutional(2, residual=True), "residual adds nothing"),
        (lambda: convolutional(2, dropout=Dropout(between=0.5)), "drops nothing in 1 layer"),
        (lambda: wavenet(2, (1, 2), dropout=Dropout(zoneout=0.5)), "a convolution has no state"),
        (lambda: wavenet(2, (1, 2), dropout=0.5), "dropout must be a Dropout"),
        (lambda: wavenet(2, ()), "layers must be"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()


def test_every_body_is_known_by_name():
    """To checkpoints."""
    assert set(BODIES) == {"pooled", "windowed", "convolutional", "wavenet"}
