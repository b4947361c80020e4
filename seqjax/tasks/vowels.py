"""JapaneseVowels (Kudo, Toyama and Shimbo 1999): which of nine men says /ae/, from 12 cepstral coefficients a frame.

270 training and 370 test utterances of 7 to 29 frames, read from the files that the `aeon` distribution carries,
without importing it.
"""

from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from seqjax.tasks.arrays import classification
from seqjax.tasks.task import Batch, Task

FILES = "aeon/datasets/data/JapaneseVowels/JapaneseVowels_{}.ts"
INSTALL = "pip install '.[data]' in the seqjax checkout, or pip install aeon"


def data_file(part: str) -> Path:
    """Where the installed aeon distribution keeps one part; ValueError with the install line where it is missing."""
    try:
        path = Path(str(metadata.distribution("aeon").locate_file(FILES.format(part))))
    except metadata.PackageNotFoundError:
        path = None
    if path is None or not path.is_file():
        raise ValueError(f"JapaneseVowels needs the extra `data` (the aeon distribution): run {INSTALL}")
    return path


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
def japanese_vowels() -> tuple[Batch, Batch]:
    """Training and test utterances, xs [B, 29, 12], lengths [B], speakers 0..8 [B].

    Standardised with the mean and standard deviation of the training frames. ValueError if the data is not installed.
    """
    parts = [read_ts(data_file(part).read_text()) for part in ("TRAIN", "TEST")]
    frames = np.concatenate(parts[0][0])
    T = max(len(case) for cases, _ in parts for case in cases)
    batches = []
    for cases, labels in parts:
        xs, lengths = padded([(case - frames.mean(0)) / frames.std(0) for case in cases], T)
        batches.append(Batch(xs, np.array(labels, np.int32) - 1, lengths))
    return batches[0], batches[1]


@cache
def vowels() -> Task:
    """JapaneseVowels as a task: speaker from the last valid frame; chance is the largest speaker's share, 88/370."""
    train, test = japanese_vowels()
    return classification("vowels", train, test, classes=9)
