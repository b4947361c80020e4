"""How far back an encoder-decoder can learn: within each of its units, and from what it writes to what it read."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import require_sizes
from seqjax.gradients import all_finite
from seqjax.network import NetworkParams
from seqjax.pairs import Pair
from seqjax.seq2seq.decoder import joined, target_table
from seqjax.seq2seq.distance import checked, gradient_map, state_profile
from seqjax.seq2seq.encoder import embedded, turned
from seqjax.seq2seq.model import EncoderDecoder, Translation
from seqjax.seq2seq.params import handed_over, shown
from seqjax.sequences import batch_first
from seqjax.stack import scan_stack
from seqjax.survey import Half, described, judged, reach
from seqjax.tasks.task import Batch

LEAST = 4  # symbols to be read, and steps to be written, without which no decay can be told


@dataclass(frozen=True)
class PairSurvey:
    """What was found: every layer and direction of the encoder, then every layer of the decoder."""

    name: str  # of the network
    halves: tuple[Half, ...]
    distance: np.ndarray  # [T, S] log10 of the gradient from every symbol written to every one read, medians over rows

    def verdict(self) -> list[str]:
        """Three lines in plain words: how far the decoder's gradient reaches, the encoder's, and the whole way's."""
        units = ([half for half in self.halves if half.name.startswith(unit)] for unit in ("decoder", "encoder"))
        lines = [reach(max(unit, key=lambda half: half.decay.factor)) for unit in units]
        share = float(self.distance[-1, 0] - np.nanmax(self.distance))
        told = f"from the last symbol written to the first one read the gradient is 10^{share:.1f} of the largest"
        return [*lines, judged(share, told)]


def pair_survey(network: EncoderDecoder, params: NetworkParams, batch: Batch, *, k: int = 3) -> PairSurvey:
    """Look at an encoder-decoder on a batch of pairs, such as `tasks.paired` makes, under teacher forcing.

    The gradients are those of the log-probability of a row's whole target to the encoder's states, by steps back from
    the one it hands over, and of the last symbol of the target to the decoder's. Exponents, k of them, are those of
    each layer on what it was given, contexts of the attention held as they were. Raises ValueError as `gradient_map`,
    for params or states that are not finite, and where no row has 4 symbols or more on one side.
    """
    require_sizes(k=k)
    pair = checked(network, params, batch)
    if not bool(all_finite(params)):
        raise ValueError("params hold NaN or infinity: nothing can be said of the model")
    counts = [np.asarray(mask.sum(0)) for mask in (pair.source_mask, pair.mask)]
    S, T = (int(count.max(initial=0)) for count in counts)
    if min(S, T) < LEAST:
        raise ValueError(f"batch must hold rows of at least {LEAST} symbols on both sides, got {S} and {T} at most")
    (source, reading), (fed, writing) = jax.jit(partial(ran, network))(params, pair)
    whole, last = (state_profile(network, params, batch, last=only) for only in (False, True))
    body, design = params.body, network.design
    forwards = [reverse == design.reversed_source for layer in body.encoder for _, reverse in layer.halves()]
    far = by_lag(whole.encoder, pair.source_mask, forwards)
    near = by_lag(last.decoder, pair.mask, [True] * len(body.decoder))
    halves = (
        *described("encoder ", design.cell, body.encoder, source, reading, far, counts[0], k),
        *described("decoder ", design.decoder, body.decoder, fed, writing, near, counts[1], k),
    )
    distance = jnp.nanmedian(gradient_map(network, params, batch), axis=0)[:T, :S]
    return PairSurvey(network.name, halves, np.asarray(distance, np.float64))


def ran(network: EncoderDecoder, params: NetworkParams, pair: Pair) -> tuple[tuple[Array, Any], tuple[Array, Any]]:
    """What the encoder's lowest layer was given, in the order in which it runs, and its traces; the same of the
    decoder, with the contexts that it was given. Batch first."""
    body, design = params.body, network.design
    source, way = pair.source, pair.source_mask
    if design.reversed_source:
        source, way = turned(source, way), turned(way, way)
    run: Translation = network.forward(params, pair).body
    context = None if run.decoder.weights is None else run.decoder.ys[:, shown(design.decoder, body.decoder) :]
    xs = joined(embedded(target_table(body), pair.fed, pair.mask), context, axis=1)
    first = handed_over(design, body, run.encoder.final)
    decoder = scan_stack(design.decoder, body.decoder, xs, first, pair.mask)
    return batch_first(((embedded(body.source, source, way), run.encoder.traces), (xs, decoder.traces)))


def by_lag(norms: Array, mask: Array, forwards: list[bool]) -> np.ndarray:
    """Norms [L, B, T] by place in the sequence as norms by steps back: turned where a layer runs forwards."""
    turn = jax.jit(lambda one: turned(one.T, mask).T)
    each = [turn(one) if forward else one for one, forward in zip(norms, forwards, strict=True)]
    return np.asarray(jnp.stack(each), np.float64)
