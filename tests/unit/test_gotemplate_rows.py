"""Templates and what Go makes of them, None for what it refuses: what differed once, and what is easily got wrong.

tests/property/test_oracle_templates.py asks Go itself about the same rows.
"""

from __future__ import annotations

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.gotemplate import compile_template
from tests.property import templates

ROWS: tuple[tuple[str, str | None], ...] = (
    ('{{ printf "%[2]d %[1]d" 1 2 }}', '2 1'),
    ('{{ printf "%[1]d %d" 7 }}', '7 %!d(MISSING)'),
    ('{{ printf "%[3]d" 1 }}', '%!d(BADINDEX)'),
    ('{{ printf "%-5d|%05d|%+d|% d" 1 2 3 4 }}', '1    |00002|+3| 4'),
    ('{{ printf "%5.1f|%-8.3f|%08.2f" 3.14159 2.5 -1.5 }}', '  3.1|2.500   |-0001.50'),
    ('{{ printf "%*d|%-*d|%.*f" 4 1 4 2 1 2.55 }}', '   1|2   |2.5'),
    ('{{ printf "%x %X %#x % x %#o %b %O %U %#U %c %q" 255 255 255 "hi" 8 5 8 9731 9731 9731 9731 }}', "ff FF 0xff 68 69 010 101 0o10 U+2603 U+2603 '☃' ☃ '☃'"),
    ('{{ printf "%e %E %g %G %b %x" 1234.5 0.00012 1e21 1e-7 1.0 1.5 }}', '1.234500e+03 1.200000E-04 1e+21 1E-07 4503599627370496p-52 0x1.8p+00'),
    ('{{ printf "%#v %#v %#v" (list 1 "a" nil) (dict "a" 1.5) (splitList "," "a,b") }}', '[]interface {}{1, "a", interface {}(nil)} map[string]interface {}{"a":1.5} []string{"a", "b"}'),
    ('{{ printf "%T %T %T %T %T %T" 1 1.5 "a" true nil (list) }}', 'int float64 string bool <nil> []interface {}'),
    ('{{ printf "%d" "a" }}', '%!d(string=a)'),
    ('{{ printf "%s" 1 }}', '%!s(int=1)'),
    ('{{ printf "%s %q %x" (list "a" "b") (list "a") (list "a" 1) }}', '[a b] ["a"] [61 1]'),
    ('{{ printf "%d" }}', '%!d(MISSING)'),
    ('{{ printf "%d" 1 2 nil }}', '1%!(EXTRA int=2, <nil>)'),
    ('{{ printf "%" }}', '%!(NOVERB)'),
    ('{{ printf "%!" 1 }}', '%!!(int=1)'),
    ('{{ printf "%5t|%-7t|%q" true false true }}', ' true|false  |%!q(bool=true)'),
    ('{{ printf "%.2s|%.3x|%+q|%#q" "héllo" "abcd" "é" "a\\tb" }}', 'hé|616263|"\\u00e9"|`a\tb`'),
    ('{{ printf "%6.2f%%" 12.3456 }}', ' 12.35%'),
    ('{{ printf "%v %+v" .Object.Object.metadata.labels (list 1.0 1e6 100000.0 1e21) }}', 'map[a:2 app:shop] [1 1e+06 100000 1e+21]'),
    ('{{ printf "%w" 1 }}', '%!w(int=1)'),
    ('{{ printf "%c|%c" -1 "a" }}', '�|%!c(string=a)'),
    ('{{ typeOf (index "abc" 1) }} {{ index "abc" 1 }} {{ eq (index "abc" 0) 97 }}', 'uint8 98 true'),
    ('{{ typeOf (until 2) }} {{ typeOf (splitList "," "") }} {{ typeOf (rest (list 1)) }} {{ typeOf (split "," "a") }}', '[]int []string []interface {} map[string]string'),
    ('{{ toJson (rest (list)) }} {{ rest (list) }} {{ toJson (list) }} {{ deepEqual (list) (rest (list)) }}', 'null [] [] false'),
    ('{{ toJson (regexFindAll "x" "" -1) }} {{ toJson (regexSplit "," "a,b" 0) }}', 'null null'),
    ('{{ regexFindAll "a*" "baac" -1 | toJson }}', '["","aa",""]'),
    ('{{ regexReplaceAll "a*" "baac" "x" }} {{ regexReplaceAll "(a)(b)?" "aab" "${1}-$2." }}', 'xbxcx a-.a-b.'),
    ('{{ regexSplit "x*" "axbxc" -1 | toJson }} {{ regexSplit "a+" "baac" 1 | toJson }}', '["a","b","c"] ["baac"]'),
    ('{{ int64 "0x1F" }} {{ int64 "017" }} {{ atoi "99999999999999999999" }} {{ atoi "x" }} {{ toDecimal "777" }} {{ toDecimal "-17" }}', '0 17 9223372036854775807 0 511 -15'),
    ('{{ float64 "1e400" }} {{ float64 "Inf" }} {{ float64 "0x1p-2" }} {{ float64 "x" }}', '0 +Inf 0.25 0'),
    ('{{ floor -0.5 }} {{ ceil -0.5 }} {{ round 2.5 0 }} {{ round 1.2345 2 }} {{ round 1.2345 2 .5 }} {{ round -1.5 0 }}', '-1 -0 3 1.23 1.23 -2'),
    ('{{ add 9223372036854775807 1 }} {{ mul 3037000500 3037000500 }} {{ div -7 2 }} {{ mod -7 2 }} {{ div -9223372036854775807 -1 }}', '-9223372036854775808 -9223372036709301616 -3 -1 9223372036854775807'),
    ('{{ snakecase "HTTPServer2xx" }} {{ snakecase "Bld4Floor3rd" }} {{ kebabcase "some  Words_here" }} {{ camelcase "_complex__case_" }} {{ camelcase "_" }}', 'http_server_2xx bld4_floor_3rd some--words-here _Complex_Case_ __'),
    ('{{ title "hello wörld\'s-end" }} {{ untitle "Hello World" }} {{ swapcase "This Is a.Test" }} {{ upper "straße ǆ" }} {{ lower "ΑΣ İ" }}', "Hello Wörld'S-End hello world tHIS iS A.tEST STRAßE Ǆ ασ i"),
    ('{{ wrap 5 "one two three" | quote }} {{ wrapWith 3 "|" "abcdefg" }} {{ wrap 80 "  a" }}', '"one\\ntwo\\nthree" abc|def|g   a'),
    ('{{ abbrev 5 "hello world" }} {{ abbrevboth 5 10 "1234 5678 9123" }} {{ abbrev 3 "hello" }}', 'he... ...5678... hello'),
    ('{{ substr -1 2 "abc" }} {{ substr 1 -1 "abc" }} {{ substr 1 9 "abc" }} {{ trunc 2 "abc" }}', 'ab bc bc ab'),
    ('{{ $d := dict "a" 1 }}{{ $_ := set $d "b" 2 }}{{ $d }} {{ $_ := unset $d "a" }}{{ $d }}', 'map[a:1 b:2] map[b:2]'),
    ('{{ $d := dict "a" (dict "b" 1) }}{{ $_ := merge $d (dict "a" (dict "b" 2 "c" 3) "d" 4) }}{{ toJson $d }}', '{"a":{"b":1,"c":3},"d":4}'),
    ('{{ $d := dict "a" (dict "b" 1) "l" (list 1) }}{{ mergeOverwrite $d (dict "a" (dict "b" 2) "l" (list 2)) | toJson }}', '{"a":{"b":2},"l":[2]}'),
    ('{{ $l := splitList "," "b,a" }}{{ $_ := sortAlpha $l }}{{ $l }}', '[a b]'),
    ('{{ hasKey .Object.Object.spec.missing "a" }} {{ hasKey (dict "a" nil) "a" }} {{ pick (dict "a" 1 "b" 2) "b" }} {{ omit (dict "a" 1 "b" 2) "b" }}', 'false true map[b:2] map[a:1]'),
    ('{{ hasKey .Object.Object.spec.none "a" }}', None),
    ('{{ .Object.Object.spec.none.x }}', None),
    ('{{ if .Object.Object.spec.missing.x.y }}a{{ else }}b{{ end }}', 'b'),
    ('{{ range $x := .Object.Object.spec.missing }}a{{ else }}b{{ if $x }}c{{ end }}{{ end }}', 'b'),
    ('{{ $x := 1 }}{{ range $x = list 5 6 }}{{ end }}{{ $x }}', '6'),
    ('{{ range $i, $e := dict "b" 1 "a" 2 }}{{ $i }}{{ $e }}{{ end }}', 'a2b1'),
    ('{{ range 3 }}{{ . }}{{ end }}{{ range $i := 2 }}{{ $i }}{{ end }}', '01201'),
    ('{{ range $i, $e := 3 }}{{ end }}', None),
    ('{{ with $x := 0 }}a{{ else with 1 }}b{{ . }}{{ else }}c{{ end }}', 'b1'),
    ('{{ if false }}{{ $y = 1 }}{{ end }}ok', 'ok'),
    ('{{ $y = 1 }}', None),
    ('{{ $x := $x }}', None),
    ('{{ define "t" }}a{{ end }}{{ define "t" }} {{ end }}{{ template "t" }}', 'a'),
    ('{{ define "t" }}a{{ end }}{{ define "t" }}b{{ end }}', None),
    ('{{ block "b" 1 }}<{{ . }}>{{ end }}{{ template "b" 2 }}', '<1><2>'),
    ('{{ 1 | }}', '1'),
    ('{{ "a" | 1 }}', None),
    ('{{ 083 }}', None),
    ('{{ 1_000 }} {{ 0b11 }} {{ 0o17 }} {{ 017 }} {{ 0x1p4 }} {{ \'a\' }} {{ 1e3 }} {{ repeat 1e0 "x" }}', '1000 3 15 15 16 97 1000 x'),
    ('{{- /* a */ -}} x', 'x'),
    ('{{-  /* a */}}', None),
    ('{{ $x:=1 }}{{ $x }}', '1'),
    ('{{ print 1 2 "a" "b" 3 4 nil }} {{ println 1 "a" }} {{ cat "a " nil 1 }} {{ quote "a" nil 1 }} {{ squote "a" 1.5 }}', '1 2ab3 4 <nil> 1 a\n a  1 "a" "1" \'a\' \'1.5\''),
    ('{{ html "<a href=\'x\'>&\\"" }} {{ js "it\'s <x> é \\u2028" }} {{ urlquery "a b&c/é~" }}', "&lt;a href=&#39;x&#39;&gt;&amp;&#34; it\\'s \\u003Cx\\u003E é \\u2028 a+b%26c%2F%C3%A9~"),
    ('{{ eq 1 2 1 }} {{ eq nil nil }} {{ ne 1 2 }} {{ lt "a" "b" }} {{ le 1 1 }}', 'true true true true true'),
    ('{{ eq 1 "a" }}', None),
    ('{{ eq (list 1) (list 1) }}', None),
    ('{{ lt true false }}', None),
    ('{{ eq 1.0 1 }}', None),
    ('{{ not nil }} {{ and 1 0 2 }} {{ or 0 "" 3 }} {{ and 0 (fail "not reached") }} {{ 1 | and 2 }}', 'true 0 3 0 1'),
    ('{{ len "é" }} {{ len (dict "a" 1) }}', '2 1'),
    ('{{ len 1 }}', None),
    ('{{ deepCopy nil }}', None),
    ('{{ pluck 2 }}', None),
    ('{{ toPrettyJson (dict "a" (list 1 2) "b" (dict) "c" "<&>") }}', '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {},\n  "c": "\\u003c\\u0026\\u003e"\n}'),
    ('{{ toJson 1e21 }} {{ toJson 1e-7 }} {{ toJson 100000.5 }} {{ toJson "\\u0000\\u2028\\x7f" }}', '1e+21 1e-7 100000.5 "\\u0000\\u2028\x7f"'),
    ('{{ join "-" (list 1 nil "a" true) }} {{ join "," "a" }} {{ sortAlpha (list "b" 1 "a") }} {{ toStrings (list 1 nil) }}', '1-a-true a [1 a b] [1]'),
    ('{{ slice (list 1 2 3) 1 2 }} {{ empty (slice (list) 5) }} {{ has 1 (list 1) }} {{ without (list 1 2 1) 1 }} {{ uniq (list 1 1 "1") }}', '[2] true true [2] [1 1]'),
    ('{{ base "/" }} {{ base "a/b/" }} {{ dir "a" }} {{ clean "/a/../../b" }} {{ ext "x.tar.gz" }} {{ ext "a.b/c" }} {{ isAbs "/a" }}', '/ b . /b .gz  true'),
    ('{{ base "" }}|{{ clean "//a" }}|{{ dir "/a/b/" }}', '.|/a|/a/b'),
    ('{{ typeIs "int" 1 }} {{ kindIs "slice" (list) }} {{ typeIsLike "int" 1 }} {{ kindOf nil }} {{ kindOf .Object }}', 'true true true invalid ptr'),
    ('{{ ternary 1 2 true }} {{ default 1 "" }} {{ coalesce nil 0 "" "x" }} {{ empty (dict) }}', '1 1 x true'),
    ('{{ ternary 1 2 1 }}', None),
    ('{{ untilStep 5 0 -2 }} {{ until -3 }} {{ untilStep 0 5 0 }} {{ max 1 "7" 2.9 }} {{ min }}', None),
    ('{{ adler32sum "a" }} {{ sha1sum "" }} {{ b32enc "a" }} {{ b32dec "ME======" }} {{ hello }} {{ plural "one" "many" 1 }}', '6422626 da39a3ee5e6b4b0d3255bfef95601890afd80709 ME====== a Hello! one'),
    ('{{ splitn "." 2 "a.b.c" }} {{ split "" "ab" }} {{ replace "" "-" "ab" }} {{ trimAll "" " a " | quote }} {{ nindent 2 "a\\nb" }}', 'map[_0:a _1:b.c] map[_0:a _1:b] -a-b- " a " \n  a\n  b'),
    ('{{ call 1 }}', None),
    ('{{ nil }}', None),
    ('{{ upper nil }}', None),
    ('{{ (list 1 2).x }}', None),
)  # fmt: skip


@pytest.mark.parametrize(("source", "text"), ROWS)
def test_a_template_is_rendered_as_go_renders_it(source: str, text: str | None) -> None:
    """W1."""
    data = templates.data(None)
    if text is None:
        with pytest.raises(InvalidObject):
            compile_template(source, path="value").render(data)
    else:
        assert compile_template(source, path="value").render(data) == text
