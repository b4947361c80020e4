"""The `seqjax` command on models of PyTorch, against PyTorch's own gradients; and what it refuses."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import gru, init_stack, lstm, rnn, survey
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


@each_kind
@each_stack
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
    "no command": (["dance"], "unknown command 'dance': known are horizon, inspect"),
    "no such option": (["horizon", "MODEL", "--depth", "3"], "--depth"),
    "inputs": (["horizon", "MODEL", "--inputs", "cauchy"], "--inputs must be gaussian:VARIANCE or onehot"),
    "variance": (["horizon", "MODEL", "--inputs", "gaussian:-1"], "--inputs must be"),
    "length": (["horizon", "MODEL", "--length", "0"], "length must be"),
    "short": (["horizon", "MODEL", "--length", "3"], "at least 4 steps"),
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
