"""The settings."""

from dataclasses import dataclass

from experiments.models import Training, check_training, require_clip
from seqjax.core import require_sizes
from seqjax.tasks.pronunciation import LETTERS

WAYS = ("greedy", "beam")


@dataclass(frozen=True)
class Config(Training):
    """Settings."""

    seeds: int = 2
    hidden: int = 256
    updates: int = 8000
    batch: int = 128
    learning_rate: float = 2e-3  # at first; it falls to nothing along a cosine
    embedding: int = 64
    attention: int = 128
    dropout: float = 0.2
    clip: float = 1.0
    stress: bool = False
    longest: int = 12  # letters and phonemes of a pair, in training
    words: int | None = None  # to train on; None for all
    tests: int | None = None  # test words; None for all
    width: int = 5  # of the beam
    limit: int = 32  # phonemes at most
    shown: tuple[str, ...] = ("through", "knowledge", "phoenix", "quartet", "sequence")


def check(config: Config) -> None:
    """ValueError for settings that cannot be run."""
    check_training(config)
    sizes = {"embedding": config.embedding, "attention": config.attention, "width": config.width, "limit": config.limit}
    require_sizes(**sizes, longest=config.longest, words=config.words or 1, tests=config.tests or 1)
    require_clip(config.clip)
    unknown = [word for word in config.shown if not word or not set(word) <= set(LETTERS)]
    if unknown or not config.shown:
        raise ValueError(f"shown must be words of the letters a to z and the apostrophe, got {config.shown}")
