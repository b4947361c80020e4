"""What an experiment is: settings, a measurement, the claims it checks, and a figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

FREE = ("seeds",)  # more or fewer seeds than the default still judge the claims


@dataclass(frozen=True)
class Claim:
    """A statement of a source beside what was measured.

    `holds` is None where the settings are not the source's own, so that nothing follows. A claim that the source got
    wrong is `refuted`: it is expected not to hold, and `note` gives the right value.
    """

    id: str
    statement: str
    expected: str
    measured: str
    tolerance: str
    holds: bool | None
    refuted: bool = False
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the verdict is the expected one, or there is none."""
        return self.holds is None or self.holds != self.refuted

    @property
    def verdict(self) -> str:
        """One word for a table."""
        if self.holds is None:
            return "not judged"
        return {(True, False): "holds", (False, True): "refuted"}.get((self.holds, self.refuted), "FAILS")


@dataclass(frozen=True)
class Experiment:
    """One experiment as a value; `run` and `claims` are pure functions of the settings.

    `run(config, point)` measures; it wraps each long piece in `point(compute, **coordinates)`, which returns the
    stored dataset of a finished piece instead of computing it again; `point.resumable(compute, **coordinates)` gives
    `compute` checkpoints as well, from which a killed piece goes on. `check(config)` raises ValueError for settings
    that cannot be run, before anything is.
    """

    name: str
    summary: str
    config: type  # a frozen dataclass; its defaults are the source's own settings
    quick: Mapping[str, Any]  # settings that run in seconds
    run: Callable[[Any, Callable[..., Any]], Any]  # (config, point) -> xarray.Dataset
    claims: Callable[[Any, Any], list[Claim]]  # (config, dataset) -> claims that its data can speak to
    table: Callable[[Any, Any], list[dict[str, str]]]  # (config, dataset) -> the numbers, a row a dict
    figure: Callable[[Any, Any], Any]  # (config, dataset) -> matplotlib Figure
    check: Callable[[Any], None]
    version: int = 1  # raise it when the measurement changes, so that older results are not reused

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Names and defaults."""
        return {field.name: field.default for field in fields(self.config)}

    def configured(self, *, quick: bool = False, **overrides: Any) -> Any:
        """The settings of one run; ValueError for unknown names (listing the known ones) and for bad values."""
        unknown = sorted(set(overrides) - set(self.settings))
        if unknown:
            raise ValueError(f"{self.name} has no setting {unknown[0]!r}: it has {', '.join(self.settings)}")
        config = replace(self.config(), **{**(self.quick if quick else {}), **overrides})
        self.check(config)
        return config

    def judged(self, config: Any, dataset: Any) -> list[Claim]:
        """The claims, judged only where nothing but the seeds differs from the defaults."""
        own = all(getattr(config, name) == value for name, value in self.settings.items() if name not in FREE)
        return [claim if own else replace(claim, holds=None) for claim in self.claims(config, dataset)]
