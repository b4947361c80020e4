"""`python -m experiments list | run NAME... [--quick] [--out DIR] [settings] | report [--out DIR] | all [--quick]`.

`--processes auto`, or `--processes 2 --process 0 --coordinator host:port`, shares the work with other processes.
Exit code 0 if every claim that is expected to hold does, 1 if one does not or another process was lost, 2 for a bad
call (nothing is then written).
"""

import os
import sys
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import EXPERIMENTS
from seqjax import processes
from seqjax.arguments import parse
from seqjax.plan import cores
from seqjax.report import Claim, Experiment, require_writable, run_experiment, write_page

COMMANDS = "list, run NAME..., report, all"
USAGE = f"usage: python -m experiments COMMAND, one of: {COMMANDS}"
HELP = "Settings of one: python -m experiments run NAME --help"


@dataclass(frozen=True)
class Options:
    """Options of every command; after them, `run` takes the settings of the experiments it names."""

    out: Path = Path("runs")
    """Folder of the results."""
    quick: bool = False
    """Settings that run in seconds; claims are then not judged."""
    checkpoint_minutes: float = 0.5
    """Minutes between two checkpoints of what is being trained, from which a killed run goes on."""
    processes: int | Literal["auto"] | None = None
    """How many processes, each started by this command, share the work; auto asks Slurm, Open MPI, Kubernetes, TPU."""
    process: int | None = None
    """The number of this one of them, from 0."""
    coordinator: str | None = None
    """host:port at which process 0 listens."""
    timeout: int = 60
    """Seconds until all must have come."""
    heartbeat: int = 100
    """Seconds without a sign of life after which a process counts as lost."""


def main(args: list[str]) -> int:
    """Carry out one command."""
    use_every_core()
    command, rest = (args[0], args[1:]) if args else ("--help", [])
    if command in ("-h", "--help") or rest in (["-h"], ["--help"]):
        print(USAGE, catalogue(), HELP, sep="\n\n")
        return 0
    if command == "list":
        refuse(rest)
        print(catalogue())
        return 0
    if command not in ("run", "report", "all"):
        raise ValueError(f"unknown command {command!r}: known are {COMMANDS}")
    names = [name for name in rest[: first_flag(rest)] if command == "run"]
    options, rest = parse(Options, rest[len(names) :], default=Options(), partly=True)
    if command == "report":
        refuse(rest if options.processes is None else ["--processes"])
        require_writable(options.out)
        print(write_page(EXPERIMENTS, options.out))
        return 0
    return run(names if command == "run" else list(EXPERIMENTS), options, rest)


def run(names: list[str], options: Options, overrides: list[str]) -> int:
    """Check every named experiment and its settings, then run them in turn."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown or not names:
        given = f"unknown experiment {unknown[0]!r}" if unknown else "no experiment named"
        raise ValueError(f"{given}: known are {', '.join(EXPERIMENTS)} (names come before options)")
    chosen = [EXPERIMENTS[name] for name in dict.fromkeys(names)]
    configs = [configured(experiment, options, overrides) for experiment in chosen]
    if not options.checkpoint_minutes >= 0:
        raise ValueError(f"--checkpoint-minutes must be at least 0, got {options.checkpoint_minutes}")
    if options.processes is not None or options.process is not None or options.coordinator is not None:
        join(options, repr((names, options.quick, configs)))
    for experiment in chosen:
        processes.require_of_first(partial(require_writable, options.out / experiment.name / "points"))
    console, passed = Console(), True
    for experiment, config in zip(chosen, configs, strict=True):
        console.rule(f"{experiment.name}: {experiment.summary}", align="left")
        done = run_experiment(experiment, config, options.out, minutes=options.checkpoint_minutes)
        console.print(numbers(done.table), *([judgements(done.claims)] if done.claims else []))
        print(f"{done.folder}/figure.svg")
        passed &= all(claim.passed for claim in done.claims)
    if processes.first():
        print(f"\nAll results: {write_page(EXPERIMENTS, options.out)}")
    return 0 if passed else 1


def join(options: Options, arguments: str) -> None:
    """Become one of many processes, all with the same arguments, of which the first alone prints."""
    if options.processes is None:
        raise ValueError("--process and --coordinator go with --processes, a count")
    processes.join(
        options.processes,
        process=options.process,
        coordinator=options.coordinator,
        timeout=options.timeout,
        heartbeat=options.heartbeat,
    )
    processes.hush()
    processes.require_same("arguments", arguments)


def configured(experiment: Experiment, options: Options, overrides: list[str]) -> Any:
    """An experiment's settings from the command line, checked."""
    base = experiment.config(**(experiment.quick if options.quick else {}))
    config = parse(experiment.config, overrides, default=base, prog=f"python -m experiments run {experiment.name}")
    experiment.check(config)
    return config


def refuse(rest: list[str]) -> None:
    """ValueError for arguments that no one takes."""
    if rest:
        raise ValueError(f"unrecognised: {' '.join(rest)}")


def first_flag(args: list[str]) -> int:
    """Where the options begin."""
    return next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))


def numbers(rows: list[dict[str, str]]) -> Table:
    """What was measured."""
    grid = Table(*(rows[0] if rows else ()))
    if rows:
        grid.columns[0].no_wrap = True
    for row in rows:
        grid.add_row(*map(escape, row.values()))
    return grid


def judgements(claims: list[Claim]) -> Table:
    """Claims beside what was measured."""
    grid = Table("claim", "expected", "measured", "verdict", expand=True, show_lines=True)
    colours = {"holds": "green", "refuted": "green", "FAILS": "bold red", "not judged": "dim"}
    for claim in claims:
        verdict = f"[{colours[claim.verdict]}]{claim.verdict}[/]"
        grid.add_row(f"{claim.id}  {escape(claim.statement)}", escape(claim.expected), escape(claim.measured), verdict)
    return grid


def catalogue() -> str:
    """Names and summaries."""
    return "\n".join(f"{name:10} {experiment.summary}" for name, experiment in EXPERIMENTS.items())


def use_every_core() -> None:
    """One JAX CPU device a core, over which sweeps spread their runs."""
    jax.config.update("jax_num_cpu_devices", cores())


def carried_out(args: list[str]) -> int:
    """`main`, what ends it as one line, and its exit code."""
    try:
        return main(args)
    except ValueError as error:  # heard by every process, which may leave in peace
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; finished pieces are kept and will be reused", file=sys.stderr)
        code = 130
    except TimeoutError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except ConnectionError as error:
        print(f"error: {error}; finished pieces are kept and will be reused", file=sys.stderr)
        code = 1
    except Exception:
        traceback.print_exc()
        code = 1
    if jax.distributed.is_initialized():  # others would be waited for in vain, and wait for this one
        sys.stdout.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(carried_out(sys.argv[1:]))
