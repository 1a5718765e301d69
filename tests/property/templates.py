"""Templates at random: every function by its signature, every kind of action, data with all that JSON has.

Law: what Go leaves to chance (the order of keys) or would kill it (a text of gigabytes) is not generated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

SIGNATURES: Final[dict[str, tuple[str, str]]] = {
    # text/template
    "and": ("any any*", "any"), "or": ("any any*", "any"), "not": ("any", "bool"), "len": ("sized", "int"),
    "index": ("indexed", "any"), "print": ("any*", "text"), "println": ("any*", "text"), "call": ("any", "any"),
    "printf": ("printf", "text"), "html": ("any any*", "text"), "js": ("any any*", "text"),
    "urlquery": ("any any*", "text"), "eq": ("same", "bool"), "ne": ("same2", "bool"), "lt": ("same2", "bool"),
    "le": ("same2", "bool"), "gt": ("same2", "bool"), "ge": ("same2", "bool"),
    # texts
    "trim": ("text", "text"), "upper": ("text", "text"), "lower": ("text", "text"), "title": ("text", "text"),
    "untitle": ("text", "text"), "swapcase": ("text", "text"), "initials": ("ascii", "text"),
    "nospace": ("ascii", "text"), "trimAll": ("chars text", "text"), "trimall": ("chars text", "text"),
    "trimSuffix": ("chars text", "text"), "trimPrefix": ("chars text", "text"), "contains": ("chars text", "bool"),
    "hasPrefix": ("chars text", "bool"), "hasSuffix": ("chars text", "bool"), "trunc": ("int text", "text"),
    "substr": ("int int text", "text"), "repeat": ("small text", "text"), "replace": ("chars text text", "text"),
    "indent": ("small text", "text"), "nindent": ("small text", "text"), "abbrev": ("int text", "text"),
    "abbrevboth": ("int int text", "text"), "cat": ("any*", "text"), "quote": ("any*", "text"),
    "squote": ("any*", "text"), "plural": ("text text int", "text"), "join": ("chars listed", "text"),
    "split": ("chars text", "texts"), "splitn": ("chars int text", "texts"), "splitList": ("chars text", "list"),
    "snakecase": ("words", "text"), "kebabcase": ("words", "text"), "camelcase": ("words", "text"),
    "wrap": ("int sentence", "text"), "wrapWith": ("int chars sentence", "text"), "hello": ("", "text"),
    # regular expressions, codes, paths
    "regexMatch": ("pattern text", "bool"), "regexFind": ("pattern text", "text"),
    "regexFindAll": ("pattern text int", "list"), "regexReplaceAll": ("pattern text replacement", "text"),
    "regexReplaceAllLiteral": ("pattern text replacement", "text"), "regexSplit": ("pattern text int", "list"),
    "b64enc": ("text", "text"), "b64dec": ("encoded", "text"), "b32enc": ("text", "text"),
    "b32dec": ("encoded", "text"), "sha1sum": ("text", "text"), "sha256sum": ("text", "text"),
    "adler32sum": ("text", "text"), "base": ("path", "text"), "dir": ("path", "text"), "clean": ("path", "text"),
    "ext": ("path", "text"), "isAbs": ("path", "bool"),
    # numbers
    "add": ("number*", "number"), "add1": ("number", "number"), "sub": ("number number", "number"),
    "mul": ("number number*", "number"), "div": ("number number", "number"), "mod": ("number number", "number"),
    "max": ("number number*", "number"), "min": ("number number*", "number"), "biggest": ("number number*", "number"),
    "floor": ("number", "number"), "ceil": ("number", "number"), "round": ("number places half?", "number"),
    "until": ("small", "list"), "untilStep": ("small small small", "list"), "int": ("number", "big"),
    "int64": ("number", "number"), "float64": ("number", "number"), "atoi": ("text", "big"),
    "toDecimal": ("number", "number"),
    # lists
    "list": ("any*", "list"), "tuple": ("any*", "list"), "first": ("list", "any"), "last": ("list", "any"),
    "rest": ("list", "list"), "initial": ("list", "list"), "append": ("list any", "list"),
    "push": ("list any", "list"), "prepend": ("list any", "list"), "reverse": ("list", "list"),
    "slice": ("list number? number?", "list"), "has": ("any list", "bool"), "without": ("list any*", "list"),
    "uniq": ("list", "list"), "compact": ("list", "list"), "sortAlpha": ("listed", "list"),
    "concat": ("list list*", "list"), "toStrings": ("listed", "list"),
    # dicts
    "dict": ("pairs", "dict"), "hasKey": ("dict key", "bool"), "keys": ("one", "list"), "values": ("one", "list"),
    "pluck": ("key dict dict*", "list"), "pick": ("dict key*", "dict"), "omit": ("dict key*", "dict"),
    "set": ("own key any", "dict"), "unset": ("own key", "dict"), "merge": ("own dict*", "dict"),
    "mergeOverwrite": ("own dict*", "dict"),
    # values
    "default": ("any any*", "any"), "empty": ("any", "bool"), "coalesce": ("any*", "any"),
    "ternary": ("any any bool", "any"), "fail": ("text", "text"), "toString": ("any", "text"),
    "toJson": ("any", "text"), "toPrettyJson": ("any", "text"), "deepCopy": ("any", "any"),
    "deepEqual": ("any any", "bool"), "typeOf": ("any", "text"), "kindOf": ("any", "text"),
    "typeIs": ("type any", "bool"), "typeIsLike": ("type any", "bool"), "kindIs": ("type any", "bool"),
}  # fmt: skip

KEYS: Final = ("a", "b", "c", "k", "x-y", "é")
_TEXTS: Final = (
    "",
    "a",
    "ab",
    "Hello, World",
    "one two  three",
    " padded\t\n",
    "one\ntwo\n",
    "héllo wörld ✓",
    "日本語",
    "ÀÉÎ ǅx ßa",
    "fooBar",
    "HTTPServer2xx",
    "some-Long_name value",
    "GO_PATH20x",
    "a1b22C3",
    "80",
    "-7",
    "007",
    "0x1F",
    "1.5",
    "1e3",
    "9" * 20,
    "true",
    "<a href='x'>&\"",
    "a/b/c.txt",
    "/x//y/../z/",
    "aGVsbG8=",
    "NBSWY3DP",
    "v1.2.3-rc.1",
    "\x00\x7f\u00ad",
    "%d %s",
    "{{x}}",
    "a,b,,c",
    "aaa",
    "it's",
    "back\\slash",
    "`tick`",
    "\u2028\ufeff",
    "😀",
    "_",
    "no value here",
    "https://user:pw@example.com:80/a%20b?q=1#f",
    "İıſK",
    "x\r\ny",
    "1_000",
    "+5",
    ".5",
    "Inf",
    "NaN",
    "-0",
)
_PATTERNS: Final = (
    "a*",
    "a+",
    "",
    "[0-9]+",
    "(a)(b)?",
    "^",
    "$",
    "(?i)HELLO",
    "x*?",
    r"\b",
    r"\w+",
    "[^a-z]",
    "(?P<n>.)(.)",
    "é|ö",
    r"(?m)^.",
    "(",
    "a{2,3}",
    r"\pL+",
    ".",
    "(?s).*",
    "a|b|",
    "[[:alpha:]]+",
    r"\s*,\s*",
    "o",
    r"\d(?:x)",
    "a**",
    r"\C",
    r"\Q.\E",
    "(?:)",
    "(|a)*",
    "(|a)+",
    "[a-",
    r"\z",
    r"\B",
    "(a*)+",
    "(?U)a+",
    "x{1001}",
    r"\1",
    "(?=a)",
)
_REPLACEMENTS: Final = (
    "",
    "x",
    "$1",
    "${1}x",
    "$1x",
    "$n",
    "${n}",
    "$$",
    "$",
    "<$0>",
    "$9",
    "${",
    "${1",
    "$-",
    "\\1",
    "$é",
)
_CONSTANTS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("0", "1", "2", "3", "5", "8", "-1", "20", "0x1F", "017", "0b11", "'x'", "1_0", "1e1", "4.0", "'é'", "+3"),
    "small": ("0", "1", "2", "3", "5", "-1", "-2", "4"),
    "number": (
        "0",
        "1",
        "-7",
        "2.5",
        "-0.5",
        "1e21",
        "1e-7",
        "9223372036854775807",
        "-9223372036854775808",
        "3.0",
        '"12"',
        '"1.5"',
        '"x"',
        "true",
        "1e6",
        "100000",
        "1234567.0",
        "0x1p-2",
        "'a'",
        "0.1",
        "-1e308",
        '"-0x1p4"',
        '"1e400"',
    ),
    "bool": ("true", "false"),
    "nil": ("nil",),
    "places": ("0", "1", "2", "3", "-1", "5"),
    "half": (".5", "0.3", "0.9", "1"),
    "key": tuple(f'"{key}"' for key in KEYS),
    "chars": ('""', '"a"', '" "', '","', '"\\n"', '"o"', '"ab"', '"é"', '"/"', '"-"', '"aa"', '" a"'),
    "words": (
        '"fooBar"',
        '"HTTPServer"',
        '"http2xx"',
        '"HTTP20xOK"',
        '"some words"',
        '"_complex__case_"',
        '"Bld4Floor3rd"',
        '"a.b-C"',
        '"x 1 2y"',
        '"-"',
        '"_-_"',
        '"ABc1D"',
        '"日本Xy"',
        '"été1"',
        '"1a"',
        '"A"',
        '"1"',
        '"a!B?1"',
        '"Duration2m3s"',
        '"é_É"',
        '"aB  -c"',
        '"€a1"',
        '"1€"',
        '"..A"',
        '"a1-"',
    ),
    "sentence": (
        '"one two three four"',
        '"averyverylongword and more"',
        '"  a  b  "',
        '"a\\nb c d"',
        '""',
        '"héé wöö xx"',
        '"a b"',
    ),
    "encoded": (
        '"aGVsbG8="',
        '"aGk"',
        '"!"',
        '""',
        '"NBSWY3DP"',
        '"/w=="',
        '"aG\\nk="',
        '"MZXW6==="',
        '"mzxw6==="',
        '"AA=="',
    ),
    "path": (
        '"a/b/c.txt"',
        '"/x//y/../z/"',
        '""',
        '"/"',
        '"//"',
        '"."',
        '".."',
        '"a/"',
        '"../a"',
        '".x"',
        '"a.b/c"',
        '"/../a"',
        '"a/./b"',
        '"x.tar.gz"',
        '"///a//"',
    ),
    "url": (
        '"https://user:pw@example.com:80/a%20b?q=1#f"',
        '"mailto:a@b"',
        '"/p?q"',
        '"//h/p"',
        '"http://[::1]:8/"',
        '""',
        '"a:b:c"',
        '"http://x/%zz"',
        '"x://h#f%20"',
        '"http://a b/"',
    ),
    "type": (
        '"string"',
        '"int"',
        '"int64"',
        '"slice"',
        '"map"',
        '"[]interface {}"',
        '"[]string"',
        '"map[string]interface {}"',
        '"float64"',
        '"bool"',
        '"<nil>"',
        '"invalid"',
        '"*int"',
        '"uint8"',
        '"map[string]string"',
        '"[]int"',
    ),
    "version": ('"1.2.3"', '"v1.2"', '"1.2.3-rc.1"', '"1.30.0+k3s1"', '"x"', '"2"', '"1.2.3-beta"', '"0.2.5"'),
    "constraint": (
        '">=1.2"',
        '"^1.2.3"',
        '"~1.2"',
        '"1.x"',
        '"!=1.2.3"',
        '">1.0, <2"',
        '"=1.2.3"',
        '">=1.2.3-0"',
        '"*"',
        '"^0.2"',
        '"1.0 - 2.0"',
        '"<1 || >2"',
        '"~>1.2"',
        '"=<2"',
        '"^0.2.3"',
        '"x y"',
    ),
}
_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "text": (
        ".Object.GetName",
        ".Object.GetNamespace",
        ".Object.GetKind",
        ".Object.GetAPIVersion",
        ".Cluster.GetName",
        ".LocalCluster.GetName",
        "$.Object.GetName",
        ".Object.Object.data.text",
        ".Object.Object.data.unicode",
        ".Object.Object.data.lines",
        ".Object.Object.data.number",
        ".Object.Object.metadata.annotations.note",
    ),
    "number": (
        ".Object.Object.spec.count",
        ".Object.Object.spec.big",
        ".Object.Object.spec.ratio",
        ".Object.Object.spec.tiny",
        ".Object.Object.spec.negative",
        ".Object.Object.data.number",
        ".Object.GetGeneration",
    ),
    "bool": (".Object.Object.spec.on", ".Object.Object.spec.off"),
    "list": (
        ".Object.Object.spec.list",
        ".Object.Object.spec.mixed",
        ".Object.Object.spec.none",
        ".Object.Object.spec.empty",
    ),
    "dict": (
        ".Object.Object.spec.nested",
        ".Object.Object.metadata.labels",
        ".Object.Object.spec.missing",
        ".Object.Object.data",
        ".Object.Object.spec.any",
    ),
    "any": (
        ".Object.Object.spec.any",
        ".Object.Object.spec.none",
        ".Object.Object.spec.missing",
        ".Object.Object.spec.any.a",
        ".Object.Object.spec.nested.x.y",
        ".Object.Object.spec.missing.deep",
        ".Object.GetLabels",
        ".Object.GetAnnotations",
        ".Object.Object.spec.none.x",
        ".Object.Object.spec.mixed",
    ),
}
_VERBS: Final = "vvvvssddqqxXobOcUtTeEfFgGwp%zj!é"
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "sized": ("text", "list", "dict", "any"),
    "listed": ("list", "list", "any"),
    "texts": ("dict",),
    "replacement": ("text",),
    "one": ("one",),
    "own": ("own",),
}

JSON: Final = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 99),
        st.sampled_from((2**53 + 1, -(2**53), 2**63 - 1, 2**63, 2**64 - 1, 2**70, -(2**63))),
        st.sampled_from((1.5, -0.0, 1e21, 1e-9, 3.0)),
        st.sampled_from(_TEXTS),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)),
    max_leaves=5,
)  # fmt: skip


def data(anything: Any) -> dict[str, Any]:
    """Give what templates see, with a value of any kind at .Object.Object.spec.any."""
    cluster = {"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "Cluster"}
    return {
        "Object": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "shop-config", "namespace": "web", "uid": "u-1", "generation": 4,
                         "labels": {"app": "shop", "a": "2"}, "annotations": {"note": "a <b> & 'c'"}},
            "data": {"text": "Hello, World", "empty": "", "lines": "one\ntwo\n", "number": "42",
                     "unicode": "héllo wörld ✓"},
            "spec": {"count": 3, "big": 12345678901, "ratio": 1.5, "tiny": 1e-7, "negative": -8, "on": True,
                     "off": False, "none": None, "list": ["a", "b", "c", "a"],
                     "mixed": [1, "x", 2.5, True, None, [1], {"a": 1}],
                     "nested": {"a": {"b": "deep"}, "x": {"y": "deeper"}, "c": [], "k": 1}, "any": anything,
                     "empty": []},
        },
        "Cluster": {**cluster, "metadata": {"name": "north"}, "spec": {"clusterID": "id-north"}},
        "LocalCluster": {**cluster, "metadata": {"name": "south"}, "spec": {"clusterID": "id-south"}},
    }  # fmt: skip


def quoted(text: str) -> str:
    """Spell a text as a constant of Go."""
    special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(special.get(char) or (char if char >= " " else f"\\u{ord(char):04x}") for char in text) + '"'


class _Writer:
    """Writes one template; what is in scope at the point where it stands."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._scope: list[str] = []
        self._loops = 0
        self._is_inside = False  # templates that call each other twice would keep Go busy for ever
        self._defined: list[str] = []

    def _number(self, most: int) -> int:
        return int(self._draw(st.integers(0, most)))

    def _pick(self, choices: tuple[str, ...] | str) -> str:
        return choices[self._number(len(choices) - 1)]

    # Values.

    def value(self, kind: str, depth: int) -> str:
        """Write an operand of a kind, or now and then of another."""
        kind = self._pick(_CHOICES[kind]) if kind in _CHOICES else kind
        if kind == "ascii":
            return self._pick(_CONSTANTS["path"])
        if kind not in ("small", "one", "own") and self._number(13) == 0:
            kind = self._pick(("any", "text", "number", "list", "dict", "bool", "nil"))
        if kind == "one":  # dicts of one key: Go gives many in any order
            return f"(dict {self.value('key', 0)} {self.value('any', depth - 1)})"
        if kind == "own":
            return f"(dict {' '.join(self._pairs(depth - 1))})"
        if depth > 0 and self._number(2):
            return self._composed(kind, depth)
        return self._simple(kind, depth)

    def _simple(self, kind: str, depth: int) -> str:
        if self._scope and self._number(5) == 0:
            return f"${self._pick(tuple(self._scope))}" + ("" if self._number(5) else f".{self._pick(KEYS[:4])}")
        if self._number(15) == 0:
            return self._pick((".", "$"))
        if kind == "any":
            kind = self._pick(("text", "number", "list", "dict", "bool", "int", "any-path", "nil"))
        if kind == "pattern":
            return quoted(self._pick(_PATTERNS))
        if kind == "any-path":
            return self._pick(_PATHS["any"])
        if kind in _PATHS and (kind not in _CONSTANTS or self._number(1)) and (kind != "text" or self._number(1)):
            return self._pick(_PATHS[kind])
        if kind in _CONSTANTS:
            return self._pick(_CONSTANTS[kind])
        return quoted(self._pick(_TEXTS))

    def _composed(self, kind: str, depth: int) -> str:
        call = self.call(kind, depth)
        if call is None:
            return self._simple(kind, depth)
        suffix = f".{self._pick(KEYS[:4])}" if self._number(19) == 0 else ""
        return f"({call}){suffix}"

    def call(self, kind: str, depth: int) -> str | None:
        """Write a call that gives a kind, as `f a b` or as `b | f a`; None where no function does."""
        names = [name for name, (_, gives) in SIGNATURES.items() if kind in ("any", gives) or gives == "any"]
        fitting = [name for name in names if SIGNATURES[name][1] == kind] if kind != "any" else names
        if kind == "small":
            return f"int (mod {self.value('number', depth - 1)} 5)"
        if kind == "int":
            return f"len {self.value('sized', depth - 1)}"
        if not fitting:
            return None
        name = self._pick(tuple(fitting if self._number(7) else names))
        if name == "keys":
            return f"sortAlpha (keys {self.value('one', depth)})"
        arguments = self.arguments(SIGNATURES[name][0], depth - 1)
        if arguments and self._number(3) == 0 and arguments[-1] != "nil":
            return f"{arguments[-1]} | {' '.join([name, *arguments[:-1]])}"
        return " ".join([name, *arguments])

    def arguments(self, signature: str, depth: int) -> list[str]:
        special: dict[str, Callable[[int], list[str]]] = {
            "printf": self._printf, "same": self._same, "same2": lambda depth: self._same(depth)[:2],
            "indexed": self._indexed, "pairs": self._pairs,
        }  # fmt: skip
        if signature in special:
            return special[signature](depth)
        written: list[str] = []
        for part in signature.split():
            times = 1
            if part[-1] in "*?":
                times = self._number(2 if part[-1] == "*" else 1)
            written += [self.value(part.rstrip("*?"), depth) for _ in range(times)]
        if self._number(40) == 0:
            written = written[:-1] if self._number(1) else [*written, self.value("any", 0)]
        return written

    def _pairs(self, depth: int) -> list[str]:
        count = self._number(2)
        pairs = [[self.value("key", 0), self.value("any", depth)] for _ in range(count)]
        return [operand for pair in pairs for operand in pair][: 2 * count - (self._number(9) == 0)]

    def _same(self, depth: int) -> list[str]:
        kind = self._pick(("text", "number", "int", "bool", "any", "list", "text"))
        return [self.value(kind, depth) for _ in range(2 + (self._number(5) == 0))]

    def _indexed(self, depth: int) -> list[str]:
        what = self._pick(("list", "dict", "text", "any"))
        keys = {"list": "small", "dict": "key", "text": "small"}
        return [self.value(what, depth), *(self.value(keys.get(what, "key"), 0) for _ in range(self._number(2)))]

    def _printf(self, depth: int) -> list[str]:
        parts, count = [], self._number(3)
        for _ in range(count):
            flags = "".join(self._pick("+-# 0") for _ in range(self._number(3) // 2))
            width = self._pick(("", "", "", "5", "12", "*", "[1]", "[2]*", "0", "[9]", "[", "[x]", "2000000"))
            precision = self._pick(("", "", "", ".2", ".", ".0", ".*", ".[1]*", ".10", "[1]", "[2]"))
            parts.append(f"{self._pick(('', 'a', ' '))}%{flags}{width}{precision}{self._pick(_VERBS)}")
        if self._number(9) == 0:
            parts.append("%")
        values = [self.value("any", depth) for _ in range(max(0, count + self._number(4) - 2))]
        return [quoted("".join(parts)), *values]

    # Statements.

    def body(self, depth: int) -> str:
        known = len(self._scope)
        written = "".join(self._statement(depth) for _ in range(self._number(2 if depth else 1) + (depth > 2)))
        del self._scope[known:]
        return written

    def _action(self, words: str) -> str:
        opening, closing = self._pick(("{{", "{{ ", "{{- ", "{{")), self._pick(("}}", " }}", " -}}", "}}"))
        return f"{opening}{words}{closing}"

    def _statement(self, depth: int) -> str:
        kind = self._number(15)
        if depth <= 0 or kind < 5:
            return self._action(self._expression(depth)) if kind else self._pick(("", " ", "a", " a\n", "\n\tb ", "}}"))
        if kind in (5, 6):
            return self._if(depth)
        if kind == 7:
            return self._with(depth)
        if kind in (8, 9):
            return self._range(depth)
        if kind in (10, 11):
            name = self._pick(("x", "y", "é"))
            expression = self._expression(depth)
            self._scope.append(name)
            return self._action(f"${name} := {expression}") + self.body(depth - 1)
        if kind == 12 and self._scope:
            return self._action(f"${self._pick(tuple(self._scope))} = {self._expression(depth)}")
        if kind == 13 and not self._is_inside:
            return self._template(depth)
        if kind == 14:
            return self._pick(("{{/* c */}}", "{{- /* c */ -}}", " {{/* a\n */ -}} ", "{{ /* c */ }}", "{{- /* c */}}"))
        if self._loops and kind == 15:
            return self._action(self._pick(("break", "continue")))
        return self._action(self._expression(depth))

    def _expression(self, depth: int) -> str:
        call = self.call(self._pick(("any", "text", "text", "number", "list", "dict", "bool")), min(depth, 3))
        return call if call and self._number(5) else self.value("any", depth)

    def _declared(self, depth: int) -> str:
        expression = self._expression(depth)
        if self._number(4):
            return expression
        name = self._pick(("v", "w"))
        self._scope.append(name)
        return f"${name} := {expression}"

    def _if(self, depth: int) -> str:
        known = len(self._scope)
        written = self._action(f"if {self._declared(depth)}") + self.body(depth - 1)
        for _ in range(self._number(2) // 2):
            written += self._action(f"else if {self.value('bool', 1)}") + self.body(depth - 1)
        if self._number(1):
            written += self._action("else") + self.body(depth - 1)
        del self._scope[known:]
        return written + self._action("end")

    def _with(self, depth: int) -> str:
        known = len(self._scope)
        written = self._action(f"with {self._declared(depth)}") + "{{.}}" + self.body(depth - 1)
        if self._number(3) == 0:
            written += self._action(f"else with {self.value('any', 1)}") + self.body(depth - 1)
        if self._number(1):
            written += self._action("else") + self.body(depth - 1)
        del self._scope[known:]
        return written + self._action("end")

    def _range(self, depth: int) -> str:
        known = len(self._scope)
        over = self.value(self._pick(("list", "list", "dict", "small", "any")), depth - 1)
        head = self._pick(("{}", "$i := {}", "$i, $e := {}", "$i, $e := {}"))
        if self._scope and self._number(4) == 0:
            head = f"${self._pick(tuple(self._scope))} = {{}}"
        self._scope += [name for name in ("i", "e") if f"${name}" in head and ":=" in head]
        written = self._action(f"range {head.format(over)}") + self._pick(("", "[{{.}}]", "{{/**/}}"))
        self._loops += 1
        written += self.body(depth - 1)
        self._loops -= 1
        if self._number(2) == 0:
            written += self._action("else") + self.body(depth - 1)
        del self._scope[known:]
        return written + self._action("end")

    def _template(self, depth: int) -> str:
        name = self._pick(("t", "u", "v"))
        scope, self._scope, loops, self._loops = self._scope, [], self._loops, 0
        self._is_inside = True
        inner = self.body(depth - 1)
        self._is_inside, self._scope, self._loops = False, scope, loops
        argument = self.value("any", 1)
        if self._number(1):
            return f"{self._action(f'block {quoted(name)} {argument}')}<{inner}>{self._action('end')}"
        if self._number(2):
            self._defined.append(f'{{{{define "{name}"}}}}<{inner}{{{{.}}}}>{{{{end}}}}')
        return self._action(f"template `{name}` {argument}" if self._number(3) else f'template "{name}"')

    def whole(self) -> str:
        written = self.body(4)
        return self._pick(("{0}{1}", "{1}{0}")).format(written, "".join(self._defined))


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Draw a template of any statements."""
    return _Writer(draw).whole()


@st.composite
def calls(draw: st.DrawFn, name: str) -> str:
    """Draw a template that writes what a function gives."""
    words = " ".join([name, *_Writer(draw).arguments(SIGNATURES[name][0], draw(st.integers(0, 2)))])
    if name == "keys":
        words = f"sortAlpha ({words})"
    shapes = ("{{%s}}", "{{%s}}", "{{toJson (%s)}}", "{{%s | printf `%%T %%v`}}", "{{%s | printf `%%#v`}}")
    return draw(st.sampled_from(shapes)) % words


expressions: Final = st.sampled_from(sorted(SIGNATURES)).flatmap(calls)
"""Calls of any function, each with the same chance."""


_PIECES: Final = (
    "{{",
    "}}",
    "{{-",
    "-}}",
    "{{- ",
    " -}}",
    " ",
    "\n",
    ".",
    ".a",
    ".Object",
    "$",
    "$x",
    ":=",
    "=",
    ",",
    "|",
    "(",
    ")",
    '"a"',
    "`b`",
    "'c'",
    "1",
    "-1",
    "1.5",
    "0x1",
    "if",
    "else",
    "end",
    "range",
    "with",
    "define",
    "block",
    "template",
    "break",
    "continue",
    "nil",
    "true",
    "print",
    "upper",
    "not",
    "/*",
    "*/",
    '"',
    "a",
    "-",
    "1e+5",
    "$x.a",
    "_",
    "é",
    "0b",
    "1_0",
    "'",
    "\\",
    "{{end}}",
    "{{else}}",
    "{{if true}}",
    "{{range .Object.Object.spec.list}}",
    "{{$x := 1}}",
    '{{define "t"}}',
    '{{template "t"}}',
    "-0x1E",
    "{{ print ",
    "{{ . }}",
    "{{/*",
    "*/}}",
    "{{break}}",
    "2i",
    "0o7",
    "08",
    "1__0",
    "0x",
    "1.",
    ".5",
    "1e",
    "0x1p3",
)
soups: Final = st.lists(st.sampled_from(_PIECES), max_size=9).map("".join)
"""Pieces of templates in any order: whether they are read at all."""
numbers: Final = st.one_of(
    st.from_regex(r"[-+]?(0[xXbBoO]?)?[0-9a-fA-F_]{0,4}\.?[0-9a-f_]{0,3}([eEpP][-+]?[0-9_]{1,3})?i?", fullmatch=True),
    st.text("01xXbo._eEp+-aFi", min_size=1, max_size=6),
).map(lambda text: f"{{{{ {text} }}}}")
"""Constants, good and bad."""

_OBJECTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-2", "labels": {"app": "web", "Tier": "one"},
                     "annotations": {"note": "hi"}, "resourceVersion": "7"},
        "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP", "externalName": "x",
                 "selector": {"app": "web", "Upper": "u"}, "sessionAffinity": "None", "loadBalancerIP": "1.2.3.4",
                 "externalIPs": ["1.1.1.1", "2.2.2.2"], "publishNotReadyAddresses": True, "healthCheckNodePort": 30000,
                 "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}]},
    },
    {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "n", "labels": {"a": "b"}},
        "data": {"key": "value", "Other": "o", "key_2": "v"}, "immutable": True,
    },
    {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "generateName": "p-"},
        "spec": {"nodeName": "node", "hostNetwork": True, "dnsPolicy": "Default", "serviceAccountName": "sa",
                 "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "args": ["a", "b"]}],
                 "nodeSelector": {"k": "v"}, "priorityClassName": "high"},
        "status": {"phase": "Running", "hostIP": "9.9.9.9", "podIP": "8.8.8.8", "qosClass": "Burstable"},
    },
)  # fmt: skip
_A_CLUSTER: Final[dict[str, Any]] = {
    "apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "Cluster",
    "metadata": {"name": "north", "uid": "u-3", "labels": {"tier": "a"}, "annotations": {"n": "x"}},
    "spec": {"clusterID": "id-1", "authInfo": {"secretRef": {"name": "s", "namespace": "n"}},
             "kubernetesApiEndpoints": [{"clientNetwork": "net", "serverAddress": "https://a"}]},
    "status": {"state": "Ready", "type": "Peer", "message": "m", "version": "v1.30", "provider": "aws",
               "distribution": "eks", "kubeletVersions": ["v1"], "leader": True,
               "locality": {"region": "r", "regions": ["r"], "zones": ["z", "y"]}},
}  # fmt: skip
_SPELLED: Final = {"apiVersion": "APIVersion", "uid": "UID", "qosClass": "QOSClass", "dnsPolicy": "DNSPolicy",
                   "kubernetesApiEndpoints": "KubernetesAPIEndpoints"}  # fmt: skip
_MAPS: Final = frozenset(("labels", "annotations", "selector", "data", "nodeSelector"))


@st.composite
def fields(draw: st.DrawFn) -> tuple[dict[str, Any], str, str]:
    """Draw an object of a Go type, a field of it as Go spells it, and the same field by its JSON names."""
    root = draw(st.sampled_from((".Object", ".Cluster", ".LocalCluster")))
    found: Any = draw(st.sampled_from(_OBJECTS)) if root == ".Object" else _A_CLUSTER
    given = {"Object": found if root == ".Object" else _OBJECTS[0], "Cluster": _A_CLUSTER, "LocalCluster": _A_CLUSTER}
    go, by_json, parent = root, root, ""
    while isinstance(found, dict):
        key = draw(st.sampled_from(sorted(found)))
        name = key if parent in _MAPS else _SPELLED.get(key, key[:1].upper() + key[1:])
        if key == "metadata" and parent == "":
            go += draw(st.sampled_from(("", ".ObjectMeta")))
        else:
            go += f".{name}"
        by_json += f".{key}"
        parent, found = key, found[key]
    if isinstance(found, list):
        index = draw(st.integers(0, len(found) - 1))
        if not isinstance(found[0], dict):
            return given, f"{{{{index {go} {index}}}}}", f"{{{{index {by_json} {index}}}}}"
        key = draw(st.sampled_from(sorted(found[0])))
        name = _SPELLED.get(key, key[:1].upper() + key[1:])
        return (
            given,
            f"{{{{range {go}}}}}{{{{.{name}}}}}{{{{end}}}}",
            f"{{{{range {by_json}}}}}{{{{.{key}}}}}{{{{end}}}}",
        )
    return given, f"{{{{{go}}}}}", f"{{{{{by_json}}}}}"
