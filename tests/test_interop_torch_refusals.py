"""What is no recurrent PyTorch module, or could not become one, is refused by one line that names the key."""

import pickle
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch_reference
from oracle import same

from seqjax import Layer, gru, init_stack, lru, lstm, rnn
from seqjax.interop.torch import export, load, save

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed (extra `torch`)")
FILES = [".safetensors", *([".pt", ".pth"] if find_spec("torch") else [])]
D, H = 2, 3  # those of the committed weights

committed = partial(torch_reference.committed, "lstm-2bidirectional")


def changed(**arrays):
    """The committed LSTM under "rnn." with some keys exchanged, or left out where None."""
    state = committed(prefix="rnn.") | {f"rnn.{key}": value for key, value in arrays.items()}
    return {key: value for key, value in state.items() if value is not None}


REFUSED = {
    "gates": (changed(weight_hh_l0=np.ones((6, 3))), r"rnn\.weight_hh_l0 must have shape \[G\*H, H\] .* got \[6, 3\]"),
    "a vector": (changed(weight_hh_l0=np.ones(12)), r"rnn\.weight_hh_l0 must have shape \[G\*H, H\] .* got \[12\]"),
    "no units": (changed(weight_hh_l0=np.ones((0, 0))), r"rnn\.weight_hh_l0 must have shape .* got \[0, 0\]"),
    "input rows": (changed(weight_ih_l0=np.ones((9, 2))), r"weight_ih_l0 must have shape \[12, 2\] .* got \[9, 2\]"),
    "input rank": (changed(weight_ih_l0=np.ones(12)), r"weight_ih_l0 must have shape \[12, D\] .* got \[12\]"),
    "reverse D": (changed(weight_ih_l0_reverse=np.ones((12, 5))), r"l0_reverse must have shape \[12, 2\] .* \[12, 5\]"),
    "upper D": (changed(weight_ih_l1=np.ones((12, 3))), r"weight_ih_l1 must have shape \[12, 6\] .* got \[12, 3\]"),
    "H of a layer": (changed(weight_hh_l1=np.ones((16, 4))), r"hh_l1 must have shape \[12, 3\] to go .* got \[16, 4\]"),
    "H backward": (
        changed(weight_hh_l0_reverse=np.ones((4, 1))),
        r"hh_l0_reverse must have shape \[12, 3\] .* \[4, 1\]",
    ),
    "bias": (changed(bias_hh_l0=np.ones(3)), r"rnn\.bias_hh_l0 must have shape \[12\] .* got \[3\]"),
    "missing": (changed(weight_hh_l1_reverse=None), r"missing keys rnn\.weight_hh_l1_reverse: every layer"),
    "no hidden": ({"weight_ih_l0": np.ones((3, 2))}, "missing keys weight_hh_l0"),
    "only a bias": ({"bias_ih_l0": np.ones(3)}, "missing keys bias_hh_l0, weight_hh_l0, weight_ih_l0"),
    "one bias": (changed(bias_ih_l0=None), r"missing keys rnn\.bias_ih_l0: every layer"),
    "gap": ({key.replace("l1", "l2"): value for key, value in committed().items()}, "missing keys bias_hh_l1, "),
    "extra": (changed(weight=np.ones(2)), r"extra keys rnn\.weight: every layer"),
    "renamed": (changed(weight_hh_l0=None, weight_hh_l0_raw=np.ones((12, 3))), r"missing keys rnn\.weight_hh_l0:"),
    "projection": (changed(weight_hr_l0=np.ones((2, 3))), r"rnn\.weight_hr_l0 projects the state \(proj_size\)"),
    "mixed": (
        changed(bias_ih_l1=np.ones(12, np.float16)),
        r"rnn\.bias_ih_l1 is float16, but rnn\.weight_hh_l0 is float64",
    ),
    "integers": (changed(bias_ih_l1=np.ones(12, int)), r"rnn\.bias_ih_l1 must be an array of one of .* got int64"),
    "complex": (changed(bias_ih_l1=np.ones(12, complex)), r"rnn\.bias_ih_l1 must be an array .* got complex128"),
    "lists": (changed(bias_ih_l1=[1.0] * 12), r"rnn\.bias_ih_l1 must be an array .* got list"),
    "nested": ({"epoch": 3, "model": committed()}, "pass what this checkpoint holds under 'model'"),
    "nested twice": ({"model": committed(), "ema": committed()}, "under 'model' or 'ema'"),
    "a cell": ({"weight_ih": np.ones((3, 2)), "bias": np.ones(2)}, "a key such as weight_ih_l0: got weight_ih, bias"),
    "nothing": ({}, "a key such as weight_ih_l0: got nothing"),
    "a number": (3, "a path or a state_dict is needed, got int"),
}


@pytest.mark.parametrize(("source", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_a_recurrent_module_is_refused(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(source)
    assert "\n" not in str(caught.value)


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"activation must be 'tanh' for weights of nn\.LSTM, got 'relu'"):
        load(committed(), activation="relu")
    with pytest.raises(ValueError, match=r"activation must be one of .*, got 'gelu'"):
        load(torch_reference.committed("tanh-1"), activation="gelu")
    for dtype in ("int32", "complex64", "float128x"):
        with pytest.raises(ValueError, match=r"dtype must be one of .*, got"):
            load(committed(), dtype=dtype)
    with pytest.raises(ValueError, match=r"rnn\.bias_ih_l1 has numbers too large for float16"):
        load(changed(bias_ih_l1=np.full(12, 1e5)), dtype="float16")


def test_float64_is_not_narrowed_in_silence():
    with jax.enable_x64(False):
        with pytest.raises(
            ValueError, match=r'weight_ih_l0 is float64, .* dtype="float32" to cast, or set jax_enable_x64'
        ):
            load(committed())
        assert load(committed(), dtype="float32").params[0].forward.W_ih.dtype == jnp.float32


@pytest.mark.parametrize("suffix", FILES)
@pytest.mark.parametrize("damage", ["empty", "truncated", "text"])
def test_damaged_files_are_refused(damage, suffix, tmp_path):
    path = tmp_path / f"weights{suffix}"
    save(path, *load(committed()))
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "truncated": whole[:-40], "text": b"no weights in here, " * 9}[damage])
    with pytest.raises(ValueError, match=rf"weights{suffix} is (not a safetensors file|damaged)") as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["weights.bin", "weights", "weights.npz"])
def test_unknown_suffixes_are_refused(name, tmp_path):
    for act in (load, lambda path: save(path, *load(committed()))):
        with pytest.raises(ValueError, match=r"must end in one of \['.safetensors', '.pt', '.pth'\], got .*weights"):
            act(tmp_path / name)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_missing_files_and_folders_are_refused(suffix, tmp_path):
    with pytest.raises(ValueError, match=r"source must be an existing file, got .*weights"):
        load(tmp_path / f"weights{suffix}")
    with pytest.raises(ValueError, match=r"path must be in an existing folder, got .*weights"):
        save(tmp_path / "nowhere" / f"weights{suffix}", *load(committed()))


def test_integers_in_a_safetensors_file_are_refused_only_where_wanted(tmp_path):
    from safetensors.numpy import save_file

    steps = {"steps": np.ones(1, np.int64)}
    save_file(committed(prefix="rnn.") | steps, tmp_path / "good.safetensors")
    same(load(tmp_path / "good.safetensors").params, load(committed()).params)
    save_file(changed(bias_ih_l1=np.ones(12, np.int64)), tmp_path / "bad.safetensors")
    with pytest.raises(ValueError, match=r"rnn\.bias_ih_l1 must be an array .* got I64"):
        load(tmp_path / "bad.safetensors")


class Trap:
    """A pickle that writes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@needs_torch
@pytest.mark.parametrize("zipped", [True, False])
def test_no_pickle_is_ever_run(zipped, tmp_path):
    import torch

    torch.save({"weight_ih_l0": Trap(tmp_path / "sprung")}, tmp_path / "trap.pt", _use_new_zipfile_serialization=zipped)
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    for name in ("trap.pt", "bare.pt"):
        with pytest.raises(ValueError, match=rf"{name} is damaged, or holds more than a state_dict .*state_dict\(\)"):
            load(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


@needs_torch
def test_whole_modules_and_checkpoints_are_refused_with_the_fix(tmp_path):
    import torch

    module = torch.nn.LSTM(D, H)
    contents = {
        "module": (module, r"holds more than a state_dict \(UnpicklingError\): save model\.state_dict\(\)"),
        "checkpoint": ({"epoch": 1, "net": module.state_dict()}, "pass what this checkpoint holds under 'net'"),
        "tensor": (torch.ones(3), "must hold a state_dict, got Tensor"),
    }
    for name, (content, message) in contents.items():
        torch.save(content, tmp_path / f"{name}.pt")
        with pytest.raises(ValueError, match=message) as caught:
            load(tmp_path / f"{name}.pt")
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"got LSTM: a module's is module\.state_dict\(\)"):
        load(module)
    state = {key: tensor.to(torch.int8) for key, tensor in module.state_dict().items()}
    with pytest.raises(ValueError, match=r"weight_ih_l0 must be an array .* got int8"):
        load(state)


LACKING = [gru(reset_after=False), gru(norm="layer"), rnn(norm="layer"), lstm(peephole=True), lstm(coupled=True), lru()]


@pytest.mark.parametrize("cell", LACKING, ids=lambda cell: cell.name)
def test_cells_that_torch_lacks_are_refused(cell, tmp_path):
    path = tmp_path / "weights.safetensors"
    for act in (export, partial(save, path)):
        with pytest.raises(ValueError, match=rf"cell must be one of .* got '{cell.name}'"):
            act(cell, init_stack(jax.random.key(0), cell, D, H))
    assert not path.exists()


def drawn(cell=None, **options):
    """A stack's params, with options of `init_stack`."""
    return init_stack(jax.random.key(0), cell or lstm(), D, H, **options)


def without_biases(layer):
    """The same layer, with a forward half that has no biases."""
    return replace(layer, forward=replace(layer.forward, b_ih=None, b_hh=None))


(bottom, top), (both, _) = drawn(layers=2), drawn(layers=2, bidirectional=True)
UNLIKE = {
    "another cell's": (drawn(gru()), r"weights of nn\.GRU, but cell is 'lstm'"),
    "gain": (drawn(lstm(norm="layer")), "got a LayerNorm gain in layer 0"),
    "peepholes": ((*drawn(), *drawn(lstm(peephole=True))), "got Peephole in layer 1"),
    "biases in one layer": ((bottom, without_biases(top)), "missing keys bias_hh_l1, bias_ih_l1: every layer"),
    "biases in one direction": ((without_biases(both),), "missing keys bias_hh_l0, bias_ih_l0: every layer"),
    "one bias": ((Layer(replace(bottom.forward, b_hh=None)),), "missing keys bias_hh_l0: every layer"),
    "one direction above": ((both, top), "missing keys bias_hh_l1_reverse, .*: every layer"),
    "H": ((bottom, *init_stack(jax.random.key(0), lstm(), H, 5)), r"weight_ih_l1 must have shape \[12, 3\]"),
    "no recurrence": ((Layer(replace(bottom.forward, W_hh=None)),), "missing keys weight_hh_l0: every layer"),
    "dtype": ((bottom, jax.tree.map(lambda a: a.astype(jnp.float16), top)), "ih_l1 is float16, .* is float32: mixed"),
    "integers": (jax.tree.map(lambda a: a.astype(int), drawn()), "W_ih of layer 0 must be an array .* got int64"),
    "no stack": (bottom.forward, "params must be a tuple of at least one Layer, got Affine"),
    "no layers": ((), "params must be a tuple of at least one Layer, got tuple"),
}


@pytest.mark.parametrize(("params", "message"), UNLIKE.values(), ids=UNLIKE.keys())
def test_params_that_torch_cannot_hold_are_refused(params, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        save(tmp_path / "weights.safetensors", lstm(), params)
    assert "\n" not in str(caught.value)
