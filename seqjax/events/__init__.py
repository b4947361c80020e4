r"""Events of one's own: read from a file, described, split, and encoded for a network.

events = read_events("churn.csv", sequence="customer", time="time", target="cancelled")
parts = split(events)
encoding = fit_encoding(events, parts.train)
print(*report(events, parts=parts._asdict(), encoding=encoding).lines(), sep="\n")
encoded = encode(encoding, events)
batch = padded(encoded, parts.train[:64], buckets(events.lengths)[-1])
xs = encoding.dense(batch.codes, batch.numbers)  # [B, T, D]
"""

from seqjax.events.buckets import buckets
from seqjax.events.clock import Clock
from seqjax.events.encode import Encoded, Padded, encode, gathered, padded
from seqjax.events.encoding import Encoding, Scale, Words, fit_encoding
from seqjax.events.events import Events
from seqjax.events.fields import Category, Number
from seqjax.events.one import Event, encode_event, typed_event
from seqjax.events.read import read_events, read_like
from seqjax.events.report import Report, report
from seqjax.events.split import Split, split
from seqjax.events.targets import Question, Targets
