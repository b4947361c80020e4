"""A user's model from a file."""

from pathlib import Path

from seqjax.interop import torch
from seqjax.interop.loaded import Loaded


def load(path: Path, prefix: str | None, *, relu: bool, dtype: str | None) -> Loaded:
    """The cell and the layers; ValueError that lists what was found where it is no recurrent model."""
    if not path.is_file():
        raise ValueError(f"model {path} is not a file")
    return torch.load(path, prefix=prefix, activation="relu" if relu else "tanh", dtype=dtype)
