"""What an encoder-decoder costs before it is run: parameters part by part, multiply-adds a symbol."""

from dataclasses import dataclass
from typing import Any

import jax

from seqjax.core import Cell, require_sizes
from seqjax.cost.products import work_of
from seqjax.seq2seq.model import EncoderDecoder
from seqjax.stack import Layer

DTYPE = "float32"


@dataclass(frozen=True)
class PairCost:
    """Counts by part, in the order in which the data meets them.

    Multiply-adds are those of matrix products, and of the mixing of contexts, for one example; embeddings are looked
    up, which multiplies nothing.
    """

    parameters: dict[str, int]  # as stored
    one_bias: dict[str, int]  # with one bias a gate, as the lecture counts: 4H (H + D + 1) for an LSTM
    source: dict[str, int]  # multiply-adds a source symbol
    handover: int  # multiply-adds of the bridge, once a pair
    target: dict[str, int]  # multiply-adds a target symbol

    @property
    def total(self) -> int:
        """Parameters, as stored."""
        return sum(self.parameters.values())

    def __str__(self) -> str:
        return "\n".join(f"{row['cost']:45} {row['amount']:>18}" for row in self.table())

    def table(self) -> list[dict[str, str]]:
        """The numbers in words, a row a dict, to be printed."""
        rows = [(f"parameters, {part}", count) for part, count in self.parameters.items()]
        rows += [("parameters", self.total)]
        rows += [(f"multiply-adds a source symbol, {part}", count) for part, count in self.source.items()]
        rows += [("multiply-adds of the bridge", self.handover)]
        rows += [(f"multiply-adds a target symbol, {part}", count) for part, count in self.target.items()]
        return [{"cost": what, "amount": f"{count:,}"} for what, count in rows]


def pair_cost(network: EncoderDecoder, *, D: int, H: int, K: int, S: int = 1) -> PairCost:
    """What an encoder-decoder of D source and K target symbols costs; nothing is allocated or run.

    S is the length of the source, over which the attention goes at every step. ValueError for sizes below 1, and as the
    network's `init` raises it.
    """
    require_sizes(D=D, H=H, K=K, S=S)
    params = jax.eval_shape(lambda: network.init(jax.random.key(0), D, H, K))
    body, design = params.body, network.design
    parts = {"source embedding": body.source, "target embedding": body.target, "encoder": body.encoder}
    parts |= {"bridge": body.bridge, "decoder": body.decoder, "attention": body.align, "readout": params.head}
    align = body.align
    source, target = {"encoder": work(design.cell, body.encoder)}, {"decoder": work(design.decoder, body.decoder)}
    if align is not None:
        (A, N), F = align.W.shape, align.U.shape[1]
        source["attention"] = A * F
        target["attention"] = A * N + S * (A + F)
    target["readout"] = params.head.W.size
    return PairCost(
        parameters={name: count(part) for name, part in parts.items()},
        one_bias={name: count(part) - second_biases(part) for name, part in parts.items()},
        source=source,
        handover=sum(dense.W.size for dense in body.bridge or ()),
        target=target,
    )


def work(cell: Cell, layers: tuple[Layer, ...]) -> int:
    """Multiply-adds of one step of a stack."""
    halves = [half for layer in layers for half, _ in layer.halves()]
    return sum(sum(work_of(cell, half, DTYPE)) for half in halves)


def count(tree: Any) -> int:
    """Numbers in all arrays."""
    return sum(a.size for a in jax.tree.leaves(tree))


def second_biases(tree: Any) -> int:
    """The b_hh that PyTorch keeps beside b_ih."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return sum(a.size for path, a in leaves if jax.tree_util.keystr(path[-1:], simple=True) == "b_hh")
