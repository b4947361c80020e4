"""One self-contained HTML page of every run: a card each with its figure, claims, settings, device and time."""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from seqjax.aside import aside
from seqjax.report.experiment import Claim, Experiment
from seqjax.report.store import Run, read_runs

STYLE = """body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #f4f4f2;
  margin: 0 auto; max-width: 70rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 0; }
nav a { margin-right: 1rem; }
article { background: #fff; border: 1px solid #ddd; border-radius: 8px; padding: 1.2rem 1.4rem; margin: 1.2rem 0; }
img { width: 100%; height: auto; margin: .6rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; margin-bottom: 1rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-top: 1px solid #e4e4e4; }
.holds, .refuted { color: #00664b; font-weight: 600; } .FAILS { color: #b30000; font-weight: 700; }
.muted, .not { color: #666; font-size: .88rem; } code { font-size: .85rem; overflow-wrap: anywhere; }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>seqjax: results</title>
<style>
{style}</style></head><body>
<h1>seqjax: results</h1>
<p class="muted">How far back recurrent models can learn, measured.
The newest run of every experiment comes first, older ones below.</p>
<nav>{links}</nav>
{cards}
</body></html>
"""
CARD = """<article id="{anchor}">
<h2>{name}</h2><p>{summary}</p>
<img alt="Figure of {name}: {summary}" src="data:image/svg+xml;base64,{figure}">
{table}
{claims}
<p class="muted">{where}</p>
<details><summary class="muted">settings and versions</summary>
<code>{settings}</code><br><code>{versions}</code></details>
</article>"""
CLAIMS = """<table><thead><tr><th>claim</th><th></th><th>expected</th><th>measured</th><th>verdict</th></tr></thead>
<tbody>{rows}</tbody></table>"""
ROW = """<tr><td>{id}</td><td>{statement}<br><span class="muted">{note}</span></td>
<td>{expected}</td><td>{measured}</td>
<td class="{verdict}" title="tolerance: {tolerance}">{verdict}</td></tr>"""


def write_page(experiments: Mapping[str, Experiment], out: Path) -> Path:
    """Render every run under `out` to `out/index.html`, which works offline."""
    runs = read_runs(out)
    latest = {run.folder.parent.name: run for run in reversed(runs)}
    order = sorted(runs, key=lambda run: run is not latest[run.folder.parent.name])
    links = "".join(f'<a href="#{escape(anchor(run))}">{escape(name)}</a>' for name, run in sorted(latest.items()))
    cards = "\n".join(card(experiments, run) for run in order) or "<p>No finished run yet.</p>"
    path = out / "index.html"
    with aside(path) as draft:
        draft.write_text(PAGE.format(style=STYLE, links=links, cards=cards), encoding="utf-8")
    return path


def anchor(run: Run) -> str:
    """A run's name within the page."""
    return f"{run.folder.parent.name}-{run.folder.name}"


def card(experiments: Mapping[str, Experiment], run: Run) -> str:
    """One run."""
    name, place = run.folder.parent.name, run.environment
    minutes, seconds = divmod(round(place["seconds"]), 60)
    machine = f"{place['device']} ({place['processor']}), {place['cores']} cores"
    where = f"{machine}, {minutes} min {seconds} s, finished {place['finished'][:16]} UTC"
    rows = "".join(row(claim) for claim in run.claims)
    return CARD.format(
        anchor=escape(anchor(run)),
        name=escape(name),
        summary=escape(experiments[name].summary if name in experiments else ""),
        figure=base64.b64encode((run.folder / "figure.svg").read_bytes()).decode(),
        table=table(run.table),
        claims=CLAIMS.format(rows=rows) if rows else "",
        where=escape(where),
        settings=escape(pairs(run.config)),
        versions=escape(pairs(place["versions"]) + f", commit={place['commit']}, python={place['python']}"),
    )


def row(claim: Claim) -> str:
    """One claim."""
    names = ("id", "statement", "note", "expected", "measured", "verdict", "tolerance")
    return ROW.format(**{name: escape(getattr(claim, name)) for name in names})


def table(rows: list[dict[str, str]]) -> str:
    """Rows of equal keys, the keys on top."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row.values())}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def pairs(mapping: Mapping[str, Any]) -> str:
    """name=value, name=value."""
    return ", ".join(f"{name}={value}" for name, value in mapping.items())
