"""Depth and direction: layers of one cell, each reading the outputs of the one below."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.body import Body
from seqjax.core import Cell, Params, State, require_cell, require_sizes, require_switches
from seqjax.dropout import Dropout, drop_between, noise_of, require_use
from seqjax.sequences import Steps, add_batch, batch_first, batch_last, drop_batch, segment_ends, steps_of
from seqjax.unroll import Trace, check_state, outside, over_batch, require_engine, scan


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer:
    """Params of one layer; a backward half makes it bidirectional."""

    forward: Params
    backward: Params | None = None

    def halves(self) -> list[tuple[Params, bool]]:
        """Each direction's params, with whether it scans in reverse."""
        return [(self.forward, False)] + ([] if self.backward is None else [(self.backward, True)])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StackTrace:
    """What happened in every layer, in PyTorch's order: l0 forward, l0 backward, l1 forward, ..."""

    traces: tuple[Trace, ...]
    ys: Array  # [B, T, H], or [B, T, 2H] = [forward; backward], of the top layer
    final: tuple[State, ...]  # one state per layer and direction


def init_stack(
    key: Array, cell: Cell, D: int, H: int, *, layers: int = 1, bidirectional: bool = False
) -> tuple[Layer, ...]:
    """Params of a stack: the first layer reads D numbers, those above read H, or 2H where both directions run."""
    require_sizes(layers=layers)
    widths = [D] + [H * (1 + bidirectional)] * (layers - 1)
    keys = jax.random.split(key, (layers, 2))
    return tuple(
        Layer(cell.init(k[0], width, H), cell.init(k[1], width, H) if bidirectional else None)
        for k, width in zip(keys, widths, strict=True)
    )


def unroll_stack(
    cell: Cell,
    params: tuple[Layer, ...],
    xs: Array,
    *,
    lengths: Any = None,
    mask: Any = None,
    state: tuple[State, ...] | None = None,
    reset: Any = None,
    residual: bool = False,
    dropout: Dropout | None = None,
    key: Array | None = None,
    evaluator: str = "auto",
    chunk: int | None = None,
) -> StackTrace:
    """Run a stack over one sequence [T, D] or a batch [B, T, D]; arguments, evaluator and chunk among them,
    layout and errors as for `unroll`.

    state     one state per layer and direction, as `final` holds
    reset     starts a new segment at the flagged step in both directions
    residual  every layer above the first adds what it reads to what it shows: dys/dxs of a layer is I + ...
    dropout   noise of a training step, drawn from `key`; without a key, zoneout takes its expectation
    Raises ValueError where residual or dropout would change nothing.
    """
    require_layers(params)
    require_engine(cell, evaluator, chunk)
    require_effect(cell, len(params), residual, dropout)
    if (dropout is None or not dropout.zoneout) and (dropout is None) != (key is None):
        raise ValueError(
            "dropout and key go together: without a key nothing is dropped, without a rate nothing is drawn"
        )
    steps = steps_of(xs, rank=2, lengths=lengths, mask=mask, reset=reset)
    inside = None if state is None else states_inside(cell, params, state, steps)
    run = partial(scan_stack, cell, residual=residual, dropout=dropout, key=key, evaluator=evaluator, chunk=chunk)
    return outside(run(params, steps.xs, inside, steps.mask, steps.reset), steps)


def require_layers(params: Any) -> None:
    """ValueError unless params are layers."""
    if not isinstance(params, tuple | list) or not all(isinstance(layer, Layer) for layer in params):
        what = type(params).__name__
        raise ValueError(f"params must be layers, such as init_stack returns or a network's params.body, got {what}")


def states_inside(cell: Cell, params: tuple[Layer, ...], state: tuple[State, ...], steps: Steps) -> tuple[State, ...]:
    """Given states in the inside layout; ValueError unless there is one per layer and direction, of its shapes."""
    halves = [half for layer in params for half, _ in layer.halves()]
    if len(state) != len(halves):
        raise ValueError(f"state must hold {len(halves)} states, one per layer and direction, got {len(state)}")
    batched = add_batch(state, steps.batched)
    for half, part in zip(halves, batched, strict=True):
        check_state(cell, half, part, steps.xs.shape[-1])
    return batch_last(batched)


def require_effect(cell: Cell, layers: int, residual: bool, dropout: Dropout | None) -> None:
    """ValueError for a residual or a dropout that would change nothing."""
    require_switches(residual=residual)
    if residual and layers == 1:
        raise ValueError("residual adds nothing in 1 layer: add layers, or leave it out")
    if dropout is not None:
        require_use(dropout, cell, layers)


def unperturbed(stack: StackTrace) -> tuple[State, ...]:
    """The `perturb` of `scan_stack` that changes nothing, from its trace or the shapes of one."""
    return tuple(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), trace.after) for trace in stack.traces)


def scan_stack(
    cell: Cell,
    params: tuple[Layer, ...],
    xs: Array,
    state: Any = None,
    mask: Array | None = None,
    reset: Array | None = None,
    perturb: Any = None,
    *,
    residual: bool = False,
    dropout: Dropout | None = None,
    key: Array | None = None,
    evaluator: str = "auto",
    chunk: int | None = None,
) -> StackTrace:
    """`unroll_stack` in the inside layout, unchecked; `perturb` as for `scan`, one per layer and direction."""
    resets = {False: reset, True: None if reset is None else segment_ends(reset, mask)}
    keys = [[None] * 3] * len(params) if key is None else jax.random.split(key, (len(params), 3))
    run = partial(scan, cell, evaluator=evaluator, chunk=chunk)
    traces: list[Trace] = []
    for depth, layer in enumerate(params):
        read, ys = drop_between(dropout, keys[depth][2], xs) if depth else xs, []
        for half, reverse in layer.halves():
            given = [None if each is None else each[len(traces)] for each in (state, perturb)]
            noise = noise_of(dropout, keys[depth][int(reverse)], cell, half, len(xs), xs.shape[-1])
            traces.append(run(half, read, given[0], mask, resets[reverse], given[1], noise, reverse=reverse))
            ys.append(traces[-1].ys)
        shown = jnp.concatenate(ys, axis=1)
        xs = shown + xs if residual and depth else shown
    return StackTrace(tuple(traces), xs, tuple(trace.final for trace in traces))


def recurrent(
    cell: Cell,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    residual: bool = False,
    dropout: Dropout | None = None,
    evaluator: str = "auto",
    chunk: int | None = None,
) -> Body:
    """A stack as the body of a network; options and errors as for `network`."""
    require_cell(cell)
    require_sizes(layers=layers)
    require_switches(bidirectional=bidirectional)
    require_effect(cell, layers, residual, dropout)
    require_engine(cell, evaluator, chunk)
    marks = {"-bidirectional": bidirectional, f"-{layers}": layers > 1, "-residual": residual, "-dropout": dropout}
    run = partial(scan_stack, cell, residual=residual, dropout=dropout, evaluator=evaluator, chunk=chunk)
    return Body(
        name=cell.name + "".join(mark for mark, holds in marks.items() if holds),
        init=lambda key, D, H: init_stack(key, cell, D, H, layers=layers, bidirectional=bidirectional),
        reads=reads,
        shows=partial(shows, cell),
        run=run,
        last=partial(summary, cell, residual),
        start=partial(starts, cell),
        step=partial(one_event, cell, run),
        about=json.dumps({"cell": cell.name, "residual": residual}),
        cell=cell,
        residual=residual,
    )


def reads(params: tuple[Layer, ...]) -> int:
    """How many numbers a step the first layer reads."""
    require_layers(params)
    return params[0].forward.W_ih.shape[1]


def shows(cell: Cell, params: tuple[Layer, ...]) -> int:
    """How many numbers a step the top layer shows."""
    halves = params[-1].halves()
    return len(halves) * jax.eval_shape(lambda half: cell.read(half, cell.start(half)), halves[0][0]).shape[0]


def summary(cell: Cell, residual: bool, params: tuple[Layer, ...], trace: StackTrace) -> Array:
    """What the top layer shows at the end of its scans, [H, B] or [forward; backward].

    In a residual stack that is the sum over all layers, as every layer adds what it reads.
    """
    read, finals, shown = over_batch(cell.read), iter(trace.final), []
    for layer in params:
        shown.append(jnp.concatenate([read(half, next(finals)) for half, _ in layer.halves()]))
    return sum(shown[1:], shown[0]) if residual else shown[-1]


def starts(cell: Cell, params: tuple[Layer, ...]) -> tuple[State, ...]:
    """The cell's own start in every layer; ValueError for layers of two directions."""
    require_layers(params)
    if any(layer.backward is not None for layer in params):
        raise ValueError("a bidirectional network cannot stream: its backward half starts at the end of the sequence")
    return tuple(cell.start(layer.forward) for layer in params)


def one_event(
    cell: Cell, run: Callable[..., StackTrace], params: tuple[Layer, ...], state: tuple[State, ...], x: Array
) -> tuple[tuple[State, ...], Array]:
    """One step of the engine, of a batch of one; what it checks costs nothing once it is compiled."""
    starts(cell, params)
    xs = x[None, :, None]
    inside = states_inside(cell, params, state, Steps(xs, None, None, False))
    trace = run(params, xs, state=inside, evaluator="scan")
    return drop_batch(batch_first(trace.final), False), trace.ys[0, :, 0]
