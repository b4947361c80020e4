"""What training one network on one batch costs, read off shapes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import Cell, require_sizes
from seqjax.cost.counts import Gradient, Memory, MultiplyAdds, Parameters
from seqjax.cost.products import work_of
from seqjax.cost.way_back import bytes_read, bytes_stacked, way_back
from seqjax.losses import cross_entropy
from seqjax.network import Network, NetworkParams, Output, network

DTYPES = ("float32", "float64", "bfloat16", "float16")


def cost(
    cell: Cell,
    *,
    B: int,
    T: int,
    D: int,
    H: int,
    K: int | None = None,
    layers: int = 1,
    bidirectional: bool = False,
    dtype: str = "float32",
) -> "Cost":
    """What a stack of cells costs on a batch of B sequences of T steps of D numbers; nothing is allocated or run.

    K      outputs of an affine readout at every step; None for no readout
    dtype  of params and inputs; states are carried in float32 or wider all the same
    Raises ValueError for sizes below 1 and for a dtype that is not one of DTYPES, or not enabled.
    """
    require_sizes(B=B, T=T, D=D, H=H, **({} if K is None else {"K": K}))
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {list(DTYPES)}, got {dtype!r}")
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(f"dtype {dtype!r} is not enabled: set jax_enable_x64 first")
    net = network(cell, readout="every", layers=layers, bidirectional=bidirectional)
    return Cost(cell, net, B, T, D, H, K, dtype)


@dataclass(frozen=True)
class Cost:
    """The costs of one network on one batch of sequences; each is worked out when it is first asked for."""

    cell: Cell
    net: Network
    B: int
    T: int
    D: int
    H: int
    K: int | None  # None without a readout
    dtype: str

    @cached_property
    def params(self) -> NetworkParams:
        """Shapes of the params; a network always has a head, which is not counted where K is None."""
        shapes = jax.eval_shape(lambda: self.net.init(jax.random.key(0), self.D, self.H, self.K or 1))
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, self.dtype if is_float(a) else a.dtype), shapes)

    @cached_property
    def parameters(self) -> Parameters:
        """Parameter counts."""
        leaves = jax.tree_util.tree_leaves_with_path(self.params.body)
        matrices = sum(a.size for _, a in leaves if a.ndim > 1)
        second = sum(a.size for path, a in leaves if jax.tree_util.keystr(path[-1:], simple=True) == "b_hh")
        head = self.params.head
        return Parameters(
            matrices=matrices,
            vectors=sum(a.size for _, a in leaves) - matrices,
            second_biases=second,
            readout_matrix=head.W.size if self.K else 0,
            readout_bias=head.b.size if self.K else 0,
        )

    @cached_property
    def multiply_adds(self) -> MultiplyAdds:
        """Multiply-adds of one step of one example; ValueError for a cell with products that cannot be counted."""
        halves = [half for layer in self.params.body for half, _ in layer.halves()]
        parts = zip(*(work_of(self.cell, half, self.dtype) for half in halves), strict=True)
        inputs, recurrence, shown = (sum(part) for part in parts)
        return MultiplyAdds(inputs, recurrence, shown, self.parameters.readout_matrix)

    @property
    def multiply_adds_per_sequence(self) -> int:
        """Multiply-adds of one example's T steps."""
        return self.T * self.multiply_adds.step

    @cached_property
    def memory(self) -> Memory:
        """Bytes of training on the batch, as the lecture counts them."""
        return Memory(
            weights=bytes_of(self.params if self.K else self.params.body),
            inputs=bytes_of(self.batch(self.T)),
            states=bytes_of([trace.after for trace in self.output.body.traces]),
            logits=bytes_of(self.output.every) if self.K else 0,
        )

    @property
    def crossing(self) -> float:
        """The number of steps at which activations reach the fixed memory."""
        return self.T * self.memory.fixed / self.memory.activations

    @cached_property
    def gradient(self) -> Gradient:
        """Bytes that the gradient takes. What it reads at two lengths differs by what is there for every step: weights
        cancel."""
        shorter, longer, whole = (way_back(self.loss, self.params, self.batch(T)) for T in (2, 3, self.T))
        return Gradient(self.T * (bytes_read(longer) - bytes_read(shorter)), bytes_stacked(whole))

    @cached_property
    def xla_forward(self) -> int:
        """Bytes of XLA's temporaries for the outputs, on this backend: compiled, never run; no arguments or results."""
        return temporaries(self.outputs, self.params, self.batch(self.T))

    @cached_property
    def xla_gradient(self) -> int:
        """The same for the gradient of the loss to the params."""
        return temporaries(jax.grad(self.loss), self.params, self.batch(self.T))

    @cached_property
    def output(self) -> Output:
        """Shapes of what the network returns for the batch."""
        return jax.eval_shape(self.net.apply, self.params, self.batch(self.T))

    def batch(self, T: int) -> jax.ShapeDtypeStruct:
        """The shape of inputs of T steps, [B, T, D]."""
        return jax.ShapeDtypeStruct((self.B, T, self.D), self.dtype)

    def outputs(self, params: NetworkParams, xs: Array) -> Any:
        """Logits [B, T, K], or what the cells show, [B, T, H], without a readout."""
        output = self.net.apply(params, xs)
        return output.every if self.K else output.body.ys

    def loss(self, params: NetworkParams, xs: Array) -> Array:
        """Cross-entropy of the logits, or half the squared outputs: something to differentiate, that needs them."""
        ys = self.outputs(params, xs)
        return cross_entropy(ys, jnp.zeros(ys.shape[:2], int)) if self.K else jnp.square(ys).sum() / 2

    def __str__(self) -> str:
        return "\n".join(f"{row['cost']:45} {row['amount']:>18}" for row in self.table())

    def table(self) -> list[dict[str, str]]:
        """The numbers in words, a row a dict, to be printed."""
        p, m, b, g = self.parameters, self.multiply_adds, self.memory, self.gradient
        counts = {
            "parameters of the cells, as stored": p.stored,
            "parameters of the cells, one bias a gate": p.one_bias,
            "parameters with the readout, one bias a gate": p.with_readout,
            "multiply-adds a step, input branch": m.inputs,
            "multiply-adds a step, recurrence": m.recurrence,
            "multiply-adds a step, states shown": m.shown,
            "multiply-adds a step, readout": m.readout,
            f"multiply-adds of {self.T} steps": self.multiply_adds_per_sequence,
        }
        sizes = {
            "weights, gradient, Adam's moments": b.fixed,
            "inputs": b.inputs,
            "states": b.states,
            "logits": b.logits,
            "kept for the way back": g.kept,
            "needed for a gradient, at least": g.least,
        }
        rows = [(what, f"{count:,}") for what, count in counts.items()]
        rows += [(what, f"{size / 1e6:,.2f} MB") for what, size in sizes.items()]
        return [{"cost": what, "amount": amount} for what, amount in rows]


def temporaries(function: Callable[..., Any], *args: Any) -> int:
    """Bytes of XLA's temporaries in a compiled function of arguments of these shapes."""
    analysis = jax.jit(function).lower(*args).compile().memory_analysis()
    if analysis is None:
        raise RuntimeError(f"XLA does not analyse memory on {jax.default_backend()}")
    return analysis.temp_size_in_bytes


def is_float(a: Any) -> bool:
    """Whether an array, or its shape, is of floating-point numbers."""
    return jnp.issubdtype(a.dtype, jnp.floating)


def bytes_of(tree: Any) -> int:
    """Bytes of all arrays, or of shapes of arrays."""
    return sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(tree))
