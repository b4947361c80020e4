"""Training on rounds of buckets, every seed until its validation loss has stopped falling; a stopped fit goes on."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seqjax.aside import discard
from seqjax.checkpoint import Checkpoints, Saver, opened
from seqjax.clipping import adam
from seqjax.fit.prepare import Prepared
from seqjax.fit.rounds import Round, round_of
from seqjax.fit.settings import Settings
from seqjax.fit.speak import Speaker
from seqjax.fit.task import bucket_task
from seqjax.network import Network
from seqjax.plan import Plan, plan_for
from seqjax.processes import fetch
from seqjax.progress import Show
from seqjax.sweep import joined_history, seed_keys
from seqjax.train import CAUSES, Recipe, TrainState, programs
from seqjax.train.saved import about_network

MINUTES = 0.25  # between two checkpoints
TRAINING = ("hidden", "seeds", "rounds", "patience", "batch", "learning_rate", "clip")  # settings that a course is of


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Course:
    """Where the training of S seeds stands at the end of a round; NaN in rounds that are still to come. Numbers have 32
    bits, as checkpoints keep them."""

    states: TrainState
    best: Any  # params of the round with the least validation loss
    best_loss: Any  # [S] infinite before the first
    best_round: Any  # [S] from 1
    stopped: Any  # [S] bool: by patience, or as it failed
    train: Any  # [S, rounds] mean loss of the round's batches
    validation: Any  # [S, rounds]


@dataclass(frozen=True, eq=False)
class Learned:
    """A network after its training, S seeds in front of everything."""

    speaker: Speaker
    params: Any  # best
    best_loss: np.ndarray  # [S]
    best_round: np.ndarray  # [S] from 1
    failed_at: np.ndarray  # [S] the update that was not finite, -1 for none
    causes: list[str]
    train: np.ndarray  # [S, rounds done]
    validation: np.ndarray  # [S, rounds done]

    @property
    def sound(self) -> np.ndarray:
        """The numbers of the seeds that did not fail."""
        return np.flatnonzero(self.failed_at < 0)

    @cached_property
    def chosen(self) -> int:
        """The seed of the least validation loss among those that did not fail."""
        return int(np.where(self.failed_at < 0, self.best_loss, np.inf).argmin())

    @property
    def network(self) -> Network:
        """Which network it is."""
        return self.speaker.network

    def one(self) -> Any:
        """The chosen seed's params."""
        return jax.tree.map(lambda a: a[self.chosen], self.params)


@dataclass(frozen=True, eq=False)
class Trainer:
    """The compiled programs of a network over prepared events."""

    begin: Callable[..., TrainState]
    whole: Round
    advances: Mapping[int, Callable[..., Any]]  # one update, of each bucket
    speaker: Speaker

    def round(self, states: TrainState) -> tuple[TrainState, np.ndarray]:
        """The states a round later, and the mean loss of its batches, [S]."""
        parts = []
        for bucket in self.whole.buckets:
            states, history = self.advances[bucket](states, {})
            parts.append(history)
        return states, joined_history(fetch(parts)).loss.mean(1)


@lru_cache(maxsize=4)
def trainer(network: Network, prepared: Prepared, settings: Settings, plan: Plan) -> Trainer:
    """Programs that are compiled when they are first called, one for each width."""
    rows = prepared.parts.train
    own = prepared.bucket(rows)
    parts = [rows[own == bucket] for bucket in range(len(prepared.widths))]
    whole = round_of([len(part) for part in parts], settings.batch)
    optimizer = adam(settings.learning_rate, clip=settings.clip)
    made = {}
    for bucket, part in enumerate(parts):
        if len(part):
            task = bucket_task(prepared, part, bucket, whole)
            recipe = Recipe(network, task, settings.hidden, batch=whole.batches[bucket], optimizer=optimizer)
            made[bucket] = programs(recipe, plan)
    advances = {bucket: advance(1) for bucket, (_, advance, _) in made.items()}
    return Trainer(next(iter(made.values()))[0], whole, advances, Speaker(network, prepared, plan, settings.batch))


def learned(
    network: Network,
    prepared: Prepared,
    settings: Settings,
    *,
    folder: Path | None = None,
    about: Mapping[str, Any] | None = None,
    show: Show | None = None,
) -> Learned:
    """Train all seeds. With a folder the run goes on from the last round that was saved there, to the same numbers.

    `about` is what the run is known by, in what JSON has; `show(rounds done, of how many, history)` is called on the
    way. ValueError for a folder of another run, and where every seed fails.
    """
    keys = seed_keys(settings.seeds)[1]
    made = trainer(network, prepared, settings, plan_for(settings.seeds))
    course, done = started(made.begin(keys, {}), settings), 0
    with ExitStack() as stack:
        saver = None
        if folder is not None:
            at = Checkpoints(folder, minutes=MINUTES, keep=1)
            saver = stack.enter_context(opened(at, about_run(network, settings) | dict(about or {})))
            course, done = resumed(saver, course)
        while done < settings.rounds and not course.stopped.all():
            course = after_round(made, course, done, settings)
            done += 1
            if saver is not None and (saver.due(done) or done == settings.rounds or course.stopped.all()):
                saver.save(done, fetch(course), loss=float(np.min(course.best_loss)))
            if show is not None:
                show(done, settings.rounds, course)
    if folder is not None and (fetch(course.states.failed_at) >= 0).all():
        discard(folder)
    return ended(made.speaker, course, done)


def about_run(network: Network, settings: Settings) -> dict[str, Any]:
    """What the checkpoints of a run are known by."""
    return about_network(network) | {name: getattr(settings, name) for name in TRAINING}


def started(states: TrainState, settings: Settings) -> Course:
    """Before the first round."""
    S, nan = settings.seeds, np.full((settings.seeds, settings.rounds), np.nan, np.float32)
    worst, first = np.full(S, np.inf, np.float32), np.zeros(S, np.int32)
    return Course(states, fetch(states.params), worst, first, np.zeros(S, bool), nan, nan)


def resumed(saver: Saver, course: Course) -> tuple[Course, int]:
    """The last course that was saved, and its rounds; the one given where there is none."""
    done = saver.latest()
    return (course, 0) if done is None else (saver.restore(done, course), done)


def after_round(made: Trainer, course: Course, done: int, settings: Settings) -> Course:
    """One more round, after `done`. A seed that has stopped keeps its best params, whatever the others go on to do."""
    states, train = made.round(course.states)
    validation = made.speaker.losses(states.params, made.speaker.prepared.parts.validation).astype(np.float32)
    failed, here = fetch(states.failed_at) >= 0, np.arange(settings.rounds) == done
    going = ~course.stopped & ~failed
    better = going & (validation < course.best_loss)
    best_round = np.where(better, np.int32(done + 1), course.best_round)

    def keep(new: Any, old: Any) -> Any:
        return np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return Course(
        states=states,
        best=jax.tree.map(keep, fetch(states.params), course.best),
        best_loss=np.where(better, validation, course.best_loss),
        best_round=best_round,
        stopped=~going | (done + 1 - best_round >= settings.patience),
        train=np.where(here & ~course.stopped[:, None], train[:, None].astype(np.float32), course.train),
        validation=np.where(here & ~course.stopped[:, None], validation[:, None], course.validation),
    )


def ended(speaker: Speaker, course: Course, done: int) -> Learned:
    """What was learned; ValueError where every seed failed."""
    failed, cause = fetch((course.states.failed_at, course.states.cause))
    if (failed >= 0).all():
        first = int(failed.argmin())
        raise ValueError(
            f"every seed of {speaker.network.name} failed (the first: a {CAUSES[cause[first]]} that is not finite at "
            f"update {failed[first]}): lower the learning rate, or look at the numbers in the data"
        )
    losses, rounds = (course.best_loss, course.best_round)
    curves = course.train[:, :done], course.validation[:, :done]
    return Learned(speaker, course.best, losses, rounds, failed, [CAUSES[c] for c in cause], *curves)
