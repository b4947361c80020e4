"""Clipping that keeps the direction and is recorded, and clipping before Adam."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_gradients import TREE, at_extremes, cosine, flat

from seqjax.clipping import adam, angle, clip, clip_limits, clip_of


@jax.jit
def clipped(tree, limit):
    """What clipping leaves of a gradient; the limit is traced."""
    return clip(norm=limit).update(tree, None)[0]


@pytest.mark.parametrize("limit", [0.1, 5.0, 6.0, 1e9])
def test_clipping_keeps_the_direction_and_bounds_the_norm(limit):
    """Cosine 1 and norm min(norm, limit); below the limit nothing changes, to the bit."""
    new, norm = clipped(TREE, limit), np.linalg.norm(flat(TREE))
    assert 5 < norm < 6
    np.testing.assert_allclose(cosine(flat(new), flat(TREE)), 1, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(flat(new)), min(norm, limit), rtol=1e-14)
    if limit > norm:
        chex.assert_trees_all_equal(new, TREE)


def test_clipping_by_norm_keeps_the_angle_that_clipping_by_value_turns():
    """B28: g = (3, -0.2, 0.1) and c = 1 give cosines of 1.0 and 0.9894."""
    g = jnp.array([3.0, -0.2, 0.1])
    np.testing.assert_allclose(cosine(clipped(g, 1.0), g), 1, rtol=1e-14)
    assert round(cosine(optax.clip(1.0).update(g, optax.EmptyState())[0], g), 4) == 0.9894


@pytest.mark.parametrize("limit", [0.1, 1.0])
@at_extremes
def test_a_huge_gradient_keeps_its_direction(size, dtype, limit):
    """Instead of becoming a zero update, or passing unclipped; a tiny one is left as it is."""
    g = jnp.array([size, -0.75 * size, 0.0], dtype)
    new = clipped(g, limit)
    assert new.dtype == dtype
    wanted = min(1.25 * size, limit)
    np.testing.assert_allclose(new, wanted * np.array([0.8, -0.6, 0]), rtol=1e-6)


def test_zero_stays_zero_and_what_is_not_finite_is_not_hidden():
    """A NaN or an infinity must not come out as a finite update."""
    np.testing.assert_array_equal(clipped(jnp.zeros(3), 1.0), 0)
    for bad in (np.nan, np.inf):
        assert not np.isfinite(clipped(jnp.array([1.0, bad]), 1.0)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_clipping_keeps_dtypes(dtype):
    """Of every leaf, under a limit in another dtype too."""
    narrow = jax.tree.map(lambda a: a.astype(dtype), TREE)
    for limit in (1.0, jnp.array(1.0)):
        new = clipped(narrow, limit)
        assert {a.dtype for a in jax.tree.leaves(new)} == {jnp.dtype(dtype)}
        np.testing.assert_allclose(np.linalg.norm(flat(new)), 1, rtol=4 * float(jnp.finfo(dtype).eps))


def test_the_limit_and_the_rate_may_be_traced():
    """So that they can be axes of a sweep."""
    limits = jnp.array([0.1, 1.0, 100.0])
    many = jax.jit(jax.vmap(lambda c: clip(norm=c).update(TREE, None)[0]))(limits)
    each = [clipped(TREE, float(c)) for c in limits]
    chex.assert_trees_all_close(many, jax.tree.map(lambda *a: np.stack(a), *each), rtol=1e-14)

    @jax.jit
    def second(rate, c):
        optimizer = adam(rate, clip=c)
        _, state = optimizer.update(TREE, optimizer.init(TREE))
        return optimizer.update(jax.tree.map(lambda g: g / 10, TREE), state)[0]

    np.testing.assert_allclose(flat(second(0.1, 1.0)), by_hand([flat(TREE), flat(TREE) / 10], 0.1, 1.0)[1], rtol=1e-10)


def by_hand(gradients, rate, limit):
    """Adam's updates, written out, of gradients clipped first."""
    m, v, updates = 0.0, 0.0, []
    for t, g in enumerate(gradients, 1):
        g = g * min(1, limit / np.linalg.norm(g))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        updates.append(-rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8))
    return updates


@pytest.mark.parametrize("limit", [1.0, None])
def test_adam_sees_the_clipped_gradient(limit):
    """Clip, then Adam: the other order would leave a spike in Adam's memory."""
    gradients = [np.array([0.3, -0.4]), np.array([3e3, 4e3]), np.array([-0.1, 0.2])]
    optimizer, params = adam(0.1, clip=limit), jnp.zeros(2)
    state, got, update = optimizer.init(params), [], jax.jit(optimizer.update)
    for g in gradients:
        step, state = update(g, state)
        got.append(step)
    np.testing.assert_allclose(got, by_hand(gradients, 0.1, np.inf if limit is None else limit), rtol=1e-10)


@pytest.mark.parametrize("limit", [0, 0.0, -1.0, float("-inf"), float("nan")])
@pytest.mark.parametrize("kind", ["norm", "value"])
def test_a_limit_that_is_not_above_zero_is_refused(kind, limit):
    """With how to have none."""
    with pytest.raises(ValueError, match=f"limit {kind} of a clip must be above 0, .*no clipping"):
        clip(**{kind: limit})
    with pytest.raises(ValueError, match="must be above 0"):
        adam(1e-3, **{"clip" if kind == "norm" else "clip_value": limit})


def test_a_clip_needs_a_limit():
    """Neither is no clip."""
    with pytest.raises(ValueError, match="norm or value"):
        clip()


@jax.jit
def record(tree, norm, value):
    """(what is left, the share of entries changed, the angle)."""
    after, (share, turned) = clip(norm=norm, value=value).update(tree, None)
    return after, share, turned


def test_what_a_clip_did_is_recorded():
    """By value: one of three entries, and the angle of B28, whose cosine is 0.9894; by norm: every entry, and none."""
    g = jnp.array([3.0, -0.2, 0.1])
    by_value, share, turned = record(g, 100.0, 1.0)
    np.testing.assert_allclose(by_value, [1, -0.2, 0.1])
    np.testing.assert_allclose((share, turned), (1 / 3, np.degrees(np.arccos(cosine(by_value, g)))), rtol=1e-6)
    assert round(float(np.cos(np.radians(turned))), 4) == 0.9894
    _, (share, turned) = clip(norm=1.0).update(g, None)
    assert (share, turned) == (1, 0)
    _, (share, turned) = clip(norm=100.0).update(g, None)
    assert (share, turned) == (0, 0)
    both, share, _ = record(g, 0.5, 1.0)
    np.testing.assert_allclose(both, 0.5 * np.array([1, -0.2, 0.1]) / np.sqrt(1.05))
    assert share == 1


@at_extremes
def test_angles_at_the_ends_of_the_number_line(size, dtype):
    """Of a gradient that no square can hold; of zero there is none."""
    g = jnp.array([size, size, 0.0], dtype)
    np.testing.assert_allclose(angle(g, jnp.array([1.0, 0.0, 0.0], dtype)), 45, rtol=1e-5)
    assert angle(g, g) == angle(g, jnp.zeros(3, dtype)) == 0
    np.testing.assert_allclose(angle(g, g * (1 + jnp.array([1e-3, 0, 0], dtype))), 0.0286, rtol=2e-2)


def test_the_record_is_found_in_a_chain():
    """Wherever the clip stands; without one there is NaN."""
    chain = optax.chain(optax.add_decayed_weights(1e-3), optax.chain(clip(value=1.0), optax.adam(1e-3)))
    state = chain.update(TREE, chain.init(TREE), TREE)[1]
    np.testing.assert_allclose(clip_of(state).share, 5 / 8)
    assert np.isnan(clip_of(optax.adam(1e-3).init(TREE))).all()


def test_limits_read_off_a_run():
    """A percentile, and the average with its half and ten times (Pascanu et al. 2013); failed updates do not count."""
    norms = np.array([[1.0, 2.0, 3.0, 4.0], [10.0, np.nan, np.nan, np.inf]])
    assert clip_limits(norms, percentile=50) == (3.0, 4.0, 2.0, 40.0)
    with pytest.raises(ValueError, match=r"percentile must lie in 0\.\.100"):
        clip_limits(norms, percentile=101)
    with pytest.raises(ValueError, match="at least one finite norm"):
        clip_limits([np.nan])
