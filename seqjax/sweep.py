"""Grids of runs as one program, laid out over the devices at hand without a change in any result."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

RESULTS = ("seed", "update", "score", "loss", "train_score", "gradient_norm", "clipped", "turned", "failed_at", "cause")


@dataclass(frozen=True)
class Plan:
    """How runs are laid out; their results do not depend on it.

    devices   how many local devices share them
    together  how many at a time, vmapped, on each
    workers   how many threads keep the cores of one device busy, each with its share of the runs
    """

    devices: int = 1
    together: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        for name, size, most in (
            ("devices", self.devices, jax.local_device_count()),
            ("together", self.together, None),
            ("workers", self.workers, None),
        ):
            if not isinstance(size, Integral) or size < 1 or size > (most or size):
                raise ValueError(f"{name} of a plan must be a whole number from 1 to {most or 'any'}, got {size!r}")
        if self.devices > 1 and self.workers > 1:
            raise ValueError(f"a plan spreads runs over devices or over workers, got {self}: leave one of them at 1")


def plan_for(runs: int) -> Plan:
    """The layout for so many runs: every core or device busy.

    CPU           one run at a time on each device, or, where JAX has the one device that it makes by itself, by a
                  worker for every core: no setting is needed
    accelerators  an equal share of the runs on each, all at once

    Measured on 2 cores of a Xeon at 2.8 GHz, 16 runs of recall (T = 50, B = 64), in processor time relative to one run
    at a time: LSTM (H = 32) 0.9, 1.0, 1.2 and 1.5 at 2, 4, 8 and 16 together, GRU (H = 32) 1.1 and 1.4 at 2 and 8, LSTM
    (H = 128) 1.1 at 4. Two workers share the work evenly and both run all the time; they took 0.9, 1.05 and 0.8 of the
    processor time of one program (LSTM and GRU at H = 32, LSTM at H = 128), as two devices do.
    """
    devices = min(runs, jax.local_device_count())
    if jax.default_backend() != "cpu":
        return Plan(devices, together=-(-runs // devices))
    return Plan(devices, workers=1 if jax.local_device_count() > 1 else min(runs, cores()))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seed_keys(seeds: Any) -> tuple[list[int], Array]:
    """Seeds 0..n-1, or those listed, and their threefry keys [S].

    Raises ValueError for none, for repeats, and for seeds outside 0..2³²-1, of which two could be one key.
    """
    numbers = list(range(seeds) if isinstance(seeds, Integral) else seeds)
    whole = all(isinstance(seed, Integral) and 0 <= seed < 2**32 for seed in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be a count, or different whole numbers from 0 to 2**32 - 1, got {seeds!r}")
    return numbers, jnp.stack([jax.random.key(seed, impl="threefry2x32") for seed in numbers])


def require_threefry(keys: Array) -> None:
    """ValueError for other generators: under vmap, `rbg` draws every run's numbers from the first key."""
    name = str(jax.random.key_impl(keys))
    if "fry" not in name:
        raise ValueError(f"keys of a sweep must be threefry, got {name}: use jax.random.key(seed, impl='threefry2x32')")


def checked_runs(keys: Array, hyper: Mapping[str, Any]) -> tuple[Array, dict[str, Array]]:
    """Keys [R] of one generator and hyperparameters [R] each; ValueError otherwise."""
    require_threefry(keys)
    arrays = {name: jnp.asarray(values) for name, values in hyper.items()}
    for name, values in arrays.items():
        if values.shape != (len(keys),):
            raise ValueError(f"hyperparameter {name!r} must hold one number per key, [{len(keys)}], got {values.shape}")
    return keys, arrays


def checked_axes(static: Mapping[str, Any], dynamic: Mapping[str, Any]) -> tuple[dict[str, list], dict[str, list]]:
    """Axes as lists of distinct values under names that no result needs; ValueError otherwise."""
    axes = [{name: list(values) for name, values in each.items()} for each in (static, dynamic)]
    for name in [*axes[0], *axes[1]]:
        if name in RESULTS or (name in static and name in dynamic):
            raise ValueError(f"an axis cannot be called {name!r}: results have that name, or two axes do")
    for name, values in (axes[0] | axes[1]).items():
        if not values or any(values.count(value) > 1 for value in values):
            raise ValueError(f"axis {name!r} must have at least one value, each once, got {values}")
    return axes[0], axes[1]


class Read(Mapping[str, Any]):
    """Hyperparameters that remember which of them were read."""

    def __init__(self, hyper: Mapping[str, Any]) -> None:
        self.hyper, self.names = dict(hyper), set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return self.hyper[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hyper)

    def __len__(self) -> int:
        return len(self.hyper)


def grid(keys: Array, axes: Mapping[str, Sequence[float]]) -> tuple[Array, dict[str, Array]]:
    """Every combination, the keys varying fastest: keys [R] and hyperparameters {name: [R]}."""
    points = list(product(*axes.values(), range(len(keys))))
    columns = list(zip(*points, strict=True))
    hyper = {name: jnp.asarray(column) for name, column in zip(axes, columns[:-1], strict=True)}
    return keys[np.array(columns[-1])], hyper


def spread(function: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    """`vmap(function)` over the leading axis of its arguments, laid out by a plan over devices; `staffed` adds workers.

    Where the runs do not divide among the devices, the last is repeated to fill up and the copies are dropped.
    """

    def share(trees: Any) -> Any:
        batch_size = None if plan.together == 1 else plan.together
        return jax.lax.map(lambda tree: function(*tree), trees, batch_size=batch_size)

    def over(*trees: Any) -> Any:
        runs = len(jax.tree.leaves(trees)[0])
        if plan.devices == 1:
            return share(trees)
        rows = filled(runs, plan.devices)
        mesh, spec = Mesh(np.array(jax.local_devices()[: plan.devices]), "run"), PartitionSpec("run")
        sharded = jax.shard_map(share, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.tree.map(lambda a: a[:runs], sharded(jax.tree.map(lambda a: a[rows], trees)))

    return over


def filled(runs: int, shares: int) -> np.ndarray:
    """Rows 0..runs-1, and the last again until they divide into equal shares."""
    return np.minimum(np.arange(runs + -runs % shares), runs - 1)


def staffed(function: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    """`spread(function, plan)` compiled, with each worker's share of the runs on a thread of its own.

    The shares have one size, so that one program serves all; it is compiled before the threads start, so that they only
    run it, which JAX does without Python's lock.
    """
    compiled, ready = jax.jit(spread(function, plan)), {}
    if plan.workers == 1:
        return compiled

    def over(*trees: Any) -> Any:
        shares = shared(trees, plan.workers)
        leaves, structure = jax.tree.flatten(shares[0])
        kind = (structure, *map(jax.typeof, leaves))
        if kind not in ready:
            ready[kind] = compiled.lower(*shares[0]).compile()
        with ThreadPoolExecutor(plan.workers) as pool:
            parts = list(pool.map(lambda share: jax.block_until_ready(ready[kind](*share)), shares))
        return joined(parts, len(jax.tree.leaves(trees)[0]))

    return over


@partial(jax.jit, static_argnames="workers")
def shared(trees: Any, workers: int) -> list[Any]:
    """Equal shares of the leading axis, filled up."""
    rows = filled(len(jax.tree.leaves(trees)[0]), workers)
    return [jax.tree.map(lambda a, own=own: a[own], trees) for own in np.split(rows, workers)]


@partial(jax.jit, static_argnames="runs")
def joined(parts: list[Any], runs: int) -> Any:
    """The shares as one again, without what filled them up."""
    return jax.tree.map(lambda *each: jnp.concatenate(each)[:runs], *parts)


def run_many(
    states: Any,
    advance: Callable[[int], Callable[..., Any]],
    hyper: Mapping[str, Array],
    *,
    updates: int,
    chunk: int = 100,
    before: Sequence[Any] = (),
    done: int = 0,
    watch: Sequence[Callable[[int, Any, list[Any]], None]] = (),
) -> tuple[Any, Any]:
    """Drive many runs from the host, a chunk of updates at a time: final states [R] and history [R, updates].

    `advance(n)(states, hyper)` gives the states n updates later, with the history between. After every chunk each of
    `watch` is called with the updates done, the states, and the history in parts. `before` is the history of the first
    `done` updates, where there were some. Chunking never changes a result.
    """
    parts = list(before)
    for first in range(done, updates, chunk):
        size = min(chunk, updates - first)
        states, part = advance(size)(states, hyper)
        parts.append(jax.device_get(part))
        for look in watch:
            look(first + size, states, parts)
    return states, joined_history(parts)


def joined_history(parts: Sequence[Any]) -> Any:
    """History [R, updates] of chunks one after the other."""
    return jax.tree.map(lambda *each: np.concatenate(each, axis=1), *parts)


def gather(parts: Sequence[Any], axes: Mapping[str, Sequence[Any]]) -> Any:
    """One labelled `xarray.Dataset` from datasets of equal shape, one per combination of `axes`, in that order."""
    import xarray as xr

    lead = [len(values) for values in axes.values()]
    variables = {
        name: ((*axes, *first.dims), np.stack([part[name].values for part in parts]).reshape(*lead, *first.shape))
        for name, first in parts[0].data_vars.items()
    }
    return xr.Dataset(variables, {**{k: list(v) for k, v in axes.items()}, **parts[0].coords})
