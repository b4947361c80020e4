"""Causal convolution: the past and nothing else, by formula and by Jacobian, in batches and one event at a time."""

from functools import partial
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, noise_like, random_xs, same

import seqjax
from seqjax import conv
from seqjax.conv import Conv, Field, convolve, init_conv, measured_field, receptive_field

B, T, C, F = 3, 7, 2, 3
XS = random_xs(B, T, C)
SHAPES = [(1, 1), (2, 1), (3, 2), (2, 4), (4, 3)]  # taps and dilation; the last reaches before the first step
every_shape = pytest.mark.parametrize(("kernel", "dilation"), SHAPES)


def drawn(kernel):
    """Float64 taps and biases, none of them special."""
    return noise_like(init_conv, C, F, kernel)


def by_loop(params, xs, dilation):
    """One row, tap by tap, in NumPy."""
    W, b, xs = (np.asarray(a) for a in (params.W, params.b, xs))
    ys = np.tile(b, (len(xs), 1))
    for t in range(len(xs)):
        for j in range(W.shape[2]):
            lag = (W.shape[2] - 1 - j) * dilation
            ys[t] += W[:, :, j] @ xs[t - lag] if lag <= t else 0
    return ys


@every_shape
def test_values_causality_and_the_ring(kernel, dilation):
    """The sum over taps; a slope of exactly 0 to every later step; and the ring has every step's output in turn."""
    params = drawn(kernel)
    run = jax.jit(partial(convolve, dilation=dilation))
    ys, slopes = jax.jit(lambda p, x: (run(p, x), jax.jacrev(partial(run, p))(x)))(params, XS[0])
    close(ys, by_loop(params, XS[0], dilation), 1e-12)
    matters = (np.asarray(slopes) != 0).any((1, 3))  # [of y_t, of x_s]
    lags = np.arange(T)[:, None] - np.arange(T)[None]
    np.testing.assert_array_equal(matters, (lags >= 0) & (lags % dilation == 0) & (lags < kernel * dilation))
    ring, step = conv.start(params, dilation), jax.jit(partial(conv.step, dilation=dilation))
    for t in range(T):
        ring, y = step(params, ring, XS[0, t])
        close(y, ys[t], 1e-12)
    assert ring.held.shape == ((kernel - 1) * dilation + 1, C)


def test_padding_and_holes():
    """Junk where masked changes nothing, values and gradients; a masked step reads as zero and shows zero."""
    params, mask = drawn(3), jnp.array([[1] * 7, [1, 1, 0, 1, 1, 0, 0], [0] * 7], bool)

    @jax.jit
    def both(params, xs):
        ys = convolve(params, xs, mask=mask)
        return ys, jax.grad(lambda p, x: jnp.square(convolve(p, x, mask=mask)).sum(), (0, 1))(params, xs)

    ys, gradients = both(params, jnp.where(mask[..., None], XS, 0))
    for junk in (jnp.nan, jnp.inf, 1e9):
        same(both(params, jnp.where(mask[..., None], XS, junk)), (ys, gradients))
    zeros = jnp.where(mask[..., None], XS, 0)
    for row in range(B):
        close(ys[row], np.where(mask[row, :, None], by_loop(params, zeros[row], 1), 0), 1e-12)
    short = jax.jit(partial(convolve, lengths=jnp.array([T, 2, 0])))(params, XS)
    close(short[1, :2], ys[1, :2], 1e-12)
    assert not short[1, 2:].any()
    assert not short[2].any()


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@every_shape
def test_equal_to_pytorchs_conv1d(kernel, dilation):
    """With zeros in front, values and every gradient; taps and biases under PyTorch's names, in its layout."""
    import torch

    params = drawn(kernel)
    theirs = torch.nn.Conv1d(C, F, kernel, dilation=dilation, dtype=torch.float64)
    theirs.load_state_dict({"weight": torch.tensor(np.array(params.W)), "bias": torch.tensor(np.array(params.b))})
    x = torch.tensor(np.array(XS).transpose(0, 2, 1), requires_grad=True)
    y = theirs(torch.nn.functional.pad(x, ((kernel - 1) * dilation, 0)))
    (y**2).sum().backward()

    def loss(params, xs):
        ys = convolve(params, xs, dilation=dilation)
        return jnp.square(ys).sum(), ys

    (_, ys), (own, to_xs) = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(params, XS)
    weight, bias = theirs.parameters()
    for ours, its in ((ys, y), (to_xs, x.grad)):
        close(ours, its.detach().numpy().transpose(0, 2, 1), 1e-10)
    for ours, its in ((own.W, weight.grad), (own.b, bias.grad)):
        close(ours, its.numpy(), 1e-10)


def test_the_draw_is_pytorchs():
    """U(-1/√(C k), 1/√(C k)) for taps and biases."""
    drawn = init_conv(jax.random.key(0), 16, 100, 4)
    assert drawn.W.shape == (100, 16, 4)
    for array in drawn.W, drawn.b:
        assert 0.9 / 8 < jnp.abs(array).max() <= 1 / 8


def stack(kernel, dilations, xs):
    """Layers of taps that are all 1, without biases: ∂y/∂x counts the ways from an input to the output."""
    for dilation in dilations:
        xs = convolve(Conv(jnp.ones((1, 1, kernel)), jnp.zeros(1)), xs, dilation=dilation)
    return xs[-1]


def reached(kernel, dilations):
    """How many ways lead from the last output of a causal stack to each input, by lag."""
    ways = {0: 1}
    for dilation in dilations:
        below: dict[int, int] = {}
        for lag, count in ways.items():
            for tap in range(kernel):
                below[lag + tap * dilation] = below.get(lag + tap * dilation, 0) + count
        ways = below
    return ways


@pytest.mark.parametrize(
    ("kernel", "dilations", "size"),
    [(3, [1] * 10, 21), (2, [2**i for i in range(10)], 1024), (1, [5, 5], 1), (4, [3], 10)],
)
def test_receptive_fields(kernel, dilations, size):
    """B12: by formula, by following dependencies down, and off the Jacobian; doubling dilations reach every step in
    exactly one way."""
    ways, xs = reached(kernel, dilations), jnp.ones((size + 3, 1))
    assert receptive_field(kernel, dilations) == size == max(ways) + 1
    read = partial(stack, kernel, dilations)
    slopes = jax.jit(jax.grad(lambda xs: read(xs)[0]))(xs)[::-1, 0]
    np.testing.assert_array_equal(slopes, [ways.get(lag, 0) for lag in range(size + 3)])
    holes = tuple(lag for lag in range(size) if lag not in ways)
    assert measured_field(read, xs[None]) == Field(size, holes)
    assert holes == ((1, 2, 4, 5, 7, 8) if size == 10 else ())
    if size == 1024:
        assert set(ways.values()) == {1}


def test_a_field_of_nothing():
    """Of an output that no input moves."""
    assert measured_field(lambda xs: jnp.ones(2), XS) == Field(0, ())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: receptive_field(0, [1]), "kernel must be"),
        (lambda: receptive_field(2, []), "layers must be"),
        (lambda: receptive_field(2, [1, 0]), r"dilations\[1\] must be"),
        (lambda: receptive_field(2, 3), "dilations must be one integer a layer"),
        (lambda: convolve(drawn(2), XS, dilation=0), "dilation must be"),
        (lambda: convolve(drawn(2), XS[..., :1]), "xs must hold 2 numbers a step"),
        (lambda: convolve(drawn(2), XS, lengths=jnp.array([8, 1, 1])), r"lengths must lie in 0\.\.7"),
        (lambda: conv.start(drawn(2), 0), "dilation must be"),
        (lambda: init_conv(jax.random.key(0), C, F, 0), "kernel must be"),
        (lambda: measured_field(lambda xs: xs[-1], XS[0]), "floating-point batch"),
        (lambda: seqjax.convolve(drawn(2), jnp.zeros((B, T, C), int)), "floating point"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names what is wrong."""
    with pytest.raises(ValueError, match=message):
        call()
