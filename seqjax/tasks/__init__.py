"""Tasks by name; each is a pure function of a key, with its chance level."""

from collections.abc import Callable

from seqjax.tasks.adding import adding
from seqjax.tasks.aeon import published, recorded, series, vowels
from seqjax.tasks.agreement import agreement, sentence
from seqjax.tasks.arrays import classification
from seqjax.tasks.characters import characters
from seqjax.tasks.copy import copy
from seqjax.tasks.copying import copying, reversing
from seqjax.tasks.counting import counting
from seqjax.tasks.dates import DATE_SOURCE, DATE_TARGET, dates
from seqjax.tasks.delayed_xor import delayed_xor
from seqjax.tasks.digits import digit_images, digits
from seqjax.tasks.echo import echo
from seqjax.tasks.nonlinear import best_linear_error, gate, latch, threshold
from seqjax.tasks.order import order
from seqjax.tasks.pairs import paired, scheduled_sampling
from seqjax.tasks.parity import parity
from seqjax.tasks.plant import plant
from seqjax.tasks.pronunciation import pronouncing, pronunciation
from seqjax.tasks.recall import recall
from seqjax.tasks.regime import regime
from seqjax.tasks.task import Batch, Task
from seqjax.tasks.temporal_order import temporal_order

TASKS: dict[str, Callable[..., Task]] = {
    "recall": recall,
    "adding": adding,
    "vowels": vowels,
    "counting": counting,
    "order": order,
    "parity": parity,
    "threshold": threshold,
    "gate": gate,
    "latch": latch,
    "echo": echo,
    "agreement": agreement,
    "plant": plant,
    "regime": regime,
    "temporal_order": temporal_order,
    "copy": copy,
    "delayed_xor": delayed_xor,
    "digits": digits,
    "copying": copying,
    "reversing": reversing,
    "dates": dates,
    "pronunciation": pronunciation,
}

__all__ = [
    "DATE_SOURCE",
    "DATE_TARGET",
    "TASKS",
    "Batch",
    "Task",
    "adding",
    "agreement",
    "best_linear_error",
    "characters",
    "classification",
    "copy",
    "copying",
    "counting",
    "dates",
    "delayed_xor",
    "digit_images",
    "digits",
    "echo",
    "gate",
    "latch",
    "order",
    "paired",
    "parity",
    "plant",
    "pronouncing",
    "pronunciation",
    "published",
    "recall",
    "recorded",
    "regime",
    "reversing",
    "scheduled_sampling",
    "sentence",
    "series",
    "task_named",
    "temporal_order",
    "threshold",
    "vowels",
]


def task_named(name: str) -> Callable[..., Task]:
    """The factory of a task; ValueError lists the known names."""
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}: known tasks are {', '.join(sorted(TASKS))}")
    return TASKS[name]
