"""Sprig's functions on numbers, lists, dicts, defaults and types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry_controller.gotemplate.arguments import count, items, shown, table, text, texts, whole
from registry_controller.gotemplate.limits import Budget, TemplateError
from registry_controller.gotemplate.printf import to_json
from registry_controller.gotemplate.values import Int, Object, Texts, is_missing, kind_of, type_of

_INTEGER: Final = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[0-9]+)")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INT64: Final = range(-(2**63), 2**63)


def to_int64(value: Any) -> int:
    """Make an int64 of anything, 0 of what is no number, as sprig does."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and abs(value) < 2**63 else -(2**63)
    if isinstance(value, str) and len(value) < 64 and _INTEGER.fullmatch(value):
        digits = value.lstrip("+-").lower()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        try:
            number = int(digits, 8 if octal else 0) * (-1 if value[0] == "-" else 1)
        except ValueError:
            return 0
        return number if number in _INT64 else 0
    return 0


def _wrapped(number: int) -> int:
    """Keep 64 bits, as Go's integers do."""
    return (number + 2**63) % 2**64 - 2**63


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        return float(value) if _FLOAT.fullmatch(value) else 0.0
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) else 0.0


def _add(_: Budget, *given: Any) -> int:
    return _wrapped(sum(map(to_int64, given)))


def _sub(_: Budget, one: Any, other: Any) -> int:
    return _wrapped(to_int64(one) - to_int64(other))


def _divided(one: Any, other: Any) -> tuple[int, int]:
    number, by = to_int64(one), to_int64(other)
    if by == 0:
        raise TemplateError("a division by zero")
    quotient = abs(number) // abs(by) * (1 if (number < 0) == (by < 0) else -1)
    return _wrapped(quotient), number - quotient * by


def _mul(_: Budget, *given: Any) -> int:
    count(given, 1)
    product = 1
    for value in given:
        product = _wrapped(product * to_int64(value))
    return product


def _max(_: Budget, *given: Any) -> int:
    count(given, 1)
    return max(map(to_int64, given))


def _min(_: Budget, *given: Any) -> int:
    count(given, 1)
    return min(map(to_int64, given))


def _round(_: Budget, value: Any, places: Any, *half: Any) -> float:
    number, digits = _to_float(value), whole(places)
    if abs(digits) > 300:
        raise TemplateError("round: too many places")
    power = math.pow(10, digits)
    scaled = number * power
    fraction = math.modf(scaled)[0]
    at = _to_float(half[0]) if half else 0.5
    return (math.ceil(scaled) if fraction >= at else math.floor(scaled)) / power


def _until(budget: Budget, end: Any) -> list[Any]:
    number = whole(end)
    return _until_step(budget, Int(0), Int(number), Int(-1 if number < 0 else 1))


def _until_step(budget: Budget, start: Any, stop: Any, step: Any) -> list[Any]:
    first, last, by = whole(start), whole(stop), whole(step)
    if by == 0 or (last < first and by > 0) or (last > first and by < 0):
        return []
    numbers = range(first, last, by)
    budget.make(len(numbers))
    return [Int(number) for number in numbers]


def _int(_: Budget, value: Any) -> Int:
    return Int(to_int64(value))


def _atoi(_: Budget, value: Any) -> Int:
    found = text(value)
    plain = re.fullmatch(r"[+-]?[0-9]{1,19}", found) is not None
    return Int(int(found) if plain and int(found) in _INT64 else 0)


def _to_decimal(_: Budget, value: Any) -> int:
    found = str(value)
    return int(found, 8) if re.fullmatch(r"[0-7]{1,20}", found) else 0


# Defaults and types.


def is_empty(value: Any) -> bool:
    """Say whether `default` takes a value for none."""
    return is_missing(value) or (not isinstance(value, Object) and not value)


def _default(_: Budget, fallback: Any, *given: Any) -> Any:
    return fallback if not given or is_empty(given[0]) else given[0]


def _coalesce(_: Budget, *given: Any) -> Any:
    return next((value for value in given if not is_empty(value)), None)


def _ternary(_: Budget, yes: Any, no: Any, choice: Any) -> Any:
    if not isinstance(choice, bool):
        raise TemplateError(f"wrong type of argument; expected bool; got {type_of(choice)}")
    return yes if choice else no


def _fail(_: Budget, words: Any) -> Any:
    text(words)
    raise TemplateError("the template itself says that it fails")


def _plain(budget: Budget, value: Any) -> Any:
    """Make JSON's values of a value, and count them."""
    budget.step()
    if isinstance(value, Object):
        raise TemplateError("a whole object cannot be written; take .Object.Object")
    if is_missing(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(budget, child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(budget, child) for child in value]
    return value


def _to_json(budget: Budget, value: Any) -> str:
    written = to_json(_plain(budget, value))
    budget.make(len(written))
    return written


def _to_pretty_json(budget: Budget, value: Any) -> str:
    written = to_json(_plain(budget, value), indent=2)
    budget.make(len(written))
    return written


# Lists.


def _list(budget: Budget, *given: Any) -> list[Any]:
    budget.make(len(given))
    return list(given)


def _first(_: Budget, value: Any) -> Any:
    found = items(value)
    return found[0] if found else None


def _last(_: Budget, value: Any) -> Any:
    found = items(value)
    return found[-1] if found else None


def _rest(_: Budget, value: Any) -> Any:
    return items(value)[1:] if items(value) else None


def _initial(_: Budget, value: Any) -> Any:
    return items(value)[:-1] if items(value) else None


def _append(budget: Budget, value: Any, one: Any) -> list[Any]:
    budget.make(len(items(value)) + 1)
    return [*items(value), one]


def _prepend(budget: Budget, value: Any, one: Any) -> list[Any]:
    budget.make(len(items(value)) + 1)
    return [one, *items(value)]


def _slice(_: Budget, value: Any, *bounds: Any) -> Any:
    found = items(value)
    if not found:
        return None
    start = whole(_int(_, bounds[0])) if bounds else 0
    end = whole(_int(_, bounds[1])) if len(bounds) > 1 else len(found)
    if not 0 <= start <= end <= len(found):
        raise TemplateError("slice: out of range")
    return found[start:end]


def _same(one: Any, other: Any) -> bool:
    """Compare as reflect.DeepEqual does: types count."""
    if type_of(one) != type_of(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return is_missing(one) or bool(one == other)


def _deep_equal(_: Budget, one: Any, other: Any) -> bool:
    return _same(one, other)


def _has(budget: Budget, needle: Any, value: Any) -> bool:
    if is_missing(value):
        return False
    budget.step(len(items(value)))
    return any(_same(needle, item) for item in items(value))


def _without(budget: Budget, value: Any, *left_out: Any) -> list[Any]:
    budget.step(len(items(value)) * len(left_out))
    return [item for item in items(value) if not any(_same(item, gone) for gone in left_out)]


def _uniq(budget: Budget, value: Any) -> list[Any]:
    found: list[Any] = []
    for item in items(value):
        budget.step(len(found) + 1)
        if not any(_same(item, held) for held in found):
            found.append(item)
    return found


def _sort_alpha(budget: Budget, value: Any) -> list[Any]:
    if not isinstance(value, list):
        return Texts([shown(budget, value)])
    return Texts(sorted(texts(budget, value), key=str.encode))


# Dicts.


def _dict(budget: Budget, *given: Any) -> dict[str, Any]:
    budget.make(len(given))
    made: dict[str, Any] = {}
    for index in range(0, len(given), 2):
        made[shown(budget, given[index])] = given[index + 1] if index + 1 < len(given) else ""
    return made


def _keys(_: Budget, *given: Any) -> list[Any]:
    return Texts(key for one in given for key in sorted(table(one)))


def _values(_: Budget, value: Any) -> list[Any]:
    found = table(value)
    return [found[key] for key in sorted(found)]


def _pluck(_: Budget, key: Any, *given: Any) -> list[Any]:
    return [table(one)[text(key)] for one in given if text(key) in table(one)]


def _pick(_: Budget, value: Any, *wanted: Any) -> dict[str, Any]:
    return {text(key): table(value)[key] for key in wanted if text(key) in table(value)}


def _omit(_: Budget, value: Any, *left_out: Any) -> dict[str, Any]:
    gone = {text(key) for key in left_out}
    return {key: child for key, child in table(value).items() if key not in gone}


def _set(budget: Budget, value: Any, key: Any, child: Any) -> dict[str, Any]:
    """Give a dict with one more key: nothing of an object is ever changed."""
    budget.make(len(table(value)) + 1)
    found = table(value)
    changed = found if isinstance(found, dict) else dict(found)
    return {**changed, text(key): child}


def _merged(budget: Budget, overwrite: bool, *given: Any) -> dict[str, Any]:
    count(given, 1)
    result: dict[str, Any] = dict(table(given[0]))
    for one in given[1:]:
        result = _merge(budget, result, table(one), overwrite)
    return result


def _merge(budget: Budget, into: Mapping[str, Any], other: Mapping[str, Any], overwrite: bool) -> dict[str, Any]:
    budget.make(len(into) + len(other))
    made = dict(into)
    for key, value in other.items():
        held = made.get(key)
        if isinstance(held, Mapping) and isinstance(value, Mapping):
            made[key] = _merge(budget, held, value, overwrite)
        elif is_empty(held) or (overwrite and not is_empty(value)):
            made[key] = value
    return made


def _type_of(_: Budget, value: Any) -> str:
    return type_of(value)


def _type_is_like(_: Budget, name: Any, value: Any) -> bool:
    return text(name) in (type_of(value), f"*{type_of(value)}")


VALUES: Final[Mapping[str, Callable[..., Any]]] = {
    "add": _add, "add1": lambda _, value: _wrapped(to_int64(value) + 1), "sub": _sub, "mul": _mul,
    "div": lambda _, one, other: _divided(one, other)[0], "mod": lambda _, one, other: _divided(one, other)[1],
    "max": _max, "min": _min, "biggest": _max,
    "floor": lambda _, value: float(math.floor(_to_float(value))),
    "ceil": lambda _, value: float(math.ceil(_to_float(value))), "round": _round, "until": _until,
    "untilStep": _until_step, "int": _int, "int64": lambda _, value: to_int64(value),
    "float64": lambda _, value: _to_float(value), "atoi": _atoi, "toDecimal": _to_decimal,
    "toString": shown, "toStrings": lambda budget, value: Texts(texts(budget, value)),
    "default": _default, "empty": lambda _, value: is_empty(value), "coalesce": _coalesce, "ternary": _ternary,
    "fail": _fail, "toJson": _to_json, "toPrettyJson": _to_pretty_json,
    "list": _list, "tuple": _list, "first": _first, "last": _last, "rest": _rest,
    "initial": _initial, "append": _append, "push": _append, "prepend": _prepend,
    "reverse": lambda _, value: items(value)[::-1], "slice": _slice, "has": _has, "without": _without, "uniq": _uniq,
    "compact": lambda _, value: [item for item in items(value) if not is_empty(item)], "sortAlpha": _sort_alpha,
    "concat": lambda budget, *given: _list(budget, *(item for one in given for item in items(one))),
    "dict": _dict, "hasKey": lambda _, value, key: text(key) in table(value), "keys": _keys, "values": _values,
    "pluck": _pluck, "pick": _pick, "omit": _omit, "set": _set, "unset": _omit,
    "merge": lambda budget, *given: _merged(budget, False, *given),
    "mergeOverwrite": lambda budget, *given: _merged(budget, True, *given),
    "deepCopy": _plain, "deepEqual": _deep_equal,
    "typeOf": _type_of, "kindOf": lambda _, value: kind_of(value),
    "typeIs": lambda _, name, value: text(name) == type_of(value), "typeIsLike": _type_is_like,
    "kindIs": lambda _, name, value: text(name) == kind_of(value),
}  # fmt: skip
