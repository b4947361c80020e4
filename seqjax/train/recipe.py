"""What a training is, apart from numbers that may be swept, and how a batch is judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import optax
from jax import Array

from seqjax.clipping import adam
from seqjax.core import Params, require_sizes
from seqjax.network import Network, Output, require_recurrent
from seqjax.sequences import batch_last, mask_of
from seqjax.tasks.task import Batch, Task

Hyper = Mapping[str, Any]
ADAM = adam(3e-3)
STEPS = ["sequence", "window"]


@dataclass(frozen=True)
class Recipe:
    """Everything about a training run that is not a number to be swept.

    `optimizer` is any optax transformation, or a function of the hyperparameters that returns one; `edit` changes the
    fresh params by the hyperparameters, (key, params, hyper) -> params. `penalty` is added to the loss of every update,
    (recipe, params, batch, *, hyper) -> number, such as `omega` or `flossing`.

    window      truncated backpropagation through time: the gradient stays within so many steps, over which the state is
                carried by its value; None for the whole sequence. What memory it takes does not depend on T
    step_every  "sequence", one step of the optimiser for a batch, or "window", one for every window in which something
                counts
    Raises ValueError for a task that the network does not fit, for a window with a penalty, and for one of a network
    without a recurrence.
    """

    network: Network
    task: Task
    hidden: int
    updates: int = 1500
    batch: int = 64
    optimizer: optax.GradientTransformation | Callable[[Hyper], optax.GradientTransformation] = ADAM
    edit: Callable[[Array, Params, Hyper], Params] | None = None
    penalty: Callable[..., Array] | None = None
    window: int | None = None
    step_every: str = "sequence"

    def __post_init__(self) -> None:
        require_sizes(hidden=self.hidden, updates=self.updates, batch=self.batch)
        if self.window is not None:
            require_sizes(window=self.window)
            require_recurrent(self.network, "window, which carries a state,")
        if self.step_every not in STEPS or (self.step_every == "window" and self.window is None):
            raise ValueError(f'step_every must be one of {STEPS}, "window" with a window, got {self.step_every!r}')
        if self.window is not None and self.penalty is not None:
            raise ValueError("a penalty reads whole sequences, and a window cuts them: leave one of them out")
        for name in ("inputs", "readout"):
            ours, its = getattr(self.network, name), getattr(self.task, name)
            if ours != its and (ours, its) != ("embedding", "onehot"):
                raise ValueError(f"task {self.task.name!r} needs a network with {name}={its!r}, got {ours!r}")


def optimizer_of(recipe: Recipe, hyper: Hyper) -> optax.GradientTransformation:
    """The recipe's optimiser at these hyperparameters."""
    given = recipe.optimizer
    return given if isinstance(given, optax.GradientTransformation) else given(hyper)


def answers(
    recipe: Recipe, params: Params, batch: Batch, *, perturb: Any = None, key: Array | None = None
) -> tuple[Array, Array | None]:
    """The network's predictions for a batch, [B, K] or [B, T, K], and where they count, [B, T] or None for all.

    `perturb` is added to the states (see `seqjax.unroll.scan`); `key` draws what dropout drops.
    """
    return predictions_of(recipe, batch, outputs(recipe, params, batch, perturb=perturb, key=key))


def outputs(recipe: Recipe, params: Params, batch: Batch, *, perturb: Any = None, key: Array | None = None) -> Output:
    """What the network makes of a batch, in the inside layout; arguments as for `answers`."""
    xs, mask, reset = batch_last((batch.xs, valid(batch), batch.reset))
    return recipe.network.forward(params, xs, mask, perturb, key=key, reset=reset)


def predictions_of(recipe: Recipe, batch: Batch, output: Output) -> tuple[Array, Array | None]:
    """The `answers` among the outputs."""
    predictions = jnp.moveaxis(getattr(output, recipe.task.readout), -1, 0)
    return predictions, None if recipe.task.readout == "last" else counted(batch)


def valid(batch: Batch) -> Array | None:
    """The steps that are not padding, [B, T], None for all."""
    return None if batch.lengths is None else mask_of(batch.lengths, batch.xs.shape[1])


def counted(batch: Batch) -> Array | None:
    """Where an answer counts: in valid steps that are scored, None for everywhere."""
    mask = valid(batch)
    if batch.scored is None or mask is None:
        return mask if batch.scored is None else batch.scored
    return mask & batch.scored


def judge(
    recipe: Recipe, params: Params, batch: Batch, measure: Callable[..., Array], key: Array | None = None
) -> Array:
    """A loss or score of the network on a batch, over the steps that count only; `key` draws what dropout drops."""
    predictions, where = answers(recipe, params, batch, key=key)
    return measure(predictions, batch.targets, where)
