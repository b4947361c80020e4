"""`seqjax inspect MODEL`: layers, shapes, parameters and costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from rich.console import Console
from rich.table import Table

from seqjax.checkpoint import name_of
from seqjax.cli.model import Translator, load
from seqjax.cost import cost
from seqjax.init import NoBias, with_init
from seqjax.interop.loaded import Loaded
from seqjax.seq2seq import pair_cost
from seqjax.seq2seq.params import shown


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
    model = load(
        options.model, options.prefix, relu=options.relu, dtype=options.dtype, run=options.run, step=options.step
    )
    console = Console()
    if isinstance(model, Translator):
        of_pairs(console, model, options)
    else:
        of_layers(console, model, options)


def of_layers(console: Console, model: Loaded, options: Inspect) -> None:
    """Of a recurrent stack."""
    cell, layers = model
    first = layers[0].forward
    H, D = jax.eval_shape(lambda p: cell.read(p, cell.start(p)), first).shape[0], first.W_ih.shape[1]
    sizes = {"B": options.batch, "T": options.length, "D": D, "H": H, "layers": len(layers)}
    counted = cell if getattr(first, "b_ih", True) is not None else with_init(cell, NoBias())
    costs = cost(counted, **sizes, bidirectional=layers[0].backward is not None, dtype=str(first.W_ih.dtype))
    halves = [(depth, *half) for depth, layer in enumerate(layers) for half in layer.halves()]
    total = sum(a.size for a in jax.tree.leaves(layers))
    said = f"{cell!r}: {D} inputs, {H} hidden units, {len(layers)} layers, {total:,} parameters"
    console.print(said, highlight=False)
    console.print(arrays("layer", {f"{n} {'backward' if back else 'forward'}": half for n, half, back in halves}))
    console.print(f"A batch of {options.batch} sequences of {options.length} steps:", highlight=False)
    print(costs)


def of_pairs(console: Console, model: Translator, options: Inspect) -> None:
    """Of an encoder-decoder."""
    network, params = model
    (D, K), H = model.sizes, shown(network.design.decoder, params.body.decoder)
    costs = pair_cost(network, D=D, H=H, K=K, S=options.length)
    said = f"{network.name}: {D} source symbols, {K} target symbols, {H} hidden units, {costs.total:,} parameters"
    console.print(said, highlight=False)
    console.print(arrays("part", {"body": params.body, "readout": params.head}))
    console.print(f"A source of {options.length} symbols:", highlight=False)
    print(costs)


def arrays(what: str, parts: Mapping[str, Any]) -> Table:
    """Every array, part by part."""
    grid = Table(what, "array", "shape", "dtype", "numbers")
    for place, part in parts.items():
        for path, array in jax.tree_util.tree_leaves_with_path(part):
            grid.add_row(place, name_of(path), str(list(array.shape)), str(array.dtype), f"{array.size:,}")
    return grid
