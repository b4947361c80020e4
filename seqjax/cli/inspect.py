"""`seqjax inspect MODEL`: layers, shapes, parameters and costs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jax
import tyro
from rich.console import Console
from rich.table import Table

from seqjax.checkpoint import name_of
from seqjax.cli.model import load
from seqjax.cost import cost
from seqjax.init import NoBias, with_init


@dataclass(frozen=True)
class Inspect:
    """What a model is and costs: a PyTorch state_dict of an nn.RNN, nn.LSTM or nn.GRU or a model around one, or a
    training's checkpoints."""

    model: Annotated[Path, tyro.conf.Positional]
    """A .safetensors, .pt or .pth file, or a folder of checkpoints."""
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
    run: int | None = None
    """Of checkpoints, which run; the first by default."""
    step: int | None = None
    """Of checkpoints, after how many updates; the last by default."""


def inspect(options: Inspect) -> None:
    """Print the layers, and what a batch costs."""
    cell, layers = load(
        options.model, options.prefix, relu=options.relu, dtype=options.dtype, run=options.run, step=options.step
    )
    first = layers[0].forward
    H, D = jax.eval_shape(lambda p: cell.read(p, cell.start(p)), first).shape[0], first.W_ih.shape[1]
    sizes = {"B": options.batch, "T": options.length, "D": D, "H": H, "layers": len(layers)}
    counted = cell if getattr(first, "b_ih", True) is not None else with_init(cell, NoBias())
    costs = cost(counted, **sizes, bidirectional=layers[0].backward is not None, dtype=str(first.W_ih.dtype))
    console, grid = Console(), Table("layer", "array", "shape", "dtype", "numbers")
    for depth, layer in enumerate(layers):
        for half, reverse in layer.halves():
            place = f"{depth} {'backward' if reverse else 'forward'}"
            for path, array in jax.tree_util.tree_leaves_with_path(half):
                grid.add_row(place, name_of(path), str(list(array.shape)), str(array.dtype), f"{array.size:,}")
    total = sum(a.size for a in jax.tree.leaves(layers))
    console.print(
        f"{cell!r}: {D} inputs, {H} hidden units, {len(layers)} layers, {total:,} parameters", highlight=False
    )
    console.print(grid)
    console.print(f"A batch of {options.batch} sequences of {options.length} steps:", highlight=False)
    print(costs)
