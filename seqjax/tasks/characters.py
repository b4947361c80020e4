"""The next character of a text, the task of a generator."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seqjax.core import factory, require_sizes
from seqjax.losses import accuracy, cross_entropy
from seqjax.tasks.task import Batch, Task


def alphabet_of(text: str) -> str:
    """The characters of a text, sorted: its symbols in the order of their numbers."""
    return "".join(sorted(set(text)))


def tokens_of(text: str, alphabet: str) -> np.ndarray:
    """A text as numbers [T]; ValueError names a character that the alphabet does not have, and where it stands."""
    number = {character: i for i, character in enumerate(alphabet)}
    for place, character in enumerate(text):
        if character not in number:
            raise ValueError(
                f"the text holds {character!r} at place {place}, which is none of the {len(alphabet)} characters"
            )
    return np.array([number[character] for character in text], np.int32)


@factory
def characters(text: str, test: str, *, steps: int = 64) -> Task:
    """The next character at every one of `steps` characters, anywhere in a text; what is held out is another text, in
    rows one after the other, the last of which is left out where it is not whole.

    The symbols are the characters of the text. Score is accuracy. Chance: the most usual character of the test, and the
    entropy of its characters. ValueError for texts not longer than a row, and for a test with other characters.
    """
    require_sizes(steps=steps)
    for name, given in (("text", text), ("test", test)):
        if len(given) <= steps:
            raise ValueError(f"{name} must be longer than a row of {steps} characters, got {len(given)}")
    alphabet = alphabet_of(text)
    read, asked = tokens_of(text, alphabet), tokens_of(test, alphabet)

    def draw(key: Array, update: Array, batch: int) -> Batch:
        first = jax.random.randint(jax.random.fold_in(key, update), (batch,), 0, len(read) - steps)
        rows = jnp.asarray(read)[first[:, None] + jnp.arange(steps + 1)[None]]
        return Batch(rows[:, :-1], rows[:, 1:])

    def held_out(key: Array, examples: int) -> Batch:
        whole = (len(asked) - 1) // steps * steps
        return Batch(*(jnp.asarray(part[:whole]).reshape(-1, steps) for part in (asked, asked[1:])))

    shares = np.bincount(asked) / len(asked)
    return Task(
        name="characters",
        draw=draw,
        held_out=held_out,
        inputs="onehot",
        readout="every",
        D=len(alphabet),
        K=len(alphabet),
        loss=cross_entropy,
        score=accuracy,
        chance=float(shares.max()),
        chance_loss=float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum()),
    )
