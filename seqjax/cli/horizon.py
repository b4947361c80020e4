"""`seqjax horizon MODEL`: how far back a model can learn, in a table, a figure, and three lines."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from seqjax.aside import aside
from seqjax.cli.data import drawn, read
from seqjax.cli.folder import folder
from seqjax.cli.model import Translator, load
from seqjax.core import require_sizes
from seqjax.interop.loaded import Loaded
from seqjax.pair_survey import PairSurvey, pair_survey
from seqjax.report.store import require_writable
from seqjax.report.style import label_ends, level, panels, styled
from seqjax.survey import Half, Survey, survey
from seqjax.tasks.pairs import paired

FILES = ("figure.svg", "figure.png", "horizon.json")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True)
class Horizon:
    """How far back a model can learn: the PyTorch state_dict of an nn.RNN, nn.LSTM or nn.GRU or a model around one,
    or a training's checkpoints."""

    model: Annotated[Path, tyro.conf.Positional]
    """A .safetensors, .pt or .pth file, or a folder of checkpoints."""
    data: Path | None = None
    """Sequences of your own: .npy [T, D] or [B, T, D], .npz with xs and perhaps lengths, .csv of D columns."""
    inputs: str | None = None
    """Without data: gaussian:VARIANCE, by default of 1, or onehot; an encoder-decoder is given symbols."""
    length: int = 200
    """Steps of the sequences that are drawn; of an encoder-decoder both source and target."""
    sequences: int = 16
    """How many of them."""
    prefix: str | None = None
    """The module's path in a model that holds several, such as encoder.rnn."""
    relu: bool = False
    """The model is an nn.RNN(nonlinearity="relu"), of which its weights say nothing."""
    dtype: str | None = None
    """Cast the weights, such as to float32."""
    run: int | None = None
    """Of checkpoints, which run; the first by default."""
    step: int | None = None
    """Of checkpoints, after how many updates; the last by default."""
    seed: int = 0
    """Of the sequences, and of the directions in which the gradient is taken."""
    out: Path | None = None
    """Folder of the figure and the numbers, new or written by this command; by default MODEL-horizon beside you."""


def horizon(options: Horizon) -> None:
    """Survey the model, print what was found, and write it down."""
    require_sizes(length=options.length, sequences=options.sequences)
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"--seed must be from 0 to 2**32 - 1, got {options.seed}")
    out = folder(Path(f"{options.model.stem}-horizon") if options.out is None else options.out, FILES)
    model = load(
        options.model, options.prefix, relu=options.relu, dtype=options.dtype, run=options.run, step=options.step
    )
    console = Console()
    with Console(stderr=True).status("taking gradients ..."):
        found = of_pairs(model, options) if isinstance(model, Translator) else of_layers(model, options)
    require_writable(out.parent)
    write(found, options, out)
    console.print(table(found))
    for line in found.verdict():
        console.print(line, highlight=False)
    print(f"{out}/figure.svg")


def of_layers(model: Loaded, options: Horizon) -> Survey:
    """What there is to say of a stack, on data or on what is drawn."""
    D = model.params[0].forward.W_ih.shape[1]
    first, second = jax.random.split(jax.random.key(options.seed))
    if options.data is None:
        xs, lengths = drawn(options.inputs or "gaussian:1", first, options.sequences, options.length, D), None
    else:
        xs, lengths = read(options.data, D)
    return survey(model.cell, model.params, xs, lengths=lengths, key=second)


def of_pairs(model: Translator, options: Horizon) -> PairSurvey:
    """What there is to say of an encoder-decoder, on symbols that are drawn."""
    if options.data is not None or options.inputs not in (None, "onehot"):
        what = "--inputs" if options.data is None else "--data"
        raise ValueError(f"{what} means nothing to an encoder-decoder: seqjax.pair_survey takes pairs of your own")
    D, K = model.sizes
    keys, shape = jax.random.split(jax.random.key(options.seed)), (options.sequences, options.length)
    source, target = (jax.random.randint(key, shape, 0, n) for key, n in zip(keys, (D, K), strict=True))
    lengths = jnp.full(options.sequences, options.length)
    return pair_survey(model.network, model.params, paired(source, lengths, target, lengths, end=K - 1))


def table(found: Survey | PairSurvey) -> Table:
    """A column for every layer and direction."""
    columns = [column(half) for half in found.halves]
    grid = Table(*(each["part"] for each in [{"part": ""}, *columns]))
    for name in list(columns[0])[1:]:
        grid.add_row(name, *(each[name] for each in columns))
    return grid


def column(half: Half) -> dict[str, str]:
    """One layer and direction, in words."""
    radius = ", ".join(f"{gate} {block.spectral_radius:.2f}" for gate, block in half.blocks.items())
    sigma = ", ".join(f"{gate} {block.sigma_max:.2f}" for gate, block in half.blocks.items())
    kept = "-" if half.retention is None else f"{half.retention.mean():.3f} (to {half.retention.max():.3f})"
    decay = f"{half.decay.factor:.4f} ({half.decay.low:.4f} to {half.decay.high:.4f})"
    leading = "-"
    if half.exponents is not None:
        leading = ", ".join(f"{value:.3f}" for value in np.asarray(half.exponents.exponents).mean(0))
    return {
        "part": half.name,
        "spectral radius": radius,
        "σ_max": sigma,
        "gate that keeps": kept,
        "gradient a step": decay,
        "steps to 1e-2": steps(half.horizons[0]),
        "steps to 1e-6": steps(half.horizons[1]),
        "leading exponents": leading,
    }


def steps(number: float) -> str:
    """A horizon in words."""
    return "no decay" if np.isinf(number) else f"{number:.0f}"


def write(found: Survey | PairSurvey, options: Horizon, out: Path) -> None:
    """figure.svg, figure.png and horizon.json, all or nothing."""
    with aside(out) as draft, styled():
        draft.mkdir()
        picture = figure(found)
        picture.savefig(draft / "figure.svg")
        picture.savefig(draft / "figure.png", dpi=150)
        text = json.dumps(numbers(found, options), indent=1, ensure_ascii=False)
        (draft / "horizon.json").write_text(text + "\n", encoding="utf-8")


def numbers(found: Survey | PairSurvey, options: Horizon) -> dict[str, Any]:
    """All that was measured, and of what."""
    given = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}
    said = {"options": given, "verdict": found.verdict(), "parts": [measured(half) for half in found.halves]}
    if isinstance(found, PairSurvey):
        said["log10_gradient_from_written_to_read"] = [[worded(value) for value in row] for row in found.distance]
    return said


def measured(half: Half) -> dict[str, Any]:
    """One layer and direction; what is not finite becomes a word, as JSON has no such numbers."""
    found = half.exponents
    exponents, errors = (None, None) if found is None else (of_rows(found.exponents), of_rows(found.error))
    middle = [worded(value) for value in np.nanmedian(half.log10, axis=0)]
    return {
        "part": half.name,
        "blocks": {gate: asdict(block) for gate, block in half.blocks.items()},
        "retention": None if half.retention is None else half.retention.tolist(),
        "decay": {name: worded(value) for name, value in asdict(half.decay).items()},
        "steps_to_1e-2": worded(half.horizons[0]),
        "steps_to_1e-6": worded(half.horizons[1]),
        "exponents": exponents,
        "exponent_errors": errors,
        "log10_gradient_by_lag": middle,
    }


def of_rows(values: Any) -> list[float | str]:
    """The mean over rows."""
    return [worded(float(value)) for value in np.asarray(values, np.float64).mean(0)]


def worded(value: float) -> float | str:
    """A number that JSON can hold."""
    return value if np.isfinite(value) else str(value)


def figure(found: Survey | PairSurvey) -> Any:
    """Gradient against lag for every part; of an encoder-decoder also from all that is written to all that is read."""
    pairs = isinstance(found, PairSurvey)
    picture, axes = panels(1 + pairs, width=8.5 + 4.5 * pairs, height=4.6)
    lines(axes[0], found.halves)
    if isinstance(found, PairSurvey):
        axes[0].set_title(f"Gradient to the states of {found.name}")
        drawing = axes[1].imshow(found.distance, cmap="viridis", aspect="auto", interpolation="nearest")
        axes[1].set(xlabel="symbol read", ylabel="symbol written", title="log10 of the gradient from one to the other")
        axes[1].grid(visible=False)
        picture.colorbar(drawing, ax=axes[1])
    else:
        axes[0].set_title(f"Gradient to the state of {found.cell.name}, {found.T} steps")
    return picture


def lines(axes: Any, halves: tuple[Half, ...]) -> None:
    """The median over sequences, and all of them behind it."""
    ends, lags = [], np.arange(max(half.log10.shape[1] for half in halves))
    for half, colour in zip(halves, COLOURS * len(halves), strict=False):
        found = np.where(np.isfinite(half.log10), half.log10, np.nan)
        axes.plot(lags[: found.shape[1]], found.T, color=colour, alpha=0.15, linewidth=0.6)
        middle = np.nanmedian(half.log10, axis=0)
        axes.plot(lags[: len(middle)], np.where(np.isfinite(middle), middle, np.nan), color=colour, linewidth=2)
        last = middle[np.isfinite(middle)]
        ends.append((float(last[-1]) if len(last) else 0.0, half.name, colour))
    axes.set(xlim=(0, lags[-1]), xlabel="steps back from the end", ylabel="log10 of the gradient, over that at the end")
    for value, text in ((-2, "a hundredth"), (-6, "a millionth")):
        if axes.get_ylim()[0] < value < axes.get_ylim()[1]:
            level(axes, value, text)
    label_ends(axes, ends)
