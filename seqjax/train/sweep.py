"""Sweeps: recipes times hyperparameters times seeds, with labelled results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from seqjax.checkpoint import Checkpoints
from seqjax.core import require_sizes
from seqjax.plan import Plan, plan_for
from seqjax.processes import fetch, first
from seqjax.progress import Show, event_files, progress_bar
from seqjax.stopwatch import TIMES, stopwatch
from seqjax.sweep import checked_axes, gather, grid, seed_keys
from seqjax.train.many import programs, test_keys, train_many
from seqjax.train.recipe import Recipe
from seqjax.train.release import release
from seqjax.train.run import CAUSES

UPDATES = {"score": "train_score"}  # fields of the history by other names, as `score` is that after training


def sweep_recipe(
    recipe: Recipe,
    *,
    seeds: int | Iterable[int] = 5,
    axes: Mapping[str, Sequence[float]] | None = None,
    examples: int = 2000,
    plan: Plan | None = None,
    title: str | None = None,
    log: str | PathLike[str] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Any:
    """Train and score every combination of dynamic hyperparameters and seeds as one program.

    Returns an `xarray.Dataset` with dims (*axes, seed [, update]): score, failed_at (-1 for none) and cause, and of
    every update loss, train_score, gradient_norm, clipped and turned (see `History`); its attributes say by which plan,
    and in how many compile_seconds and run_seconds. A failed run scores NaN. `title` shows a progress bar under that
    name, `log` names a folder for TensorBoard's event files, `checkpoints` as for `train_many`.
    """
    import xarray as xr

    require_sizes(examples=examples)
    axes = checked_axes({}, axes or {})[1]
    numbers, keys = seed_keys(seeds)
    many, hyper = grid(keys, axes)
    plan = plan or plan_for(len(many))
    with watching(title, log) as show, stopwatch() as taken:
        states, history = train_many(recipe, many, hyper, plan=plan, progress=show, checkpoints=checkpoints)
        scores = programs(recipe, plan)[2](examples)(states.params, test_keys(many))
        scores, failed, cause = fetch((scores, states.failed_at, states.cause))
    shape, dims = [*map(len, axes.values()), len(numbers)], (*axes, "seed")
    runs = {"score": np.where(failed < 0, scores, np.nan), "failed_at": failed, "cause": np.array(CAUSES)[cause]}
    updates = {UPDATES.get(name, name): values for name, values in vars(history).items()}
    variables = {name: (dims, np.reshape(value, shape)) for name, value in runs.items()} | {
        name: ((*dims, "update"), value.reshape(*shape, -1)) for name, value in updates.items()
    }
    return xr.Dataset(variables, {**axes, "seed": numbers}, {"plan": str(plan), **taken})


@contextmanager
def watching(title: str | None, log: str | PathLike[str] | None) -> Iterator[Show]:
    """A progress function that shows and writes what is asked for."""
    with ExitStack() as open_ones:
        shows = [open_ones.enter_context(progress_bar(title))] if title else []
        shows += [open_ones.enter_context(event_files(log))] if log is not None and first() else []

        def show(done: int, total: int, history: Any) -> None:
            for each in shows:
                each(done, total, history)

        yield show


def sweep(
    make: Callable[..., Recipe],
    *,
    static: Mapping[str, Sequence[Any]] | None = None,
    dynamic: Mapping[str, Sequence[float]] | None = None,
    **options: Any,
) -> Any:
    """Sweep recipes: `make(**point)` for every combination of `static` axes (one compilation each), and within each
    every combination of `dynamic` axes and seeds as one program.

    Options and result are those of `sweep_recipe`, with the static axes leading. `checkpoints` and `log` have a folder
    for each recipe, by its number.
    """
    static, dynamic = checked_axes(static or {}, dynamic or {})
    recipes = [make(**dict(zip(static, values, strict=True))) for values in product(*static.values())]
    if len({recipe.updates for recipe in recipes}) > 1:
        raise ValueError("every recipe of one sweep must have the same number of updates: sweep each number by itself")
    parts = []
    for i, recipe in enumerate(recipes):
        parts.append(sweep_recipe(recipe, axes=dynamic, **in_folder(options, i)))
        release()
    taken = {name: sum(part.attrs[name] for part in parts) for name in TIMES}
    return gather(parts, static).assign_attrs(plan=parts[0].attrs["plan"], **taken)


def in_folder(options: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The options of one recipe of many, its files in a folder of its own."""
    own, checkpoints, log = dict(options), options.get("checkpoints"), options.get("log")
    if checkpoints is not None:
        own["checkpoints"] = replace(checkpoints, folder=Path(checkpoints.folder) / str(number))
    if log is not None:
        own["log"] = Path(log) / str(number)
    return own
