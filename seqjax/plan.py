"""How runs are laid out over cores, devices and processes, without a change in any result."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec


@dataclass(frozen=True)
class Plan:
    """How runs are laid out; their results do not depend on it.

    devices   how many devices share them, of all processes, or how many groups of `shards` devices
    together  how many at a time, vmapped, on each
    workers   how many threads keep the cores of one device busy, each with its share of the runs
    shards    over how many devices the batch of every run is split
    """

    devices: int = 1
    together: int = 1
    workers: int = 1
    shards: int = 1

    def __post_init__(self) -> None:
        there = jax.device_count()
        for name, most in {"devices": there, "together": None, "workers": None, "shards": there}.items():
            size = getattr(self, name)
            if not isinstance(size, Integral) or size < 1 or size > (most or size):
                raise ValueError(f"{name} of a plan must be a whole number from 1 to {most or 'any'}, got {size!r}")
        if self.size > there:
            raise ValueError(f"devices x shards of a plan must be at most the {there} devices there are, got {self}")
        if self.size > 1 and self.workers > 1:
            raise ValueError(f"a plan spreads runs over devices or over workers, got {self}: leave one of them at 1")
        if 1 < self.size < jax.process_count():
            raise ValueError(f"a plan takes one device, or some of each of {jax.process_count()} processes, got {self}")

    @property
    def size(self) -> int:
        """How many devices it takes."""
        return self.devices * self.shards


def plan_for(runs: int) -> Plan:
    """The layout for so many runs: every core or device busy, those of all processes.

    CPU           one run at a time on each device, or, where JAX has the one device that it makes by itself, by a
                  worker for every core: no setting is needed
    accelerators  an equal share of the runs on each, all at once
    processes     at least one device of each; a single run is done by every process for itself

    Measured on 2 cores of a Xeon at 2.8 GHz, 16 runs of recall (T = 50, B = 64), in processor time relative to one run
    at a time: LSTM (H = 32) 0.9, 1.0, 1.2 and 1.5 at 2, 4, 8 and 16 together, GRU (H = 32) 1.1 and 1.4 at 2 and 8, LSTM
    (H = 128) 1.1 at 4. Two workers share the work evenly and both run all the time; they took 0.9, 1.05 and 0.8 of the
    processor time of one program (LSTM and GRU at H = 32, LSTM at H = 128), as two devices do.
    """
    there = jax.device_count()
    devices = 1 if runs == 1 else max(min(runs, there), jax.process_count())
    if jax.default_backend() != "cpu":
        return Plan(devices, together=-(-runs // devices))
    return Plan(devices, workers=1 if there > 1 else min(runs, cores()))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mesh_of(plan: Plan) -> Mesh:
    """The devices of a plan, axes "run" and, where batches are split, "batch": as many of each process as can be."""
    own: dict[int, list[Any]] = {}
    for device in jax.devices():
        own.setdefault(device.process_index, []).append(device)
    turns = [device for turn in zip_longest(*own.values()) for device in turn if device is not None]
    used = set(turns[: plan.size])
    chosen = np.array([device for device in jax.devices() if device in used])
    return Mesh(chosen, "run") if plan.shards == 1 else Mesh(chosen.reshape(-1, plan.shards), ("run", "batch"))


def spread(function: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    """`vmap(function)` over the leading axis of its arguments, laid out by a plan over devices; `staffed` adds workers.

    Where the runs do not divide among the devices, the last is repeated to fill up and the copies are dropped. What
    comes out stays on the devices that made it, or is on all of them where copies were dropped (see `processes.fetch`).
    Inside, the mesh axis "batch" of a plan with shards is free: `train.shards` splits batches over it.
    """

    def share(trees: Any) -> Any:
        batch_size = None if plan.together == 1 else plan.together
        return jax.lax.map(lambda tree: function(*tree), trees, batch_size=batch_size)

    def over(*trees: Any) -> Any:
        runs, spec = len(jax.tree.leaves(trees)[0]), PartitionSpec("run")
        if plan.size == 1:
            return share(trees)
        sharded = jax.shard_map(
            share, mesh=mesh_of(plan), in_specs=spec, out_specs=spec, axis_names={"run"}, check_vma=False
        )
        rows = filled(runs, plan.devices)
        if len(rows) == runs:  # taking rows, even all of them in order, would bring all to every device
            return sharded(trees)
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
