"""A small model of customers who cancel, untrained, and its data."""

import jax
import polars as pl
from oracle import jiggle

import seqjax
from seqjax.events import fit_encoding, read_events
from seqjax.events.churn import churn
from seqjax.model import Model

H = 4


def log(customers=5, most=6):
    """The first events of a few customers, `most` or up to two fewer, as a log has them."""
    frame = churn(0, customers).frame()
    fewer = pl.col("customer").str.slice(1).cast(pl.Int64) % 3
    position = pl.int_range(pl.len()).over("customer")
    tenure = pl.col("amount").fill_null(1.0).cum_sum().over("customer")
    frame = (
        frame.with_columns(position=position, paid=tenure).filter(pl.col("position") < most - fewer).drop("position")
    )
    return frame.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S"))


def prefixes(frame):
    """Every beginning of every sequence as a sequence of its own, named CUSTOMER/EVENTS."""
    parts = []
    for (name,), rows in frame.group_by("customer", maintain_order=True):
        parts += [rows[:t].with_columns(customer=pl.lit(f"{name}/{t}")) for t in range(1, len(rows) + 1)]
    return pl.concat(parts)


def made(folder, target="cancelled", **options):
    """A model with float64 params, fitted to nothing, of the log; numbers of `paid` are put back by (2, 3)."""
    per_event = options.pop("per_event", False)
    path = folder / "log.jsonl"
    log().write_ndjson(path)
    fields = ["kind", "amount", "channel"]
    events = read_events(path, sequence="customer", time="time", target=target, per_event=per_event, fields=fields)
    encoding = fit_encoding(events, range(len(events.ids)))
    network = seqjax.network(seqjax.gru(), readout="every" if per_event else "last", **options)
    question = events.targets.question
    params = jiggle(network.init(jax.random.key(0), encoding.D, H, question.K), 0, scale=0.3)
    return Model(network, params, encoding, question, (2.0, 3.0) if not question.classes else (0.0, 1.0))
