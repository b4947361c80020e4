"""Events of one's own, fitted: a trained network with scores, baselines, and what it knows of order.

events = read_events("churn.csv", sequence="customer", time="time", target="cancelled")
fitted = fit(events, Settings(compare=True))
fitted.write(Path("churn-fit"))
"""

from seqjax.fit.fitted import Fitted, fit
from seqjax.fit.settings import Settings
