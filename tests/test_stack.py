"""Stacks against the Python loop composed by hand: depth, both directions, ragged rows, resets."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from oracle import (
    B,
    D,
    H,
    T,
    close,
    generic,
    jiggle,
    loop,
    prefix,
    random_mask,
    random_params,
    random_state,
    random_xs,
    same,
    stacked,
)

from seqjax import Recipe, gradient_profile, gru, init_stack, lstm, network, rnn, tasks, train, unroll_stack

LSTM, XS, MASK = lstm(), random_xs(), random_mask()
RESET = random_mask(seed=1)
both_kinds = pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
few = settings(max_examples=10, deadline=None, derandomize=True, database=None)
flags = arrays(bool, (B, T))


def random_stack(cell=LSTM, layers=2, bidirectional=True):
    """Float64 params of a stack."""
    return jiggle(init_stack(jax.random.key(0), cell, D, H, layers=layers, bidirectional=bidirectional), 0)


def random_states(params, cell=LSTM):
    """A state per layer and direction."""
    halves = [half for layer in params for half, _ in layer.halves()]
    return tuple(random_state(cell, half, B, seed=seed) for seed, half in enumerate(halves))


def by_hand(cell, params, xs, *, mask=None, state=None):
    """The loop, layer by layer: (ys, traces), forward before backward."""
    traces = []
    for layer in params:
        ys = []
        for half, reverse in ((layer.forward, False), (layer.backward, True)):
            if half is not None:
                own = None if state is None else state[len(traces)]
                traces.append(loop(cell, half, xs, mask=mask, state=own, reverse=reverse))
                ys.append(traces[-1].ys)
        xs = jnp.concatenate(ys, -1)
    return xs, tuple(traces)


@pytest.mark.parametrize("cell", [lstm(), gru()], ids=["lstm", "gru"])
@both_kinds
def test_a_stack_is_its_layers_composed(cell, bidirectional):
    """Three layers, from given states, with holes full of NaN: outputs, final states and every trace."""
    params = random_stack(cell, 3, bidirectional)
    states = random_states(params, cell)
    stack = unroll_stack(cell, params, jnp.where(MASK[..., None], XS, jnp.nan), mask=MASK, state=states)
    ys, traces = by_hand(cell, params, XS, mask=MASK, state=states)
    close((stack.ys, stack.traces, stack.final), (ys, traces, tuple(trace.final for trace in traces)))


def test_gradients_of_every_layer_equal_those_of_the_loop():
    """To params, inputs and states, lower layers included."""
    cell, mask = rnn(), MASK[:2, :4]
    params = random_stack(cell)

    def fast(params, xs, states):
        stack = unroll_stack(cell, params, xs, mask=mask, state=states)
        return generic((stack.ys, stack.final))

    def slow(params, xs, states):
        ys, traces = by_hand(cell, params, xs, mask=mask, state=states)
        return generic((ys, tuple(trace.final for trace in traces)))

    args = params, XS[:2, :4], jax.tree.map(lambda a: a[:2], random_states(params, cell))
    close(jax.jit(jax.grad(fast, (0, 1, 2)))(*args), jax.grad(slow, (0, 1, 2))(*args))


def test_states_come_in_the_order_l0f_l0b_l1f_l1b():
    """Forward at each row's last step, backward at its first; outputs are [forward; backward] of the top layer."""
    params, lengths = random_stack(), jnp.array([1, T, 4, 2])
    stack = unroll_stack(LSTM, params, XS, lengths=lengths)
    last, first = np.arange(B), np.zeros(B, int)
    for n, (state, trace) in enumerate(zip(stack.final, stack.traces, strict=True)):
        close(state, jax.tree.map(lambda a, n=n: a[last, first if n % 2 else lengths - 1], trace.after))
    same(stack.ys, jnp.concatenate([stack.traces[2].ys, stack.traces[3].ys], -1))
    same(stack.ys, jnp.where(prefix(lengths)[..., None], jnp.concatenate([t.after.h for t in stack.traces[2:]], -1), 0))
    lower = jnp.concatenate([stack.traces[0].ys, stack.traces[1].ys], -1)
    close(stack.traces[3].us, lower @ params[1].backward.W_ih.T + bias(params[1].backward))


def bias(half):
    """The bias of a half's projected inputs [1, 1, G*H]."""
    return half.b_ih[None, None]


@both_kinds
@few
@given(mask=flags, reset=flags)
def test_resets_are_separate_runs_of_the_segments(bidirectional, mask, reset):
    """In both directions and every layer, whatever the mask: nothing crosses a flagged valid step."""
    params = random_stack(bidirectional=bidirectional)
    stack = unroll_stack(LSTM, params, XS, mask=mask, reset=reset)
    ys, final = stacked([segments_by_hand(params, *row, bidirectional) for row in zip(XS, mask, reset, strict=True)])
    close((stack.ys, stack.final), (ys, final))


def segments_by_hand(params, xs, mask, reset, bidirectional):
    """One row, cut before every flagged valid step: outputs joined, and the final states of the ends that count."""
    cuts = [0, *(t for t in range(1, T) if mask[t] and reset[t]), T]
    parts = [slice(*ends) for ends in pairwise(cuts)]
    runs = [by_hand(LSTM, params, xs[None, part], mask=mask[None, part]) for part in parts]
    alive = [traces for (_, traces), part in zip(runs, parts, strict=True) if mask[part].any()] or [runs[0][1]]
    halves = range(len(alive[0]))
    ends = [alive[0] if bidirectional and n % 2 else alive[-1] for n in halves]  # a backward half ends in the first
    final = tuple(jax.tree.map(lambda a: a[0], ends[n][n].final) for n in halves)
    return jnp.concatenate([ys[0] for ys, _ in runs]), final


@both_kinds
def test_ragged_rows_are_the_rows_alone(bidirectional):
    """Every row of a ragged batch, padded with NaN, is the row cut at its length."""
    params, lengths = random_stack(bidirectional=bidirectional), jnp.array([0, T, 3, 1])
    padded = jnp.where(prefix(lengths)[..., None], XS, jnp.nan)
    stack = unroll_stack(LSTM, params, padded, lengths=lengths)
    for b, n in enumerate(lengths):
        if n == 0:
            assert all((a[b] == 0).all() for a in jax.tree.leaves((stack.ys, stack.final)))
            continue
        ys, traces = by_hand(LSTM, params, XS[b : b + 1, :n])
        wanted = jax.tree.map(lambda a: a[0], (ys, tuple(trace.final for trace in traces)))
        close((stack.ys[b, :n], jax.tree.map(lambda a, b=b: a[b], stack.final)), wanted)
        assert (stack.ys[b, n:] == 0).all()


def test_one_sequence_is_a_batch_of_one_and_no_steps_give_no_outputs():
    """Layouts: ys [T, 2H], states [H]; T = 0 hands the states on."""
    params = random_stack()
    one = unroll_stack(LSTM, params, XS[0], mask=MASK[0], reset=~MASK[1])
    same(one, jax.tree.map(lambda a: a[0], unroll_stack(LSTM, params, XS[:1], mask=MASK[:1], reset=~MASK[1:2])))
    assert one.ys.shape == (T, 2 * H)
    states = random_states(params)
    for flagged in (None, MASK[:, :0]):
        none = unroll_stack(LSTM, params, XS[:, :0], state=states, mask=flagged, reset=flagged)
        assert none.ys.shape == (B, 0, 2 * H)
        same(none.final, states)


def test_a_forward_stack_goes_on_from_its_final_states():
    """Chunks equal the whole."""
    params = random_stack(bidirectional=False)
    run = partial(unroll_stack, LSTM, params)
    whole = run(XS, mask=MASK)
    first = run(XS[:, :3], mask=MASK[:, :3])
    second = run(XS[:, 3:], mask=MASK[:, 3:], state=first.final)
    close((jnp.concatenate([first.ys, second.ys], 1), second.final), (whole.ys, whole.final))


def test_init_stack_draws_every_half_anew_and_widens_above_the_first():
    """D numbers in, then H or 2H; ValueError for no layers."""
    for bidirectional in (False, True):
        params = init_stack(jax.random.key(1), LSTM, D, H, layers=3, bidirectional=bidirectional)
        halves = [half for layer in params for half, _ in layer.halves()]
        above = 2 * H if bidirectional else H
        assert [layer.forward.W_ih.shape[1] for layer in params] == [D, above, above]
        assert len({float(half.W_hh[0, 0]) for half in halves}) == 3 * (1 + bidirectional)
    with pytest.raises(ValueError, match="layers must be"):
        init_stack(jax.random.key(1), LSTM, D, H, layers=0)


def test_inputs_of_another_width_are_refused():
    """The first layer says how many numbers it reads."""
    with pytest.raises(ValueError, match="xs"):
        unroll_stack(LSTM, random_stack(), random_xs(B, T, D + 1))


def test_states_that_do_not_fit_are_refused():
    """One per layer and direction, each of the shape of its half."""
    params = random_stack()
    states = random_states(params)
    for wrong in (states[:3], (*states, states[0]), ()):
        with pytest.raises(ValueError, match=f"state must hold 4 states.*got {len(wrong)}"):
            unroll_stack(LSTM, params, XS, state=wrong)
    with pytest.raises(ValueError, match="state"):
        unroll_stack(LSTM, params, XS, state=(*states[:3], jax.tree.map(lambda a: a[:, 1:], states[3])))
    with pytest.raises(ValueError, match="state"):
        unroll_stack(LSTM, params, XS, state=(*states[:3], states[3].h))


@pytest.mark.parametrize("engine", [{"evaluator": "scan"}, {"evaluator": "newton"}, {"chunk": 2}], ids=str)
def test_the_way_the_steps_are_taken_changes_rounding_alone(engine):
    """Of two layers in both directions, with holes and resets: outputs, states, gradients of params and inputs."""
    params, states = random_stack(), random_states(random_stack())

    @partial(jax.jit, static_argnames=("evaluator", "chunk"))
    def run(params, xs, **engine):
        def loss(params, xs):
            stack = unroll_stack(LSTM, params, xs, mask=MASK, reset=RESET, state=states, **engine)
            return generic((stack.ys, stack.final)), (stack.ys, stack.final)

        return jax.grad(loss, (0, 1), has_aux=True)(params, xs)

    close(run(params, XS, **engine), run(params, XS), 1e-10)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"evaluator": "fast"}, "evaluator must be one of"),
        ({"evaluator": "associative"}, "needs a cell with coefficients"),
        ({"chunk": 0}, "chunk must be"),
        ({"evaluator": "newton", "chunk": 2}, "chunk cuts a scan"),
    ],
    ids=str,
)
def test_bad_ways_to_take_the_steps_are_refused(engine, message):
    """As by `unroll`."""
    with pytest.raises(ValueError, match=message):
        unroll_stack(LSTM, random_stack(), XS, **engine)


@both_kinds
def test_a_residual_stack_adds_what_each_layer_reads(bidirectional):
    """From the second layer up: outputs by hand, zero where masked, and what `network` reads at each last step."""
    params = random_stack(LSTM, 3, bidirectional)
    xs, finals = XS, []
    for depth, layer in enumerate(params):
        ys, traces = by_hand(LSTM, (layer,), xs, mask=MASK)
        xs = ys + xs if depth else ys
        finals.append(jnp.concatenate([trace.final.h for trace in traces], -1))
    close(unroll_stack(LSTM, params, XS, mask=MASK, residual=True).ys, xs)
    net = network(LSTM, layers=3, bidirectional=bidirectional, residual=True)
    whole = replace(net.init(jax.random.key(1), D, H, 2), body=params)
    close(net.apply(whole, XS, mask=MASK).last, sum(finals) @ whole.head.W.T + jnp.tile(whole.head.b, (B, 1)), 1e-6)


def test_the_downward_jacobian_of_a_residual_layer_is_the_identity_plus_its_own():
    """dys/dxs = I + J at every pair of steps, J being the layer's own Jacobian."""
    cell, layers = gru(), random_stack(gru(), 2, False)
    upper = replace(layers[1], forward=random_params(cell, H, H))
    own = jax.jacrev(lambda xs: unroll_stack(cell, (upper,), xs).ys)
    xs = random_xs(T, D)
    read = unroll_stack(cell, layers[:1], xs).ys

    def above(nudge):  # through a first layer whose output is moved by `nudge`
        shown = unroll_stack(cell, layers[:1], xs).ys + nudge
        return unroll_stack(cell, (upper,), shown).ys + shown

    whole = unroll_stack(cell, (layers[0], upper), xs, residual=True).ys
    close(whole, above(jnp.zeros((T, H))))
    identity = jnp.eye(T * H).reshape(T, H, T, H)
    close(jax.jacrev(above)(jnp.zeros((T, H))), identity + own(read))


def test_eight_residual_lstm_layers_pass_gradients_where_eight_plain_ones_lose_them():
    """And train: thirty updates without a failure, the loss falling."""
    task = tasks.recall(length=6)
    batch, norms = task.held_out(jax.random.key(1), 50), {}
    for residual in (False, True):
        net = network(LSTM, inputs="onehot", layers=8, residual=residual)
        params = net.init(jax.random.key(2), task.D, 8, task.K)
        profile = jax.jit(lambda p, net=net: gradient_profile(net, p, batch.xs, batch.targets))(params)
        norms[residual] = np.nanmean(profile.whole, axis=(1, 2))
    state, history = jax.jit(lambda key: train(key, Recipe(net, task, 8, updates=30)))(jax.random.key(0))
    assert state.failed_at == -1
    assert np.isfinite(history.loss).all()
    assert history.loss[-5:].mean() < history.loss[:5].mean()
    assert norms[False][0] < norms[False][-1] / 100
    assert norms[True][0] > norms[True][-1] / 10
