"""Agreement of subject and verb across attractors (Linzen et al. 2016): "the keys to the cabinet ... are"."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import accuracy, cross_entropy
from seqjax.sequences import checked_tokens, mask_of
from seqjax.tasks.task import Batch, Task

DETERMINERS = ("the", "my", "your", "our", "their")  # of either number
PREPOSITIONS = ("to", "in", "of", "near", "behind", "under")
SINGULAR = ("key", "cabinet", "corner", "room", "lamp", "garden", "window", "author", "child", "shelf")
PLURAL = ("keys", "cabinets", "corners", "rooms", "lamps", "gardens", "windows", "authors", "children", "shelves")
WORDS = (*DETERMINERS, *PREPOSITIONS, *SINGULAR, *PLURAL)
VERBS = ("is", "are")


@factory
def agreement(*, train_attractors: int = 2, test_attractors: int = 5) -> Task:
    """All of a sentence before its verb: the subject, "the keys", and what comes between, "to the cabinet", "in the
    corner", ..., with an attractor each; the target, at the last step, is the verb's number, 0 for "is", 1 for "are".

    In training there are 0 to `train_attractors`, each of either number; in what is held out at least three and more
    than in training, up to `test_attractors`, all of the other number than the subject, so that whoever goes by the
    last noun, or by most nouns, scores 0. A sentence of n attractors is 2 + 3n tokens long. Chance is 1/2 (loss ln 2).
    ValueError unless test_attractors is at least 3 and above train_attractors.
    """
    require_sizes(train_attractors=train_attractors, test_attractors=test_attractors)
    least = max(3, train_attractors + 1)
    if test_attractors < least:
        raise ValueError(
            f"test_attractors must be at least {least}, three and more than the {train_attractors} of training, "
            f"got {test_attractors}"
        )
    return Task(
        name="agreement",
        draw=lambda key, update, batch: sentences(jax.random.fold_in(key, update), batch, 0, train_attractors),
        held_out=lambda key, examples: sentences(key, examples, least, test_attractors, opposite=True),
        inputs="onehot",
        readout="last",
        D=len(WORDS),
        K=len(VERBS),
        loss=cross_entropy,
        score=accuracy,
        chance=1 / len(VERBS),
        chance_loss=float(np.log(len(VERBS))),
    )


def sentences(key: Array, examples: int, least: int, most: int, *, opposite: bool = False) -> Batch:
    """Sentences of `least` to `most` attractors, all counts alike likely; if opposite, none of the subject's number."""
    first, second, third = jax.random.split(key, 3)
    lengths = 2 + 3 * jax.random.randint(first, (examples,), least, most + 1)
    numbers = jax.random.randint(second, (examples, 1 + most), 0, 2)
    if opposite:
        numbers = numbers.at[:, 1:].set(1 - numbers[:, :1])
    xs = phrases(third, numbers)
    return Batch(jnp.where(mask_of(lengths, xs.shape[1]), xs, 0), numbers[:, 0], lengths)


def phrases(key: Array, numbers: Array) -> Array:
    """Tokens [B, 3N - 1] of nouns of these numbers [B, N]: determiner, noun, preposition, determiner, noun, ..."""
    kinds = (DETERMINERS, SINGULAR, PREPOSITIONS)
    first = np.array([[[WORDS.index(kind[0]) for kind in kinds]]])
    after = np.array([[[WORDS.index(kind[-1]) + 1 for kind in kinds]]])
    tokens = jax.random.randint(key, (*numbers.shape, 3), first, after)
    tokens = tokens.at[..., 1].add(len(SINGULAR) * numbers)
    return tokens.reshape(len(numbers), -1)[:, :-1]


def sentence(tokens: Any) -> str:
    """The words of one sequence of tokens [T]; ValueError for anything else."""
    tokens = np.asarray(checked_tokens(tokens, None, len(WORDS), "tokens"))
    if tokens.ndim != 1:
        raise ValueError(
            f"tokens must be one sequence [T], got shape {list(tokens.shape)}: give a row, up to its length"
        )
    return " ".join(WORDS[token] for token in tokens)
