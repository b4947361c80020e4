"""Training, validation and test sequences; no sequence is in two of them."""

from typing import NamedTuple

import numpy as np

from seqjax.events.events import Events

WAYS = ("sequence", "time")


class Split(NamedTuple):
    """Numbers of sequences, each rising."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(
    events: Events, *, seed: int = 0, validation: float = 0.15, test: float = 0.15, by: str = "sequence"
) -> Split:
    """Shares of the sequences for three ends, the rest for training; a share of 0 gives none.

    by  "sequence": at random, with each class of targets of sequences in every part in its share, at least one
        "time": sequences in the order of their last event, the latest for the test; those without events train
    The same seed gives the same split. Raises ValueError for a class of too few sequences, and by time for training
    without a class and for a part of one class.
    """
    if by not in WAYS or not (0 <= validation < 1 and 0 <= test < 1 and validation + test < 1):
        raise ValueError(
            f"by must be one of {list(WAYS)} and shares at least 0 and together below 1, "
            f"got {by!r}, validation {validation} and test {test}"
        )
    shares = np.array([validation, test])
    N = len(events.ids)
    classes = classes_of(events)
    if by == "time":
        parts = by_time(events, shares)
    else:
        rng = np.random.default_rng(seed)
        groups = [np.arange(N)] if classes is None else [np.flatnonzero(classes == c) for c in np.unique(classes)]
        cuts = [cut(rng.permutation(group), shares, name_of(events, group)) for group in groups]
        parts = Split(*(np.sort(np.concatenate(each)) for each in zip(*cuts, strict=True)))
    if classes is not None and by == "time":
        require_classes(events, classes, parts)
    return parts


def classes_of(events: Events) -> np.ndarray | None:
    """The class of every sequence, [N]; None where sequences have none."""
    targets = events.targets
    if targets is None or targets.question.per_event or not targets.question.classes:
        return None
    return targets.values


def name_of(events: Events, group: np.ndarray) -> str:
    """Whose sequences these are, in words."""
    classes, targets = classes_of(events), events.targets
    return "" if classes is None or targets is None else f"class {targets.question.classes[classes[group[0]]]!r} of "


def cut(order: np.ndarray, shares: np.ndarray, whose: str) -> Split:
    """An order of sequences, the last for the test, before them those for validation; at least one each."""
    sizes = np.where(shares > 0, np.maximum(1, np.round(shares * len(order))), 0).astype(int)
    if sizes.sum() >= len(order):
        need = 1 + int((shares > 0).sum())
        raise ValueError(
            f"{whose}{len(order)} sequences cannot be split into training, {shares[0]} validation, {shares[1]} test: "
            f"it takes {need} or more of them"
        )
    train = len(order) - sizes.sum()
    return Split(*np.split(order, [train, train + sizes[0]]))


def by_time(events: Events, shares: np.ndarray) -> Split:
    """Sequences in the order of their last events; those without events come first."""
    if events.times is None:
        raise ValueError("a split by time needs times: name the time column, or split by sequence")
    some = events.lengths > 0
    last = events.times[events.offsets[1:][some] - 1]
    order = np.concatenate([np.flatnonzero(~some), np.flatnonzero(some)[np.argsort(last, kind="stable")]])
    return Split(*(np.sort(part) for part in cut(order, shares, "")))


def require_classes(events: Events, classes: np.ndarray, parts: Split) -> None:
    """ValueError where training lacks a class, or another part has only one."""
    names = events.targets.question.classes if events.targets is not None else ()
    lacking = np.setdiff1d(classes, classes[parts.train])
    if lacking.size:
        raise ValueError(f"by time there is no training sequence of class {names[lacking[0]]!r}: split by sequence")
    for name, part in zip(("validation", "test"), parts[1:], strict=True):
        if part.size and len(np.unique(classes[part])) < 2:
            only = names[classes[part][0]]
            raise ValueError(f"by time all {len(part)} {name} sequences are of class {only!r}: enlarge its share")
