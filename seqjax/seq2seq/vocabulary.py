"""Symbols and their numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Vocabulary:
    """Symbols in the order of their numbers, one of which ends every target; padding is a symbol of its own, or the
    end symbol once more.

    Raises ValueError for symbols that repeat, and without its end symbol or a pad that is asked for.
    """

    symbols: tuple[str, ...]
    end: str = "<end>"
    pad: str | None = None  # None for the end symbol

    def __post_init__(self) -> None:
        twice = [symbol for i, symbol in enumerate(self.symbols) if symbol in self.symbols[:i]]
        if twice:
            raise ValueError(f"symbols must be different from each other, got {twice[0]!r} twice")
        for name, symbol in (("end", self.end), ("pad", self.pad)):
            if symbol is not None and symbol not in self.symbols:
                raise ValueError(f"symbols must hold the {name} symbol {symbol!r}, got {len(self.symbols)} without it")

    @classmethod
    def of(cls, sequences: Iterable[Iterable[str]], *, end: str = "<end>", pad: str | None = None) -> "Vocabulary":
        """The symbols of sequences (of a string, its characters), sorted, then the end symbol and the pad."""
        found = sorted({symbol for sequence in sequences for symbol in sequence})
        return cls((*found, end, *([] if pad is None or pad == end else [pad])), end, pad)

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of every symbol."""
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    @property
    def end_number(self) -> int:
        """That of the end symbol."""
        return self.numbers[self.end]

    @property
    def pad_number(self) -> int:
        """That of padding."""
        return self.end_number if self.pad is None else self.numbers[self.pad]

    def encode(
        self, sequences: Sequence[Sequence[str]], *, limit: int | None = None, empty: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sequences, without end symbols, as tokens [B, longest], padded, and lengths [B].

        limit  symbols at most; None for as many as there are
        empty  whether a sequence may have none, as a target may
        Raises ValueError, naming the row, for symbols outside the vocabulary, the end symbol or padding inside a
        sequence, a sequence longer than the limit, and an empty one.
        """
        if isinstance(sequences, str):
            raise ValueError(f"sequences must be a list of sequences, got the one string {sequences!r}")
        for row, sequence in enumerate(sequences):
            self.require(row, sequence, limit, empty)
        lengths = np.array([len(sequence) for sequence in sequences], np.int32)
        tokens = np.full((len(lengths), int(lengths.max(initial=0))), self.pad_number, np.int32)
        for row, sequence in enumerate(sequences):
            tokens[row, : len(sequence)] = [self.numbers[symbol] for symbol in sequence]
        return tokens, lengths

    def require(self, row: int, sequence: Sequence[str], limit: int | None, empty: bool) -> None:
        """ValueError for a sequence that cannot be encoded."""
        if not len(sequence) and not empty:
            raise ValueError(f"every sequence must hold a symbol, got none in row {row}")
        if limit is not None and len(sequence) > limit:
            raise ValueError(
                f"sequences must hold at most {limit} symbols, the limit, got {len(sequence)} in row {row}"
            )
        for symbol in sequence:
            if symbol not in self.numbers:
                raise ValueError(f"row {row} holds {symbol!r}, which is none of the vocabulary's {len(self)} symbols")
            if symbol in (self.end, self.pad):
                raise ValueError(f"row {row} holds {symbol!r}, which stands for the end or for padding alone")

    def decode(self, tokens: Any, lengths: Any = None) -> list[list[str]]:
        """The symbols of every row of tokens [B, T] before its end symbol, padding, or length [B].

        ValueError for tokens that are no numbers of symbols.
        """
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or ((tokens < 0) | (tokens >= len(self))).any():
            raise ValueError(f"tokens must be [B, T] in 0..{len(self) - 1}, got shape {list(tokens.shape)}, or others")
        T, stops = tokens.shape[1], [self.end_number, self.pad_number]
        ends = np.where(np.isin(tokens, stops), np.arange(T), T).min(1, initial=T)
        ends = ends if lengths is None else np.minimum(ends, np.asarray(lengths))
        return [[self.symbols[n] for n in row[:end]] for row, end in zip(tokens, ends, strict=True)]
