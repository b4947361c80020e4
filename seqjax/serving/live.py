"""`Live`: a model that answers events as they come, and keeps the state of every sequence between them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from seqjax.core import carry_dtype, require_sizes
from seqjax.events import Encoding, Event, encode_event
from seqjax.events.clock import SINCE
from seqjax.model import Model
from seqjax.network import Network
from seqjax.serving.answers import Prediction, answers, told
from seqjax.serving.kept import restored, save
from seqjax.serving.slab import Slab
from seqjax.streaming import advance, start

SIZES = (1, 4, 16, 64, 256)  # of the batches that are compiled


class Asked(NamedTuple):
    """An event on its way through the network."""

    place: int  # among the events that came together
    key: str
    event: Event


class Live:
    """A model one event at a time, for many sequences: every answer is what `predict` gives for the events so far.

        live = Live(load_model("churn-model"))
        live.event("c17", {"time": "2024-05-31", "kind": "refund", "amount": 12.5, "channel": None}).answer

    An id is a text, or a whole number, which counts as its decimal text: 7 and "7" are one sequence.

    limit   how many sequences are kept: for a new one beyond, the least recent is forgotten, and starts anew should it
            come back; `forgotten` counts them. None for no limit
    ignore  fields of events that are not looked at, nor is the target; others that the model does not know are refused
    Threads may share it: calls are carried out one after the other.
    """

    def __init__(self, model: Model, *, limit: int | None = None, ignore: Sequence[str] = ()) -> None:
        if not isinstance(model, Model):
            raise ValueError(f"model must be a Model, such as load_model returns, got {model!r}")
        if limit is not None:
            require_sizes(limit=limit)
        if isinstance(ignore, str):
            raise ValueError(f"ignore must be a list of fields, got the text {ignore!r}")
        encoding = model.encoding
        self.model, self.limit = model, limit
        self.needed = set(encoding.kinds()) - ({SINCE} if encoding.clock else set())
        self.needed |= {encoding.clock.column} if encoding.clock else set()
        self.known = {*self.needed, encoding.sequence, model.question.column, *ignore}
        self.lock = Lock()
        self.program = program_of(model.network, encoding)
        self.slab = self.empty()

    def empty(self) -> Slab:
        """No sequences."""
        return Slab(start(self.model.network, self.model.params), self.limit)

    def event(self, id: Any, fields: Mapping[str, Any]) -> Prediction:
        """The answer after one more event of a sequence: {field: value}, with None where a value is missing.

        Raises ValueError, and leaves every state as it was, for an id that is none, a field that is not there or not
        known, a value of another type, an infinite number, a time before that of the event before, and an answer that
        is not finite.
        """
        (found,) = self.events([(id, fields)])
        if isinstance(found, ValueError):
            raise found
        return found

    def events(self, events: Iterable[tuple[Any, Mapping[str, Any]]]) -> list[Prediction | ValueError]:
        """The answers to many events (id, fields), in their order, which is also the order of those of one sequence.

        Where `event` would raise ValueError, that error stands in the answer's place; the others go on.
        """
        given = list(events)
        found: dict[int, Prediction | ValueError] = {}
        turns: list[list[tuple[int, str, Any]]] = []  # in the n-th the n-th event of every sequence
        met: dict[str, int] = {}
        for place, (id, fields) in enumerate(given):
            try:
                key = key_of(id)
            except ValueError as error:
                found[place] = error
                continue
            turn = met[key] = met.get(key, -1) + 1
            if turn == len(turns):
                turns.append([])
            turns[turn].append((place, key, fields))
        most = min(SIZES[-1], self.limit or SIZES[-1])
        with self.lock:
            for turn in turns:
                for first in range(0, len(turn), most):
                    self.take(turn[first : first + most], found)
        return [found[place] for place in range(len(given))]

    def take(self, turn: Sequence[tuple[int, str, Any]], found: dict[int, Prediction | ValueError]) -> None:
        """An event each of different sequences: encoded, and as many as can be stepped together."""
        asked = []
        for place, key, fields in turn:
            try:
                asked.append(Asked(place, key, self.encoded(key, fields)))
            except ValueError as error:
                found[place] = error
        if asked:
            self.step(asked, found)

    def encoded(self, key: str, fields: Any) -> Event:
        """One event of a sequence; ValueError where it is none of the model's."""
        if not isinstance(fields, Mapping):
            raise ValueError(f"an event must be a mapping of its fields, got {type(fields).__name__}")
        if not self.known.issuperset(fields):
            name = next(name for name in fields if name not in self.known)
            raise ValueError(f"unknown field {name!r}: the model knows {', '.join(sorted(self.needed))}")
        return encode_event(self.model.encoding, fields, self.slab.ticks[self.slab.row(key)])

    def step(self, asked: Sequence[Asked], found: dict[int, Prediction | ValueError]) -> None:
        """Step the states, padded to one of SIZES by rows that nobody reads."""
        slab, n = self.slab, len(asked)
        size = next(size for size in SIZES if size >= n)
        rows = np.zeros(size, np.int64)
        rows[:n] = [slab.row(each.key) for each in asked]
        padded = [each.event for each in asked] + (size - n) * [asked[-1].event]
        codes, numbers = np.stack([e.codes for e in padded]), np.stack([e.numbers for e in padded])
        states, outputs = self.program(self.model.params, [each[rows] for each in slab.states], codes, numbers)
        outputs = np.asarray(outputs)[:n]
        good = np.isfinite(outputs).all(1)
        keep = np.flatnonzero(good)
        kept = [asked[i] for i in keep]
        slab.put([e.key for e in kept], [np.asarray(each)[keep] for each in states], [e.event.tick for e in kept])
        for i in np.flatnonzero(~good):
            found[asked[i].place] = ValueError(f"the network is not finite after this event of {asked[i].key!r}")
        for each, value, p in zip(kept, *answers(self.model, outputs[keep]), strict=True):
            found[each.place] = told(self.model, value, p, int(slab.events[slab.row(each.key)]))

    def forget(self, id: Any) -> bool:
        """Drop the state of a sequence, whose next event is then its first; whether there was one."""
        with self.lock:
            return self.slab.forget(key_of(id))

    def __len__(self) -> int:
        return len(self.slab.rows)

    def __contains__(self, id: Any) -> bool:
        return key_of(id) in self.slab.rows

    @property
    def forgotten(self) -> int:
        """Sequences that the limit made it forget."""
        return self.slab.forgotten

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the states of all sequences into one file, whole or not at all; ValueError where that cannot be."""
        with self.lock:
            save(Path(path), self.model, self.slab)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from the states of a file instead of one's own; of more than the limit the least recent are forgotten.

        ValueError, and nothing changed, for a file that is not there or not as it was saved, and for the states of
        another model.
        """
        with self.lock:
            self.slab = restored(Path(path), self.model, self.empty())


def key_of(id: Any) -> str:
    """An id as text; ValueError for what is neither text nor a whole number."""
    if isinstance(id, str) and id:
        return id
    whole = isinstance(id, int | np.integer) and not isinstance(id, bool)
    if whole or (isinstance(id, float | np.floating) and id % 1 == 0 and abs(id) < 2**53):
        return str(int(id))
    raise ValueError(f"an id must be a text or a whole number, got {id!r}")


@lru_cache(maxsize=8)
def program_of(network: Network, encoding: Encoding) -> Callable[..., Any]:
    """A compiled (params, leaves of states [B, ..], codes [B, F], numbers [B, M]) -> (leaves, outputs [B, K])."""

    def run(params: Any, leaves: Any, codes: Any, numbers: Any) -> Any:
        structure = jax.tree.structure(jax.eval_shape(lambda: start(network, params)))
        xs = encoding.dense(codes, numbers.astype(carry_dtype(params)))
        step = jax.vmap(lambda state, x: advance(network, params, state, x))
        states, outputs = step(jax.tree.unflatten(structure, leaves), xs)
        return jax.tree.leaves(states), outputs

    return jax.jit(run)
