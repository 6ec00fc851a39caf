"""Writes cases.json: what Python's Jinja2, set up as `transformers` sets it up, makes of chat templates.

    pip install jinja2==3.1.6
    python3 make_cases.py            # own templates and constructs -> cases.json
    python3 make_cases.py FILE...    # also: expected texts for the templates in these JSON files ({"name": "source"})

The templates here are written for these tests, in the styles of well-known model families.
"""

import datetime
import json
import pathlib
import sys

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 1, 15, 12, 34, 56)


class Refused(Exception):
    pass


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise Refused(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


def turns(*contents, system=None):
    out = [{"role": "system", "content": system}] if system is not None else []
    for n, content in enumerate(contents):
        out.append({"role": "assistant" if n % 2 else "user", "content": content})
    return out


CHATML = """{%- set ns = namespace(system='You answer briefly.') -%}
{%- if messages and messages[0]['role'] == 'system' -%}
    {%- set ns.system = messages[0]['content'] -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{{- '<|im_start|>system\n' + ns.system + '<|im_end|>\n' }}
{%- if tools %}{{ '# Tools\n' ~ tools | tojson }}{% endif %}
{%- for message in rest %}
    {%- if message.role in ['user', 'assistant'] %}
        {{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}
    {%- else %}
        {{- raise_exception('no such role: ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- raise_exception("no tools here") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate user/assistant/user/assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- endif %}
{%- endfor %}
{#- {{ user_messages | length }} #}"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Turns must alternate") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

QWEN3 = """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last or (loop.last and reasoning) %}
            {{- '<|im_start|>assistant\n<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""

CHATS = {
    "one": turns("Hello!"),
    "system": turns("  Hello!  ", system="Be kind. "),
    "long": turns("a", "<think>\nhm\n</think>\n\nb", "c\n", "d", "naïve 世界 🙂 {{ x }} {% y %}", system="S"),
    "answered": turns("a", "<think>why</think>because"),
    "not alternating": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    "odd role": [{"role": "wizard", "content": "a"}],
}

# Small templates, one construct each. Conversation "long" unless it says otherwise.
CONSTRUCTS = {
    "trim and lstrip blocks": "  {% if true %}\n  x\n    {% endif %}\ny\n{# note #}\nz\n\n",
    "trailing newline kept by a dash only": "a\n{{- 'b' }}\n",
    "raw": "{% raw %}{{ not }}{% endraw %}",
    "slices": "{{ messages[1:] | length }}{{ messages[-1].role }}{{ messages[:-1][::-1][0].content }}{{ 'abcdef'[1:5:2] }}{{ 'abc'[::-1] }}{{ messages[1:3] | map(attribute='role') | join(',') }}",
    "methods": "{{ ' a b '.strip() }}|{{ 'a,b,c'.split(',') | join('-') }}|{{ 'a  b'.split() | length }}|{{ 'abc'.upper().lower().title() }}|{{ 'abc'.startswith('a') }}|{{ 'abc'.endswith(('x', 'c')) if false else 'k' }}|{{ 'x-y'.replace('-', '+') }}|{{ 'abc'.find('c') }}|{{ 'xxabxx'.strip('x') }}|{{ 'a\nb'.splitlines() | length }}|{{ 'a.b.c'.split('.', 1)[1] }}|{{ '-'.join(['a', 'b']) }}",
    "items": "{% for k, v in {'a': 1, 'b': 'x'}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in messages[0] %}{{ k }},{% endfor %}{{ messages[0].get('nope', 'd') }}{{ messages[0].keys() | list | join }}",
    "loop variables": "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem.role if loop.previtem is defined }}{{ loop.nextitem.role if not loop.last }};{% endfor %}",
    "break and continue": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% if loop.index > 3 %}{% break %}{% endif %}{% endfor %}",
    "for with a condition and else": "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% endfor %}{% for m in [] %}x{% else %}none{% endfor %}",
    "namespace": "{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s ~ m.role[0] %}{% endfor %}{{ ns.n }}{{ ns.s }}",
    "scope of set in a loop": "{% set x = 1 %}{% for m in messages %}{% set x = 2 %}{% endfor %}{{ x }}",
    "set block": "{% set text %}[{{ messages | length }}]{% endset %}{{ text }}{{ text | length }}",
    "tests": "{{ x is defined }}{{ messages is defined }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is iterable }}{{ 'a' is iterable }}{{ 1 is number }}{{ none is none }}{{ tools is none }}{{ tools is defined }}{{ true is boolean }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ [] is sequence }}{{ false is false }}{{ 1 is integer }}{{ 1.5 is float }}{{ 'a' is in ['a'] }}{{ x is undefined }}",
    "undefined prints nothing and is false": "[{{ x }}{{ messages[0].nope }}{% if x %}y{% endif %}{{ x | default('d') }}{{ '' | default('e', true) }}]",
    "printed values": "{{ none }} {{ true }} {{ [1, 'a', none, true] }} {{ {'k': 'v', 'n': 1.5} }} {{ 1.0 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ (1, 2) }} {{ 'it\\'s' }} {{ [\"it's\"] }}",
    "concatenation": "{{ 'a' + 'b' ~ 1 ~ none ~ true ~ x }}{{ [1] + [2] }}{{ 'ab' * 2 }}",
    "comparison and logic": "{{ 1 < 2 <= 2 }}{{ 'a' < 'b' }}{{ not x }}{{ x or 'y' }}{{ 0 or '' }}{{ 1 and 'z' }}{{ 'a' in 'cat' }}{{ 'q' not in ['a'] }}{{ 'role' in messages[0] }}{{ 1 == 1.0 }}{{ '1' == 1 }}",
    "inline if": "{{ 'a' if messages else 'b' }}{{ 'a' if x }}|{{ ('u' if false else 'v') + 'w' }}",
    "filters": "{{ ' a ' | trim }}{{ 'abc' | length }}{{ 'abc' | upper }}{{ [3, 1, 2] | sort | join('<') }}{{ [1, 2] | first }}{{ [1, 2] | last }}{{ '7' | int + 1 }}{{ 1.7 | int }}{{ 'x' | string }}{{ ['a', 'b', 'a'] | unique | join }}{{ messages | map(attribute='role') | list | length }}{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}{{ 'a' | capitalize }}{{ 'abc' | reverse }}{{ [1, 2, 3] | sum }}{{ 'a b' | replace(' ', '_') }}{{ [[1, 2], [3]] | map('length') | join(',') }}{{ 'x\ny' | indent(2) }}{{ {'b': 1, 'a': 2} | dictsort | first | first }}{{ [1, 2, 3] | max }}{{ '%s-%d' | format('a', 3) }}{{ messages | groupby('role') | length }}{{ 'a<b' | safe }}{{ '<' | e }}{{ {'a': 1} | items | list | length }}",
    "tojson": "{{ {'a': [1, 2.5, true, none, 'x\"\\\\\\n/<é🙂'], 'b': {}} | tojson }}{{ [] | tojson }}{{ 'a\tb' | tojson }}",
    "tojson with indent": "{{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=4) }}{{ [1, 2] | tojson(indent=2) }}",
    "tojson with options": "{{ {'b': 'é🙂', 'a': 1} | tojson(ensure_ascii=true, sort_keys=true) }}{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}",
    "tojson of messages": "{{ messages | tojson }}",
    "macro": "{%- macro turn(role, text='none', sep=': ') -%}{{ role ~ sep ~ text }};{%- endmacro -%}{{ turn('a') }}{{ turn('b', text='c', sep='=') }}{{ turn(messages[0].role, messages[0].content) }}",
    "macro with a caller": "{% macro box() %}<{{ caller() }}>{% endmacro %}{% call box() %}in{% endcall %}",
    "recursive macro": "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    "filter block": "{% filter upper %}abc{% endfilter %}",
    "with block": "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
    "unpacking and range": "{% for i in range(3) %}{{ i }}{% endfor %}{% for a, b in [(1, 2), (3, 4)] %}{{ a * b }}{% endfor %}{% set a, b = 1, 2 %}{{ b }}{{ range(1, 10, 3) | list }}",
    "dict and list literals": "{% set d = dict(a=1, b='c') %}{{ d.a }}{{ d['b'] }}{% set l = ['x',] %}{{ l[0] }}{{ {'role': 'user'}['role'] }}",
    "numbers": "{{ 1_000 }}{{ 10 | string | length }}{{ 3.14 | round(1) }}{{ 1e3 }}{{ -5 | abs }}",
    "strings": "{{ \"a\\tb\\u00e9\" }}{{ 'multi\nline' }}{{ '\\\\n' }}",
    "date": "{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %B %Y, %A, %b %a %j %y %I %p') }}",
    "whitespace control with plus": "a\n  {%+ if true %}b{% endif +%}\nc",
    "comments": "a{# one\n two #}b{#- three -#} c",
    "refusal": "{{ raise_exception('Only ' ~ 'users!') }}",
    "refusal inside an untaken branch": "{% if false %}{{ raise_exception('no') }}{% endif %}ok",
    "unknown filter": "{{ 'a' | nonsense }}",
    "unknown method": "{{ 'a'.nonsense() }}",
    "attribute of undefined": "{{ x.y }}",
    "sum of text and number": "{{ 'a' + 1 }}",
    "division by zero": "{{ 1 // 0 }}",
    "syntax": "{% if %}",
    "unclosed": "{% for m in messages %}",
    "no include": "{% include '/etc/hostname' %}",
    "no private attributes": "{{ ''.__class__.__mro__ }}",
}

FAMILIES = {
    "chatml style": CHATML,
    "llama 3 style": LLAMA3,
    "mistral style": MISTRAL,
    "llama 2 style": LLAMA2,
    "gemma style": GEMMA,
    "qwen3 style": QWEN3,
}


def case(name, source, messages, prompt):
    out = {"name": name, "template": source, "messages": messages, "add_generation_prompt": prompt}
    try:
        out["expected"] = environment().from_string(source).render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=prompt,
            bos_token="<s>",
            eos_token="</s>",
        )
    except Refused as e:
        out["refused"] = str(e)
    except (TemplateError, TypeError, ZeroDivisionError, AttributeError):
        out["fails"] = True
    return out


def main():
    cases = []
    for family, source in FAMILIES.items():
        for chat, messages in CHATS.items():
            cases.append(case(f"{family}, {chat}", source, messages, chat != "answered"))
    for name, source in CONSTRUCTS.items():
        cases.append(case(name, source, CHATS["long"], True))
    for path in sys.argv[1:]:
        for name, source in json.loads(pathlib.Path(path).read_text()).items():
            for chat, messages in CHATS.items():
                cases.append(case(f"{name}, {chat}", source, messages, chat != "answered"))
    text = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    pathlib.Path(__file__).with_name("cases.json").write_text(f"[\n{text}\n]\n")
    print(len(cases), "cases;", sum("expected" in c for c in cases), "with a text")


main()
