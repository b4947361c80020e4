"""What a fit is asked for, beside the events."""

from dataclasses import dataclass

from seqjax.cells import cell_named
from seqjax.core import require_sizes, require_switches
from seqjax.dropout import Dropout
from seqjax.events.split import WAYS
from seqjax.network import Network, network


@dataclass(frozen=True)
class Settings:
    """The split, the network, and how it is trained; the defaults suit some thousands of sequences. ValueError for
    values that are none."""

    split: str = "sequence"
    """Which sequences are for the test: "sequence", some at random, or "time", those that end last."""
    validation: float = 0.15
    """Share of the sequences that tell when to stop."""
    test: float = 0.15
    """Share of the sequences that are scored."""
    split_seed: int = 0
    """Another one, another random split."""
    cell: str = "gru"
    """rnn, lstm, gru or another cell of seqjax."""
    hidden: int = 64
    """Units of a layer."""
    layers: int = 1
    """Layers of the network."""
    dropout: float = 0.0
    """Rate in training, of the state that enters the recurrent product, and between layers."""
    seeds: int = 3
    """Networks that are trained, each with a start and an order of its own; the best by validation is kept."""
    rounds: int = 60
    """At most so many times through the training sequences."""
    patience: int = 10
    """Rounds without a better validation loss after which a network stops."""
    batch: int = 64
    """Sequences in an update, at most."""
    learning_rate: float = 3e-3
    """Of Adam."""
    clip: float = 1.0
    """Norm at which gradients are clipped."""
    compare: bool = False
    """Train models that know less of the order as well."""

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
