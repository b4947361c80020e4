"""PyTorch weights in and out: equal outputs and equal bits, whatever the depth, the directions, the dtype or the file.

Committed PyTorch weights stand in where PyTorch is not installed (tests/test_torch.py compares their outputs).
"""

import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch_reference
from oracle import close, same
from torch_reference import CASES, KINDS, committed

from seqjax import gru, init_stack, lstm, rnn, unroll_stack
from seqjax.interop.torch import export, load, save

ROOT = Path(__file__).parent.parent

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed (extra `torch`)")
CELLS = {"tanh": rnn(), "relu": rnn(activation="relu"), "lstm": lstm(forget_bias=None), "gru": gru()}
B, T, D, H = 4, 6, 2, 3
LENGTHS = [4, T, 1, 3]
STACKS = [(1, False, True), (1, True, False), (2, True, True), (3, False, False), (3, True, True)]
FILES = [".safetensors", *([".pt", ".pth"] if find_spec("torch") else [])]
DTYPES = ["float16", "bfloat16", "float32", "float64"]

each_stack = pytest.mark.parametrize(("layers", "bidirectional", "bias"), STACKS)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_file = pytest.mark.parametrize("suffix", FILES)


def module_of(kind, layers=2, bidirectional=True, bias=True, dtype="float64", seed=0):
    """A random PyTorch module: all its draws are uniform, so no bias is zero."""
    import torch

    torch.manual_seed(seed)
    name, options = KINDS[kind]
    shape = {"bidirectional": bidirectional, "bias": bias, "batch_first": True, "dtype": getattr(torch, dtype)}
    return getattr(torch.nn, name)(D, H, layers, **options, **shape)


@partial(jax.jit, static_argnames="cell", compiler_options={"xla_backend_optimization_level": 0})
def ours(cell, params, xs):
    """Outputs [B, T, F] and final states [P, B, H] of a ragged batch, under PyTorch's names."""
    trace = unroll_stack(cell, params, xs, lengths=jnp.array(LENGTHS))
    return {"ys": trace.ys} | vars(jax.tree.map(lambda *states: jnp.stack(states), *trace.final))


def theirs(module, xs):
    """The same by PyTorch, the batch packed."""
    import torch

    with torch.no_grad():
        values = torch_reference.run(module, torch.from_numpy(np.array(xs)), LENGTHS)
    return {name: value.numpy() for name, value in values.items()}


def check_round_trip(module, kind, dtype, tolerance):
    """Equal outputs after import, and after export into a module of other weights."""
    xs = np.random.default_rng(3).normal(size=(B, T, D)).astype(dtype)
    cell, params = load(module.state_dict(), activation="relu" if kind == "relu" else "tanh")
    assert cell is CELLS[kind]
    wanted = theirs(module, xs)
    values = ours(cell, params, xs)
    close(values, wanted, tolerance)
    assert values["ys"].dtype == dtype
    for part in module.parameters():
        part.data.zero_()
    module.load_state_dict(export(cell, params), strict=True)
    same(theirs(module, xs), wanted)


@needs_torch
@each_kind
@each_stack
def test_in_and_out_in_float64(kind, layers, bidirectional, bias):
    """S23: values and final states of packed batches, whatever the depth, the directions and the biases."""
    check_round_trip(module_of(kind, layers, bidirectional, bias), kind, "float64", 1e-10)


@needs_torch
@each_kind
def test_in_and_out_in_float32(kind):
    check_round_trip(module_of(kind, dtype="float32"), kind, "float32", 1e-6)


@pytest.mark.parametrize("case", CASES)
def test_committed_weights_give_the_cell_and_come_back(case, tmp_path):
    """The kind, the depth and the directions follow from the arrays; a file holds them bit for bit."""
    kind, shape = case.split("-")
    cell, params = load(committed(case), activation="relu" if kind == "relu" else "tanh")
    assert cell is CELLS[kind]
    assert (len(params), params[0].backward is not None) == torch_reference.SHAPES[shape]
    save(tmp_path / "weights.safetensors", cell, params, prefix="encoder.rnn")
    again = load(tmp_path / "weights.safetensors", activation="relu" if kind == "relu" else "tanh")
    assert again.cell is cell
    same(again.params, params)
    halves = {f"l{k}{'_reverse' * back}": half for k, layer in enumerate(params) for half, back in layer.halves()}
    for key, array in committed(case).items():
        what, which, end = key.split("_", 2)  # weight or bias, ih or hh, l0 or l0_reverse
        same(getattr(halves[end], f"{'W' if what == 'weight' else 'b'}_{which}"), jnp.asarray(array))


@each_file
@pytest.mark.parametrize("dtype", DTYPES)
def test_files_keep_every_bit_and_the_dtype(dtype, suffix, tmp_path):
    params = load(committed("lstm-2bidirectional"), dtype=dtype).params
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {dtype}
    save(tmp_path / f"weights{suffix}", lstm(), params)
    same(load(tmp_path / f"weights{suffix}").params, params)


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_keep_every_bit(dtype, tmp_path):
    """From memory and from a file that PyTorch wrote, and back; bits compared as PyTorch sees them."""
    import torch
    from safetensors.torch import save_file

    state = module_of("gru", dtype=dtype).state_dict()
    save_file(state, tmp_path / "theirs.safetensors")
    torch.save(state, tmp_path / "theirs.pt")
    for source in (state, tmp_path / "theirs.safetensors", str(tmp_path / "theirs.pt")):
        back = export(*load(source))
        assert back.keys() == state.keys()
        assert all(back[key].dtype == state[key].dtype and torch.equal(back[key], state[key]) for key in state)


@needs_torch
def test_nothing_shares_memory():
    """A later step of a PyTorch optimiser changes no params of ours, nor do exported tensors."""
    module = module_of("lstm")
    cell, params = load(module.state_dict())
    kept = jax.tree.map(np.array, params)
    exported = export(cell, params)
    for tensor in [*module.state_dict().values(), *exported.values()]:
        tensor.fill_(7)
    same(jax.tree.map(np.asarray, params), kept)


def test_arrays_share_no_memory():
    state = {key: np.array(value) for key, value in committed("lstm-2bidirectional").items()}
    params = load(state).params
    kept = jax.tree.map(np.array, params)
    for array in state.values():
        array[:] = 7
    same(jax.tree.map(np.asarray, params), kept)


@needs_torch
def test_a_forget_bias_leaves_as_the_sum_of_both_vectors():
    """B26: rows H..2H of b_ih + b_hh, in every layer, are the effective forget bias."""
    state = export(lstm(forget_bias=2.0), init_stack(jax.random.key(0), lstm(forget_bias=2.0), D, H, layers=2))
    for k in range(2):
        assert ((state[f"bias_ih_l{k}"] + state[f"bias_hh_l{k}"])[H : 2 * H] == 2).all()


@pytest.mark.parametrize("prefix", ["", "encoder.rnn.", "module.", "module.encoder.rnn_1."])
def test_the_module_is_found_in_its_model(prefix):
    """Other modules' keys, of any dtype, are none of ours."""
    others = {"fc.weight": np.ones((2, 2)), "encoder.steps": np.array(3), "encoder.rnn_1.norm.gain": np.ones(2)}
    wanted = load(committed("lstm-2bidirectional")).params
    for asked in (None, prefix, prefix.removesuffix(".")):
        same(load(committed("lstm-2bidirectional", prefix) | others, prefix=asked).params, wanted)


def test_the_prefix_chooses():
    both = committed("lstm-1", "encoder.") | committed("gru-1", "decoder.") | committed("tanh-1")
    assert [load(both, prefix=prefix).cell.name for prefix in ("", "decoder", "encoder.")] == ["rnn", "gru", "lstm"]
    with pytest.raises(ValueError, match=r"several recurrent modules, \['', 'decoder', 'encoder'\]: pass .* prefix="):
        load(both)
    with pytest.raises(ValueError, match=r"prefix must be one of \['', 'decoder', 'encoder'\], got 'coder'"):
        load(both, prefix="coder")


def test_a_dtype_casts_all_of_a_mixed_state_dict():
    mixed = committed("lstm-2bidirectional") | {"bias_ih_l1": np.ones(12, np.float16)}
    params = load(mixed, dtype=jnp.float32).params
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    same(params[0].forward.W_ih, jnp.asarray(mixed["weight_ih_l0"], jnp.float32))


def test_a_large_lstm_loads_in_under_a_second():
    shapes = {"weight_ih_l0": (2048, 300), "weight_ih_l1": (2048, 1024)}
    shapes |= {
        f"{name}_l{k}": s
        for name, s in (("weight_hh", (2048, 512)), ("bias_ih", 2048), ("bias_hh", 2048))
        for k in (0, 1)
    }
    state = {key + end: np.ones(shape, np.float32) for key, shape in shapes.items() for end in ("", "_reverse")}
    began = time.perf_counter()
    jax.block_until_ready(load(state).params)
    assert time.perf_counter() - began < 1


def test_safetensors_need_no_torch(tmp_path):
    """In a process where importing PyTorch fails; and importing the module brings in neither library."""
    code = """
import sys
sys.modules["torch"] = None
import jax
import seqjax.interop.torch as interop
from seqjax import init_stack, lstm
assert "safetensors" not in sys.modules
params = init_stack(jax.random.key(0), lstm(), 2, 3, bidirectional=True)
interop.save(sys.argv[1], lstm(), params)
again = interop.load(sys.argv[1]).params
assert all((a == b).all() for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(again), strict=True))
"""
    path = tmp_path / "weights.safetensors"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=ROOT)
