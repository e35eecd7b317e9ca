#!/usr/bin/env python3
"""Writes templates.jsonl: templates, their variables and what Jinja2 makes of them.

Usage: make_templates.py [OUTPUT [RANDOM_COUNT [FIRST_SEED]]]   (needs jinja2 3.1; Debian:
python3-jinja2)

The oracle is Jinja2's sandbox under the settings of transformers: trim_blocks, lstrip_blocks, break
and continue, tojson as plain json.dumps, raise_exception and strftime_now. The first half of the
lines are written by hand, one construct each; the second half are random programs with a fixed
seed, so the file is the same on every run. A line has either "output", "raised" (the words of
raise_exception) or "error" (any other failure; its words are Jinja's and not compared).
"""
import datetime
import json
import random
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2026, 8, 7, 9, 5, 3)  # also in template_golden_test.cpp

RANDOM_COUNT = 260


class Raised(Exception):
    pass


def environment():
    # Not the immutable sandbox: append and pop work on values that the template made.
    env = jinja2.sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                              extensions=[jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise Raised(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENV = environment()

MESSAGES = [
    {"role": "system", "content": "  You are terse.\n"},
    {"role": "user", "content": "What is 2+2?  <b>\"now\"</b> 'please'"},
    {"role": "assistant", "content": "<think>\neasy\n</think>\n\n4, naïve 世界 🎉"},
    {"role": "user", "content": "line one\n\nline three\n", "name": "ada"},
]
TOOLS = [
    {"type": "function",
     "function": {"name": "get_weather", "description": "Weather of a \"place\" & time",
                  "parameters": {"type": "object",
                                 "properties": {"city": {"type": "string", "enum": ["Oslo", "Łódź"]},
                                                "days": {"type": "integer", "minimum": 1}},
                                 "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "parameters": None}},
]
VARIABLES = {
    "messages": MESSAGES,
    "tools": TOOLS,
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "flag": False,
    "nothing": None,
    "n": 7,
    "negative": -3,
    "x": 2.5,
    "name": "Grace Hopper",
    "words": ["delta", "Alpha", "charlie", "bravo", "alpha"],
    "numbers": [5, 3, 8, 1],
    "table": {"b": 2, "a": 1, "Z": 26, "items": "hidden"},
    "mixed": [1, "two", None, True, 3.0, [4], {"five": 5}],
    "accents": "déjà vu — 東京\t🙂!",
}

HAND_WRITTEN = """
plain text only
{{ name }}, {{ n }}, {{ x }}, {{ flag }}, {{ nothing }}, [{{ missing }}]
{{ mixed }} {{ table }} {{ () }} {{ (1,) }} {{ (1, 'a') }} {{ [] }} {{ {} }}
{{ "it's" }} {{ ["it's", 'say "hi"', 'both \\' and "', 'new\\nline\\ttab', 'back\\\\slash', '\\x07'] }}
{{ 'a' 'b' "c" }} {{ 'tab\\there' }} {{ '\\u00e9\\x41\\101\\q' }} {{ "\\"" }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }}
{{ 7 / 2 }} {{ 6 / 3 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 5e-324 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 1_000 }} {{ -x }} {{ +n }} {{ True + 1 }}
{{ n / 0 }}
{{ n % 0 }}
{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 3 }} {{ 'x' * -1 }} {{ [] + [1] + [2, 3] }}
{{ 'a' + 1 }}
{{ 'a' + missing }}
{{ 'a' ~ 1 ~ nothing ~ missing ~ [1] ~ 'z' }} {{ 1 ~ 2 + 3 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ True == 1 }} {{ '1' == 1 }} {{ nothing == missing }}
{{ 'a' < 1 }}
{{ missing < 1 }}
{{ 2 in numbers }} {{ 3 in numbers }} {{ 'b' in table }} {{ 'lph' in 'Alpha' }} {{ 'q' not in name }} {{ not 1 in [1] }} {{ 'x' in missing }}
{{ 1 in 'abc' }}
{{ flag or name }} {{ nothing and name }} {{ not flag }} {{ not not name }} {{ [] or {} or '' or 0 or 'end' }} {{ 1 and 2 }}
{{ 'yes' if flag else 'no' }} {{ 'yes' if n }} [{{ 'yes' if flag }}] {{ 'a' if flag else 'b' if nothing else 'c' }}
{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[-1].name }} {{ messages[99] }} [{{ messages[0].name }}] {{ messages[0]["nope"] }}
{{ missing.attribute }}
{{ missing['item'] }}
{{ messages[0].nope.deeper }}
{{ table.items is defined }} {{ table['items'] }} {{ table.b }} {{ table.get('b') }} {{ table.get('q') }} {{ table.get('q', 'none') }}
{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %} {% for k in table %}{{ k }}{% endfor %} {% for v in table.values() %}{{ v }}{% endfor %} {{ table.keys() | list }}
{{ name[0] }} {{ name[-1] }} {{ name[100] }} {{ accents[6] }} {{ accents[-2] }} {{ name[1:4] }} {{ name[:-7] }} {{ name[::2] }} {{ name[::-1] }} {{ accents[::-1] }} {{ accents[5:20:3] }}
{{ words[1:] }} {{ words[:2] }} {{ words[::-1] }} {{ words[-2:] }} {{ words[10:] }} {{ words[3:1] }} {{ words[3:0:-1] }} {{ numbers[-100:100] }} {{ (1,2,3)[1:] }} {{ words[none:2] }}
{{ words[::0] }}
{{ n[1:] }}
{{ name.upper() }} {{ name.lower() }} {{ 'hELLO wORLD'.capitalize() }} {{ name.replace('p', '[p]') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
[{{ '  pad '.strip() }}] [{{ '  pad '.lstrip() }}] [{{ '  pad '.rstrip() }}] [{{ 'xxhixx'.strip('x') }}] [{{ '--a-b--'.lstrip('-') }}] [{{ 'abcba'.rstrip('ab') }}] [{{ '\\u00a0\\u3000hi\\u2028'.strip() }}]
{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b--c'.split('--')[-1] }}
{{ 'a b  c '.rsplit() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'aaa'.rsplit('aa', 1) }} {{ 'x'.split('') }}
{{ 'one\\ntwo\\r\\nthree\\n\\nfour'.splitlines() }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'abcabc'.rfind('b') }} {{ accents.find('東') }} {{ 'banana'.count('an') }}
{{ ', '.join(words) }} {{ 'prefix-rest'.removeprefix('prefix-') }} {{ 'file.txt'.removesuffix('.txt') }} {{ 'abc'.removesuffix('z') }}
{{ ''.join([1, 2]) }}
{{ name.nope() }}
{{ (messages[2].content.split('</think>')[-1]).lstrip('\\n') }} | {{ messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}
{{ words | length }} {{ name | length }} {{ accents | length }} {{ table | length }} {{ missing | length }} {{ '' | count }}
{{ n | length }}
[{{ '  x ' | trim }}] [{{ 'xxaxx' | trim('x') }}] [{{ missing | trim }}] [{{ n | trim }}] [{{ '\\n a \\n' | trim }}]
{{ n | string + 'x' }} {{ nothing | string }} {{ words | string }} {{ missing | string }}{{ x | string | length }}
{{ words | join }} {{ words | join(', ') }} {{ numbers | join('-') }} {{ messages | join('/', attribute='role') }} {{ mixed | join('|') }} {{ name | join('.') }}
{{ table | items | list }} {% for k, v in table | items %}{{ k }}{{ v }}{% endfor %}{{ missing | items | list }}
{{ n | items | list }}
{{ missing | default('d') }} {{ '' | default('d') }} {{ '' | default('d', true) }} {{ '' | default('d', boolean=True) }} {{ nothing | default('d') }} [{{ missing | default }}] {{ flag | default('d', true) }}
{{ 'abc' | list }} {{ table | list }} {{ (1, 2) | list }} {{ missing | list }} {{ accents[:3] | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | selectattr('name') | map(attribute='content') | list }} {{ messages | selectattr('role', 'in', ['system', 'user']) | map(attribute='role') | join(',') }} {{ messages | selectattr('name', 'defined') | list | length }}
{{ messages | rejectattr('role', 'eq', 'system') | map(attribute='role') | list }} {{ numbers | select('gt', 3) | list }} {{ numbers | reject('odd') | list }} {{ mixed | select | list }} {{ mixed | select('string') | list }} {{ mixed | reject('none') | list | length }}
{{ words | map('upper') | join(' ') }} {{ words | map('length') | list }} {{ tools | map(attribute='function.name') | list }} {{ messages | map(attribute='name', default='anon') | list }} {{ words | map('replace', 'a', '4') | list }} {{ [[1, 2], [3, 4]] | map(attribute=1) | list }}
{{ words | map('nope') | list }}
{{ nothing | selectattr('a', 'equalto', 1) | list }} {{ nothing | map('upper') | list }} {{ flag | reject | list }} {{ missing | map(attribute='x') | list }}
{{ 5 | map('upper') | list }}
{% set m = namespace(role='system', content='made') %}{% for x in [m] + messages[:1] %}{{ x.role }}: {{ x['content'] }} {% endfor %}
{{ words | nope }}
{{ words | select('nope') | list }}
{% if false %}{{ words | nope }}{% endif %}unknown but never reached
{{ 'MiXed' | lower }} {{ 'MiXed' | upper }} {{ 'mIXED case' | capitalize }} {{ 'a.b.a' | replace('a', 'z') }} {{ 'aaa' | replace('a', 'b', 1) }} {{ n | replace(7, 8) }}
{{ words | sort }} {{ words | sort(reverse=true) }} {{ words | sort(case_sensitive=true) }} {{ numbers | sort }} {{ messages | sort(attribute='role') | map(attribute='role') | list }} {{ words | unique | list }} {{ words | unique(case_sensitive=true) | list }}
{{ mixed | sort }}
{{ {'b': 2, 'a': 1, 'C': 0} | dictsort }} {{ {'b': 2, 'a': 1, 'C': 0} | dictsort(true) }} {{ {'b': 2, 'a': 1} | dictsort(by='value') }} {{ {'b': 2, 'a': 1} | dictsort(reverse=true) }}
{{ words | first }} {{ words | last }} [{{ [] | first }}] {{ name | first }} {{ name | last }} {{ words | reverse | list }} {{ name | reverse }} {{ numbers | sum }} {{ [{'v': 1}, {'v': 2}] | sum(attribute='v') }} {{ [1, 2] | sum(start=10) }}
{{ '42' | int }} {{ ' 42 ' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(-1) }} {{ 3.9 | int }} {{ true | int }} {{ nothing | int(5) }} {{ '1e3' | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ n | float }} {{ -5 | abs }} {{ (-2.5) | abs }}
{{ 'a\\nb\\n\\nc' | indent }}| {{ 'a\\nb\\n\\nc' | indent(2, true) }}| {{ 'a\\nb\\n\\nc' | indent(2, blank=true) }}| {{ 'a\\nb' | indent('> ') }}| {{ 'a\\n' | indent(3) }}| {{ '' | indent }}|
{{ '<b>' | safe }} {{ tools | tojson | safe }}
{{ messages | tojson }}
{{ tools | tojson(indent=2) }}
{{ tools | tojson(indent=4) }}
{{ tools[0] | tojson(separators=(',', ':')) }} {{ tools[0].function.parameters | tojson(sort_keys=true) }} {{ accents | tojson(ensure_ascii=true) }} {{ accents | tojson }} {{ mixed | tojson(indent=1, separators=(', ', ' = ')) }}
{{ [1, 2.0, 1e100, -0.0, true, false, none, 'q"\\\\\\b\\f\\n\\r\\t\\u001f\\u007f', {}, [], [[]], {'k': []}] | tojson }} {{ [[], {}, [1]] | tojson(indent=2) }} {{ {1: 2, 2.5: 3, true: 4, none: 5} | tojson }} {{ (1, 2) | tojson }}
{{ missing | tojson }}
{{ namespace() | tojson }}
{{ missing is defined }} {{ name is defined }} {{ nothing is defined }} {{ missing is undefined }} {{ nothing is none }} {{ missing is none }} {{ messages[0].name is defined }} {{ missing is not defined }} {{ nothing is not none }}
{{ name is string }} {{ n is string }} {{ table is mapping }} {{ words is mapping }} {{ words is iterable }} {{ name is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ words is sequence }} {{ table is sequence }} {{ name is sequence }} {{ nothing is sequence }}
{{ n is number }} {{ x is number }} {{ flag is number }} {{ n is integer }} {{ flag is integer }} {{ x is float }} {{ flag is boolean }} {{ n is boolean }} {{ flag is false }} {{ true is true }} {{ 1 is true }} {{ 0 is false }} {{ namespace is callable }} {{ name is callable }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is lt 8 }} {{ n is gt 8 }} {{ n is ge 7 }} {{ n is le 6 }} {{ 'a' is in 'abc' }} {{ n is in [1, 7] }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ '12' is upper }}
{{ name is string and n is number or flag }} {{ not name is string }} {{ (name is string) == true }} {{ 'yes' if name is string else 'no' }} {{ n is nope }}
{% if flag %}a{% elif n > 5 %}b{% elif true %}c{% else %}d{% endif %}{% if not flag and words %}e{% endif %}{% if missing %}f{% else %}g{% endif %}
{% for w in words %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}
{% for w in words %}{{ loop.previtem }}<{{ w }}>{{ loop.nextitem }} {{ loop.cycle('odd', 'even') }};{% endfor %}{{ loop is defined }}
{% for w in words if w != 'delta' %}{{ loop.index }}{{ w }}{{ loop.length }}{% if not loop.last %}, {% endif %}{% else %}none{% endfor %}
{% for w in [] %}x{% else %}empty{% endfor %}{% for w in missing %}x{% else %}undefined{% endfor %}{% for c in 'añb' %}{{ c }}.{% endfor %}
{% for w in n %}x{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }} {% endfor %}{% for (a, b) in [[5, 6]] %}{{ a + b }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{% if m.role == 'assistant' %}{% break %}{% endif %}{{ m.content }}{% endfor %}
{% for i in range(5) %}{% for j in range(i) %}{% if j == 2 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}{{ range(3) | list }} {{ range(2, 10, 3) | list }} {{ range(5, 0, -2) | list }} {{ range(3, 1) | list }}
{% for i in range(1, 2, 0) %}{% endfor %}
{% set a = 1 %}{% set b, c = 2, 3 %}{{ a }}{{ b }}{{ c }}{% set a = a + 1 %}{{ a }}{% set t = 1, 2 %}{{ t }}
{% set a = 'out' %}{% for i in [1, 2] %}{{ a }}{% set a = a ~ i %}{{ a }} {% endfor %}{{ a }}
{% set ns = namespace(found=false, count=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}{% set ns.count = ns.count + 1 %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.count }} [{{ ns.nope }}] {{ ns.nope is defined }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns.last = ns.a + ns.b %}{{ ns['last'] }}
{% set a = {} %}{% set a.b = 1 %}
{% set block %}  inner {{ name }}
  {% endset %}[{{ block }}]{% set up | upper | trim %} quiet {% endset %}[{{ up }}]
{% set ns = namespace() %}{% set ns.text %}captured {{ n }}{% endset %}{{ ns.text }}
{% filter upper %}shout {{ name }}{% endfilter %}{% filter replace('a', 'b') | trim %} banana {% endfilter %}
{% macro greet(who, greeting='Hello', mark='!') %}{{ greeting }} {{ who }}{{ mark }}{% endmacro %}{{ greet('Ada') }} {{ greet('Bob', 'Hi') }} {{ greet(who='Eve', mark='?') }} {{ greet() }} {{ greet('a') | upper }} {{ greet('x') is string }}
{% macro one(a) %}{{ a }}{% endmacro %}{{ one(1, 2) }}
{% macro one(a) %}{{ a }}{% endmacro %}{{ one(b=2) }}
{% macro down(i) %}{{ i }}{% if i > 0 %},{{ down(i - 1) }}{% endif %}{% endmacro %}{{ down(5) }}
{% macro show(v, level=0) %}{% if v is mapping %}{% for k, x in v.items() %}{{ '  ' * level }}{{ k }}:
{{ show(x, level + 1) }}{% endfor %}{% elif v is iterable and v is not string %}{% for x in v %}{{ show(x, level + 1) }}{% endfor %}{% else %}{{ '  ' * level }}- {{ v }}
{% endif %}{% endmacro %}{{ show(tools) }}
{% macro outer() %}{{ inner() }} {{ total }}{% endmacro %}{% macro inner() %}inner{% endmacro %}{% set total = 9 %}{{ outer() }}{% set total = 10 %}{{ outer() }}
{% for i in [1, 2] %}{% macro local() %}{{ i }}{% endmacro %}{{ local() }}{% endfor %}{% macro sees() %}[{{ i }}]{% endmacro %}{% for i in [3] %}{{ sees() }}{% endfor %}
{% macro set_inside() %}{% set a = 'in' %}{{ a }}{% endmacro %}{% set a = 'out' %}{{ set_inside() }}{{ a }}
{{ undefined_macro() }}
{{ name() }}
{{ raise_exception('No ' ~ name ~ ' here') }}
{% if messages[0].role != 'user' %}{{ raise_exception("Conversation roles must alternate: " + messages[0].role) }}{% endif %}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %B %Y, %H:%M:%S') }} {{ strftime_now('%a %b %-d %I%p %y %j %%') }} {{ strftime_now('%A') }}
{{ dict(a=1, b='x') }} {{ dict({'k': 1}, z=2) }} {{ {'a': 1, 'a': 2} }} {{ {'a': [1, {'b': ()}]} }}
{% set l = [] %}{% set _ = l.append('a') %}{{ l.append(2) }}{{ l }}{{ l.pop() }}{{ l }}{% set d = {'x': 1, 'y': 2} %}{{ d.pop('x') }}{{ d }}{{ d.pop('q', 'none') }}
{{ [].pop() }}
{# a comment #}a{#- trimmed -#} b {# with {{ code }} and {% tags %} #}c
  {% if true %}
    indented
  {% endif %}
end
{%- if true -%}   tight   {%- endif -%}  x
a   {%- set q = 1 %}   b   {%+ if true %} c {% endif +%}
 d
line {{ name }}
  {{- n -}}
  line
{% for m in messages -%}
  {{ m.role }}
{%- endfor %}


two newlines at the end


{% include 'x' %}
{% import 'os' as os %}
{{ unclosed
{% if x %}
{% endif %}
{{ 'unterminated }}
{{ a b }}
{% for %}{% endfor %}
{{ ''.__class__.__mro__ }}
{{ [].__class__.__base__.__subclasses__() }}
{{ messages.__init__.__globals__ }}
{{ {'}}': '}'}['}}'] }} {{ '%}' }} {{ "{{" }} {{ {'a': {'b': {}}} }}
{{ 1 if true else 2, 3 }} {{ (1, 2)[0] }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ words.0 }}
{{ "a" if 1 in [1] else "b" }}{{ -1 | abs }}{{ 'a' ~ 'b' | upper }}{{ ('a' ~ 'b') | upper }}{{ 2 * 3 | string }}{{ not true | string }}
{% for i in [1] %}{% continue %}{% else %}else after continue{% endfor %}{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}no{% endfor %}
"""

# Written by hand, several lines each.
BLOCKS = [
    "{% for message in messages %}\n"
    "    {% if loop.first %}\n        first\n    {% endif %}\n"
    "    {{ message.role }}: {{ message.content | trim }}\n{% endfor %}\n",
    "\n\n  {%- for m in messages %}\n\t{%- if m.role == 'user' %}\n U {{ m.content }}\n"
    "   {%- else %} A {%+ endif %}\n  {% endfor -%}\n\nend\n",
    "{{- bos_token }}\n{%- set ns = namespace(multi=true, last=messages|length - 1) %}\n"
    "{%- for m in messages[::-1] %}\n{%- set index = (messages|length - 1) - loop.index0 %}\n"
    "{%- if ns.multi and m.role == 'user' and m.content is string and not "
    "(m.content.startswith('<tool>') and m.content.endswith('</tool>')) %}\n"
    "{%- set ns.multi = false %}{%- set ns.last = index %}\n{%- endif %}\n{%- endfor %}\n"
    "{%- for m in messages %}{{ loop.index0 > ns.last }}{{ '|' }}{%- endfor %}",
    "a\r\nb\r{% if true %}\r\nc\r\n{% endif %}\r\nd\r\n",
    "  {# comment alone on its line #}\nkept\n  {#- trimmed #}  x\n",
    "{% if true %}\n\n\nthree\n{% endif %}\n\n",
    "{%- macro m(x) -%}\n   {{ x }}   \n{%- endmacro -%}\n[{{ m('q') }}]\n",
    "{% if true %}open",
    "{% endif %}",
    "{% for x in words %}{% endif %}",
    "x {{ 1\n+ 2 }} y {{ {'k':\n 'v'}['k'] }}\n\n{{ nope.x }}",
]


class Random:
    """Random programs that mostly render; where they fail, both sides must fail."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.loops = 0
        self.macros = 0

    def pick(self, *options):
        return self.r.choice(options)

    def text(self, d):
        r = self.r
        if d <= 0:
            return self.pick("name", "'lit'", "bos_token", "messages[1].content", "accents",
                             "words[0]", "'  sp '", "\"q'q\"", "messages[%d]['role']" % r.randrange(4),
                             "'a,b,c'", "missing", "'\\n'")
        s, i = lambda: self.text(d - 1), lambda: self.integer(d - 1)
        return r.choice([
            lambda: f"({s()} ~ {s()})",
            lambda: f"({s()} ~ {i()} ~ {self.boolean(d - 1)})",
            lambda: f"({self.pick('name', 'bos_token', 'accents')} + {self.pick('eos_token', 'words[1]')} + 'x')",
            lambda: f"({s()} | string)[{self.slice()}]",
            lambda: f"({s()} | trim)",
            lambda: f"({s()} | string).{self.pick('strip', 'lstrip', 'rstrip')}({self.pick('', chr(39) + ' ax' + chr(39))})",
            lambda: f"({s()} | string).split({self.pick('', chr(39) + ',' + chr(39), chr(39) + 'a' + chr(39))})[{self.pick('0', '-1')}]",
            lambda: f"({s()} | string).replace('a', {self.pick(chr(39) * 2, chr(39) + 'AA' + chr(39))})",
            lambda: f"({self.seq(d - 1)} | join({self.pick(chr(39) + ',' + chr(39), chr(39) * 2)}))",
            lambda: f"({self.any(d - 1)} | tojson{self.pick('', '(indent=2)', '(ensure_ascii=true)')})",
            lambda: f"({self.any(d - 1)} | string)",
            lambda: f"({s()} | default('dflt', {self.pick('true', 'false')}))",
            lambda: f"({s()} if {self.boolean(d - 1)} else {s()})",
            lambda: f"('ab' * {self.pick('0', '1', '3')})",
            lambda: f"(words | {self.pick('first', 'last')} | {self.pick('upper', 'lower', 'capitalize')})",
            lambda: f"({s()} | string | indent({self.pick('2', '1, true')}))",
        ])()

    def slice(self):
        part = lambda: self.pick("", "1", "-1", "2", "-3", "100")
        return f"{part()}:{part()}" + self.pick("", "", ":2", ":-1")

    def integer(self, d):
        r = self.r
        if d <= 0:
            return self.pick("n", "negative", "0", "1", "13", "numbers[1]", "table.a",
                             *(["loop.index", "loop.index0"] if self.loops else []))
        i = lambda: self.integer(d - 1)
        return r.choice([
            lambda: f"({i()} {self.pick('+', '-', '*')} {i()})",
            lambda: f"({i()} {self.pick('//', '%')} {self.pick('3', '-4', '7')})",
            lambda: f"({self.seq(d - 1)} | length)",
            lambda: f"({self.text(d - 1)} | length)",
            lambda: f"(numbers | {self.pick('sum', 'first', 'last')})",
            lambda: f"({self.pick(chr(39) + '12' + chr(39), 'x', 'n', 'name')} | int)",
            lambda: f"({i()} | abs)",
            lambda: f"(-{i()})",
            lambda: f"({i()} if {self.boolean(d - 1)} else {i()})",
        ])()

    def boolean(self, d):
        r = self.r
        if d <= 0:
            return self.pick("flag", "true", "add_generation_prompt", "not flag", "n > 3",
                             "nothing is none", "missing is defined",
                             *(["loop.first", "loop.last"] if self.loops else []))
        b = lambda: self.boolean(d - 1)
        return r.choice([
            lambda: f"({b()} {self.pick('and', 'or')} {b()})",
            lambda: f"(not {b()})",
            lambda: f"({self.integer(d - 1)} {self.pick('<', '<=', '==', '!=', '>', '>=')} {self.integer(d - 1)})",
            lambda: f"({self.text(d - 1)} {self.pick('==', '!=')} {self.text(d - 1)})",
            lambda: f"({self.pick(chr(39) + 'a' + chr(39), 'name')} {self.pick('in', 'not in')} {self.pick('words', 'name', 'table')})",
            lambda: f"({self.any(d - 1)} is {self.pick('', 'not ')}{self.pick('string', 'mapping', 'iterable', 'number', 'none', 'defined', 'sequence', 'boolean', 'true', 'integer')})",
            lambda: f"({self.pick('name', 'words[0]')}.{self.pick('startswith', 'endswith')}('a'))",
        ])()

    def seq(self, d):
        r = self.r
        if d <= 0:
            return self.pick("words", "numbers", "messages", "[]", "mixed", "tools", "missing")
        return r.choice([
            lambda: f"words[{self.slice()}]",
            lambda: f"([{self.any(d - 1)}, {self.any(d - 1)}])",
            lambda: f"(words + [{self.text(d - 1)}])",
            lambda: f"(words | {self.pick('sort', 'unique | list', 'reverse | list', 'map(chr).list')})".replace("map(chr).list", "map('upper') | list"),
            lambda: f"(numbers | {self.pick('sort', 'sort(reverse=true)')})",
            lambda: f"(messages | {self.pick('selectattr', 'rejectattr')}('role', 'equalto', 'user') | map(attribute='role') | list)",
            lambda: f"(numbers | {self.pick('select', 'reject')}('{self.pick('odd', 'even')}') | list)",
            lambda: f"({self.text(d - 1)} | list)",
            lambda: f"(table | {self.pick('dictsort', 'items | list', 'list')})",
            lambda: f"(range({r.randrange(6)}) | list)",
        ])()

    def any(self, d):
        return self.r.choice([self.text, self.integer, self.boolean, self.seq,
                              lambda _: self.pick("x", "nothing", "table", "messages[0]", "1.0",
                                                  "{'k': n, 'l': [name]}", "(n, x)")])(d)

    def open(self):
        return self.pick("{%", "{%", "{%", "{%-", "{%+")

    def close(self):
        return self.pick("%}", "%}", "%}", "-%}")

    def filler(self):
        return self.pick("", "", " ", "\n", "\n  ", "text ", " - ", "\n\n", "é", "\t")

    def statement(self, d):
        r, o, c = self.r, self.open, self.close
        if d <= 0 or r.random() < 0.35:
            return self.pick("{{ ", "{{- ") + self.any(self.pick(1, 2, 3)) + self.pick(" }}", " -}}")
        body = lambda: self.block(d - 1)

        def loop():
            head = self.pick(f"w in {self.seq(1)}", f"k, v in table.items()",
                             f"i in range({r.randrange(4)})", f"m in messages if m.role != 'system'")
            self.loops += 1
            inner = body()
            if r.random() < 0.3:
                inner += (f"{o()} if {self.boolean(1)} {c()}{o()} {self.pick('break', 'continue')} {c()}"
                          f"{o()} endif {c()}" + body())
            self.loops -= 1
            other = f"{o()} else {c()}{body()}" if r.random() < 0.3 else ""
            return f"{o()} for {head} {c()}{inner}{other}{o()} endfor {c()}"

        def macro():
            self.macros += 1
            name, loops = f"mac{self.macros}", self.loops
            self.loops = 0
            inner = body()
            self.loops = loops
            return (f"{o()} macro {name}(p, q='dq') {c()}{inner}{{{{ p }}}}{{{{ q }}}}{o()} endmacro {c()}"
                    f"{{{{ {name}({self.any(1)}) }}}}{{{{ {name}(q={self.text(1)}, p={self.integer(1)}) }}}}")

        return r.choice([
            lambda: f"{o()} if {self.boolean(2)} {c()}{body()}{o()} endif {c()}",
            lambda: (f"{o()} if {self.boolean(2)} {c()}{body()}{o()} elif {self.boolean(1)} {c()}{body()}"
                     f"{o()} else {c()}{body()}{o()} endif {c()}"),
            loop, loop,
            lambda: f"{o()} set {self.pick('va', 'vc')} = {self.any(2)} {c()}{{{{ va }}}}",
            lambda: (f"{o()} set ns = namespace(v={self.any(1)}) {c()}{o()} set ns.v = {self.any(1)} {c()}"
                     "{{ ns.v }}"),
            lambda: f"{o()} set vb {c()}{body()}{o()} endset {c()}[{{{{ vb }}}}]",
            lambda: f"{o()} filter {self.pick('trim', 'string | trim')} {c()}{body()}{o()} endfilter {c()}",
            macro,
            lambda: self.pick("{#", "{#-") + " note " + self.pick("#}", "-#}"),
        ])()

    def block(self, d):
        return "".join(self.filler() + self.statement(d)
                       for _ in range(self.r.randrange(1, 4))) + self.filler()


def case(source):
    line = {"template": source}
    try:
        line["output"] = ENV.from_string(source).render(**VARIABLES)
    except Raised as raised:
        line["raised"] = str(raised)
    except Exception:  # whatever Jinja2 or Python says
        line["error"] = True
    return line


# What we do otherwise on purpose and so is not here: statements and methods that are left out; text
# methods change the case of ASCII letters only; attributes that begin with two underscores are
# refused at once where Jinja2 may print nothing; a variable of the request that the template also
# sets somewhere reads as the request's until it is set, where Jinja2 may say undefined.
def cases(random_count, seed=1):
    lines = []
    chunks = HAND_WRITTEN.strip("\n").split("\n")
    index = 0
    while index < len(chunks):
        chunk = chunks[index]
        # A line whose statements are not closed goes on in the next one.
        while chunk.count("{%") and index + 1 < len(chunks) and opens(chunk) > 0:
            index += 1
            chunk += "\n" + chunks[index]
        if chunk:
            lines.append(case(chunk))
        index += 1
    lines += [case(block) for block in BLOCKS]
    rendered = 0
    while rendered < random_count:
        line = case(Random(seed).block(3))
        seed += 1
        too_long = len(line["template"]) > 1500 or len(line.get("output", "")) > 1500
        if too_long or ("error" in line and (seed - 1) % 8):
            continue
        lines.append(line)
        rendered += 1
    return lines


def opens(text):
    count = 0
    for word, end in (("if", "endif"), ("for", "endfor"), ("macro", "endmacro"), ("set", "endset")):
        for opener in ("{% ", "{%- ", "{%+ "):
            if word != "set":
                count += text.count(opener + word + " ")
            count -= text.count(opener + end)
    return count


def main():
    output = sys.argv[1] if len(sys.argv) > 1 else "templates.jsonl"
    random_count = int(sys.argv[2]) if len(sys.argv) > 2 else RANDOM_COUNT
    first_seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with open(output, "w", encoding="utf-8") as file:
        file.write(json.dumps({"variables": VARIABLES}, ensure_ascii=False) + "\n")
        for line in cases(random_count, first_seed):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
