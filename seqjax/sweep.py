"""Grids of runs: their keys and hyperparameters, driven from the host as one program."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.processes import fetch

RESULTS = ("seed", "update", "score", "loss", "train_score", "gradient_norm", "clipped", "turned", "failed_at", "cause")


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
        parts.append(fetch(part))
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
