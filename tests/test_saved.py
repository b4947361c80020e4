"""Networks out of checkpoints: the same function, whatever the cell; and the command line on them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import DISTINCT, MAKERS, SHAPES

import seqjax
from seqjax.cells import cells_called
from seqjax.checkpoint import Checkpoints, opened
from seqjax.cli import main
from seqjax.sweep import seed_keys
from seqjax.train.many import about_run

TASK, KEYS = seqjax.tasks.recall(length=4, alphabet=3), seed_keys(2)[1]


def written(folder, network, hidden=5, steps=(3,)):
    """Checkpoints of an untrained network, two runs."""
    recipe = seqjax.Recipe(network, TASK, hidden=hidden)
    states = jax.vmap(lambda key: network.init(key, TASK.D, hidden, TASK.K))(KEYS)
    with opened(Checkpoints(folder), about_run(recipe, KEYS, {}, jnp.zeros(2, int))) as saver:
        for step in steps:
            saver.save(step, ({"params": states, "step": jnp.arange(2)}, jnp.zeros(3)), loss=1.0)
    return states


@pytest.mark.parametrize("name", MAKERS)
def test_a_cell_is_known_by_its_name(name):
    """As far as a name tells; `memory` is one name for many."""
    cell = MAKERS[name]()
    assert cell in cells_called(cell.name) or name.startswith("memory-")
    assert cells_called("elman") == cells_called("rnn-deep") == []


@pytest.mark.parametrize(
    "network",
    [
        *(seqjax.network(make(), inputs="onehot") for make in map(DISTINCT.get, SHAPES)),
        seqjax.network(seqjax.lstm(norm="layer"), inputs="embedding", embedding=2, layers=2, bidirectional=True),
        seqjax.network(seqjax.gru(), inputs="onehot", layers=2, residual=True, dropout=seqjax.Dropout(zoneout=0.1)),
        seqjax.pooled("max", before=0, after=2, activation="tanh", inputs="onehot"),
        seqjax.windowed(3, keep="first", layers=2, inputs="embedding", embedding=2),
        seqjax.convolutional(2, (1, 2), residual=True, inputs="onehot", dropout=seqjax.Dropout(between=0.1)),
    ],
    ids=lambda network: network.name,
)
def test_a_saved_network_is_the_one_that_was_trained(tmp_path, network):
    """Params bit for bit, and the same answers."""
    params = jax.tree.map(lambda a: a[1], written(tmp_path, network))
    found = seqjax.saved(tmp_path, run=1)
    assert found.step == 3
    jax.tree.map(np.testing.assert_array_equal, found.params, params)
    xs = TASK.held_out(jax.random.key(0), 3).xs
    np.testing.assert_array_equal(found.network.apply(params, xs).last, network.apply(params, xs).last)


def test_what_is_not_there(tmp_path):
    """Runs, steps and cells are named."""
    written(tmp_path / "a", seqjax.network(seqjax.rnn(), inputs="onehot"), steps=(3, 7))
    assert [seqjax.saved(tmp_path / "a", step=step).step for step in (None, 3)] == [7, 3]
    with pytest.raises(ValueError, match=r"holds checkpoints of the steps \[3, 7\], got step 4"):
        seqjax.saved(tmp_path / "a", step=4)
    with pytest.raises(ValueError, match=r"holds runs 0\.\.1, got run 2"):
        seqjax.saved(tmp_path / "a", run=2)
    from seqjax.cells.gates import FORGET

    written(tmp_path / "b", seqjax.network(seqjax.memory(keep=FORGET), inputs="onehot"))
    with pytest.raises(ValueError, match="of a cell 'memory' that seqjax does not have"):
        seqjax.saved(tmp_path / "b")
    other = seqjax.network_of(replace(seqjax.pooled().body, about="{}"), inputs="onehot")
    written(tmp_path / "c", other)
    with pytest.raises(ValueError, match="of a body None that seqjax does not have"):
        seqjax.saved(tmp_path / "c")
    with pytest.raises(ValueError, match="holds no checkpoints"):
        seqjax.saved(tmp_path)


def test_the_command_line_takes_checkpoints(tmp_path, monkeypatch, capsys):
    """`horizon` and `inspect` on a folder; options of files are refused there, and the other way round."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "run", seqjax.network(seqjax.lstm(), inputs="onehot"))
    assert main(["horizon", "run", "--run", "1", "--length", "12", "--sequences", "2"]) == 0
    assert (tmp_path / "run-horizon" / "figure.svg").exists()
    assert main(["inspect", "run"]) == 0
    assert "<Cell lstm, gates ifgo>: 3 inputs, 5 hidden units, 1 layers, 200 parameters" in capsys.readouterr().out
    (tmp_path / "model.pt").write_text("")
    for args, message in (
        (["inspect", "run", "--dtype", "float32"], "--dtype goes with a file of weights"),
        (["inspect", "model.pt", "--run", "1"], "--run goes with a folder of checkpoints"),
        (["inspect", str(tmp_path)], "holds no checkpoints"),
    ):
        assert main(args) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (seqjax.network(seqjax.rnn(), inputs="onehot", layers=2, residual=True), "residual stack"),
        (seqjax.pooled(inputs="onehot"), "needs a recurrent network: 'mean-pool' has no recurrence"),
    ],
    ids=["residual", "pool"],
)
def test_what_the_survey_does_not_know_is_refused_on_the_command_line(tmp_path, capsys, network, message):
    """It takes a stack for a plain one, and asks a recurrence."""
    written(tmp_path, network)
    for command in ("inspect", "horizon"):
        assert main([command, str(tmp_path)]) == 2
        assert message in capsys.readouterr().err
