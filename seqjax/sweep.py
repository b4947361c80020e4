"""Grids of runs as one program, laid out over the devices at hand without a change in any result."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec


@dataclass(frozen=True)
class Plan:
    """How runs are laid out: over how many local devices, and how many at a time (vmapped) on each."""

    devices: int = 1
    together: int = 1


def plan_for(runs: int) -> Plan:
    """One after another on each CPU device (vmapping them was measured slower there), all at once on accelerators."""
    devices = min(runs, jax.local_device_count())
    return Plan(devices, 1 if jax.default_backend() == "cpu" else -(-runs // devices))


def seed_keys(seeds: int | Iterable[int]) -> tuple[list[int], Array]:
    """Seeds 0..n-1, or those listed, and their threefry keys [S]. ValueError for none, or for repeats."""
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be at least one, all different, got {seeds!r}")
    return numbers, jnp.stack([jax.random.key(seed, impl="threefry2x32") for seed in numbers])


def require_threefry(keys: Array) -> None:
    """ValueError for other generators: under vmap, `rbg` draws every run's numbers from the first key."""
    name = str(jax.random.key_impl(keys))
    if "fry" not in name:
        raise ValueError(f"keys of a sweep must be threefry, got {name}: use jax.random.key(seed, impl='threefry2x32')")


def grid(keys: Array, axes: Mapping[str, Sequence[float]]) -> tuple[Array, dict[str, Array]]:
    """Every combination, the keys varying fastest: keys [R] and hyperparameters {name: [R]}."""
    points = list(product(*axes.values(), range(len(keys))))
    columns = list(zip(*points, strict=True))
    hyper = {name: jnp.asarray(column) for name, column in zip(axes, columns[:-1], strict=True)}
    return keys[np.array(columns[-1])], hyper


def spread(function: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    """`vmap(function)` over the leading axis of its arguments, laid out by a plan.

    Where the runs do not divide among the devices, the last is repeated to fill up and the copies are dropped.
    """

    def share(trees: Any) -> Any:
        batch_size = None if plan.together == 1 else plan.together
        return jax.lax.map(lambda tree: function(*tree), trees, batch_size=batch_size)

    def over(*trees: Any) -> Any:
        runs = len(jax.tree.leaves(trees)[0])
        if plan.devices == 1:
            return share(trees)
        rows = np.minimum(np.arange(runs + -runs % plan.devices), runs - 1)
        mesh, spec = Mesh(np.array(jax.local_devices()[: plan.devices]), "run"), PartitionSpec("run")
        sharded = jax.shard_map(share, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.tree.map(lambda a: a[:runs], sharded(jax.tree.map(lambda a: a[rows], trees)))

    return over


def run_many(
    begin: Callable[..., Any],
    advance: Callable[[int], Callable[..., Any]],
    keys: Array,
    hyper: Mapping[str, Array],
    *,
    updates: int,
    chunk: int = 100,
    progress: Callable[[int, int, Any], None] | None = None,
) -> tuple[Any, Any]:
    """Drive many runs from the host, a chunk of updates at a time: final states [R] and history [R, updates].

    `begin(keys, hyper)` gives the states; `advance(n)(states, hyper)` gives them n updates later, with the history
    between. `progress(done, updates, history)` is called after every chunk. Chunking never changes a result.
    """
    require_threefry(keys)
    states, parts = begin(keys, hyper), []
    for done in range(0, updates, chunk):
        size = min(chunk, updates - done)
        states, part = advance(size)(states, hyper)
        parts.append(jax.device_get(part))
        if progress is not None:
            progress(done + size, updates, parts[-1])
    return states, jax.tree.map(lambda *each: np.concatenate(each, axis=1), *parts)


def gather(parts: Sequence[Any], axes: Mapping[str, Sequence[Any]]) -> Any:
    """One labelled `xarray.Dataset` from datasets of equal shape, one per combination of `axes`, in that order."""
    import xarray as xr

    lead = [len(values) for values in axes.values()]
    variables = {
        name: ((*axes, *first.dims), np.stack([part[name].values for part in parts]).reshape(*lead, *first.shape))
        for name, first in parts[0].data_vars.items()
    }
    return xr.Dataset(variables, {**{k: list(v) for k, v in axes.items()}, **parts[0].coords})
