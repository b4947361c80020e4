"""Fields that give the target away: one that is the same all through a sequence and tells its answer."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from seqjax.events.events import Events
from seqjax.events.fields import LEAVE, Category, Field

SUPPORT = 10  # sequences for each value, from which on it is no chance that each value has one answer


def require_no_leak(events: Events) -> None:
    """ValueError naming a field that tells the answers: one-to-one, or, where there are ten sequences for each of its
    values, one answer for each value; of numbers, a rising or a falling function of them. Of an answer for every event
    only the first and the last count, and of an answer for every sequence only fields that are constant within it.
    A missing value counts as one more; and those that are there count alone, if they are for half of the answers."""
    targets = events.targets
    if targets is None:
        return
    own = targets.question.per_event
    rows = np.flatnonzero(targets.known()) if own else np.flatnonzero(events.lengths)
    places = rows if own else events.offsets[rows]
    answers = targets.values[rows]
    for field in events.fields:
        values = coded(field, answers.dtype.kind == "f")
        whole = (own or constant(values, events.offsets)) and tells(values[places], answers, own)
        if whole or told_alone(values, ~field.missing(), places, answers, own):
            name, target = Path(events.path).name, targets.question.column
            raise ValueError(f"{name}: column {field.name!r} tells the target {target!r} exactly: {LEAVE}")


def coded(field: Field, numeric: bool) -> np.ndarray:
    """The values of a field, a missing one equal to any other missing one; beside numeric answers, words that are all
    numbers as numbers."""
    if not isinstance(field, Category):
        return np.nan_to_num(field.values, nan=np.inf)
    if numeric:
        with suppress(ValueError):
            return np.array([*map(float, field.values), np.inf])[field.codes]
    return field.codes


def constant(values: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether values [E] are the same all through each sequence."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return bool(np.isin(changes, offsets).all())


def told_alone(values: np.ndarray, told: np.ndarray, places: np.ndarray, answers: np.ndarray, own: bool) -> bool:
    """Whether the values that are not missing give answers away by themselves: ten at least, and half of them."""
    if own:
        seen, there = values[places], told[places]
    else:  # the first that each sequence has, if it has no other
        E = len(values)
        first = np.minimum.reduceat(np.where(told, np.arange(E), E), places)
        seen, there = values[np.minimum(first, E - 1)], first < E
        if (told & (values != np.repeat(seen, np.diff(places, append=E)))).any():
            return False
    return there.sum() >= max(SUPPORT, len(answers) / 2) and tells(seen[there], answers[there], own)


def tells(values: np.ndarray, answers: np.ndarray, own: bool) -> bool:
    """Whether values give answers away."""
    kinds, place = np.unique(values, return_inverse=True)
    if answers.dtype.kind == "f":
        return values.dtype.kind == "f" and monotone(place, np.unique(answers, return_inverse=True)[1])
    pairs = np.unique(place * (int(answers.max()) + 1) + answers)
    few = len(kinds) == len(np.unique(answers)) or (not own and len(kinds) * SUPPORT <= len(answers))
    return len(pairs) == len(kinds) > 1 and few


def monotone(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether ranks are those of the others, or those backwards, of at least three."""
    top = ours.max()
    return top >= 2 and (np.array_equal(ours, theirs) or np.array_equal(top - ours, theirs))
