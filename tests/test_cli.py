"""The `seqjax` command on models of PyTorch, against PyTorch's own gradients; and what it refuses."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import gru, init, init_stack, lstm, rnn, survey, variant
from seqjax.cli import main
from seqjax.cli.data import drawn, read
from seqjax.interop import torch as interop
from seqjax.survey import retention
from seqjax.unroll import unroll

D, H, B, T = 3, 8, 4, 12
KINDS = {"rnn": rnn(), "lstm": lstm(), "gru": gru()}
STACKS = {"1": (1, False), "2": (2, False), "2-bidirectional": (2, True)}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_stack = pytest.mark.parametrize("stack", STACKS)


def saved(path, kind, layers=1, bidirectional=False):
    """A model's weights in a file."""
    params = init_stack(jax.random.key(0), KINDS[kind], D, H, layers=layers, bidirectional=bidirectional)
    interop.save(path, KINDS[kind], params)
    return params


def gradients_of_torch(state, kind, layers, bidirectional, xs, v):
    """‖dL/ds_t‖ by PyTorch's autograd for every layer and direction, [halves, B, T] by lag: every cell is a module of
    its own, whose states keep their gradients, h and c apart by a copy."""
    torch = pytest.importorskip("torch")
    Cell = {"rnn": torch.nn.RNNCell, "lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}[kind]
    ys, kept, ends = torch.as_tensor(np.array(xs)), [], []
    for layer in range(layers):
        shown, ends = [], []
        for end in ("", "_reverse")[: 1 + bidirectional]:
            cell = Cell(ys.shape[2], H).double()
            cell.load_state_dict({f"{n}": state[f"{n}_l{layer}{end}"].double() for n in cell.state_dict()})
            s, steps = None, []
            for t in reversed(range(T)) if end else range(T):
                s = cell(ys[:, t], s)
                s = tuple(part.clone() for part in s) if kind == "lstm" else s.clone()
                steps.append(s if kind == "lstm" else (s,))
                for part in steps[-1]:
                    part.retain_grad()
            kept.append(steps)
            ends.append(steps[-1][0])
            shown.append(torch.stack([step[0] for step in (steps[::-1] if end else steps)], 1))
        ys = torch.cat(shown, 2)
    (torch.cat(ends, 1) * torch.as_tensor(np.array(v))).sum().backward()
    zero = torch.zeros(B, H, dtype=torch.float64)
    norms = [
        [torch.cat([zero if p.grad is None else p.grad for p in step], 1).norm(dim=1) for step in steps[::-1]]
        for steps in kept
    ]
    return np.array([[step.numpy() for step in steps] for steps in norms]).swapaxes(1, 2)


@pytest.mark.parametrize(
    ("kind", "stack"), [("lstm", "1"), ("gru", "2"), *((kind, "2-bidirectional") for kind in KINDS)]
)
def test_gradients_are_pytorchs(tmp_path, kind, stack):
    """Of a state_dict that PyTorch wrote, to 1e-4 and better, in every layer and direction."""
    torch = pytest.importorskip("torch")
    layers, both = STACKS[stack]
    torch.manual_seed(0)
    module = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind]
    model = module(D, H, num_layers=layers, bidirectional=both)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    cell, params = interop.load(tmp_path / "model.pt", dtype="float64")
    xs, key = jax.random.normal(jax.random.key(1), (B, T, D)), jax.random.key(2)
    v = jax.random.normal(key, (B, H * (1 + both)), "float64")
    wanted = gradients_of_torch(model.state_dict(), kind, layers, both, xs, v)
    found = np.stack([half.log10 for half in survey(cell, params, xs, key=key).halves])
    np.testing.assert_allclose(10**found, wanted / wanted[:, :, :1], rtol=1e-8)


@each_kind
def test_the_command_writes_what_it_prints(tmp_path, capsys, kind):
    """A table, three lines, a figure and all numbers; and the survey of a script has the same ones."""
    saved(tmp_path / "model.safetensors", kind, layers=2)
    out = tmp_path / "found"
    args = ["--length", "60", "--sequences", "3", "--out", str(out)]
    assert main(["horizon", str(tmp_path / "model.safetensors"), *args]) == 0
    printed = capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"figure.svg", "figure.png", "horizon.json"}
    numbers = json.loads((out / "horizon.json").read_text())
    assert [part["part"] for part in numbers["parts"]] == ["layer 0 forward", "layer 1 forward"]
    assert len(numbers["verdict"]) == 3
    assert numbers["verdict"][0][:30] in printed
    for part in numbers["parts"]:
        assert f"{part['decay']['factor']:.4f}" in printed
        assert (part["retention"] is None) == (kind == "rnn")
        assert len(part["exponents"]) == 3


def test_inspect_lists_every_array(tmp_path, capsys):
    """With shapes, and what a batch costs."""
    saved(tmp_path / "model.safetensors", "gru", layers=2, bidirectional=True)
    assert main(["inspect", str(tmp_path / "model.safetensors"), "--length", "5"]) == 0
    printed = capsys.readouterr().out
    for word in ("[24, 3]", "[24, 16]", "1 backward", "2 layers", "kept for the way back"):
        assert word in printed


def test_retention_is_the_forget_gate():
    """Of an LSTM whose gates are all at σ(3) by weights of zero; and none of a plain RNN."""
    cell = lstm(forget_bias=3.0)
    params = jax.tree.map(jnp.zeros_like, cell.init(jax.random.key(0), D, H))
    params = type(params)(params.W_ih, params.W_hh, params.b_ih.at[H : 2 * H].set(3.0), params.b_hh)
    trace = unroll(cell, params, jnp.ones((B, T, D)), lengths=jnp.array([T, 3, 0, 1]))
    np.testing.assert_allclose(retention(cell, params, trace), jax.nn.sigmoid(3.0), rtol=1e-6)
    cell = variant("full-gate-recurrence", forget_bias=3.0)
    params = cell.init(jax.random.key(0), D, H)
    assert (retention(cell, params, unroll(cell, params, jnp.ones((B, T, D)))) > 0.6).all()
    params = rnn().init(jax.random.key(0), D, H)
    assert retention(rnn(), params, unroll(rnn(), params, jnp.ones((B, T, D)))) is None


def test_ragged_rows_are_surveyed_from_their_own_ends():
    """A row's gradient is that of the row alone."""
    cell, params = gru(), init_stack(jax.random.key(0), gru(), D, H, layers=2)
    xs = jax.random.normal(jax.random.key(1), (2, 80, D))
    found = survey(cell, params, xs, lengths=np.array([80, 60]))
    alone = survey(cell, params, xs)
    np.testing.assert_allclose(found.halves[0].log10[0], alone.halves[0].log10[0], atol=1e-4)
    assert np.isnan(found.halves[0].log10[1, 60:]).all()


def test_padding_and_short_rows_do_not_speak_for_the_batch():
    """Steps beyond the longest row are not there, and a short row takes no exponents from the long ones."""
    cell, params = gru(), init_stack(jax.random.key(0), gru(), D, H)
    xs = jax.random.normal(jax.random.key(1), (3, 100, D))
    found = survey(cell, params, xs, lengths=np.array([60, 60, 0]))
    assert found.T == 60
    assert found.halves[0].exponents.exponents.shape == (2, 3)
    assert "59 steps back" in found.verdict()[2]
    assert "inf" not in " ".join(found.verdict())


def test_a_model_that_explodes_is_not_said_to_forget():
    """A relu network beyond float32 has no gradient to speak of, whatever autodiff makes of NaN; nor has one of NaN."""
    cell = rnn(activation="relu")
    params = init_stack(jax.random.key(0), cell, D, H)
    half = params[0].forward
    for weights, message in (
        (20 * jnp.abs(half.W_hh), "not finite at step"),
        (jnp.nan * half.W_hh, "NaN or infinity in layer 0"),
    ):
        broken = (type(params[0])(type(half)(half.W_ih, weights, half.b_ih, half.b_hh)),)
        with pytest.raises(ValueError, match=message):
            survey(cell, broken, jax.random.uniform(jax.random.key(1), (2, 400, D)))


def test_a_model_that_forgets_at_once_is_written_as_json(tmp_path, capsys):
    """With words for what is not finite, and no NaN in what is said."""
    params = jax.tree.map(lambda p: p, init_stack(jax.random.key(0), rnn(), D, H))
    half = params[0].forward
    none = (type(params[0])(type(half)(half.W_ih, 0 * half.W_hh, half.b_ih, half.b_hh)),)
    interop.save(tmp_path / "model.safetensors", rnn(), none)
    assert main(["horizon", str(tmp_path / "model.safetensors"), "--out", str(tmp_path / "found")]) == 0
    numbers = json.loads((tmp_path / "found" / "horizon.json").read_text(), parse_constant=pytest.fail)
    assert numbers["parts"][0]["exponents"][0] == "-inf"
    assert "forgets at once" in capsys.readouterr().out


def test_nothing_that_was_there_is_lost(tmp_path, monkeypatch, capsys):
    """A folder that holds other things, a file, the current folder and those above it are left alone; a second run over
    its own folder is not refused."""
    (tmp_path / "work" / "precious").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "precious" / "thesis.txt").write_text("all of it")
    saved("model.safetensors", "gru")
    for out in ("precious", ".", "..", "/", "model.safetensors", "model.safetensors/deeper"):
        assert main(["horizon", "model.safetensors", "--length", "5", "--out", out]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert (tmp_path / "work" / "precious" / "thesis.txt").read_text() == "all of it"
    for _ in range(2):
        assert main(["horizon", "model.safetensors", "--length", "5"]) == 0
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"precious", "model.safetensors", "model-horizon"}


def test_inspect_counts_what_the_model_has(tmp_path, capsys):
    """No biases where it was made without them."""
    params = init_stack(jax.random.key(0), init.with_init(rnn(), init.NoBias()), D, H, layers=2)
    interop.save(tmp_path / "model.safetensors", rnn(), params)
    assert main(["inspect", str(tmp_path / "model.safetensors")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("216") == 4
    assert "248" not in printed


@pytest.mark.parametrize("name", ["empty.npy", "empty.npz", "cut.npz", "renamed.npz", "complex.npy", "text.npy"])
def test_data_that_is_none(tmp_path, name):
    """One line, whatever the reader makes of it."""
    path = tmp_path / name
    if name == "renamed.npz":
        np.save(tmp_path / "x.npy", np.ones((4, D)))
        (tmp_path / "x.npy").rename(path)
    elif name in ("complex.npy", "text.npy"):
        np.save(path, np.full((4, D), 1j if name == "complex.npy" else "a"))
    elif name == "cut.npz":
        np.savez(path, xs=np.ones((4, D)))
        path.write_bytes(path.read_bytes()[:100])
    else:
        path.touch()
    with pytest.raises(ValueError, match=r"--data .* cannot be read as a"):
        read(path, D)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
def test_sequences_of_ones_own(tmp_path, suffix):
    """One sequence or a batch, with lengths where there are."""
    xs, path = np.arange(12.0).reshape(4, 3), tmp_path / f"data{suffix}"
    if suffix == ".npz":
        np.savez(path, xs=np.stack([xs, xs]), lengths=np.array([4, 2]))
    elif suffix == ".npy":
        np.save(path, xs)
    else:
        np.savetxt(path, xs, delimiter=",")
    found, lengths = read(path, D)
    np.testing.assert_array_equal(found[0], xs)
    assert (lengths is None) == (suffix != ".npz")


def test_drawn_inputs():
    """Of the variance that is asked for, or one symbol a step."""
    xs = drawn("gaussian:0.25", jax.random.key(0), 50, 100, D)
    np.testing.assert_allclose(xs.std(), 0.5, rtol=0.03)
    np.testing.assert_array_equal(drawn("onehot", jax.random.key(0), 5, 10, D).sum(-1), 1)


BAD = {
    "no file": (["horizon", "nowhere.pt"], "nowhere.pt is not a file"),
    "no model": (["horizon"], "Missing from seqjax horizon: PATH"),
    "no command": (["dance"], "unknown command 'dance': known are fit, horizon, inspect, predict, stream"),
    "no such option": (["horizon", "MODEL", "--depth", "3"], "--depth"),
    "inputs": (["horizon", "MODEL", "--inputs", "cauchy"], "--inputs must be gaussian:VARIANCE or onehot"),
    "variance": (["horizon", "MODEL", "--inputs", "gaussian:-1"], "--inputs must be"),
    "length": (["horizon", "MODEL", "--length", "0"], "length must be"),
    "seed": (["horizon", "MODEL", "--seed", "99999999999999999999"], "--seed must be from 0"),
    "short": (["horizon", "MODEL", "--length", "3"], "a row of at least 4 steps"),
    "not recurrent": (["horizon", "OTHER"], "must hold a recurrent module, with a key such as weight_ih_l0: got fc.w"),
    "width": (["horizon", "MODEL", "--data", "WIDE"], "with the model's D = 3, got [1, 5, 4]"),
    "kind of data": (["horizon", "MODEL", "--data", "x.txt"], "--data must be a file .npy, .npz, .csv"),
    "missing data": (["horizon", "MODEL", "--data", "x.npy"], "cannot be read"),
    "inspect": (["inspect", "OTHER"], "must hold a recurrent module"),
}


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD)
def test_bad_calls(tmp_path, monkeypatch, capsys, args, message):
    """Exit code 2, one line that names what is wrong, nothing written."""
    from safetensors.numpy import save_file

    monkeypatch.chdir(tmp_path)
    saved("model.safetensors", "gru")
    save_file({"fc.weight": np.ones((2, 2))}, "other.safetensors")
    np.save("wide.npy", np.ones((5, 4)))
    before = sorted(tmp_path.iterdir())
    names = {"MODEL": "model.safetensors", "OTHER": "other.safetensors", "WIDE": "wide.npy"}
    assert main([names.get(arg, arg) for arg in args]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert message in said[0]
    assert sorted(tmp_path.iterdir()) == before
