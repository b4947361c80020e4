"""How far back does a stack of causal convolutions see, and what is it worth one step short?

Source   lecture, receptive fields of 21 and 1024 (B12): 1 + (k - 1) Σ dilations
Command  python -m experiments run receptive_field
Time     about 3 minutes on 2 CPU cores, with compilation
Expect   the formula and the Jacobian agree, and no step within the field is missed; recall is solved by every seed
         where the first symbol lies on the edge of the field, and by none where it lies one step beyond, at chance

Fields are measured at initialisation, H = 8. First-symbol recall by a dilated stack of kernel 2 whose field is 16:
H = 32, Adam at 3e-3, 64 fresh sequences an update.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import xarray as xr

import seqjax
from experiments.claims import claim
from experiments.models import SOLVED, Training, check_training, recipe_of, without
from seqjax.conv import measured_field, receptive_field
from seqjax.core import require_sizes
from seqjax.report import Claim, Experiment
from seqjax.report.style import COLOURS, beside, level, panels
from seqjax.statistics import rate
from seqjax.sweep import gather

STACKS = {  # kernel and dilations
    "ten layers of three taps": (3, (1,) * 10),
    "ten of two taps, dilated 1 to 512": (2, tuple(2**i for i in range(10))),
}
WIDTH, ROWS, BEYOND = 8, 2, 16  # units, sequences, and steps before the field in every one


@dataclass(frozen=True)
class Config(Training):
    """Settings."""

    seeds: int = 5
    updates: int = 1000
    kernel: int = 2
    layers: int = 4  # dilated 1, 2, 4, ...
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_sizes(kernel=config.kernel, layers=config.layers)


def run(config: Config, point: Any) -> Any:
    """score [length, seed] of recall at the edge of the field and one beyond; and formula, reach and holes
    [stack]"""
    edge = receptive_field(config.kernel, dilations(config))
    settings = without(config)

    def recall(length: int) -> Any:
        network = seqjax.convolutional(config.kernel, dilations(config), inputs="onehot")
        recipe = recipe_of(network, seqjax.tasks.recall(length=length), config)
        options = {"seeds": config.seeds, "examples": config.examples, "title": f"receptive_field: T = {length}"}
        return point.resumable(partial(seqjax.sweep_recipe, recipe, **options), length=length, **settings)[["score"]]

    scores = gather([recall(length) for length in (edge, edge + 1)], {"length": [edge, edge + 1]})
    return xr.merge([scores, gather([measured(*stack) for stack in STACKS.values()], {"stack": [*STACKS]})])


def dilations(config: Config) -> tuple[int, ...]:
    """1, 2, 4, ..."""
    return tuple(2**i for i in range(config.layers))


def measured(kernel: int, spread: tuple[int, ...]) -> xr.Dataset:
    """The field of a fresh stack, by formula and by its Jacobian."""
    formula = receptive_field(kernel, spread)
    network: Any = seqjax.convolutional(kernel, spread, activation="tanh")
    params = network.init(jax.random.key(0), 1, WIDTH, 1)
    xs = jax.random.normal(jax.random.key(1), (ROWS, formula + BEYOND, 1))
    found = measured_field(lambda x: network.apply(params, x).last, xs)
    return xr.Dataset({"formula": formula, "reach": found.reach, "holes": len(found.holes)})


def claims(config: Config, dataset: Any) -> list[Claim]:
    """B12; V12, the step too far."""
    reach, holes = dataset.reach.values.tolist(), int(dataset.holes.sum())
    edge, beyond = (dataset.score.isel(length=i).fillna(0).values for i in (0, 1))
    solved = [rate(int((scores > SOLVED).sum()), scores.size) for scores in (edge, beyond)]
    chance = seqjax.tasks.recall(length=2).chance
    return [
        claim(
            "B12",
            measured="; ".join(map(str, reach)) + f", {holes} steps missed",
            holds=reach == [21, 1024] and not holes,
        ),
        claim(
            "V12",
            measured=f"at the edge {solved[0]}; one step beyond {solved[1]}, accuracy {beyond.max():.3f} at most",
            holds=solved[0].value == 1 and bool((abs(beyond - chance) < 0.05).all()),
        ),
    ]


def table(config: Config, dataset: Any) -> list[dict[str, str]]:
    """Steps seen."""

    def row(name: str) -> dict[str, str]:
        one = dataset.sel(stack=name)
        found = {"by formula": one.formula, "by Jacobian": one.reach, "missed": one.holes}
        return {"stack": name} | {what: str(int(number)) for what, number in found.items()}

    return [row(name) for name in STACKS]


def figure(config: Config, dataset: Any) -> Any:
    """Accuracy of every seed on the edge and beyond it."""
    fig, (axes,) = panels(1, width=6)
    for place, length in enumerate(dataset.length.values):
        scores = dataset.score.sel(length=length).fillna(0).values
        axes.plot(place + beside(len(scores), 0.1), scores, "o", color=COLOURS["lstm"], alpha=0.8)
    edge, beyond = map(int, dataset.length.values)
    axes.set_xticks([0, 1], [f"T = {edge},\nthe edge of the field", f"T = {beyond},\none step beyond"])
    axes.set(ylim=(-0.03, 1.05), xlim=(-0.5, 1.5), ylabel="accuracy on fresh sequences, every seed")
    axes.set_title(f"Recall by convolutions that see {edge} steps")
    level(axes, seqjax.tasks.recall(length=2).chance, "chance, 1/8")
    return fig


EXPERIMENT = Experiment(
    name="receptive_field",
    summary="How far back does a stack of causal convolutions see?",
    config=Config,
    quick={"seeds": 2, "updates": 30, "hidden": 6, "layers": 2, "examples": 100},
    run=run,
    claims=claims,
    table=table,
    figure=figure,
    check=check,
)
