"""`fit`: events of one's own to a trained network, its scores beside others', and what it knows of order."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqjax.bodies import convolutional, pooled, windowed
from seqjax.conv import receptive_field
from seqjax.events import Events, Report, report
from seqjax.events.targets import known
from seqjax.fit.bags import bag_models, require_sklearn
from seqjax.fit.learn import Learned, learned
from seqjax.fit.metrics import Answered, compared, drawn, scored
from seqjax.fit.order import Order, order_of
from seqjax.fit.prepare import Prepared, fingerprint, prepare, recent
from seqjax.fit.settings import Settings
from seqjax.fit.speak import log_softmax
from seqjax.fit.task import class_shares
from seqjax.model import Model
from seqjax.network import Network
from seqjax.progress import Show
from seqjax.statistics import Mean
from seqjax.stopwatch import stopwatch

CONSTANT = "always the same answer"
WINDOW, KERNEL, DILATIONS = 16, 3, (1, 2, 4, 8)
ORDER_FREE = (CONSTANT, "logistic regression on counts", "ridge regression on counts", "boosted trees on counts")
MEAN_POOL, WINDOWED = "mean over events", "window of the last"


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that a fit has found.

    model     the chosen seed's network, ready to be saved
    main      the name under which it is scored, its cell's
    learned   every network's training, by name, the main one first
    said      what every model says of the test part, by name, with the known answers
    scores    of every model on the test part, with 95% intervals over sequences
    ahead     by how much the main model's first score is better than each other's, on the same draws
    seeds     of the main network: every score of each seed that did not fail
    order     whether order matters to it, and how far back; None where the test part is too small
    taken     compile_seconds and run_seconds, of all of it
    """

    settings: Settings
    prepared: Prepared
    report: Report
    model: Model
    main: str
    learned: dict[str, Learned]
    said: dict[str, Answered]
    scores: dict[str, dict[str, Mean]]
    ahead: dict[str, Mean]
    seeds: dict[str, list[float]]
    order: Order | None
    taken: dict[str, float]

    @property
    def score(self) -> str:
        """The score by which models are compared."""
        return score_of(self.prepared)

    @property
    def order_free(self) -> list[str]:
        """The models that do not know in which order events come."""
        return [name for name in self.scores if name in (*ORDER_FREE, MEAN_POOL)]

    def write(self, folder: Path) -> None:
        """Write the model, metrics, predictions, figures and the page to a folder, in one move; it replaces one that
        was written before."""
        from seqjax.fit.write import write

        write(self, folder)


def fit(
    events: Events,
    settings: Settings | None = None,
    *,
    folder: Path | None = None,
    show: Callable[[str], Show] | None = None,
    say: Callable[[str], None] | None = None,
) -> Fitted:
    """Split, encode, train every seed until its validation loss stops falling, and score on the test part.

    folder  where the training is saved on its way, and goes on from; None for nowhere
    show    given the name of a network, what is called after every round of its training
    say     called with what comes next, in words
    Raises ValueError for events that nothing can be learned from, where every seed fails, and for a folder in which a
    fit of other data or settings was stopped.
    """
    settings, say = settings or Settings(), say or (lambda text: None)
    if settings.compare:
        require_sklearn()
    prepared = prepare(events, settings)
    with stopwatch() as taken:
        trained = trained_on(prepared, settings, folder, show or (lambda name: None))
        say("scoring on the test part")
        main = next(iter(trained))
        said, seeds = answers_of(prepared, trained, settings)
        draws = drawn(said)
        say("asking what order does")
        order = order_of(trained[main].network, trained[main].one(), prepared)
    counts = report(events, parts=prepared.parts._asdict(), encoding=prepared.encoding)
    model = model_of(prepared, trained[main], settings)
    scores, ahead = scored(draws), compared(draws, main, score_of(prepared))
    return Fitted(settings, prepared, counts, model, main, trained, said, scores, ahead, seeds, order, taken)


def trained_on(
    prepared: Prepared, settings: Settings, folder: Path | None, show: Callable[[str], Show | None]
) -> dict[str, Learned]:
    """Every network after its training, each with a folder of its own."""
    names = ("split", "split_seed", "validation", "test")
    about = {"data": fingerprint(prepared.events)} | {name: getattr(settings, name) for name in names}
    found = {}
    for name, (network, sees) in networks(prepared, settings).items():
        own = None if folder is None else folder / network.name
        read = prepared
        if sees is not None and not prepared.question.per_event:
            read = recent(prepared, sees, settings.batch)
        found[name] = learned(network, read, settings, folder=own, about=about, show=show(name))
    return found


def score_of(prepared: Prepared) -> str:
    """The score by which models are compared: AUROC of two classes, log loss of more, RMSE of numbers."""
    return {"binary": "AUROC", "multiclass": "log loss", "regression": "RMSE"}[prepared.question.task]


def networks(prepared: Prepared, settings: Settings) -> dict[str, tuple[Network, int | None]]:
    """The network that is asked for, first, and those that it is compared with, by what they are called; each with how
    many of the last events it sees at all, None for all of them."""
    readout = "every" if prepared.question.per_event else "last"
    found: dict[str, tuple[Network, int | None]] = {settings.cell.upper(): (settings.network(readout), None)}
    if settings.compare:
        field = receptive_field(KERNEL, DILATIONS)
        convolution = convolutional(KERNEL, DILATIONS, readout=readout)
        found[MEAN_POOL] = pooled("mean", readout=readout), None
        found[f"{WINDOWED} {WINDOW} events"] = windowed(WINDOW, readout=readout), WINDOW
        found[f"convolution over the last {field} events"] = convolution, field
    return found


def model_of(prepared: Prepared, main: Learned, settings: Settings) -> Model:
    """The chosen seed, with what it takes to use it."""
    about = {
        "data": Path(prepared.events.path).name,
        "sequences": {name: len(rows) for name, rows in prepared.parts._asdict().items()},
        "settings": asdict(settings),
        "seed": main.chosen,
        "validation_loss": float(main.best_loss[main.chosen]),
    }
    return Model(main.network, main.one(), prepared.encoding, prepared.question, prepared.scale, about)


def answers_of(
    prepared: Prepared, trained: Mapping[str, Learned], settings: Settings
) -> tuple[dict[str, Answered], dict[str, list[float]]]:
    """What every model says of the known answers of the test part, in the target's own unit; and the scores of every
    seed of the main one."""
    units = prepared.units(prepared.parts.test)
    there = known(prepared.answers[units])
    said: dict[str, Any] = {}
    for name, each in trained.items():
        said[name] = spoken(prepared, each.speaker.outputs(each.params, prepared.parts.test))
    main = next(iter(trained))
    seeds = [judged(prepared, said[main][s], there) for s in trained[main].sound]
    said = {name: every[trained[name].chosen] for name, every in said.items()}
    if settings.compare:
        said |= {name: put_back(prepared, each) for name, each in bag_models(prepared).items()}
    said[CONSTANT] = constant(prepared, len(units))
    found = {name: judged(prepared, each, there) for name, each in said.items()}
    once = np.ones((1, int(there.sum())))
    values = {name: [float(seed.scores()[name](once)[0]) for seed in seeds] for name in found[main].scores()}
    return found, values


def spoken(prepared: Prepared, outputs: np.ndarray) -> np.ndarray:
    """Outputs [.., K] as probabilities, or as numbers [..] in the target's unit."""
    return np.exp(log_softmax(outputs)) if prepared.question.classes else put_back(prepared, outputs[..., 0])


def put_back(prepared: Prepared, said: np.ndarray) -> np.ndarray:
    """Standardised numbers in the target's unit; probabilities as they are."""
    mean, sd = prepared.scale
    return said if prepared.question.classes else said * sd + mean


def constant(prepared: Prepared, n: int) -> np.ndarray:
    """What is said without a look at the sequence: the training shares of the classes, or the training mean."""
    if prepared.question.classes:
        return np.tile(class_shares(prepared), (n, 1))
    return np.full(n, prepared.scale[0])


def judged(prepared: Prepared, said: np.ndarray, there: np.ndarray) -> Answered:
    """What was said beside the truth, of the answers of the test part that are known."""
    rows, told = prepared.parts.test, prepared.events.targets
    lengths = prepared.events.lengths[rows] if prepared.question.per_event else np.ones(len(rows), int)
    group = np.repeat(np.arange(len(rows)), lengths)[there]
    truth = told.values[prepared.units(rows)][there] if told is not None else np.empty(0)
    return Answered(said[there], truth, np.unique(group, return_inverse=True)[1])
