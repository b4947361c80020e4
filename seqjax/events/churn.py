"""Customers who cancel, or not, by the order of two events: made-up data whose best scores are known.

`python -m seqjax.events.churn churn.csv --sequences 2000 --seed 0` writes a file, a .csv, .parquet or .jsonl.

Every customer signs up, has one or two failed payments and one or two refunds among other events, and is at risk where
the last refund came after the last failed payment. Whether so is drawn without a look at anything else, and it is all
that cancelling depends on: every bag of events, times between them and amounts included, is as likely of those who
cancel as of those who do not, so that a model without order knows no more than how many cancel.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from seqjax.arguments import parse
from seqjax.core import require_sizes
from seqjax.events.write import require_table_path, write_table

KINDS = ("signup", "login", "view", "payment", "support", "plan_change", "payment_failed", "refund")
FILLERS, SHARES = np.arange(1, 6), (0.35, 0.33, 0.18, 0.08, 0.06)
FAILED, REFUND = 6, 7
PAID = (3, FAILED, REFUND)  # the kinds that have an amount
CHANNELS = ("app", "phone", "web")
SHORTEST, LONGEST = 4, 400
RISK = 0.28  # share of the customers at risk
CANCELS = (0.06, 0.85)  # probability of cancelling: of those who are not at risk, of those who are
UNTOLD = 0.05  # share of amounts that are not told; of channels, 0.02
START = np.datetime64("2023-01-01", "s")


@dataclass(frozen=True, eq=False)
class Churn:
    """N customers and their E events, customer by customer, in their order."""

    offsets: np.ndarray  # [N + 1]
    seconds: np.ndarray  # [E] since START
    kinds: np.ndarray  # [E] of KINDS
    amounts: np.ndarray  # [E], NaN where there is none
    channels: np.ndarray  # [E] of CHANNELS, -1 where it is not told
    probabilities: np.ndarray  # [N] of cancelling
    cancelled: np.ndarray  # [N] bool

    def frame(self) -> Any:
        """A polars table of customer, time, kind, amount, channel and cancelled, a row an event, as a log has them: by
        time, whosever they are."""
        import polars as pl

        group = np.repeat(np.arange(len(self.cancelled)), np.diff(self.offsets))
        digits = len(str(len(self.cancelled)))
        names = np.array([f"c{n + 1:0{digits}}" for n in range(len(self.cancelled))], object)
        told = np.array([*CHANNELS, None], object)
        columns = {
            "customer": pl.Series(names[group], dtype=pl.String),
            "time": (START + self.seconds).astype("datetime64[us]"),
            "kind": pl.Series(np.array(KINDS, object)[self.kinds], dtype=pl.String),
            "amount": pl.Series(self.amounts).fill_nan(None),
            "channel": pl.Series(told[self.channels], dtype=pl.String),
            "cancelled": pl.Series(np.array(["no", "yes"], object)[self.cancelled.astype(int)[group]], dtype=pl.String),
        }
        return pl.DataFrame(columns)[np.argsort(self.seconds, kind="stable")]

    def write(self, path: Path) -> None:
        """Write the table by the suffix of the path; ValueError for another one, or where it cannot be written."""
        import polars as pl

        require_table_path(path)
        frame = self.frame()
        if path.suffix != ".parquet":
            frame = frame.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S"))
        write_table(path, frame)


def churn(seed: int = 0, sequences: int = 2000) -> Churn:
    """Customers of 4 to 400 events, about 100 on average; a function of the seed alone.

    ValueError unless there is at least one and the seed is a whole number from 0.
    """
    require_sizes(sequences=sequences)
    if seed < 0 or seed % 1:
        raise ValueError(f"seed must be a whole number from 0, got {seed}")
    rng = np.random.default_rng(seed)
    lengths = SHORTEST + np.floor((LONGEST - SHORTEST + 1) * rng.beta(0.7, 2.2, sequences)).astype(int)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    risk = rng.random(sequences) < RISK
    probabilities = np.where(risk, CANCELS[1], CANCELS[0])
    kinds = kinds_of(rng, offsets, risk)
    told = np.isin(kinds, PAID) & (rng.random(len(kinds)) >= UNTOLD)
    amounts = np.where(told, np.exp(rng.normal(3, 0.6, len(kinds))).round(2), np.nan)
    cancelled = rng.random(sequences) < probabilities
    seconds = seconds_of(rng, offsets)
    return Churn(offsets, seconds, kinds, amounts, channels_of(rng, lengths), probabilities, cancelled)


def kinds_of(rng: np.random.Generator, offsets: np.ndarray, risk: np.ndarray) -> np.ndarray:
    """Kinds [E]: a signup, then failed payments and refunds at random places among the others, in a random order but
    that the last of them is a refund where there is a risk, else a failed payment."""
    lengths, E = np.diff(offsets), offsets[-1]
    group = np.repeat(np.arange(len(risk)), lengths)
    failed = 1 + (rng.random(len(risk)) < 0.3)
    refunds = 1 + ((rng.random(len(risk)) < 0.2) & (lengths > SHORTEST))
    keys = rng.random(E)
    keys[offsets[:-1]] = -1  # the signup
    chosen = np.zeros(E, bool)
    rank = np.arange(E) - offsets[group]
    chosen[np.lexsort((keys, group))] = (rank >= 1) & (rank <= (failed + refunds)[group])
    kinds = rng.choice(FILLERS, size=E, p=SHARES)
    kinds[offsets[:-1]] = 0
    kinds[chosen] = troubles(rng, failed, refunds, risk)
    return kinds


def troubles(rng: np.random.Generator, failed: np.ndarray, refunds: np.ndarray, risk: np.ndarray) -> np.ndarray:
    """The failed payments and refunds of every customer, one after the other, in their order."""
    total = (failed + refunds)[:, None]
    place = np.arange(total.max())
    keys = np.where(place < total - 1, rng.random((len(risk), len(place))), 2)
    before = keys.argsort(1).argsort(1) < (refunds - risk)[:, None]  # which of those before the last are refunds
    refund = np.where(place == total - 1, risk[:, None], before)
    return np.where(refund, REFUND, FAILED)[place < total]


def seconds_of(rng: np.random.Generator, offsets: np.ndarray) -> np.ndarray:
    """Times [E]: from a start within a year on, each some hours after the one before, one in a hundred at once."""
    gaps = np.floor(np.exp(rng.normal(np.log(8 * 3600), 1.6, offsets[-1]))).astype(np.int64)
    gaps[rng.random(len(gaps)) < 0.01] = 0
    starts = rng.integers(0, 365 * 24 * 3600, len(offsets) - 1)
    gaps[offsets[:-1]] = 0
    total = np.cumsum(gaps)
    return total + np.repeat(starts - total[offsets[:-1]], np.diff(offsets))


def channels_of(rng: np.random.Generator, lengths: np.ndarray) -> np.ndarray:
    """Channels [E]: four in five the customer's own, the others any, one in fifty not told."""
    own = np.repeat(rng.integers(0, len(CHANNELS), len(lengths)), lengths)
    found = np.where(rng.random(len(own)) < 0.8, own, rng.integers(0, len(CHANNELS), len(own)))
    return np.where(rng.random(len(own)) < 0.02, -1, found)


@dataclass(frozen=True)
class BestScores:
    """What no model can beat but by luck; `share` is how many cancel."""

    auroc: float
    accuracy: float
    log_loss: float
    share: float


def best_scores(probabilities: Any = CANCELS, weights: Any = (1 - RISK, RISK)) -> BestScores:
    """Expected scores of whoever knows the probability of every answer; by default of all customers there could be.

    With weight w of probability p: accuracy Σ w max(p, 1 - p), log loss -Σ w (p ln p + (1 - p) ln(1 - p)), and AUROC
    Σ_ij w_i p_i w_j (1 - p_j) ([p_i > p_j] + [p_i = p_j]/2) over the same without the bracket.
    """
    p = np.asarray(probabilities, np.float64)
    w = np.broadcast_to(np.asarray(weights, np.float64), p.shape) / np.broadcast_to(weights, p.shape).sum()
    levels, place = np.unique(p, return_inverse=True)
    w = np.bincount(place, w)
    yes, no = w * levels, w * (1 - levels)
    below = np.cumsum(no) - no / 2  # noes at lower levels, and half of those at the same
    entropy = -sum(part @ np.log(np.where(part > 0, part / w, 1)) for part in (yes, no))
    accuracy = float(w @ np.maximum(levels, 1 - levels))
    return BestScores(float(yes @ below / (yes.sum() * no.sum())), accuracy, float(entropy), float(yes.sum()))


@dataclass(frozen=True)
class Options:
    """Write the events of made-up customers, who cancel or not by the order of two of them."""

    path: Annotated[Path, tyro.conf.Positional]
    """A .csv, .parquet or .jsonl file."""
    sequences: int = 2000
    """How many customers, of about 100 events each."""
    seed: int = 0
    """Another one, other customers."""


def main(args: list[str]) -> int:
    """Write the file; 0, or 2 for a bad call, with one line that says what is wrong."""
    try:
        options = parse(Options, args, prog="python -m seqjax.events.churn")
        made = churn(options.seed, options.sequences)
        made.write(options.path)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    best = best_scores()
    print(
        f"{options.path}: {len(made.cancelled):,} customers, {len(made.kinds):,} events, "
        f"{made.cancelled.mean():.1%} cancel; no model beats AUROC {best.auroc:.3f}, accuracy {best.accuracy:.3f}, "
        f"log loss {best.log_loss:.3f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
