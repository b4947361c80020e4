"""Sequence in, sequence out: encoder, decoder, attention, and the ways to decode."""

from seqjax.seq2seq.model import Translation, encoder_decoder
