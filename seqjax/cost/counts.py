"""The records of what a network costs."""

from dataclasses import dataclass

COPIES = 4  # of every parameter in training: weight, gradient, and Adam's two moments; 16 bytes in float32


@dataclass(frozen=True)
class Parameters:
    """How many parameters there are, over all layers and directions."""

    matrices: int  # of the cells: everything with two axes
    vectors: int  # of the cells: biases, gains, peepholes, poles
    second_biases: int  # of those vectors: the b_hh that PyTorch keeps beside b_ih
    readout_matrix: int  # K·F
    readout_bias: int  # K

    @property
    def stored(self) -> int:
        """Of the cells, as stored: PyTorch's count for the cells that PyTorch has."""
        return self.matrices + self.vectors

    @property
    def one_bias(self) -> int:
        """Of the cells, with one bias a gate, as the lecture counts: G·H (H + D + 1) for a gated layer."""
        return self.stored - self.second_biases

    @property
    def readout(self) -> int:
        """Of the readout, with its bias."""
        return self.readout_matrix + self.readout_bias

    @property
    def with_readout(self) -> int:
        """With one bias a gate and the readout, as the book counts."""
        return self.one_bias + self.readout

    @property
    def total(self) -> int:
        """As stored, with the readout: what is trained."""
        return self.stored + self.readout


@dataclass(frozen=True)
class MultiplyAdds:
    """Multiply-adds in the matrix products of one step of one example; what is pointwise, of order H, is left out."""

    inputs: int  # project, which needs no recurrence
    recurrence: int  # recur and update, the part that has to wait for the step before
    shown: int  # read, from states to what the readout sees
    readout: int

    @property
    def step(self) -> int:
        """All of one step."""
        return self.inputs + self.recurrence + self.shown + self.readout


@dataclass(frozen=True)
class Memory:
    """Bytes of training on one batch, as the lecture counts them: once for good, and by the step."""

    weights: int  # everything that is trained
    inputs: int  # [B, T, D]
    states: int  # after every step, in every layer and direction
    logits: int  # [B, T, K]

    @property
    def fixed(self) -> int:
        """Weights, their gradient, and Adam's two moments."""
        return COPIES * self.weights

    @property
    def activations(self) -> int:
        """Inputs, states and logits."""
        return self.inputs + self.states + self.logits


@dataclass(frozen=True)
class Gradient:
    """Bytes of activations that the gradient of a loss to the params takes, where the engine keeps every step.

    More than states: of each step's equation the way back reads the linear map as well. Of an LSTM those are 6 numbers
    a unit, beside the state before, its input and its output; of a tanh unit it is 1 number.
    """

    kept: int  # for the way back, inputs and outputs included
    collected: int  # what one loop on the way back makes for many steps: gradients to pre-activations, or to its inputs

    @property
    def least(self) -> int:
        """What is needed at one time, when the largest loop on the way back ends.

        XLA's temporaries on CPU in float32 are 1.00 to 1.28 times as much in one layer, and up to 1.8 times in three or
        in both directions. A readout adds three arrays of the size of the logits, of which one is counted here.
        """
        return self.kept + self.collected
