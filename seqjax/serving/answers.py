"""What a network's outputs mean: classes with their probabilities, or numbers."""

from typing import Any, NamedTuple

import numpy as np

from seqjax.model import Model


class Prediction(NamedTuple):
    """The answer to a model's question."""

    answer: str | float  # a class, the likeliest, or a number
    probabilities: dict[str, float]  # of every class; none of a number
    events: int  # of the sequence, that it comes from


def answers(model: Model, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """(class numbers int64 [n] or numbers float64 [n], probabilities [n, K] or [n, 0]) of outputs [n, K]: softmax, or
    output · sd + mean. In float64; of equal probabilities the first class."""
    outputs = np.asarray(outputs, np.float64)
    if not model.question.classes:
        mean, sd = model.answer
        return outputs[:, 0] * sd + mean, outputs[:, :0]
    exp = np.exp(outputs - outputs.max(1, keepdims=True))
    probabilities = exp / exp.sum(1, keepdims=True)
    return probabilities.argmax(1), probabilities


def told(model: Model, value: Any, probabilities: np.ndarray, events: int) -> Prediction:
    """One answer in words."""
    classes = model.question.classes
    answer = classes[value] if classes else float(value)
    return Prediction(answer, dict(zip(classes, probabilities.tolist(), strict=True)), events)
