"""Copy memory (Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016): say symbols again after a pause."""

import jax
import jax.numpy as jnp
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.tasks.classes import balanced
from seqjax.tasks.delays import delayed, scored_from
from seqjax.tasks.task import Batch, Task


@factory
def copy(*, delay: int, symbols: int = 10, alphabet: int = 8) -> Task:
    """Uniform symbols, `delay` blanks, a go marker, then as many blanks as symbols, where the symbols are the targets.

    The blank is token `alphabet`, the marker `alphabet` + 1. A symbol is asked for symbols + delay + 1 steps after it
    came, and T = 2·symbols + delay + 1: what Arjovsky et al. call T is delay + 1. Scored in the last `symbols` steps
    only, so that chance is 1/alphabet (loss ln alphabet).
    """
    require_sizes(delay=delay, symbols=symbols, alphabet=alphabet)
    blank, go, first = alphabet, alphabet + 1, symbols + delay + 1

    def sample(key: Array, examples: int) -> Batch:
        shown = jax.random.randint(key, (examples, symbols), 0, alphabet)
        rest = jnp.full(delay + 1 + symbols, blank).at[delay].set(go)
        xs = jnp.concatenate([shown, jnp.broadcast_to(rest, (examples, *rest.shape))], axis=1)
        return Batch(xs, delayed(xs, first), scored=scored_from(first, xs.shape))

    return balanced("copy", sample, D=alphabet + 2, K=alphabet, readout="every")
