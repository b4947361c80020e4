"""One self-contained HTML page of a fit, which works offline: the answer first, then what it rests on."""

import base64
from collections.abc import Mapping
from dataclasses import asdict
from html import escape

from seqjax.fit.fitted import Fitted
from seqjax.fit.words import rows_of, verdict
from seqjax.report.page import STYLE, pairs, table

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}img {{ width: auto; max-width: 100%; display: block; }}
ul {{ padding-left: 1.2rem; }} li {{ margin: .35rem 0; }} .first {{ font-size: 1.1rem; }}
</style></head><body>
<h1>{title}</h1>
<p class="muted">{what}</p>
<article><h2>The answer</h2><ul class="first">{answer}</ul></article>
<article><h2>Scores on the test part</h2>{scores}<p class="muted">{legend}</p></article>
{figures}
<article><h2>Every seed</h2>{seeds}</article>
<article><h2>The data</h2><ul>{data}</ul></article>
<article><h2>Settings and versions</h2><p><code>{settings}</code></p><p><code>{versions}</code></p>
<p class="muted">{taken}</p></article>
</body></html>
"""
FIGURE = """<article><h2>{title}</h2><img alt="{title}" src="data:image/svg+xml;base64,{content}"></article>"""
LEGEND = (
    "In brackets: 95% intervals, by drawing the test sequences again and again; differences are on the same draws. "
)
MEANINGS = {
    "accuracy": "Accuracy: share of answers that are right.",
    "AUROC": "AUROC: how often the likelier of two is found, 0.5 by guessing; of many classes, the mean over them.",
    "log loss": "Log loss: how surprised the model is by the truth, in nats; lower is better.",
    "calibration error": "Calibration error: how far probabilities are from the shares that came so, over ten bins.",
    "RMSE": "RMSE: root of the mean squared error, in the target's own unit.",
    "R²": "R²: share of the variance that is explained; 0 for always the mean.",
}


def page(fitted: Fitted, figures: Mapping[str, tuple[str, bytes]], versions: Mapping[str, str]) -> str:
    """The page, with figures as SVG by their names, each with its title. All words of the data are escaped."""
    ask, parts = fitted.prepared.question, fitted.prepared.parts
    of_what = "every event" if ask.per_event else "every sequence"
    pictures = [
        FIGURE.format(title=escape(title), content=base64.b64encode(svg).decode()) for title, svg in figures.values()
    ]
    sizes = f"{len(parts.train):,} for training, {len(parts.validation):,} for validation, {len(parts.test):,} for test"
    return PAGE.format(
        title=escape(f"{ask.column}, fitted by {fitted.main}"),
        style=STYLE,
        what=escape(f"Asked: {ask.column} of {of_what} ({ask.task}). Sequences: {sizes}; no sequence is in two parts."),
        answer=items(verdict(fitted)),
        scores=table(rows_of(fitted)),
        legend=escape(LEGEND + " ".join(MEANINGS[name] for name in fitted.scores[fitted.main])),
        figures="\n".join(pictures),
        seeds=table(seed_rows(fitted)),
        data=items(fitted.report.lines()),
        settings=escape(pairs(asdict(fitted.settings))),
        versions=escape(pairs(versions)),
        taken=f"{sum(fitted.taken.values()):.0f} s, of which {fitted.taken['compile_seconds']:.0f} s compiling",
    )


def items(lines: list[str]) -> str:
    """Lines as a list."""
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def seed_rows(fitted: Fitted) -> list[dict[str, str]]:
    """Every seed of every network: how it ended, and of the main one what it scores."""
    rows = []
    for name, each in fitted.learned.items():
        sound = each.sound.tolist()
        for seed in range(len(each.best_loss)):
            row = {"network": name, "seed": str(seed), "best round": str(each.best_round[seed])}
            row["validation loss"] = f"{each.best_loss[seed]:.4g}"
            state = f"failed at update {each.failed_at[seed]}" if seed not in sound else ""
            row["chosen"] = state or ("yes" if seed == each.chosen else "")
            for score, values in fitted.seeds.items():
                row[score] = f"{values[sound.index(seed)]:.4g}" if name == fitted.main and seed in sound else ""
            rows.append(row)
    return rows
