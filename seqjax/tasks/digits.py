"""Handwritten digits pixel by pixel (Le, Jaitly and Hinton 2015), on the 8 x 8 images that scikit-learn carries."""

from functools import cache

import numpy as np

from seqjax.tasks.arrays import classification
from seqjax.tasks.task import Batch, Task

TEST = 360  # the last images of the file, by other writers than most before them
ORDER = 0  # seed of the one permutation


@cache
def digit_images() -> tuple[Batch, Batch]:
    """Training and test images (Alpaydin and Kaynak 1998), 1437 and 360, as xs [B, 64, 1] in 0..1, row by row.

    ValueError with the install line where scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ValueError("digits need scikit-learn: run pip install '.[data]' in the seqjax checkout") from None
    images, labels = load_digits(return_X_y=True)
    xs, labels = (images / 16).astype(np.float32)[:, :, None], labels.astype(np.int32)
    return Batch(xs[:-TEST], labels[:-TEST]), Batch(xs[-TEST:], labels[-TEST:])


@cache
def digits(*, permuted: bool = False) -> Task:
    """Which digit is it, from the last of 64 pixels; `permuted` takes them in one fixed random order, in which what
    belongs together is far apart."""
    order = np.random.default_rng(ORDER).permutation(64) if permuted else np.arange(64)
    train, test = (Batch(part.xs[:, order], part.targets) for part in digit_images())
    return classification("permuted digits" if permuted else "digits", train, test, classes=10)
