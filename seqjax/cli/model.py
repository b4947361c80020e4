"""A user's model: the weights of a PyTorch module in a file, or a folder of checkpoints."""

from pathlib import Path
from typing import NamedTuple

from seqjax.interop import torch
from seqjax.interop.loaded import Loaded
from seqjax.network import NetworkParams, require_recurrent
from seqjax.seq2seq import EncoderDecoder
from seqjax.train import saved


class Translator(NamedTuple):
    """An encoder-decoder out of a checkpoint."""

    network: EncoderDecoder
    params: NetworkParams

    @property
    def sizes(self) -> tuple[int, int]:
        """How many source symbols there are, and how many target symbols."""
        return len(self.params.body.source), len(self.params.head.W)


def load(
    path: Path, prefix: str | None, *, relu: bool, dtype: str | None, run: int | None, step: int | None
) -> Loaded | Translator:
    """The cell and the layers, or an encoder-decoder; ValueError that lists what was found where it is neither."""
    if path.is_dir():
        for name, value in (("prefix", prefix), ("dtype", dtype), ("relu", relu or None)):
            if value is not None:
                raise ValueError(f"--{name} goes with a file of weights, and {path} is a folder of checkpoints")
        found = saved(path, run=run or 0, step=step)
        if isinstance(found.network, EncoderDecoder):
            return Translator(found.network, found.params)
        require_recurrent(found.network, f"what is asked of {path}", ", so ask seqjax.input_profile")
        if found.network.residual:
            raise ValueError(f"{path} holds a residual stack: ask it with seqjax.gradient_profile, which knows of that")
        return Loaded(found.network.cell, found.params.body)
    for name, value in (("run", run), ("step", step)):
        if value is not None:
            raise ValueError(f"--{name} goes with a folder of checkpoints, and {path} is none")
    if not path.is_file():
        raise ValueError(f"model {path} is not a file")
    return torch.load(path, prefix=prefix, activation="relu" if relu else "tanh", dtype=dtype)
