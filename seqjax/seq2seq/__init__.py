"""Sequence in, sequence out: encoder, decoder, attention, and the ways to decode."""

from seqjax.seq2seq.decoding import beam, greedy, sample
from seqjax.seq2seq.model import EncoderDecoder, Translation, encoder_decoder
