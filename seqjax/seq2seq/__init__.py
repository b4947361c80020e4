"""Sequence in, sequence out: encoder, decoder, attention, generator, and the ways to decode."""

from seqjax.pairs import Pair
from seqjax.seq2seq.cost import PairCost, pair_cost
from seqjax.seq2seq.decoding import beam, greedy, sample
from seqjax.seq2seq.distance import StateProfile, gradient_map, state_profile
from seqjax.seq2seq.encoder import Nudge
from seqjax.seq2seq.errors import ErrorRates, edit_distance, error_rates
from seqjax.seq2seq.generator import generate
from seqjax.seq2seq.model import EncoderDecoder, Translation, encoder_decoder
from seqjax.seq2seq.params import TranslatorParams
from seqjax.seq2seq.vocabulary import Vocabulary
from seqjax.seq2seq.writing import Decoded

__all__ = [
    "Decoded",
    "EncoderDecoder",
    "ErrorRates",
    "Nudge",
    "Pair",
    "PairCost",
    "StateProfile",
    "Translation",
    "TranslatorParams",
    "Vocabulary",
    "beam",
    "edit_distance",
    "encoder_decoder",
    "error_rates",
    "generate",
    "gradient_map",
    "greedy",
    "pair_cost",
    "sample",
    "state_profile",
]
