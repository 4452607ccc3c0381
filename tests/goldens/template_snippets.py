"""Small templates, one a piece of the language each; make_template_goldens.py renders them.

VARIABLES are given to every one of them. A snippet that Python refuses is as good as one that it renders: both are told.
"""
VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What's 2 + 2?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"function": {"name": "add", "arguments": {"a": 2, "b": 2.5, "deep": {"x": [1, None, True, "é\"'"]}}}}]},
        {"role": "tool", "content": "4"},
    ],
    "words": ["pear", "Apple", "fig", "apple", "Fig"],
    "numbers": [3, 1, 2.5, -4, 0],
    "people": [{"name": "Ann", "age": 31, "at": {"city": "Köln"}}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 31}],
    "text": "  Grüße, Straße!\n\tEnd\u00a0",
    "html": "<a href=\"x\">&'</a>",
    "empty": "",
    "nothing": None,
    "table": {"b": 2, "a": 1, "C": [1, 2], "items": "shadow", "none": None},
    "x": 7,
    "flag": True,
    "big": 9223372036854775807,
    "real": 0.1,
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4
7 / 2
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
7.5 % 2
-7.5 % 2
-7.5 // 2
7.0 // 0.1
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2 ** 0.5
0 ** 0
1 / 3
10 / 5
1e16
1e15
123456789.123
1e-4
1e-5
1.5e300 * 1e10
1e308 * 10
-0.0
0.1 + 0.2
1_000 + 0x1F + 0o17 + 0b101
1 / 0
1 // 0
1 % 0
1.0 / 0
big
big - 1
9007199254740993 / 3
true + true
true * 'ab'
'ab' * 3
3 * 'ab'
'ab' * -1
'ab' + 'cd'
'ab' + 1
1 + 'ab'
[1] + [2]
[1] + (2,)
(1,) + (2,)
[1, 2] * 2
'a' 'b' "c"
'a' ~ 1 ~ none ~ 2.0 ~ [1]
'a' ~ missing ~ 'b'
not true
not missing
1 and 2
0 and 2
0 or 'x'
'' or none
1 < 2
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
'1' == 1
[1, 2] == [1, 2]
[1, 2] == (1, 2)
[1, 2] < [1, 3]
(1, 'a') < (1, 'b')
'a' < 'b'
'a' < 1
none < 1
none == none
missing == missing
missing == none
missing < 1
{'a': 1} == {'a': 1.0}
1 in [1, 2]
1.0 in [1, 2]
'a' in 'abc'
'' in 'abc'
1 in 'abc'
'a' in {'a': 1}
'z' not in {'a': 1}
not 'a' in 'abc'
none in [none]
missing in [1]
1 in missing
1 in none
x if flag else 'no'
'yes' if not flag
('yes' if not flag) is defined
'a' if false else 'b' if false else 'c'
x.y
x.y.z
missing
missing.y
missing['y']
missing[0]
missing + 1
missing()
missing[1:]
nothing.y
nothing[0]
nothing['y']
nothing[1:]
words[0]
words[-1]
words[99]
words[1.0]
words[true]
words['a']
words.0
words.1.0
words[1:3]
words[::-1]
words[::2]
words[-2:]
words[:-2]
words[5:1:-1]
words[1:99]
words[::0]
words['a':]
text[2:7]
text[::-1]
'héllo🙂x'[5]
'héllo🙂x'[-1]
'héllo🙂x'[4:6]
'héllo🙂x'|length
'abc'[10]
'abc'[10:]
'abc'[missing:]
table.a
table['a']
table.items
table['items']
table.items()|list
table.keys()|list
table.values()|list
table.keys()
table.items()
table.values()
table.zzz
table['zzz']
table[['a']]
table.get('a')
table.get('zzz')
table.get('zzz', 5)
table.get(default=1)
table.get()
table.pop('a')
table.update({})
table.pop
table.copy()
words.append('x')
words.append is defined
words.index('fig')
words.index('zzz')
words.count('fig')
words.copy()
words.sort()
(1, 2).count(1)
(1, 2).index(2)
messages[0].content
messages[0]['content']
messages[2].tool_calls[0].function.arguments.deep.x
messages[2].content.split
''.__class__
''.__class__.__mro__
''._x
[1, 2,]
(1,)
()
(1, 2)
1, 2
{}
{'a': 1, 'b': {'c': [1, (2, 3)]}}
{1: 'a', 1.0: 'b', true: 'c'}
{(1, 2): 3}
{[1]: 2}
{'a': 1, 'a': 2}
{none: 1, 2.5: 3}
[none, true, 1.0, 'it\'s', "say \"hi\"", 'both \' and "']
['\n\t\r\\', '\x00\x7f\x1b', 'é\u200b\u00a0\ud7ff', '\U0001F600\U000E0001']
['a\\b']
"\n|\t|\\|\'|\"|\q|\101|\x41|\u00e9|\U0001F600"
"\é"
"\xZ"
"\N{BULLET}"
'a
b'
range(5)
range(5)|list
range(2, 10, 3)|list
range(5, 0, -2)|list
range(0)|list
range(5)[2]
range(5)[9]
range(1, 2, 3)
range(200000)
range(1, 2, 0)
range('a')
range(3)|length
3 in range(5)
range(3) == range(0, 3, 1)
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict([('a', 1), ('b', 2)])
dict(*[[('a', 1)]], **{'c': 3})
namespace(a=1)
namespace({'a': 1}, b=2).b
namespace(_a=1)
namespace(a=1)._x
namespace(a=1)['a']
namespace(a=1).zzz is defined
cycler('a', 'b').next()
cycler('a', 'b').current
cycler()
joiner('|')()
lipsum()
raise_exception('oh no')
raise_exception()
strftime_now('%%')
strftime_now('%Y-%m-%d')|length
x()
words()
words|length
words|count
5|length
none|length
missing|length
table|length
words|first
words|last
[]|first
[]|last
'abc'|first
'abc'|last
table|first
table|last
5|first
missing|first
words|join
words|join(', ')
words|join(d='-')
[1, none, 2.5, [3]]|join('|')
people|join(', ', attribute='name')
people|join(', ', 'at.city')
5|join
words|sort
words|sort(reverse=true)
words|sort(case_sensitive=true)
numbers|sort
[1, 'a']|sort
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
words|unique|list
words|unique(true)|list
people|unique(attribute='age')|map(attribute='name')|list
[[1], [1]]|unique|list
numbers|min
numbers|max
words|min
words|max
[]|min
people|max(attribute='age')
people|min(attribute='age')
numbers|sum
people|sum(attribute='age')
[[1], [2]]|sum(start=[])
words|sum
words|reverse|list
'abc'|reverse
words|reverse|first
words|reverse|length
words|reverse|reverse|list
table|reverse|list
words|list
'héy'|list
table|list
5|list
missing|list
none|list
words|map('upper')|list
words|map('upper')|join(',')
words|map('replace', 'p', 'q')|list
words|map('nonesuch')|list
words|map('nonesuch') is defined
people|map(attribute='name')|list
people|map(attribute='at.city', default='?')|list
people|map(attribute='at.city')|list
people|map(attribute='at')|list
people|map(attribute='name', foo=1)|list
words|map|list
words|map|first is defined
missing|map('upper')|list
5|map('upper')|list
0|map('upper')|list
words|map('upper')|length
words|map('upper')[0]
(words|map('upper'))[0]
(words|map('upper'))|first
'y' if words|select('equalto', 'zzz') else 'n'
'y' if words|select('equalto', 'zzz')|list else 'n'
numbers|select|list
numbers|reject|list
numbers|select('odd')|list
numbers|select('gt', 1)|list
numbers|select('>', 1)|list
numbers|reject('lessthan', 1)|list
numbers|select('in', [1, 3])|list
words|select('nonesuch')|list
people|selectattr('at')|list
people|selectattr('at', 'undefined')|map(attribute='name')|list
people|selectattr('age', 'equalto', 31)|map(attribute='name')|list
people|selectattr('age', '==', 31)|list|length
people|rejectattr('age', 'eq', 31)|map(attribute='name')|list
people|selectattr('at.city', 'defined')|list
people|selectattr|list
messages|selectattr('role', 'in', ['user', 'tool'])|map(attribute='content')|list
messages|map(attribute='role')|map('capitalize')|join('/')
table|items|list
missing|items|list
words|items|list
words|items is defined
table|dictsort
table|dictsort(true)
table|dictsort(by='value')
{'b': 2, 'a': 1}|dictsort(by='value', reverse=true)
{'b': 2, 'a': 1}|dictsort(by='other')
words|dictsort
numbers|batch(2)|list
numbers|batch(2, 'x')|list
numbers|slice(2)|list
numbers|slice(3, 'x')|list
words|attr('append') is defined
table|attr('a') is defined
table|attr('get') is defined
'abc'|upper
5|upper
none|upper
missing|upper
'ABC'|lower
'hello wORLD it\'s-me (ok) {x} [y] <z>'|title
'hELLO wORLD'|capitalize
text|trim
text|trim|length
'xxaxx'|trim('x')
'  a '|trim(none)
5|trim
'aXbX'|replace('X', 'yy')
'aXbX'|replace('X', 'yy', 1)
'abc'|replace('', '-')
'abc'|replace('', '-', 2)
12321|replace(2, 5)
'aé'|replace('', '.')
'a'|replace('a')
'abc'|default('x')
missing|default('x')
missing|default
missing|d('x')
''|default('x')
''|default('x', true)
none|default('x')
none|default('x', boolean=true)
missing.y|default('x')
table.zzz|default('x')
'a'|default(nonesuch=1)
'a'|default('b', true, 3)
'42'|int
'42.9'|int
' -42 '|int
'1_000'|int
'abc'|int
'abc'|int(-1)
'0x1f'|int(0, 16)
'1f'|int(base=16)
'101'|int(0, 2)
'0b11'|int(0, 0)
'010'|int(5, 0)
'z'|int(0, 99)
3.99|int
-3.99|int
true|int
none|int
none|int(7)
missing|int
[]|int
'inf'|int
'99999999999999999999'|int == 5
'1.5'|float
'1e3'|float
' inf '|float
'nan'|float
'abc'|float
'abc'|float(2.5)
'1_0.5'|float
'0x10'|float
3|float
none|float
missing|float
42.55|round
42.5|round
43.5|round
-2.5|round
2.675|round(2)
42.55|round(1, 'floor')
42.51|round(1, 'ceil')
42|round
1234|round(-2)
1250|round(-2)
1350|round(-2)
1234.5|round(-2)
-15|round(-1)
3.14159|round(3)
3.1|round(method='up')
'a'|round
-3|abs
-3.5|abs
'a'|abs
missing|abs
3|string
3.0|string
none|string
[1]|string
html|escape
html|e|length
html|forceescape
html|e|e
html|escape|forceescape
html|safe
'<'|safe + '<'
'<' + ('<'|safe)
'<'|safe ~ '<'
('<'|escape)|upper
('<'|escape) * 2
['<'|escape]
('<'|escape) == '&lt;'
'<b>' is escaped
('<b>'|safe) is escaped
'line\nother\n\nlast'|indent
'line\nother\n\nlast'|indent(2)
'line\nother\n\nlast'|indent(2, true)
'line\nother\n\nlast'|indent(2, first=true, blank=true)
'line\nother'|indent('> ')
'line\r\nother\u2028x\x0by'|indent
5|indent
''|indent(first=true)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, leeway=0)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(9, true, '…', 0)
'foo bar baz qux'|truncate(11)
'foo'|truncate(2)
'a b_c  d-é 5'|wordcount
'abc'|center(9)
'abc'|center(8)
'abcd'|center(9)
'%s is %d'|format('x', 3)
'%(a)s-%(b)s'|format(a=1, b=2)
table|tojson
table|tojson(indent=2)
table|tojson(indent=0)
table|tojson(indent='--')
table|tojson(sort_keys=true)
table|tojson(separators=(',', ':'))
table|tojson(indent=1, separators=(', ', ' : '))
table|tojson(separators=(',',))
messages[2]|tojson
messages|tojson(indent=4)
'é"\\\n\t\r\x08\x0c\x01\x7f\u2028</script>🙂'|tojson
'é🙂\x7f'|tojson(ensure_ascii=true)
'\x00\x0b\x10\x1f\x20'|tojson
[1, 2.0, 1e22, 1e-7, none, true, false, (1, 2)]|tojson
{1: 1, 2.5: 2, none: 3, true: 4}|tojson
{1: 1, 'a': 2}|tojson(sort_keys=true)
{(1, 2): 3}|tojson
[]|tojson(indent=2)
{}|tojson(indent=2)
[[], {}]|tojson(indent=2)
missing|tojson
range(3)|tojson
words|map('upper')|tojson
namespace(a=1)|tojson
'inf'|float|tojson
table.items()|tojson
html|tojson
html|e|tojson
x|nonesuch
x|nonesuch if false else 'ok'
(x|nonesuch) if false else 'ok'
x|pprint
words|groupby('x')
words|random
x is defined
missing is defined
missing is not defined
missing is undefined
x is none
nothing is none
nothing is not none
text is string
x is string
html|e is string
x is number
true is number
2.5 is number
x is integer
true is integer
2.5 is float
x is float
true is boolean
1 is boolean
true is true
1 is true
false is false
0 is false
table is mapping
words is mapping
words is iterable
text is iterable
x is iterable
missing is iterable
range(3) is iterable
words is sequence
table is sequence
text is sequence
x is sequence
missing is sequence
(words|map('upper')) is sequence
(words|map('upper')) is iterable
range(3) is sequence
table.keys() is sequence
x is odd
x is even
4 is even
2.5 is odd
'a' is odd
9 is divisibleby 3
9 is divisibleby(4)
9 is divisibleby
x is sameas 7
true is sameas true
1 is sameas true
nothing is sameas none
words is sameas words
x is eq 7
x is equalto 7
x is ne 7
x is lt 8
x is le 7
x is gt 7
x is ge 7
x is lessthan 3
x is greaterthan 3
x is in [7]
'a' is in 'abc'
x is not in [7]
'abc' is lower
'ABC' is upper
'aBC' is upper
'123' is lower
x is callable
range is callable
missing is callable
words.index is callable
'upper' is filter
'nonesuch' is filter
'defined' is test
'nonesuch' is test
x is nonesuch
x is nonesuch if false else 1
x is defined is defined
x is defined and flag
x is not string or false
not x is string
x is divisibleby 7 and true
'a' is string ~ 'b'
' ab '.strip()
' ab '.lstrip() ~ '|'
' ab '.rstrip() ~ '|'
'xxabxx'.strip('x')
'xyabyx'.strip('yx')
'xyabyx'.lstrip('xy')
'éàbé'.strip('é')
text.strip()
'ab'.strip(none)
'ab'.strip(1)
'ab'.strip(chars='a')
'a b  c '.split()
'a b  c '.split(' ')
'a,b,c'.split(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.split(sep=',')
' a b  c '.split(none, 1)
'a,b,c'.rsplit(',', 1)
' a b  c '.rsplit(none, 1)
'a b c'.rsplit(maxsplit=1)
''.split()
''.split(',')
'abc'.split('')
'abc'.split(1)
'a\u00a0b\u2003c'.split()
'<think>x</think>y'.split('</think>')[-1]
'aaa'.split('aa')
'aaa'.rsplit('aa')
'a\nb\r\nc\rd\x0be\u2028f'.splitlines()
'a\nb\n'.splitlines(true)
'a\nb\n'.splitlines(keepends=false)
''.splitlines()
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
'hello'.startswith('he')
'hello'.startswith(('x', 'he'))
'hello'.startswith(['he'])
'hello'.startswith('ell', 1)
'hello'.startswith('', 9)
'hello'.startswith(1)
'hello'.endswith('lo')
'hello'.endswith(('x', 'lo'))
'hello'.endswith('ell', 0, 4)
'hello'.replace('l', 'L')
'hello'.replace('l', 'L', 1)
'hello'.replace('', '.')
'hello'.replace('l')
'hello'.replace(1, 2)
'straße ǆ ŉ ﬁ İ'.upper()
'STRAẞE İ ΑΣ ΑΣ. Σ ΑΣΑ'.lower()
'hello wORLD it\'s 3rd ǆ ß'.title()
'hELLO'.capitalize()
'ßx'.capitalize()
'aBc ß'.swapcase()
'hello'.find('l')
'hello'.find('z')
'héllo'.find('l')
'hello'.find('l', 3)
'hello'.find('l', 4)
'hello'.find('', 5)
'hello'.find('', 6)
'hello'.find('l', -2)
'hello'.rfind('l')
'héllo'.rfind('l', 0, 3)
'hello'.index('l')
'hello'.index('z')
'hello'.rindex('l')
'hello'.count('l')
'hello'.count('')
'héé'.count('é', 2)
'aaaa'.count('aa')
', '.join(words)
', '.join('abc')
', '.join([1])
', '.join(table)
''.join([])
'a'.join(words|map('upper'))
'prefix_x'.removeprefix('prefix_')
'x_suffix'.removesuffix('_suffix')
'x'.removesuffix('')
'²'.isdigit() ~ '²'.isdecimal() ~ '½'.isnumeric() ~ '٣'.isdecimal()
'é'.isalpha() ~ 'é1'.isalnum() ~ ''.isalpha() ~ 'a b'.isalpha()
' \u2003'.isspace() ~ ''.isspace()
'ABC1'.isupper() ~ 'abc1'.islower() ~ 'Abc Def'.istitle() ~ '1'.isupper()
'a'.isascii() ~ 'é'.isascii() ~ ''.isascii()
'a\n'.isprintable() ~ 'é'.isprintable() ~ ''.isprintable()
'5'.zfill(3) ~ '-5'.zfill(4) ~ '+x'.zfill(1) ~ 'é'.zfill(3)
'a'.ljust(3) ~ '|' ~ 'a'.rjust(3, '-') ~ '|' ~ 'a'.center(4, '*') ~ 'ab'.center(5, '*')
'a'.ljust(3, 'xx')
'a'.nonesuch()
'a'.nonesuch
'{} {}'.format(1, 'b')
'{1} {0} {1}'.format('a', 'b')
'{a} {b[c]} {b.c}'.format(a=1, b={'c': 2})
'{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd')
'{:5}|{:05d}|{:+d}|{:,}|{:x}|{:#x}|{:b}'.format(3, 42, 7, 1234567, 255, 255, 5)
'{:.2f}|{:8.3f}|{:e}|{:g}|{:.1%}|{:,.2f}'.format(3.14159, 2.5, 12345.678, 0.00001, 0.256, 1234567.891)
'{!r:>6}|{!s}'.format('a', 1)
'{:.2}|{:5.1}|'.format('abc', 'xyz')
'{{}} {}'.format(1)
'{'.format(1)
'}'.format(1)
'{} {1}'.format(1, 2)
'{}'.format()
'{a}'.format(b=1)
'{:d}'.format('a')
'{:s}'.format(1)
'{}'.format(none) ~ '{}'.format([1, 'a']) ~ '{}'.format(true) ~ '{}'.format(1.0)
'{0.name} {0[name]}'.format({'name': 'n'})
'%s|%r|%d|%5d|%-5d|%05d|%+d|%x|%X|%o' % ('a', 'b', 3, 4, 5, 6, 7, 255, 255, 8)
'%.2f|%8.3f|%e|%g|%G|%i|%%' % (3.14159, 2.5, 12345.678, 0.00001, 1e20, 3.9)
'%s' % 'x'
'%s' % 5
'%s %s' % ('a',)
'%s' % ('a', 'b')
'%(a)s %(b)05.1f' % {'a': 1, 'b': 2.25}
'%s' % [1, 2]
'%5s|%-5s|%.2s|%c' % ('a', 'b', 'cde', 'f')
'%d' % 'a'
'%q' % 1
'%*d' % (5, 3)
'%s' % missing
'abc' % ()
'abc' % 5
'a' if 'b' in words|map('lower')|list else 'c'
words|map('length')|sum
(messages|last).role
messages|last.role
messages[-1].role ~ messages|length
-x|abs
-(x|abs)
2 * x|abs
x|string|length + 1
words[0][0]
words[0].upper()[0]
{'a': {'b': [10, 20]}}.a.b[1]
[x, x + 1][1]
[1, 2, 3][x % 3]
(x > 3) and (x < 10)
x > 3 == true
[] is defined
1 is not none and 2 is not none
'%s' % (x,)
true and not false
True and False or None
none ~ None ~ true ~ True
self
self.x
loop
caller
varargs
[1,2,3,4,5,6,7,8,9,10][2:8:3]
'abcdefghij'[-3:2:-2]
1 ==
* 2
)
(1
[1, 2
{'a' 1}
'unclosed
a b
x.
x[
x[]
x[1:2:3:4]
x|
x is
x if
1 if 2 else
f(a=1, 2)
f(**{}, 1)
f(a=1, a=2)
@
x!y
x = 1
not
1 2
'é' < 'z'
99999999999999999999 == 1
1.
.5
1.e5
1e5
1E+5
0777
00
1__0
x.1
x.1.2
x and
""".strip("\n")
# A line each, but for the one string that holds a newline.
EXPRESSIONS = [f"{{{{ {line} }}}}" for line in EXPRESSIONS.replace("'a\nb'", "'a\0b'").split("\n")]
EXPRESSIONS = [line.replace("\0", "\n") for line in EXPRESSIONS]

STATEMENTS = [
    # Loops.
    "{% for x in words %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }};{% endfor %}",
    "{% for x in words %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in words %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.changed(x|length) }}{% endfor %}",
    "{% for x in words if x is lower %}{{ loop.index }}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}",
    "{% for x in words if false %}a{% else %}b{% endfor %}",
    "{% for x in missing %}a{% else %}b{% endfor %}",
    "{% for x in none %}a{% endfor %}",
    "{% for x in 5 %}a{% endfor %}",
    "{% for x in 'hé' %}[{{ x }}]{% endfor %}",
    "{% for k in table %}{{ k }},{% endfor %}",
    "{% for k, v in table.items() %}{{ k }}={{ v }},{% endfor %}",
    "{% for k, v in table|dictsort %}{{ k }}={{ v }},{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3)), [4, 'xy']] %}{{ a }}{{ b }}{{ c }};{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a, b in [1] %}{{ a }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in (1, 2) %}{{ x }}{% endfor %}{{ x }}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x is odd %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2] %}{% continue %}{% else %}else{% endfor %}",
    "{% for x in [1, 2] %}{% break %}{% else %}else{% endfor %}",
    "{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{% if y == 3 %}{% continue %}{% endif %}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in [1, 2] %}{% set y %}a{% break %}b{% endset %}{% endfor %}z",
    "{% break %}",
    "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in [1, 2] recursive %}{{ x }}{% endfor %}",
    "{% for x in words|map('upper') %}{{ loop.index }}{{ x }}{{ '' if loop.last else ',' }}{% endfor %}",
    "{% for x in words|map('upper') %}{{ loop.length }}{{ x }}{% endfor %}",
    "{% set g = words|map('upper') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}",
    "{% set g = words|map('upper') %}{{ g|first }}{{ g|first }}{{ g|list }}",
    "{% for x in words %}{{ loop }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }}{{ loop.last }};{% endfor %}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3] if ns.n < 2 %}{% set ns.n = ns.n + x %}{{ x }}{% endfor %}",
    "{% for m in messages %}{{ m.role }}{% if not loop.last %}{{ messages[loop.index0 + 1].role }}{% endif %};{% endfor %}",
    "{% for m in messages[1:] %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate at ' ~ loop.index0) }}{% endif %}{% endfor %}",
    # Conditions.
    "{% if x %}a{% endif %}{% if not x %}b{% elif flag %}c{% else %}d{% endif %}",
    "{% if missing %}a{% elif empty %}b{% elif nothing %}c{% elif [] %}d{% elif {} %}e{% elif 0.0 %}f{% else %}g{% endif %}",
    "{% if x == 7 and (flag or missing.y) %}a{% endif %}",
    "{% if x: %}a{% endif %}",
    "{% if 1, 2 %}a{% endif %}",
    "{% if %}a{% endif %}",
    "{% if x %}a",
    "{% if x %}a{% endfor %}",
    "{% endif %}",
    "{% else %}",
    "{% if x|nonesuch %}a{% endif %}",
    "{% if false %}{{ x|nonesuch }}{% endif %}ok",
    "{% if false %}{% for y in [1] %}{{ x|nonesuch }}{% endfor %}{% endif %}ok",
    "{% macro m() %}{{ x|nonesuch }}{% endmacro %}ok",
    "{% if false %}{{ x is nonesuch }}{% endif %}ok",
    # Setting.
    "{% set y = 5 %}{{ y }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2, 3] %}",
    "{% set (a, b) = 'xy' %}{{ a }}{{ b }}",
    "{% set y = 1, 2 %}{{ y }}",
    "{% set y %}a{{ x }}b{% endset %}[{{ y }}]",
    "{% set y | upper | replace('A', 'z') %}a{{ x }}b{% endset %}[{{ y }}]",
    "{% set y = 1 %}{% for i in [1, 2] %}{% set y = y + i %}{{ y }}{% endfor %}{{ y }}",
    "{% set y = 1 %}{% if true %}{% set y = 2 %}{% endif %}{{ y }}",
    "{% if false %}{% set y = 2 %}{% endif %}{{ y }}",
    "{% if false %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in [1] %}{% if false %}{% set x = 2 %}{% endif %}{{ x }}{% endfor %}",
    "{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% for i in [1, 2] %}{{ x }}{% endfor %}{% set x = 1 %}{{ x }}",
    "{{ x }}{% for i in [1, 2] %}{{ x }}{% endfor %}{% set x = 1 %}{{ x }}",
    "{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 1 %}{{ m() }}",
    "{% set x %}a{{ x }}b{% endset %}{{ x }}",
    "{% for i in [1] %}{% set x %}a{{ x }}b{% endset %}{{ x }}{% endfor %}{{ x }}",
    "{% if flag %}{{ x }}{% endif %}{% for i in [1] %}{{ x }}{% endfor %}{% set x = 5 %}",
    "{% for i in [1, 2] %}{% if i == 2 %}{{ y }}{% endif %}{% set y = i %}{% endfor %}",
    "{% with y = x %}{% set x = 2 %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% set ns = namespace(a=1, b=[]) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% set ns.b = ns.b + [i] %}{% endfor %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace() %}{% set ns.a, y = 1, 2 %}{{ ns.a }}{{ y }}",
    "{% set ns = namespace() %}{% set ns.a %}x{{ x }}{% endset %}{{ ns.a }}",
    "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "{% set table.a = 1 %}",
    "{% set x.a = 1 %}",
    "{% set missing.a = 1 %}",
    "{% set ns = namespace(a=1) %}{{ ns }}",
    "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me.me is defined }}",
    "{% set none = 1 %}",
    "{% set 1 = 1 %}",
    "{% set x.y.z = 1 %}",
    "{% set range = 3 %}{{ range }}",
    "{% set y %}a{% set z = 1 %}{% endset %}{{ y }}{{ z is defined }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% with a = 1, b = a %}{{ b }}{% endwith %}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}",
    "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% print 1, x, 'a' %}",
    # Macros.
    "{% macro m(a, b=2, c=none) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a, a) %}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}",
    "{% macro m(a, kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "{% macro m(a) %}<{{ a }}>{% endmacro %}{% macro n(a) %}{{ m(a) | upper }}{{ m(a)|length }}{% endmacro %}{{ n('x') }}",
    "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call m() %}a{{ x }}{% endcall %}",
    "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=3) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}a{% endcall %}",
    "{% macro m(caller) %}{{ caller() }}{% endmacro %}{% call m() %}a{% endcall %}",
    "{% macro m(caller=none) %}{{ caller() }}{% endmacro %}{% call m() %}a{% endcall %}",
    "{% call 5 %}a{% endcall %}",
    "{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}{{ m is callable }}",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% set y = 1 %}{% macro m() %}{{ y }}{% set y = 2 %}{{ y }}{% endmacro %}{{ m() }}{{ y }}",
    "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}",
    "{{ m() }}{% macro m() %}a{% endmacro %}",
    "{% macro m() %}a{% endmacro %}{% set z = m() %}{{ z ~ z }}{{ z is string }}",
    "{% macro m(a) -%}\n  {{ a }}\n{%- endmacro %}[{{ m(1) }}]",
    # Filter blocks, raw, generation, comments.
    "{% filter upper %}a{{ x }}b{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aa{% endfilter %}",
    "{% filter nonesuch %}a{% endfilter %}",
    "{% raw %}{{ x }}{% if %}{% endraw %}",
    "a {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "{% raw %}a",
    "{% raw %}",
    "a{#",
    "a{# ",
    "{{ []|select|map|list }}",
    "{{ []|map|list }}",
    "{{ []|select|selectattr|list }}",
    "{{ []|select|map(foo=1)|list }}",
    "  {% raw %}\n  x\n  {% endraw %}\ny",
    "{% generation %}a{{ x }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}",
    "{% for x in [1] %}{% generation %}{{ x }}{% endgeneration %}{% endfor %}",
    "{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "a{# comment #}b{# {{ x }} {% if %} #}c",
    "a {#- c -#} b",
    "a\n  {# c #}\nb",
    "a\n  {#+ c +#}\nb",
    "{# unclosed",
    "{#-#}a",
    # Whitespace.
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}  \n  b\n  {% endif %}  \nc\n\n",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n  c",
    "a\n  {%+ if true +%}\n  b\n  {%+ endif +%}\n  c",
    "a  {{- x -}}  b\n  {{ x }}\n  {{- x }}\n",
    "  {{ x }}  \n  {% set y = 1 %}  {{ y }}",
    "{% if true %}  {% endif %}x",
    "x  {% if true %}y{% endif %}  {% if true %}\n{% endif %}\nz",
    "{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\n",
    "{%- for i in [1, 2] %}\n  {{- i }}\n{% endfor -%}\n\n z",
    "\n{% if true %}a{% endif %}\n\n",
    "a\r\n{% if true %}\r\nb\r{% endif %}\r\n",
    "a\u00a0{%- if true -%}\u2003b{% endif %}",
    "\t {% if true %}a{% endif %}",
    "a \t{% if true %}a{% endif %}",
    "{{ x }}\n{{ x }}\n",
    "{{ x\n+\n1 }}",
    "{%- set y = {'a': {'b': {}}} -%}{{ y }}",
    "{{ {'a': {}} }}{{ {'b':{}}}}",
    "{{-x-}} {{+x}}",
    "{{- -x }}",
    "{%if true%}a{%endif%}",
    "{ {x} } {x} {%} ",
    "a { b",
    "a {",
    "{{",
    "{{ x",
    "{% if x",
    "{%",
    "}}%}#}",
    "",
    "\n",
    "\n\n",
    "é🙂{{ 'é🙂' }}\n",
    # What is refused.
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{% nonesuch %}",
    "{% do words.append(1) %}",
    "{% set words = words.append(1) %}",
    "{% trans %}a{% endtrans %}",
    "{% debug %}",
    # Printing.
    "{{ [1.0, 100000000000000000.0, 1e16, 123456789012345.6, 0.0001, 0.00001, 5e-324, 1.7976931348623157e308] }}",
    "{{ messages }}",
    "{{ messages[2] }}",
    "{{ {'a': none, 'b': \"it's\", 'c': 'x\ny'} }}",
    "{{ [missing] }}",
    "{{ (1,), [()], {} }}",
    "{{ words, }}",
    "{{ }}",
    "{% set l = [1] %}{% set l = [l, l] %}{{ l }}",
]
