"""Models without order, of what occurred how often: logistic regression and boosted trees by scikit-learn."""

from typing import Any, cast

import numpy as np

from seqjax.events.targets import known
from seqjax.fit.prepare import Prepared

PENALTIES = (0.01, 0.1, 1.0, 10.0)  # inverse
TREES, RATE, OFF = 150, 0.05, cast(Any, False)
INSTALL = "comparing needs the extra `compare` (scikit-learn): pip install '.[compare]' in the seqjax checkout"
Pair = tuple[np.ndarray, np.ndarray]


def require_sklearn() -> None:
    """ValueError with the install line where scikit-learn is missing."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ValueError(INSTALL) from None


def bags(prepared: Prepared, rows: np.ndarray) -> np.ndarray:
    """Features [units, F] of sequences, or of every event with those before it: log(1 + events), and of each category
    the count and the share, of each number how many there are, their mean, standard deviation, least and most."""
    found, every = [], prepared.question.per_event
    widths = [words.width for words in prepared.encoding.words]
    for n in rows:
        own = slice(prepared.encoded.offsets[n], prepared.encoded.offsets[n + 1])
        codes, numbers = prepared.encoded.codes[own], prepared.encoded.numbers[own].astype(np.float64)
        if every or len(codes):
            found.append(running(codes, numbers, widths)[slice(None) if every else slice(-1, None)])
        else:
            found.append(0 * running(codes[:0], numbers[:0], widths).sum(0, keepdims=True))
    return np.concatenate(found)


def running(codes: np.ndarray, numbers: np.ndarray, widths: list[int]) -> np.ndarray:
    """The features of every prefix of one sequence's events, [T, F]."""
    events = np.arange(1, len(codes) + 1)[:, None]
    counts = [np.cumsum(codes[:, f, None] == np.arange(width), axis=0) for f, width in enumerate(widths)]
    there = ~np.isnan(numbers)
    filled, told = np.where(there, numbers, 0), np.cumsum(there, axis=0)
    mean = np.cumsum(filled, axis=0) / np.maximum(told, 1)
    spread = np.sqrt(np.maximum(np.cumsum(filled**2, axis=0) / np.maximum(told, 1) - mean**2, 0))
    least = np.minimum.accumulate(np.where(there, numbers, np.inf), axis=0)
    most = np.maximum.accumulate(np.where(there, numbers, -np.inf), axis=0)
    ends = [np.where(told > 0, end, 0) for end in (least, most)]
    shares = [count / events for count in counts]
    return np.concatenate([np.log1p(events), *counts, *shares, told, mean, spread, *ends], axis=1, dtype=np.float64)


def bag_models(prepared: Prepared) -> dict[str, np.ndarray]:
    """What each says of the test part: probabilities [units, K], or standardised numbers [units]. They are fitted to
    the training part, and how closely is told by the validation part."""
    K, parts = prepared.question.K, []
    for rows in prepared.parts:
        xs, ys = bags(prepared, rows), prepared.answers[prepared.units(rows)]
        parts.append((xs, ys) if rows is prepared.parts.test else (xs[known(ys)], ys[known(ys)]))
    with one_thread():
        return of_parts(parts[0], parts[1], parts[2], K, bool(prepared.question.classes))


def one_thread() -> Any:
    """For as long as it is open, OpenMP has one thread: where other work runs beside it, more wait for each other."""
    import sklearn.ensemble  # noqa: F401  (only libraries that are loaded can be limited)
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def of_parts(train: Pair, validation: Pair, last: Pair, K: int, classes: bool) -> dict[str, np.ndarray]:
    """The same, of features and answers."""
    (xs, ys), (its, told), test = train, validation, last[0]
    if not classes:
        return {
            "ridge regression on counts": nearest(ridge(xs, ys, its, test), told),
            "boosted trees on counts": nearest(boosted_numbers(xs, ys, its, test), told),
        }
    return {
        "logistic regression on counts": likeliest(logistic(xs, ys, its, test, K), told),
        "boosted trees on counts": likeliest(boosted(xs, ys, its, test, K), told),
    }


def likeliest(pairs: list[Pair], told: np.ndarray) -> np.ndarray:
    """Of (validation, test) probabilities, those for the test with the least validation log loss."""
    losses = [-np.log(np.maximum(ours[np.arange(len(told)), told], 1e-300)).mean() for ours, _ in pairs]
    return pairs[int(np.argmin(losses))][1]


def nearest(pairs: list[Pair], told: np.ndarray) -> np.ndarray:
    """Of (validation, test) numbers, those for the test with the least validation error."""
    return pairs[int(np.argmin([((ours - told) ** 2).mean() for ours, _ in pairs]))][1]


def both(its: np.ndarray, test: np.ndarray, classes: np.ndarray, K: int) -> Pair:
    """Probabilities of all K classes, 0 of those that training did not have."""
    columns = np.eye(K)[classes]
    return its @ columns, test @ columns


def logistic(xs: np.ndarray, ys: np.ndarray, its: np.ndarray, test: np.ndarray, K: int) -> list[Pair]:
    """Logistic regression on standardised features, by penalty."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = []
    for C in PENALTIES:
        model: Any = make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=5000)).fit(xs, ys)
        found.append(both(model.predict_proba(its), model.predict_proba(test), model.classes_, K))
    return found


def boosted(xs: np.ndarray, ys: np.ndarray, its: np.ndarray, test: np.ndarray, K: int) -> list[Pair]:
    """Gradient-boosted trees, by their number."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model: Any = HistGradientBoostingClassifier(max_iter=TREES, learning_rate=RATE, early_stopping=OFF, random_state=0)
    model.fit(xs, ys)
    stages = zip(model.staged_predict_proba(its), model.staged_predict_proba(test), strict=True)
    return [both(*pair, model.classes_, K) for pair in stages]


def ridge(xs: np.ndarray, ys: np.ndarray, its: np.ndarray, test: np.ndarray) -> list[Pair]:
    """Ridge regression on standardised features, by penalty."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = [make_pipeline(StandardScaler(), Ridge(alpha=1 / C)).fit(xs, ys) for C in PENALTIES]
    return [(model.predict(its), model.predict(test)) for model in models]


def boosted_numbers(xs: np.ndarray, ys: np.ndarray, its: np.ndarray, test: np.ndarray) -> list[Pair]:
    """Gradient-boosted trees, by their number."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model: Any = HistGradientBoostingRegressor(max_iter=TREES, learning_rate=RATE, early_stopping=OFF, random_state=0)
    model.fit(xs, ys)
    return list(zip(model.staged_predict(its), model.staged_predict(test), strict=True))
