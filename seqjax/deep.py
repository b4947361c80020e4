"""A whole stack as one recurrence: its state is that of all layers, so that whatever asks a cell for its Jacobian,
spectrum or exponents can ask a stack."""

from typing import Any

from seqjax.core import Cell, Params, factory, require_cell
from seqjax.stack import Layer, StackTrace, require_layers
from seqjax.unroll import Trace


@factory
def deep(cell: Cell, *, residual: bool = False) -> Cell:
    """The cell that takes a step in every layer of a stack, from the bottom up: params are its layers, the state is one
    state a layer, and it reads what the top layer shows.

    Its N counts all layers. ValueError, from `start`, for params that are not layers and where a layer runs backwards,
    as a step of the whole then has no order.
    """

    require_cell(cell)

    def start(params: tuple[Layer, ...]) -> tuple[Any, ...]:
        require_forward(params)
        return tuple(cell.start(layer.forward) for layer in params)

    def project(params: tuple[Layer, ...], x: Any) -> Any:
        require_forward(params)
        return cell.project(params[0].forward, x)

    def update(params: tuple[Layer, ...], state: Any, u: Any, a: tuple[()]) -> tuple[Any, ...]:
        return climb(cell, residual, params, state, u)

    def read(params: tuple[Layer, ...], state: Any) -> Any:
        shown = [cell.read(layer.forward, own) for layer, own in zip(params, state, strict=True)]
        return sum(shown[1:], shown[0]) if residual else shown[-1]

    def init(key: Any, D: int, H: int) -> Params:
        raise ValueError(
            "a stack has no depth of its own to draw: make params with init_stack(key, cell, D, H, layers=)"
        )

    name = f"deep-{cell.name}{'-residual' if residual else ''}"
    return Cell(name, init, start, project, lambda params, state: (), update, read)


def climb(cell: Cell, residual: bool, params: tuple[Layer, ...], state: Any, u: Any) -> tuple[Any, ...]:
    """One step of every layer, from the bottom up."""
    new: list[Any] = []
    shown: Any = None
    for depth, (layer, old) in enumerate(zip(params, state, strict=True)):
        own = layer.forward
        new.append(cell.step(own, old, cell.project(own, shown) if depth else u))
        y = cell.read(own, new[-1])
        shown = y + shown if residual and depth else y
    return tuple(new)


def require_forward(params: Any) -> None:
    """ValueError unless params are layers that all run forwards."""
    require_layers(params)
    if not params:
        raise ValueError("params must hold at least one layer, got none")
    if any(layer.backward is not None for layer in params):
        raise ValueError("params must run forwards alone: ask each direction of a bidirectional layer by itself")


def as_one(stack: StackTrace) -> Trace:
    """The trace of a stack that runs forwards as that of its `deep` cell."""
    traces = stack.traces
    before, after, final = (tuple(getattr(each, name) for each in traces) for name in ("before", "after", "final"))
    return Trace(traces[0].us, before, after, final, stack.ys, traces[0].mask)
