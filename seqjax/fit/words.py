"""What a fit has found, in sentences for people who know their data and no machine learning."""

import numpy as np

from seqjax.fit.fitted import CONSTANT, WINDOWED, Fitted
from seqjax.fit.metrics import HIGHER
from seqjax.statistics import Mean


def verdict(fitted: Fitted) -> list[str]:
    """The answer, what it is worth, whether order matters, how far back, and what went wrong."""
    lines = [*headline(fitted), *worth(fitted)]
    if fitted.order is not None:
        lines += [of_shuffling(fitted), of_reach(fitted), of_gradient(fitted)]
    return lines + failures(fitted)


def headline(fitted: Fitted) -> list[str]:
    """How good the main model is, in terms of what is asked."""
    ask, scores, whole = fitted.prepared.question, fitted.scores[fitted.main], fitted.scores[CONSTANT]
    unit = unit_of(fitted)
    if ask.task == "regression":
        error, plain, explained = scores["RMSE"], whole["RMSE"], scores["R²"]
        return [
            f"{fitted.main} predicts {ask.column} with a typical error (RMSE) of {of(error)}; always answering the "
            f"average errs by {plain.value:.3g}. It explains {of(explained)} of the variance (R²)."
        ]
    right = (
        f"{fitted.main} is right about {ask.column} for {percent(scores['accuracy'])} of the test {unit}s; "
        f"always the same answer would be for {whole['accuracy'].value:.1%}."
    )
    if ask.task != "binary":
        return [right]
    rank = scores["AUROC"]
    no, yes = ask.classes
    return [
        f"Of two {unit}s, one {yes!r} and one {no!r}, {fitted.main} finds which is which in {percent(rank)} of all "
        f"pairs (AUROC); guessing finds 50%.",
        right,
    ]


def worth(fitted: Fitted) -> list[str]:
    """Against always the same answer, and against the best of the models without order."""
    ahead, name = fitted.ahead, fitted.score
    lines = []
    if not ahead[CONSTANT].low > 0:
        lines.append(
            f"This is not measurably better than always the same answer (difference in {name} {of(ahead[CONSTANT])}): "
            "do not rely on it. More sequences, or other fields, may help."
        )
    others = [model for model in fitted.order_free if model != CONSTANT]
    if others:
        best = min(others, key=lambda model: ahead[model].value)
        lines.append(
            f"Of the models that do not know the order of events the best is: {best}, {name} "
            f"{of(fitted.scores[best][name])}. {fitted.main} is {against(ahead[best])}: {order_matters(ahead[best])}."
        )
        window = next(model for model in ahead if model.startswith(WINDOWED))
        lines.append(f"Against the {window} it is {against(ahead[window])}.")
    return lines


def against(difference: Mean) -> str:
    """Better, or not."""
    if difference.low > 0:
        return f"better by {of(difference)}"
    return f"{'worse' if difference.high < 0 else 'not measurably better'} (by {of(difference)})"


def order_matters(difference: Mean) -> str:
    """What a comparison with a model without order says."""
    if difference.low > 0:
        return "the order of events tells something that their counts do not"
    return "that the order of events tells more than their counts do is not shown here"


def of_shuffling(fitted: Fitted) -> str:
    """Whether the network relies on order."""
    order = fitted.order
    assert order is not None
    drop, them = order.shuffle.difference, f"the events of each of {order.rows} test sequences"
    name, before, after = loss_name(fitted), -order.shuffle.before.value, -order.shuffle.after.value
    change = f"its {name} goes from {before:.3g} to {after:.3g} (up by {of(Mean(-drop.value, -drop.high, -drop.low))})"
    if drop.high < 0:
        return f"Order matters to {fitted.main}: with {them} shuffled, {change}."
    return f"Order does not measurably matter to {fitted.main}: with {them} shuffled, {change}."


def of_reach(fitted: Fitted) -> str:
    """How many last events are enough."""
    order = fitted.order
    assert order is not None
    tried, needed = max(order.truncation.changes), order.needed
    change = order.truncation.changes[tried].difference
    worse = f"its {loss_name(fitted)} is up by {of(Mean(-change.value, -change.high, -change.low))}"
    if needed is None and change.high < 0:
        return f"It looks far back: where it sees only the last {tried} events of a sequence, {worse}."
    if needed is None:
        return (
            f"How far back it looks cannot be told from {order.rows} sequences: with the last {tried} events, {worse}."
        )
    enough = "the last event is" if needed == 1 else f"the last {needed} events are"
    return f"How far back it looks: {enough} enough for the same {loss_name(fitted)}, of the numbers that were tried."


def of_gradient(fitted: Fitted) -> str:
    """The gradient horizon."""
    order = fitted.order
    assert order is not None
    if order.decay is None or order.horizon is None:
        return "How far back it can learn was not measured: the sequences are too short, or its gradient is zero."
    if np.isinf(order.horizon):
        return "How far back it can learn: its gradient does not shrink on the way back, so as far as sequences go."
    return (
        f"How far back it can learn: its gradient shrinks by a factor of {order.decay.factor:.3f} an event "
        f"({order.decay.low:.3f} to {order.decay.high:.3f}), to a hundredth in {order.horizon:.0f} events."
    )


def failures(fitted: Fitted) -> list[str]:
    """Every seed whose numbers stopped being finite."""
    return [
        f"Seed {seed} of {name} failed: its {each.causes[seed]} was not finite at update {each.failed_at[seed]}; "
        "it is left out."
        for name, each in fitted.learned.items()
        for seed in np.flatnonzero(each.failed_at >= 0)
    ]


def unit_of(fitted: Fitted) -> str:
    """What is answered."""
    return "event" if fitted.prepared.question.per_event else "sequence"


def loss_name(fitted: Fitted) -> str:
    """What the network was trained to lower."""
    return "log loss" if fitted.prepared.question.classes else "squared error, of standardised answers,"


def of(score: Mean) -> str:
    """A score with its interval."""
    return f"{score.value:.3g} ({score.low:.3g} to {score.high:.3g})"


def percent(score: Mean) -> str:
    """A share with its interval."""
    return f"{score.value:.1%} ({score.low:.1%} to {score.high:.1%})"


def rows_of(fitted: Fitted, *, brief: bool = False) -> list[dict[str, str]]:
    """The table of scores, a row a model, the main one first, then from better to worse; in brief, with intervals of
    the score by which they are compared alone."""
    name, sign = fitted.score, 1 if fitted.score in HIGHER else -1
    rest = [model for model in fitted.scores if model != fitted.main]
    rest.sort(key=lambda model: -sign * fitted.scores[model][name].value)
    rows = []
    for model in [fitted.main, *rest]:
        behind = "" if model == fitted.main else of(fitted.ahead[model])
        scores = fitted.scores[model].items()
        cells = {score: f"{each.value:.3g}" if brief and score != name else of(each) for score, each in scores}
        rows.append({"model": model, **cells, f"{fitted.main} ahead in {name} by": behind})
    return rows
