"""One run's batch over many devices: the same numbers, each device at work on its share, gradients summed once."""

import re
from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import pytest

import seqjax
from seqjax.plan import Plan
from seqjax.sweep import seed_keys
from seqjax.tasks import Batch
from seqjax.train import programs

B, T = 14, 5  # a half of 14 is no other size here


def draw(key, step, batch):
    """Ragged sequences, answered at every step but some, and begun afresh at some."""
    keys = jax.random.split(jax.random.fold_in(key, step), 5)
    xs, targets = jax.random.normal(keys[0], (batch, T, 2)), jax.random.randint(keys[1], (batch, T), 0, 3)
    scored, reset = (jax.random.bernoulli(k, 0.5, (batch, T)) for k in keys[2:4])
    return Batch(xs, targets, jax.random.randint(keys[4], (batch,), 0, T + 1), scored, reset)


def farthest(recipe, params, batch, *, hyper):
    """A penalty that is no mean over the batch: the largest entry of the trace, and of the inputs."""
    trace = recipe.network.forward(params, jnp.moveaxis(batch.xs, 0, -1)).body.ys
    return jnp.abs(trace).max() * batch.xs.max()


TASK = replace(seqjax.tasks.parity(length=T), draw=draw, held_out=lambda key, n: draw(key, 0, n), D=2, K=3)
NET = seqjax.network(seqjax.gru(reset_after=False), readout="every", bidirectional=True)
RECIPE = seqjax.Recipe(NET, replace(TASK, inputs="vector", readout="every"), 4, updates=3, batch=B, penalty=farthest)


@pytest.fixture(scope="module")
def split():
    """The states and the history of two runs whose batches are split, and the program that made them."""
    begin, advance, _ = programs(RECIPE, Plan(shards=2))
    states = begin(seed_keys(2)[1], {})
    program = advance(RECIPE.updates).lower(states, {}).compile()
    return *program(states, {}), program.as_text()


def test_a_split_run_is_the_run_alone(split):
    """Ragged and bidirectional, with scored steps, resets and a penalty: params and every number of the history."""
    alone = jax.jit(lambda key: seqjax.train(key, RECIPE))
    for i, key in enumerate(seed_keys(2)[1]):
        got, history = jax.tree.map(lambda a, i=i: a[i], split[:2])
        state, want = alone(key)
        chex.assert_trees_all_close((got.params, history), (state.params, want), atol=1e-7)


def test_each_device_works_on_its_share(split):
    """No state, gate or prediction is there for the whole batch."""
    shapes = [dims.split(",") for dims in re.findall(r"f64\[([\d,]+)\]", split[2])]
    assert any(str(B // 2) in shape for shape in shapes)
    assert not any(str(B) in shape for shape in shapes)


def test_gradients_are_summed_once_an_update(split):
    """One sum over devices of anything but single numbers, and none inside the scan over time."""
    moves = re.findall(r"= (.+) (all-\w+|reduce-scatter|collective-\w+)\(.*op_name=\"([^\"]*)\"", split[2])
    assert [kind for shapes, kind, _ in moves if re.search(r"\[\d", shapes)] == ["all-reduce"]
    assert {name.count("while/body") for _, _, name in moves} == {2}  # of the runs, and of their updates


@pytest.mark.parametrize("examples", [6, 7])
def test_a_score_is_that_of_all_examples(examples):
    """Whether or not they divide among the devices."""
    keys = seed_keys(2)[1]
    params = jax.vmap(lambda key: NET.init(key, 2, 4, 3))(keys)
    got, want = (programs(RECIPE, plan)[2](examples)(params, keys) for plan in (Plan(shards=2), Plan()))
    chex.assert_trees_all_close(got, want, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: seqjax.begin_many(replace(RECIPE, batch=7), seed_keys(2)[1], plan=Plan(shards=2)), "divide"),
        (lambda: Plan(shards=3), "shards"),
        (lambda: Plan(shards=0), "shards"),
        (lambda: Plan(devices=2, shards=2), "devices x shards"),
        (lambda: Plan(shards=2, workers=2), "devices or over workers"),
    ],
)
def test_bad_calls(call, message):
    """Each a ValueError that names the argument."""
    with pytest.raises(ValueError, match=message):
        call()
