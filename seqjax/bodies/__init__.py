"""Networks without a recurrence, in the shape of those with one: pools, windows, and convolutions over time."""

from collections.abc import Callable

from seqjax.bodies.convolution import convolutional
from seqjax.bodies.pool import pooled
from seqjax.bodies.wavenet import wavenet
from seqjax.bodies.window import cut_rows, windowed
from seqjax.network import Network

BODIES: dict[str, Callable[..., Network]] = {
    "pooled": pooled,
    "windowed": windowed,
    "convolutional": convolutional,
    "wavenet": wavenet,
}

__all__ = ["BODIES", "convolutional", "cut_rows", "pooled", "wavenet", "windowed"]
