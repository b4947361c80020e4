"""Recorded series that the `aeon` distribution carries (Middlehurst et al. 2024), read without importing it.

ArrowHead, GunPoint, ItalyPowerDemand and OSULeaf are of the UCR archive (Dau et al. 2019), JapaneseVowels is by Kudo,
Toyama and Shimbo (1999); each in the archive's own split into training and test cases.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from seqjax.tasks.arrays import classification
from seqjax.tasks.installed import installed_file
from seqjax.tasks.task import Batch, Task

SETS = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "JapaneseVowels", "OSULeaf")
CLASSIFIERS = ("HC2", "InceptionTime", "FreshPRINCE")
CASES = "aeon/datasets/data/{name}/{name}_{part}.ts"
PUBLISHED = "aeon/testing/example_results_files/classification/accuracy/{classifier}_accuracy.csv"


def aeon_file(file: str) -> Path:
    """Where the installed aeon distribution keeps a file; ValueError with the install line where it is missing."""
    return installed_file("aeon", file)


def require_set(name: str) -> None:
    """ValueError unless a set is one of SETS."""
    if name not in SETS:
        raise ValueError(f"name must be one of {', '.join(SETS)}, got {name!r}")


def read_ts(text: str) -> tuple[list[np.ndarray], list[str]]:
    """Sequences [T, D] and labels of a `.ts` file: one case a line, dimensions and label separated by colons."""
    cases, labels = [], []
    lines = [line.strip() for line in text.splitlines()]
    for line in filter(None, lines[[line.lower() for line in lines].index("@data") + 1 :]):
        *dimensions, label = line.split(":")
        cases.append(np.array([row.split(",") for row in dimensions], np.float64).T)
        labels.append(label)
    return cases, labels


def padded(cases: list[np.ndarray], T: int) -> tuple[np.ndarray, np.ndarray]:
    """Right-padded float32 array [B, T, D] and lengths [B]."""
    xs = np.zeros((len(cases), T, cases[0].shape[1]), np.float32)
    for row, case in zip(xs, cases, strict=True):
        row[: len(case)] = case
    return xs, np.array([len(case) for case in cases], np.int32)


@cache
def series(name: str) -> tuple[Batch, Batch]:
    """Training and test cases of one of SETS, xs [B, T, D], lengths [B], classes 0.. [B] in the order of their labels.

    Standardised with the mean and standard deviation of all training steps. ValueError for an unknown set, and if the
    data is not installed.
    """
    require_set(name)
    parts = [read_ts(aeon_file(CASES.format(name=name, part=part)).read_text()) for part in ("TRAIN", "TEST")]
    steps = np.concatenate(parts[0][0])
    T = max(len(case) for cases, _ in parts for case in cases)
    known = sorted(set(parts[0][1]))
    batches = []
    for cases, labels in parts:
        xs, lengths = padded([(case - steps.mean(0)) / steps.std(0) for case in cases], T)
        batches.append(Batch(xs, np.array([known.index(label) for label in labels], np.int32), lengths))
    return batches[0], batches[1]


@cache
def recorded(name: str) -> Task:
    """One of SETS as a task: the class from each case's last step; chance is the share of the test set's largest class.

    ValueError as `series`.
    """
    train, test = series(name)
    return classification(name, train, test, classes=int(np.max(train.targets)) + 1)


def vowels() -> Task:
    """JapaneseVowels as a task: which of nine men says /ae/, from 12 cepstral coefficients a frame, 7 to 29 frames."""
    return recorded("JapaneseVowels")


def published(name: str) -> dict[str, float]:
    """Test accuracies of CLASSIFIERS on a set's own split, as the aeon distribution records them; empty without one.

    HIVE-COTE 2 (Middlehurst et al. 2021), InceptionTime (Ismail Fawaz et al. 2020), FreshPRINCE (Middlehurst and
    Bagnall 2022).
    """
    require_set(name)
    found = {}
    for classifier in CLASSIFIERS:
        with aeon_file(PUBLISHED.format(classifier=classifier)).open(newline="") as file:
            rows = {row[0]: row[1] for row in csv.reader(file) if len(row) > 1}
        if name in rows:
            found[classifier] = float(rows[name])
    return found
