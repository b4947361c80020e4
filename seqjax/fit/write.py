"""A fit's folder: whole or not at all.

FOLDER/page.html              the answer, and what it rests on
FOLDER/model.json, weights.safetensors    the model, see seqjax.load_model
FOLDER/metrics.json           every score, curve and diagnostic
FOLDER/predictions.csv        of the test part: id, target, prediction, and the probability of every class
FOLDER/*.svg                  the figures
"""

import csv
import io
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from seqjax.aside import aside
from seqjax.fit.figures import drawing, figures
from seqjax.fit.fitted import Fitted
from seqjax.fit.page import page
from seqjax.fit.words import verdict
from seqjax.model import save_model
from seqjax.statistics import Mean
from seqjax.versions import version

FIGURES = ("learning", "predictions", "reliability", "confusion", "truncation", "horizon")
FILES = (
    *("page.html", "model.json", "weights.safetensors", "metrics.json", "predictions.csv"),
    *(f"{name}.svg" for name in FIGURES),
)
PACKAGES = ("seqjax", "jax", "jaxlib", "optax", "numpy", "polars", "scikit-learn")


def write(fitted: Fitted, folder: Path) -> None:
    """Write everything aside, then rename; ValueError where the folder cannot be written."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    try:
        with aside(folder.resolve()) as draft, drawing():
            save_model(draft, fitted.model)
            pictures = {name: (title, svg(picture)) for name, (title, picture) in figures(fitted).items()}
            for name, (_, content) in pictures.items():
                (draft / f"{name}.svg").write_bytes(content)
            (draft / "page.html").write_text(page(fitted, pictures, versions), encoding="utf-8")
            (draft / "predictions.csv").write_text(predictions(fitted), encoding="utf-8", newline="")
            text = json.dumps(numbers(fitted) | {"versions": versions}, indent=1, ensure_ascii=False, allow_nan=False)
            (draft / "metrics.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{folder} cannot be written ({error.strerror or error})") from None


def svg(picture: Any) -> bytes:
    """A figure as a file."""
    content = io.BytesIO()
    picture.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def predictions(fitted: Fitted) -> str:
    """A row for each known answer of the test part."""
    prepared, said = fitted.prepared, fitted.said[fitted.main]
    ask, rows = prepared.question, prepared.parts.test
    units = prepared.units(rows)
    owner = np.repeat(rows, prepared.events.lengths[rows]) if ask.per_event else rows
    told: Any = prepared.events.targets
    there = told.known()[units]
    ids, places = prepared.events.ids[owner[there]].tolist(), (units - prepared.events.offsets[owner])[there]
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    event = ["event"] if ask.per_event else []
    out.writerow(["id", *event, "target", "prediction", *(f"probability_{name}" for name in ask.classes)])
    for i, name in enumerate(ids):
        place = [int(places[i]) + 1] if ask.per_event else []
        truth, answer = said.truth[i], said.said[i]
        if ask.classes:
            told_words = ask.classes[truth], ask.classes[int(answer.argmax())], *(f"{p:.6g}" for p in answer)
        else:
            told_words = repr(float(truth)), f"{answer:.9g}"
        out.writerow([name, *place, *told_words])
    return file.getvalue()


def numbers(fitted: Fitted) -> dict[str, Any]:
    """All that was measured, in what JSON has; null where a number is not defined."""
    order = fitted.order
    return {
        "verdict": verdict(fitted),
        "settings": asdict(fitted.settings),
        "main": fitted.main,
        "score": fitted.score,
        "scores": {
            model: {name: interval(value) for name, value in scores.items()} for model, scores in fitted.scores.items()
        },
        "ahead": {model: interval(value) for model, value in fitted.ahead.items()},
        "seeds": {name: plain(values) for name, values in fitted.seeds.items()},
        "training": {name: training(each) for name, each in fitted.learned.items()},
        "order": None
        if order is None
        else {
            "rows": order.rows,
            "shuffle": change(order.shuffle),
            "reversal": change(order.reversal),
            "truncation": {str(k): change(each) for k, each in order.truncation.changes.items()},
            "needed": order.needed,
            "without the first event": change(order.ablations["first"]),
            "without the last event": change(order.ablations["last"]),
            "gradient per event": None
            if order.decay is None
            else {k: plain(v) for k, v in asdict(order.decay).items()},
            "events to a hundredth": plain(order.horizon),
        },
        "data": fitted.report.lines(),
        **fitted.taken,
    }


def training(learned: Any) -> dict[str, Any]:
    """Curves and ends of every seed."""
    return {
        "chosen": learned.chosen,
        "best_round": learned.best_round.tolist(),
        "best_loss": plain(learned.best_loss),
        "failed_at": learned.failed_at.tolist(),
        "cause": learned.causes,
        "train": plain(learned.train),
        "validation": plain(learned.validation),
    }


def change(found: Any) -> dict[str, Any]:
    """One diagnostic; scores are losses with their sign turned."""
    parts = {name: interval(getattr(found, name)) for name in ("before", "after", "difference")}
    return parts | {"outputs move by": plain(found.typical), "rows": found.rows}


def interval(value: Mean) -> dict[str, Any]:
    """A value and the ends of its interval."""
    return {"value": plain(value.value), "low": plain(value.low), "high": plain(value.high)}


def plain(value: Any) -> Any:
    """Numbers as JSON has them, None for those that it has not."""
    if isinstance(value, np.ndarray | list):
        return [plain(each) for each in value]
    if value is None or isinstance(value, int):
        return value
    return float(value) if np.isfinite(value) else None
