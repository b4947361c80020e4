"""Named tensors as NumPy arrays, wherever they live: in JAX, in PyTorch, in a `.safetensors` or a PyTorch file.

A PyTorch file (`.pt`, `.pth`) is read as weights only, so that nothing in it is ever run. PyTorch is needed for its own
tensors and files, and for nothing else.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": jnp.bfloat16}  # by safetensors' names
NAMES = [np.dtype(dtype).name for dtype in FLOATS.values()]
TORCH_FILES = (".pt", ".pth")
FILES = (".safetensors", *TORCH_FILES)


def float_type(dtype: Any) -> np.dtype:
    """A dtype by any of its names; ValueError for one that weights cannot have."""
    try:
        wanted = np.dtype(jnp.dtype(dtype))
    except TypeError:
        wanted = None
    if wanted is None or wanted.name not in NAMES:
        raise ValueError(f"dtype must be one of {NAMES}, got {dtype!r}")
    return wanted


def array_of(key: str, value: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """A NumPy or JAX array, or a PyTorch tensor, as a NumPy array that may share its memory, or cast to `dtype`.

    Raises ValueError naming the key for anything but a float of 16 bits or more, and for numbers too large for `dtype`.
    """
    given = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
    if given not in NAMES:
        raise ValueError(f"{key} must be an array of one of {NAMES}, got {given}")
    array = from_torch(value) if is_torch(value) else np.asarray(value)
    return array if dtype is None else cast(key, array, dtype)


def cast(key: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array in another dtype; ValueError where a number is too large for it."""
    with np.errstate(over="ignore"):
        new = array.astype(dtype)
    if not np.array_equal(np.isfinite(new), np.isfinite(array)):
        raise ValueError(f"{key} has numbers too large for {dtype}: choose a wider dtype")
    return new


def is_torch(value: Any) -> bool:
    """Whether a value is a PyTorch tensor, which it cannot be where PyTorch was never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def from_torch(tensor: Any) -> np.ndarray:
    """A PyTorch tensor as an array of the same dtype. NumPy gets no bfloat16 from PyTorch, but gets the bits."""
    import torch

    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise ValueError(f"tensors must be dense and hold numbers, got one that is {tensor.layout}, on {tensor.device}")
    tensor = tensor.detach().cpu()
    return tensor.view(torch.int16).numpy().view(jnp.bfloat16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def tensor_of(array: np.ndarray) -> Any:
    """A PyTorch tensor of the same dtype, in memory of its own."""
    import torch

    own = np.array(array, order="C")
    if own.dtype == jnp.bfloat16:
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)


def read(source: str | os.PathLike[str]) -> Mapping[Any, Any]:
    """The named tensors of a file, by its suffix; ValueError where it is missing, damaged or of another kind."""
    path = file_path(source)
    if not path.is_file():
        raise ValueError(f"source must be an existing file, got {path}")
    return read_torch(path) if path.suffix in TORCH_FILES else read_safetensors(path)


def write(target: str | os.PathLike[str], arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays in the format of the suffix, over any file that was there."""
    path = file_path(target)
    if not path.parent.is_dir():
        raise ValueError(f"path must be in an existing folder, got {path}")
    if path.suffix in TORCH_FILES:
        import torch

        torch.save({key: tensor_of(array) for key, array in arrays.items()}, path)
    else:
        from safetensors.numpy import save  # `save_file` would keep the file from every other user

        contiguous = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
        path.write_bytes(save(contiguous, metadata={"format": "pt"}))  # the layout that readers should expect


def file_path(path: Any) -> Path:
    """A path whose suffix is one of FILES, or ValueError."""
    if not isinstance(path, str | os.PathLike):
        what = type(path).__name__
        raise ValueError(f"a path or a state_dict is needed, got {what}: a module's is module.state_dict()")
    if Path(path).suffix not in FILES:
        raise ValueError(f"path must end in one of {list(FILES)}, got {path}")
    return Path(path)


def read_safetensors(path: Path) -> dict[str, Any]:
    """Arrays, and for dtypes other than FLOATS only the dtype, for `array_of` to refuse if it is wanted."""
    from safetensors import SafetensorError, deserialize

    def array(dtype: str, shape: list[int], data: Any) -> Any:
        return np.ndarray(shape, FLOATS[dtype], data) if dtype in FLOATS else SimpleNamespace(dtype=dtype)

    try:
        return {name: array(**stored) for name, stored in deserialize(path.read_bytes())}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or only a part of one: {error}") from error


def read_torch(path: Path) -> Mapping[Any, Any]:
    """What `torch.load` reads without running anything; ValueError where that is not a mapping."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise anything at all
        kind = type(error).__name__
        fix = "save model.state_dict() in PyTorch, and load that"
        raise ValueError(f"{path} is damaged, or holds more than a state_dict ({kind}): {fix}") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} must hold a state_dict, got {type(content).__name__}")
    return content
