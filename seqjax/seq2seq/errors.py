"""How far answers are from what they should be, in symbols and in sequences."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from seqjax.statistics import Mean, Rate, mean, rate


@dataclass(frozen=True)
class ErrorRates:
    """Error rates over sequences, with their 95% intervals."""

    symbols: Mean  # edits over the symbols of the nearest references: PER of phonemes, CER of characters
    sequences: Rate  # not equal to any reference: WER of words


def edit_distance(given: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """The fewest symbols to be replaced, left out or put in between two sequences (Levenshtein 1966)."""
    row = list(range(len(wanted) + 1))
    for i, symbol in enumerate(given, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(wanted, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (symbol != other))
    return row[-1]


def error_rates(
    answers: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Sequence[Hashable]]]
) -> ErrorRates:
    """Rates of errors of answers [n], each against the nearest of its references: any of several will do.

    The symbol error rate is a ratio of sums; its interval is Student's of the rows' parts in it, linearised. Raises
    ValueError for other than one list of references an answer, for an empty list, and for references without a symbol.
    """
    if len(answers) != len(references) or not len(answers):
        raise ValueError(f"references must be one list for each answer, got {len(references)} for {len(answers)}")
    nearest = [closest(row, *pair) for row, pair in enumerate(zip(answers, references, strict=True))]
    edits, lengths = np.array(nearest).T
    if not lengths.sum():
        raise ValueError("references must hold a symbol, so that there is something to count errors over; got none")
    return rates_of(edits, lengths)


def rates_of(edits: np.ndarray, lengths: np.ndarray) -> ErrorRates:
    """Rates of edits [n] of references with so many symbols [n]."""
    share = edits.sum() / lengths.sum()
    parts = share + (edits - share * lengths) / lengths.mean()
    return ErrorRates(mean(parts), rate(int((edits > 0).sum()), len(edits)))


def closest(row: int, answer: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> tuple[int, int]:
    """(edits, symbols) of the reference that takes the fewest edits, the first of several."""
    if not len(references):
        raise ValueError(f"references must hold at least one sequence for every answer, got none in row {row}")
    return min(((edit_distance(answer, one), len(one)) for one in references), key=lambda pair: pair[0])
