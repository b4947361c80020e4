"""Weights to and from other libraries, one module each: `seqjax.interop.torch`, `seqjax.interop.flax`."""
