"""One line of JSON as an object, for a file of lines and for a stream alike."""

import json
from typing import Any, NoReturn


def object_in(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; ValueError for anything else, for a name given twice, NaN, infinity and half a
    surrogate pair."""
    try:
        text = line.decode()
        found = json.loads(text, object_pairs_hook=once, parse_constant=no_constant, parse_float=finite)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except UnicodeEncodeError:
        raise ValueError("a character that is half a surrogate pair is no text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not an event: too many brackets in brackets") from None
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object, which an event is, got {text.strip()[:60]}")
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's names and values; ValueError for a name given twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def finite(text: str) -> float:
    """A JSON number; ValueError for one that is too large."""
    if not abs(float(text)) < float("inf"):
        raise ValueError(f"{text} is not finite")
    return float(text)


def no_constant(text: str) -> NoReturn:
    """ValueError for NaN and infinity, of which JSON knows nothing."""
    raise ValueError(f"{text} is not JSON: give null for a missing value")
