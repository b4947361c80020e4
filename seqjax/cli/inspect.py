"""`seqjax inspect MODEL`: layers, shapes, parameters and costs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jax
import tyro
from rich.console import Console
from rich.table import Table

from seqjax.cli.model import load
from seqjax.cost import cost
from seqjax.init import NoBias, with_init


@dataclass(frozen=True)
class Inspect:
    """What a model is and costs: a PyTorch state_dict of an nn.RNN, nn.LSTM or nn.GRU, or of a model around one."""

    model: Annotated[Path, tyro.conf.Positional]
    """A .safetensors, .pt or .pth file."""
    batch: int = 32
    """Sequences in the batch whose cost is counted."""
    length: int = 100
    """Steps of each."""
    prefix: str | None = None
    """The module's path in a model that holds several, such as encoder.rnn."""
    relu: bool = False
    """The model is an nn.RNN(nonlinearity="relu"), of which its weights say nothing."""
    dtype: str | None = None
    """Cast the weights, such as to float32."""


def inspect(options: Inspect) -> None:
    """Print the layers, and what a batch costs."""
    cell, layers = load(options.model, options.prefix, relu=options.relu, dtype=options.dtype)
    first = layers[0].forward
    H, D = first.W_hh.shape[1], first.W_ih.shape[1]
    sizes = {"B": options.batch, "T": options.length, "D": D, "H": H, "layers": len(layers)}
    counted = cell if first.b_ih is not None else with_init(cell, NoBias())
    costs = cost(counted, **sizes, bidirectional=layers[0].backward is not None, dtype=str(first.W_hh.dtype))
    console, grid = Console(), Table("layer", "array", "shape", "dtype", "numbers")
    for depth, layer in enumerate(layers):
        for half, reverse in layer.halves():
            for name, array in vars(half).items():
                if array is not None:
                    place = f"{depth} {'backward' if reverse else 'forward'}"
                    grid.add_row(place, name, str(list(array.shape)), str(array.dtype), f"{array.size:,}")
    total = sum(a.size for a in jax.tree.leaves(layers))
    console.print(
        f"{cell!r}: {D} inputs, {H} hidden units, {len(layers)} layers, {total:,} parameters", highlight=False
    )
    console.print(grid)
    console.print(f"A batch of {options.batch} sequences of {options.length} steps:", highlight=False)
    print(costs)
