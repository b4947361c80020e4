"""What the book's programs print, figure by figure."""

from collections.abc import Iterable

LENGTHS = (5, 10, 20, 30, 50)  # 086

# (program, row) -> the figures of that row, as printed
PRINTED = {
    ("081", "f at x = -2"): "0.994 0.275 0.520",
    ("081", "f at x = -1"): "0.955 0.507 0.641",
    ("081", "f at x = 0"): "0.741 0.737 0.746",
    ("081", "f at x = 0.5"): "0.512 0.822 0.791",
    ("081", "f at x = 1"): "0.279 0.884 0.829",
    ("081", "f at x = 1.5"): "0.125 0.926 0.862",
    ("082", "i"): "0.741 0.629 0.397",
    ("082", "g"): "0.691 -0.264 0.592",
    ("082", "i g"): "0.512 -0.166 0.235",
    ("083", "c"): "1.05 -0.61 2.00",
    ("084", "tanh c"): "0.905 -0.291 0.993",
    ("084", "h"): "0.815 -0.058 0.695",
    ("085", "c[0] at t = 0, 1, .., 4"): "0.040 0.029 0.022 0.016 0.012",
    ("085", "c[0] at t = 5, 6, 7, 8"): "0.009 0.006 0.005 0.043",
    ("086", "RNN, |y| at length 5, 10, 20, 30, 50"): "2.926e-04 8.291e-07 0.000e+00 0.000e+00 0.000e+00",
    ("086", "LSTM, |y| at length 5, 10, 20, 30, 50"): "1.331e-03 2.874e-04 1.495e-05 9.043e-07 3.306e-09",
    ("exercise 1", "c[0] at t = 10, 20, .., 50"): "1.840e-03 8.253e-05 3.718e-06 1.659e-07 7.234e-09",
    ("exercise 1", "c[0] at t = 60, 70, .., 100"): "3.154e-10 1.375e-11 5.997e-13 2.615e-14 1.140e-15",
    ("exercise 2", "c[0] over the one before, t = 1, 10, 50"): "0.5070 0.5020 0.5000",
    ("exercise 3", "parameters of LSTM and RNN, N = 64, M = 32"): "24897 6273",
    ("exercise 4", "largest smallest f, and its x"): "0.7382 0.007",
}


def figures(row: tuple[str, str]) -> list[str]:
    """The printed figures of one row."""
    return PRINTED[row].split()


def like(value: float, figure: str) -> str:
    """A value with as many digits as a figure."""
    decimals = len(figure.partition("e")[0].partition(".")[2])
    return f"{value:.{decimals}{'e' if 'e' in figure else 'f'}}"


def line(row: tuple[str, str], values: Iterable[float]) -> str:
    """Values with the digits that are printed in a row."""
    return " ".join(like(float(value), figure) for value, figure in zip(values, figures(row), strict=True))
