"""The settings."""

from dataclasses import dataclass

from experiments.models import Training, check_training
from seqjax.core import require_sizes

LOUD = (0.01, 0.02, 0.03, 0.05)  # steps at which something explodes
AT = 0.03  # the step at which spikes are counted


@dataclass(frozen=True)
class Config(Training):
    """Settings; the defaults are the source's."""

    seeds: int = 10
    updates: int = 300
    lengths: tuple[int, ...] = (10, 20, 30)
    rates: tuple[float, ...] = (1e-3, *LOUD, 0.1)
    clip: float = 1.0
    clip_value: float = 0.1
    long_length: int = 50
    long_updates: int = 1500
    long_rates: tuple[float, ...] = (1e-3, 3e-3)
    sgd_rate: float = 0.3
    examples: int = 2000


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    require_sizes(long_length=config.long_length, long_updates=config.long_updates)
    require_sizes(**{f"lengths[{i}]": length for i, length in enumerate(config.lengths)})
    for name in ("clip", "clip_value", "sgd_rate"):
        if not getattr(config, name) > 0:
            raise ValueError(f"{name} must be above 0, got {getattr(config, name)}")
