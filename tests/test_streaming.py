"""Streaming: after every event the numbers of `apply` on the prefix, at one cost, from buffers that are reused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import D, H, T, close, each_shape, jiggle, random_xs, same

import seqjax
from seqjax.core import Hidden
from seqjax.streaming import streaming

K = 2
XS = np.asarray(random_xs(T, D))
TOKENS = [2, 0, 1, 1, 2, 0]


def build(cell, **options):
    """A network and float64 params."""
    net = seqjax.network(cell, **options)
    return net, jiggle(net.init(jax.random.key(0), D, H, K), 0, scale=0.1)


def outputs(net, params, xs, state=None):
    """Stream everything: the last state and ys [T, K]."""
    stream = streaming(net)
    state, ys = stream.start(params) if state is None else state, []
    for x in xs:
        state, y = stream.step(params, state, x)
        ys.append(y)
    return state, jnp.stack(ys)


def prefixes(net, params, xs):
    """What `apply` reads at the last step of every prefix, and its last state."""
    batch = jnp.broadcast_to(jnp.asarray(xs), (T, *np.shape(xs)))
    output = jax.jit(net.apply)(params, batch, lengths=1 + jnp.arange(T))
    every = None if output.every is None else jnp.stack([output.every[t, t] for t in range(T)])
    return jax.tree.map(lambda a: a[-1], output.body.final), every, output.last


@each_shape
def test_every_prefix_equals_apply(cell):
    """Both readouts, and the state, of three layers that add to each other."""
    options = {"layers": 3, "residual": True}
    net, params = build(cell, readout="both", **options)
    state, ys = outputs(net, params, XS)
    close((state, ys, ys), prefixes(net, params, XS), 1e-12)


@pytest.mark.parametrize("readout", ["every", "last"])
@pytest.mark.parametrize(
    "options", [{"inputs": "onehot"}, {"inputs": "embedding", "embedding": 4, "layers": 3}], ids=["onehot", "embedding"]
)
def test_tokens(options, readout):
    """One-hot and embedded, whichever steps the network reads."""
    net, params = build(seqjax.gru(), readout=readout, **options)
    _, every, last = prefixes(net, params, TOKENS)
    close(outputs(net, params, TOKENS)[1], every if readout == "every" else last, 1e-12)


def test_evaluation_has_no_noise():
    """Zoneout takes its expectation, and nothing is dropped."""
    dropout = seqjax.Dropout(between=0.5, recurrent=0.3, zoneout=0.2)
    net, params = build(seqjax.lstm(), layers=2, dropout=dropout)
    final, _, last = prefixes(net, params, XS)
    close(outputs(net, params, XS), (final, last), 1e-12)


@pytest.mark.parametrize("engine", [{"evaluator": "newton"}, {"chunk": 2}], ids=str)
def test_a_step_is_a_step_under_every_evaluator(engine):
    """The same numbers, bit by bit, from the program of the plain step."""
    net, params = build(seqjax.lstm(), layers=2)
    other, _ = build(seqjax.lstm(), layers=2, **engine)
    same(outputs(other, params, XS), outputs(net, params, XS))


def test_a_stream_goes_on_where_a_batch_ended():
    """From the final state of a prefix."""
    net, params = build(seqjax.lstm(), layers=2)
    middle = net.apply(params, XS[:3]).body.final
    close(outputs(net, params, XS[3:], middle)[0], net.apply(params, XS).body.final, 1e-12)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_narrow_params_carry_float32(dtype):
    """As in `apply`, to rounding of the inputs' dtype."""
    net, params = build(seqjax.lstm(), layers=2)
    params, xs = jax.tree.map(lambda a: a.astype(dtype), (params, XS))
    state, ys = outputs(net, params, xs)
    assert {a.dtype for a in jax.tree.leaves(state)} == {jnp.dtype("float32")}
    final, _, last = prefixes(net, params, xs)
    close((state, ys), (final, last), 1e-2)


def test_one_trace_serves_every_step():
    """And every stream of the same network, whatever kind of integer a token is."""
    traces = []

    def counted(params, state):
        traces.append(1)
        return recur(params, state)

    cell = seqjax.lstm()
    recur = cell.recur
    net, params = build(replace(cell, recur=counted), inputs="onehot")
    outputs(net, params, [0])
    first = len(traces)
    outputs(net, params, [1, np.int64(2), jnp.int32(0), np.asarray(1)])
    assert len(traces) == first
    assert streaming(net) is streaming(net)


def test_the_state_is_donated():
    """The new state takes over the old one's buffers, which are then gone; a copy goes on by itself."""
    net, params = build(seqjax.lstm(), layers=2)
    stream = streaming(net)
    state = stream.start(params)
    where = [a.unsafe_buffer_pointer() for a in jax.tree.leaves(state)]
    assert len(set(where)) == 4
    copy = jax.tree.map(jnp.copy, state)
    new, y = stream.step(params, state, XS[0])
    assert {a.unsafe_buffer_pointer() for a in jax.tree.leaves(new)} == set(where)
    with pytest.raises((RuntimeError, ValueError), match=r"donated|deleted"):
        stream.step(params, state, XS[0])
    same(stream.step(params, copy, XS[0]), (new, y))


def test_a_start_that_is_a_parameter_survives():
    """Its buffer is the params', not the stream's to give away."""
    cell = replace(seqjax.rnn(), start=lambda params: Hidden(params.b_hh))
    net, params = build(cell)
    _, ys = outputs(net, params, XS)
    close(ys, prefixes(net, params, XS)[2], 1e-12)


def test_many_streams_at_once():
    """A step can be vmapped and scanned."""
    net, params = build(seqjax.gru(), inputs="onehot")
    stream = streaming(net)
    many = jnp.array([TOKENS, TOKENS[::-1]])
    states = jax.tree.map(lambda a: jnp.stack([a, a]), stream.start(params))
    step = jax.vmap(stream.step, (None, 0, 0))
    _, ys = jax.jit(lambda states: jax.lax.scan(lambda s, x: step(params, s, x), states, many.T))(states)
    for row in range(2):
        close(ys[:, row], outputs(net, params, many[row])[1], 1e-12)


def event(x, **options):
    """One step of a fresh stream, in float32."""
    net = seqjax.network(seqjax.gru(), **options)
    params = net.init(jax.random.key(0), D, H, K)
    return streaming(net).step(params, streaming(net).start(params), x)


def other_state():
    """A step from a state that is too short."""
    net, params = build(seqjax.gru(), layers=2)
    return streaming(net).step(params, streaming(net).start(params)[:1], XS[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: streaming(seqjax.gru()), "network must be a Network"),
        (lambda: outputs(*build(seqjax.gru(), bidirectional=True), XS), "backward half"),
        (lambda: event(3, inputs="onehot"), r"token in 0\.\.2, got 3"),
        (lambda: event(-1, inputs="onehot"), r"token in 0\.\.2, got -1"),
        (lambda: event(jnp.int32(3), inputs="onehot"), r"token in 0\.\.2, got 3"),
        (lambda: event(1.0, inputs="onehot"), "one integer token"),
        (lambda: event(True, inputs="onehot"), "one integer token"),
        (lambda: event("a", inputs="onehot"), "one integer token"),
        (lambda: event([1], inputs="onehot"), "one integer token"),
        (lambda: event(XS[0, :2].astype("float32")), r"shape \[3\] in this network, got float32 of shape \[2\]"),
        (lambda: event(XS.astype("float32")), "shape"),
        (lambda: event([1, 2, 3]), "got int64"),
        (lambda: event(np.float32([1, np.nan, 2])), "NaN or infinity"),
        (lambda: event(jnp.float32([1, np.inf, 2])), "NaN or infinity"),
        (lambda: event(XS[0]), "cast x or the state"),
        (other_state, "must hold 2 states"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()
