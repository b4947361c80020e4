"""Training: one pure function of a key, equal to an explicit loop; failed runs are frozen and touch no other."""

from dataclasses import replace
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import seqjax
from seqjax.losses import cross_entropy
from seqjax.plan import Plan, plan_for, spread
from seqjax.sweep import gather, grid, run_many, seed_keys
from seqjax.tasks import Batch
from seqjax.train import CAUSES, advance, begin, judge, purposes

TASK = seqjax.tasks.recall(length=4, alphabet=3)
NET = seqjax.network(seqjax.rnn(), inputs="onehot")
RECIPE = seqjax.Recipe(NET, TASK, hidden=5, updates=7, batch=6)


def by_rate(hyper):
    """An optimiser of a swept learning rate."""
    return seqjax.adam(hyper["learning_rate"], clip=1.0)


SWEPT = replace(RECIPE, optimizer=by_rate)


@cache
def trained(recipe, seed=0, **hyper):
    """One compiled run alone."""
    return jax.jit(lambda key: seqjax.train(key, recipe, **hyper))(seed_keys([seed])[1][0])


def at(tree, i):
    """Run i of many."""
    return jax.tree.map(lambda a: a[i], tree)


def explicit_loop(recipe, key, optimizer):
    """The same training written out: init, draw, gradient, update."""
    start, _, data, _ = jax.random.split(key, 4)
    params = recipe.network.init(start, recipe.task.D, recipe.hidden, recipe.task.K)

    @jax.jit
    def step(params, opt_state, batch):
        loss = lambda p: cross_entropy(recipe.network.apply(p, batch.xs).last, batch.targets)  # noqa: E731
        value, grads = jax.value_and_grad(loss)(params)
        steps, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, steps), opt_state, value

    opt_state, losses = optimizer.init(params), []
    for update in range(recipe.updates):
        params, opt_state, loss = step(params, opt_state, recipe.task.draw(data, update, recipe.batch))
        losses.append(loss)
    return params, jnp.array(losses)


def test_train_equals_an_explicit_loop():
    """Params and losses, to rounding."""
    state, history = trained(RECIPE)
    params, losses = explicit_loop(RECIPE, seed_keys([0])[1][0], optax.adam(3e-3))
    chex.assert_trees_all_close(state.params, params, atol=1e-6)
    chex.assert_trees_all_close(history.loss, losses, atol=1e-6)
    assert (state.step, state.failed_at, state.cause) == (7, -1, 0)


def test_training_learns():
    """Recall of one of three symbols over four steps is solved in 150 updates."""
    recipe = replace(RECIPE, updates=150, batch=32, hidden=16, optimizer=seqjax.adam(1e-2))
    state, _ = trained(recipe)
    assert seqjax.evaluate(recipe, state.params, jax.random.key(1), examples=500) > 0.99


@pytest.mark.parametrize("plan", [Plan(devices=2, together=2), Plan(workers=2), Plan(together=2, shards=2)], ids=str)
def test_plans_and_solo_runs_agree(plan):
    """Seed i of a sweep equals seed i alone, whatever the plan and its remainder."""
    states, history = seqjax.train_many(RECIPE, seed_keys(3)[1], plan=plan)
    for seed in range(3):
        alone, lone_history = trained(RECIPE, seed)
        chex.assert_trees_all_close(
            (at(states.params, seed), at(history, seed)), (alone.params, lone_history), atol=1e-6
        )


def test_chunking_never_changes_a_result():
    """Seven updates, two at a time."""
    states = jax.vmap(lambda k: begin(RECIPE, k, {}))(seed_keys(1)[1])
    advance_ = cache(lambda n: jax.jit(jax.vmap(lambda s, h: advance(RECIPE, n, s, h))))
    seen = []
    look = lambda done, _, parts: seen.append((done, len(parts)))  # noqa: E731
    states, history = run_many(states, advance_, {}, updates=7, chunk=2, watch=[look])
    chex.assert_trees_all_close(
        (at(states.params, 0), at(history, 0)), (trained(RECIPE)[0].params, trained(RECIPE)[1]), atol=1e-6
    )
    assert seen == [(2, 1), (4, 2), (6, 3), (7, 4)]


def test_states_are_gone_on_from(tmp_path):
    """Three updates and then four are seven; another task takes over, and a checkpoint knows from where."""
    keys, first = seed_keys(2)[1], replace(RECIPE, updates=3)
    states, _ = seqjax.train_many(first, keys)
    states, _ = seqjax.train_many(replace(RECIPE, updates=4), keys, states=states)
    for seed in range(2):
        chex.assert_trees_all_close(at(states.params, seed), trained(RECIPE, seed)[0].params, atol=1e-6)
    longer, at_ = replace(first, task=seqjax.tasks.recall(length=6, alphabet=3)), seqjax.Checkpoints(tmp_path)
    on, _ = seqjax.train_many(longer, keys, states=states, checkpoints=at_)
    assert on.step.tolist() == [10, 10]
    with pytest.raises(ValueError, match="updates_before"):
        seqjax.train_many(longer, keys, checkpoints=at_)
    with pytest.raises(ValueError, match=r"states holds .* as params.body.0.forward.W_ih"):
        seqjax.train_many(replace(first, hidden=4), keys, states=states)


def poisoned(update):
    """Recall whose loss is NaN at one update and right at every other."""

    def draw(key, step, batch):
        good = TASK.draw(key, step, batch)
        return Batch(good.xs, jnp.where(step == update, jnp.iinfo(jnp.int32).max, good.targets))

    return replace(TASK, draw=draw, loss=lambda p, t, m: cross_entropy(p, t, m) * jnp.where(t.max() > 3, jnp.nan, 1.0))


def test_a_failed_run_is_frozen_at_its_last_finite_params():
    """Step and cause are recorded; params are those before the bad update; history is NaN ever after."""
    recipe = replace(RECIPE, task=poisoned(3))
    state, history = trained(recipe)
    before, _ = trained(replace(RECIPE, updates=3))
    chex.assert_trees_all_close(state.params, before.params, atol=1e-7)
    assert (int(state.failed_at), CAUSES[int(state.cause)]) == (3, "loss")
    assert np.isfinite(history.loss[:3]).all()
    assert np.isnan(history.loss[3:]).all()


@pytest.mark.parametrize(("rate", "cause"), [(3e38, "loss"), (np.inf, "params")])
def test_divergence_is_isolated(rate, cause):
    """One exploding learning rate of three: its run is reported with its cause, the others equal their solo runs."""
    rates = {"learning_rate": jnp.array([3e-3, rate, 3e-3])}
    states, _ = seqjax.train_many(SWEPT, seed_keys(3)[1], rates)
    assert [failed >= 0 for failed in states.failed_at.tolist()] == [False, True, False]
    assert CAUSES[int(states.cause[1])] == cause
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(states.params))
    for i in (0, 2):
        chex.assert_trees_all_close(at(states.params, i), trained(SWEPT, i, learning_rate=3e-3)[0].params, atol=1e-6)


def test_edit_makes_an_initial_bias_an_axis():
    """A traced forget bias reaches the params through the recipe's edit."""

    def edit(key, params, hyper):
        layer = seqjax.init.ForgetBias(hyper["forget_bias"])(key, seqjax.lstm(), params.body[0].forward)
        return replace(params, body=(replace(params.body[0], forward=layer),))

    recipe = replace(RECIPE, network=seqjax.network(seqjax.lstm(), inputs="onehot"), edit=edit)
    _, keys = seed_keys(2)
    states = seqjax.begin_many(recipe, keys, {"forget_bias": jnp.array([0.5, 5.0])})
    p = states.params.body[0].forward
    chex.assert_trees_all_close((p.b_ih + p.b_hh)[:, 5:10], jnp.broadcast_to(jnp.array([[0.5], [5.0]]), (2, 5)))


def test_sweep_labels_every_axis():
    """Static axes lead, dynamic ones follow, then seeds; each entry is the run it says."""

    def make(length):
        return replace(SWEPT, task=seqjax.tasks.recall(length=length, alphabet=3))

    found = seqjax.sweep(
        make, static={"length": [2, 3]}, dynamic={"learning_rate": [1e-3, 1e-2]}, seeds=[4, 7], examples=50
    )
    assert dict(found.sizes) == {"length": 2, "learning_rate": 2, "seed": 2, "update": 7}
    assert found.seed.values.tolist() == [4, 7]
    _, history = trained(make(3), 7, learning_rate=1e-2)
    np.testing.assert_allclose(found.loss.sel(length=3, learning_rate=1e-2, seed=7), history.loss, atol=1e-6)
    assert (found.failed_at == -1).all()
    assert ((found.score >= 0) & (found.score <= 1)).all()


def test_a_failed_seed_scores_nan():
    """So that no table counts it as a success."""
    found = seqjax.sweep_recipe(replace(RECIPE, task=poisoned(2)), seeds=2, examples=50)
    assert np.isnan(found.score).all()
    assert found.failed_at.values.tolist() == [2, 2]
    assert found.cause.values.tolist() == ["loss", "loss"]


def test_a_second_sweep_compiles_nothing():
    """One trace per recipe, plan and chunk."""
    traces = []

    def counted(hyper):
        traces.append(1)
        return seqjax.adam(3e-3)

    recipe = replace(RECIPE, optimizer=counted)
    seqjax.sweep_recipe(recipe, seeds=2, examples=20)
    first = len(traces)
    seqjax.sweep_recipe(recipe, seeds=[5, 6], examples=20)
    assert len(traces) == first


def test_spread_and_grid():
    """`spread` is vmap for every plan; `grid` lists combinations with the keys fastest."""
    x = jnp.arange(5.0)
    for plan in (Plan(), Plan(1, 3), Plan(2, 1), Plan(2, 2)):
        chex.assert_trees_all_close(jax.jit(spread(lambda a, b: {"y": a * b}, plan))(x, x), {"y": x * x})
    keys, hyper = grid(seed_keys(2)[1], {"a": [1.0, 2.0], "b": [3.0]})
    assert len(keys) == 4
    assert [hyper["a"].tolist(), hyper["b"].tolist()] == [[1, 1, 2, 2], [3, 3, 3, 3]]
    assert plan_for(5) == Plan(devices=2, together=1)


def test_gather_keeps_order_and_types():
    """Strings in the order given, integers as integers."""
    import xarray as xr

    parts = [xr.Dataset({"n": ("seed", [i, i + 1])}, {"seed": [0, 1]}) for i in (0, 10, 20, 30)]
    found = gather(parts, {"cell": ("rnn", "gru"), "length": (50, 5)})
    assert found.n.sel(cell="gru", length=50).values.tolist() == [20, 21]
    assert found.n.dtype == int
    assert found.cell.values.tolist() == ["rnn", "gru"]


def test_every_seed_tests_on_data_of_its_own():
    """No two purposes of a run's key share a key, and no two runs."""
    keys = np.concatenate([jax.random.key_data(purposes(key)) for key in seed_keys(5)[1]])
    assert len(np.unique(keys, axis=0)) == 20


def test_an_overflowing_optimizer_is_a_failure():
    """Adam's squared gradients overflow long before the gradient does, and would freeze the params silently."""
    huge = replace(TASK, loss=lambda p, t, m: 1e25 * cross_entropy(p, t, m))
    state, _ = trained(replace(RECIPE, task=huge, updates=2))
    assert (int(state.failed_at), CAUSES[int(state.cause)]) == (0, "optimizer")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: seqjax.train_many(SWEPT, seed_keys(3)[1], {"learning_rate": jnp.array([1e-3, 1e-2])}),
            "one number per key",
        ),
        (lambda: seqjax.begin_many(RECIPE, jax.random.split(jax.random.key(0, impl="rbg"), 2)), "threefry"),
        (lambda: seqjax.sweep_recipe(RECIPE, seeds=[0, 2**32]), "seeds"),
        (lambda: seqjax.sweep_recipe(RECIPE, seeds=[0.5]), "seeds"),
        (lambda: seqjax.sweep_recipe(SWEPT, axes={"learning_rate": []}), "at least one value"),
        (lambda: seqjax.sweep_recipe(SWEPT, axes={"learning_rate": [1e-3, 1e-3]}), "each once"),
        (lambda: seqjax.sweep_recipe(SWEPT, axes={"seed": [1.0]}), "'seed'"),
        (lambda: seqjax.sweep_recipe(RECIPE, examples=0), "examples"),
        (
            lambda: seqjax.sweep(lambda updates: replace(RECIPE, updates=updates), static={"updates": [2, 3]}),
            "same number",
        ),
        (lambda: Plan(devices=3), "devices"),
        (lambda: Plan(together=0), "together"),
        (lambda: Plan(workers=1.5), "workers"),
        (lambda: Plan(devices=2, workers=2), "devices or over workers"),
        (lambda: seqjax.train_many(RECIPE, jax.random.split(jax.random.key(0, impl="rbg"), 2)), "threefry"),
        (lambda: seqjax.sweep_recipe(RECIPE, seeds=0), "seeds"),
        (lambda: seqjax.sweep_recipe(RECIPE, seeds=[1, 1]), "seeds"),
        (lambda: replace(RECIPE, hidden=0), "hidden"),
        (lambda: replace(RECIPE, updates=1.5), "updates"),
        (lambda: replace(RECIPE, network=seqjax.network(seqjax.rnn())), "inputs='onehot'"),
        (lambda: replace(RECIPE, network=seqjax.network(seqjax.rnn(), inputs="onehot", readout="every")), "readout"),
        (lambda: seqjax.adam(1e-3, clip=0.0), "must be above 0"),
        (lambda: seqjax.clip(norm=jnp.float32(-1)), "must be above 0"),
        (lambda: seqjax.train(jax.random.key(0), RECIPE, learning_rate=1e-2), "'learning_rate' is read by neither"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names the argument."""
    with pytest.raises(ValueError, match=message):
        call()


def test_a_penalty_is_added_to_what_is_gone_down_on_and_to_nothing_else():
    """Weight decay by hand: its gradient is 2 w θ; the recorded loss is the task's alone."""

    def decay(recipe, params, batch, hyper):
        return hyper["weight"] * sum((a**2).sum() for a in jax.tree.leaves(params))

    plain = replace(RECIPE, optimizer=optax.sgd(0.1), updates=1)
    (got, history), (want, wanted) = trained(replace(plain, penalty=decay), weight=0.5), trained(plain)
    before = begin(plain, seed_keys([0])[1][0], {}).params
    chex.assert_trees_all_close(got.params, jax.tree.map(lambda a, b: a - 0.1 * b, want.params, before), atol=1e-6)
    chex.assert_trees_all_close(history.loss, wanted.loss)
    with pytest.raises(ValueError, match="read by neither"):
        trained(plain, weight=0.5)


@pytest.mark.parametrize("readout", ["every", "last"])
def test_where_answers_count_and_where_the_state_starts_anew(readout):
    """A batch's `scored` steps make the loss, and after a reset a row goes on as one that starts there."""
    task = replace(TASK, readout=readout, loss=cross_entropy)
    recipe = replace(RECIPE, network=seqjax.network(seqjax.gru(), inputs="onehot", readout=readout), task=task)
    params = recipe.network.init(jax.random.key(0), 3, 5, 3)
    xs, late = jax.random.randint(jax.random.key(1), (4, 6), 0, 3), jnp.broadcast_to(jnp.arange(6) >= 3, (4, 6))
    targets = xs if readout == "every" else xs[:, 0]
    flags = jnp.broadcast_to(jnp.arange(6) == 3, (4, 6))
    scored = late if readout == "every" else None
    got = judge(recipe, params, Batch(xs, targets, scored=scored, reset=flags), cross_entropy)
    want = judge(recipe, params, Batch(xs[:, 3:], targets[:, 3:] if readout == "every" else targets), cross_entropy)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    cut = Batch(xs, targets, jnp.array([6, 6, 6, 6]), scored, flags)
    np.testing.assert_allclose(judge(recipe, params, cut, cross_entropy), want, rtol=1e-6)
