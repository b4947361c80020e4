"""What a fit is asked for, beside the events."""

from dataclasses import dataclass

from seqjax.cells import cell_named
from seqjax.core import require_sizes, require_switches
from seqjax.dropout import Dropout
from seqjax.events.split import WAYS
from seqjax.network import Network, network


@dataclass(frozen=True)
class Settings:
    """The split, the network, and how it is trained; the defaults suit some thousands of sequences.

    split          "sequence", at random, or "time", the latest for the test
    validation     share of the sequences that tell when to stop; test, share that is scored
    split_seed     draws the split
    cell           of seqjax.CELLS, `hidden` units in each of `layers`
    dropout        rate at which the state that enters the recurrent product is dropped, and what passes between layers
    seeds          runs, each with a start and an order of its own
    rounds         at most so many times through the training sequences
    patience       rounds without a better validation loss after which a seed stops
    batch          sequences in an update, at most
    learning_rate  of Adam, whose gradients are clipped at the norm `clip`
    compare        train models that know less of the order as well
    Raises ValueError for values that are none.
    """

    split: str = "sequence"
    validation: float = 0.15
    test: float = 0.15
    split_seed: int = 0
    cell: str = "gru"
    hidden: int = 64
    layers: int = 1
    dropout: float = 0.0
    seeds: int = 3
    rounds: int = 60
    patience: int = 10
    batch: int = 64
    learning_rate: float = 3e-3
    clip: float = 1.0
    compare: bool = False

    def __post_init__(self) -> None:
        names = ("hidden", "layers", "seeds", "rounds", "patience", "batch")
        require_sizes(**{name: getattr(self, name) for name in names})
        require_switches(compare=self.compare)
        if self.split not in WAYS:
            raise ValueError(f"split must be one of {list(WAYS)}, got {self.split!r}")
        if self.split_seed < 0 or self.split_seed % 1:
            raise ValueError(f"split_seed must be a whole number from 0, got {self.split_seed}")
        for name, share in (("validation", self.validation), ("test", self.test)):
            if not 0 < share < 1:
                raise ValueError(f"{name} must be a share between 0 and 1, got {share}")
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation} and test {self.test} leave nothing to train on")
        for name, size in (("learning_rate", self.learning_rate), ("clip", self.clip)):
            if not 0 < size < float("inf"):
                raise ValueError(f"{name} must be a finite number above 0, got {size}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be a rate in [0, 1), got {self.dropout}")
        self.network("last")

    def network(self, readout: str) -> Network:
        """The network that is asked for; ValueError for a cell that is not known or cannot be dropped from."""
        between = self.dropout if self.layers > 1 else 0.0
        noise = Dropout(between=between, recurrent=self.dropout) if self.dropout else None
        try:
            cell = cell_named(self.cell)()
        except TypeError:
            raise ValueError(f"cell {self.cell!r} needs options of its own: choose another") from None
        return network(cell, readout=readout, layers=self.layers, dropout=noise)
