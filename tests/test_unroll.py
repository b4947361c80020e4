"""The engine against a Python loop: ragged rows, masks with holes, both directions, resets, and bad input."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracle import (
    B,
    D,
    H,
    T,
    all_zero,
    both_directions,
    close,
    differentiated,
    loop,
    loss_of,
    prefix,
    random_mask,
    random_params,
    random_state,
    random_xs,
    same,
)

from seqjax import lstm, rnn, unroll

LSTM, XS, MASK = lstm(), random_xs(), random_mask()
PARAMS = random_params(LSTM)
STATE = random_state(LSTM, PARAMS, B)
RESET = ~random_mask(seed=8)
NO_RESET = jnp.zeros((B, T), bool)

few = settings(max_examples=15, deadline=None, derandomize=True, database=None)
flags = arrays(bool, (B, T))
ragged = st.lists(st.integers(0, T), min_size=B, max_size=B).map(np.array)


@both_directions
@few
@given(mask=flags, reset=flags)
def test_any_mask_and_any_reset_equal_the_loop(reverse, mask, reset):
    """Every array of the trace, from a given state."""
    options = {"mask": mask, "reset": reset, "state": STATE, "reverse": reverse}
    close(unroll(LSTM, PARAMS, XS, **options), loop(LSTM, PARAMS, XS, **options))


def test_gradients_equal_those_of_the_loop():
    """To params, inputs and state, with holes full of NaN, which the loop never looks at."""
    args = PARAMS, jnp.where(MASK[..., None], XS, jnp.nan), STATE, MASK, RESET
    _, grads = differentiated(LSTM)(*args)
    wanted, _ = jax.grad(loss_of(partial(loop, LSTM)), (0, 1, 2), has_aux=True)(*args)
    close(grads, wanted)


@few
@given(lengths=ragged)
def test_lengths_are_the_mask_of_a_prefix(lengths):
    """Bit for bit, whatever the padding holds."""
    padded = jnp.where(prefix(lengths)[..., None], XS, jnp.nan)
    trace = unroll(LSTM, PARAMS, padded, lengths=lengths)
    same(trace, unroll(LSTM, PARAMS, XS, mask=prefix(lengths)))
    np.testing.assert_array_equal(trace.mask, prefix(lengths))


def test_length_0_beside_other_lengths():
    """Its rows end where they began, given a state or not."""
    lengths = jnp.array([0, T, 0, 2])
    given_one, given_none = (unroll(LSTM, PARAMS, XS, lengths=lengths, state=state) for state in (STATE, None))
    same(*(jax.tree.map(lambda a: a[lengths == 0], state) for state in (given_one.final, STATE)))
    assert all_zero(jax.tree.map(lambda a: a[lengths == 0], given_none.final))


def test_a_reverse_run_is_a_run_of_each_reversed_prefix():
    """Whatever follows the prefix."""
    lengths = jnp.array([1, T, 3, 0])
    back = jnp.stack([jnp.concatenate([x[:n][::-1], x[n:]]) for x, n in zip(XS, lengths, strict=True)])
    reverse = unroll(LSTM, PARAMS, XS, lengths=lengths, state=STATE, reverse=True)
    forward = unroll(LSTM, PARAMS, back, lengths=lengths, state=STATE)
    close(reverse.final, forward.final)
    for ys, others, n in zip(reverse.ys, forward.ys, lengths, strict=True):
        close(ys[:n], others[:n][::-1])


@pytest.mark.parametrize("row", range(B))
def test_a_row_alone_is_that_row_in_any_batch(row):
    """Neither what the others hold nor how long they are matters."""
    options = {"mask": MASK, "state": STATE, "reset": RESET}
    others = jnp.where((jnp.arange(B) == row)[:, None, None], XS, 1e3)
    whole = unroll(LSTM, PARAMS, others, **options)
    alone = unroll(LSTM, PARAMS, XS[row : row + 1], **jax.tree.map(lambda a: a[row : row + 1], options))
    close(alone, jax.tree.map(lambda a: a[row : row + 1], whole))


@both_directions
def test_one_sequence_is_a_batch_of_one(reverse):
    """Bit for bit, for every field of the trace."""
    options = jax.tree.map(lambda a: a[0], {"mask": MASK, "state": STATE, "reset": RESET})
    one = unroll(LSTM, PARAMS, XS[0], **options, reverse=reverse)
    many = unroll(LSTM, PARAMS, XS[:1], **jax.tree.map(lambda a: a[None], options), reverse=reverse)
    same(one, jax.tree.map(lambda a: a[0], many))
    same(unroll(LSTM, PARAMS, XS[0], lengths=jnp.array(4)), unroll(LSTM, PARAMS, XS[0], mask=jnp.arange(T) < 4))


@pytest.mark.parametrize("steps", [0, T])
@pytest.mark.parametrize("batch", [(), (B,)], ids=["sequence", "batch"])
def test_layout_of_every_field(batch, steps):
    """Batch, then time, then width; T = 0 gives empty arrays and the state that came in."""
    xs, state = random_xs(*batch, steps, D), random_state(LSTM, PARAMS, *batch)
    run, every = partial(unroll, LSTM, PARAMS, xs, state=state), jnp.ones((*batch, steps), bool)
    for trace in (run(mask=every, reset=every), run(lengths=jnp.full(batch, steps), reverse=True)):
        assert trace.mask is not None
        assert trace.mask.shape == (*batch, steps)
        assert trace.us.shape == (*batch, steps, 4 * H)
        assert trace.ys.shape == (*batch, steps, H)
        assert {a.shape for a in jax.tree.leaves((trace.before, trace.after))} == {(*batch, steps, H)}
        assert {a.shape for a in jax.tree.leaves(trace.final)} == {(*batch, H)}
        if steps == 0:
            same(trace.final, state)
    assert run().mask is None
    assert run().ys.shape == (*batch, steps, H)


@both_directions
def test_no_state_is_the_start_of_the_cell(reverse):
    """Zeros, bit for bit."""
    run = partial(unroll, LSTM, PARAMS, XS, lengths=jnp.array([2, T, 0, 1]), reverse=reverse)
    same(run(), run(state=jax.tree.map(jnp.zeros_like, STATE)))


def test_a_masked_step_never_looks_at_its_state():
    """A NaN state held through masked steps until a reset, or to the end of an empty row, harms no gradient."""
    mask, reset = (~NO_RESET).at[:, :2].set(False).at[0].set(False), NO_RESET.at[:, 2].set(True)

    def loss(params, state):
        trace = unroll(LSTM, params, XS, mask=mask, state=state, reset=reset)
        return sum(a[1:].sum() for a in jax.tree.leaves((trace.ys, trace.final)))

    gradient = jax.jit(jax.grad(loss))
    close(gradient(PARAMS, jax.tree.map(lambda s: s * jnp.nan, STATE)), gradient(PARAMS, STATE))


@both_directions
def test_a_flag_on_a_masked_step_is_ignored(reverse):
    """Bit for bit; flags on valid steps are not."""
    run = partial(unroll, LSTM, PARAMS, XS, mask=MASK, state=STATE, reverse=reverse)
    same(run(reset=RESET), run(reset=RESET & MASK))
    same(run(reset=~MASK), run(reset=NO_RESET))
    assert not np.allclose(run(reset=RESET).ys, run(reset=NO_RESET).ys)


@both_directions
def test_before_is_what_entered_and_after_what_left(reverse):
    """before = after of the step scanned before, or the start where a valid step is flagged; masked, before = after."""
    trace = unroll(LSTM, PARAMS, XS, mask=MASK, state=STATE, reset=RESET, reverse=reverse)
    flagged, order = np.asarray(RESET & MASK), slice(None, None, -1 if reverse else 1)
    for field in ("h", "c"):
        before, after, first = (np.asarray(getattr(s, field)) for s in (trace.before, trace.after, STATE))
        left = np.concatenate([first[:, None], after[:, order][:, :-1]], 1)
        np.testing.assert_array_equal(before[:, order], np.where(flagged[:, order, None], 0, left))
        np.testing.assert_array_equal(before[~MASK], after[~MASK])


def test_one_row_of_flags_serves_every_row():
    """reset [T] is reset [B, T] with equal rows."""
    shared = jnp.array([False, True, False, False, True, False])
    run = partial(unroll, LSTM, PARAMS, XS, mask=MASK, state=STATE)
    same(run(reset=shared), run(reset=jnp.stack([shared] * B)))


BAD = {
    "xs of rank 1": ({"xs": XS[0, 0]}, "xs"),
    "xs of rank 4": ({"xs": XS[None]}, "xs"),
    "xs too wide": ({"xs": random_xs(B, T, D + 1)}, "xs"),
    "xs too narrow": ({"xs": random_xs(B, T, 1)}, "xs"),
    "xs of integers": ({"xs": jnp.ones((B, T, D), int)}, "xs"),
    "NaN in xs": ({"xs": XS.at[1, 2, 0].set(jnp.nan)}, "xs.*row 1, step 2"),
    "infinity in the last valid step": (
        {"xs": XS.at[1, 2].set(jnp.inf), "lengths": np.full(B, 3)},
        "xs.*row 1, step 2",
    ),
    "NaN between holes": ({"xs": XS.at[1, 2].set(jnp.nan), "mask": MASK.at[1, 2].set(True)}, "xs"),
    "negative length": ({"lengths": [1, 2, -1, 0]}, "lengths.*-1 in row 2"),
    "length above T": ({"lengths": [1, T + 1, T, 0]}, f"lengths.*{T + 1} in row 1"),
    "too few lengths": ({"lengths": [1, 2]}, "lengths"),
    "one length for a batch": ({"lengths": 3}, "lengths"),
    "lengths for one sequence": ({"xs": XS[0], "lengths": [3]}, "lengths"),
    "length above T of one sequence": ({"xs": XS[0], "lengths": T + 1}, "lengths"),
    "lengths of floats": ({"lengths": np.ones(B)}, "lengths"),
    "lengths of booleans": ({"lengths": np.ones(B, bool)}, "lengths"),
    "mask with time first": ({"mask": MASK.T}, "mask"),
    "mask of one row": ({"mask": MASK[0]}, "mask"),
    "mask of integers": ({"mask": MASK.astype(int)}, "mask"),
    "lengths and mask": ({"lengths": np.full(B, 2), "mask": MASK}, "lengths or mask"),
    "reset with time first": ({"reset": RESET.T}, "reset"),
    "reset too short": ({"reset": RESET[0, 1:]}, "reset"),
    "reset of floats": ({"reset": RESET.astype(float)}, "reset"),
    "state without a batch": ({"state": random_state(LSTM, PARAMS)}, "state"),
    "state of another batch": ({"state": random_state(LSTM, PARAMS, B - 1)}, "state"),
    "state of another size": ({"state": random_state(LSTM, random_params(LSTM, D, H + 1), B)}, "state"),
    "state of another cell": ({"state": random_state(rnn(), random_params(rnn()), B)}, "state"),
    "bare state": ({"state": STATE.h}, "state"),
    "number as a state": ({"state": 0.0}, "state"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_a_value_error_that_names_the_argument(arguments, message):
    """And says where it went wrong, where there is a place."""
    with pytest.raises(ValueError, match=rf"\b{message}\b"):
        unroll(LSTM, PARAMS, **{"xs": XS, **arguments})
