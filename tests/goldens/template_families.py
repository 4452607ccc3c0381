"""Templates in the styles of published models, in words of our own, and chats for them."""
from __future__ import annotations

from typing import Any

FAMILIES: dict[str, str] = {}

# Thinking models with tools: namespaces, a backward loop, reasoning cut from the content.
FAMILIES["thinking_tools"] = r"""
{%- if tools %}
    {{- '<|turn|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "## Functions\n\nCall any of these, listed in <functions></functions>:\n<functions>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</functions>\n\nAnswer a call as {\"name\": <name>, \"arguments\": <object>} in <call></call>.<|end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|turn|>system\n' + messages[0].content + '<|end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(searching=true, last_question=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_question = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|turn|>' + message.role + '\n' + content + '<|end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_question %}
            {%- if loop.last or (not loop.last and reasoning) %}
                {{- '<|turn|>' + message.role + '\n<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|turn|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|turn|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|turn|>user' }}
        {%- endif %}
        {{- '\n<result>\n' }}
        {{- content }}
        {{- '\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|turn|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""

# A bare loop with a default system message, tags on one line and newlines within strings.
FAMILIES["plain_loop"] = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|turn|>system
You help.<|end|>
' }}{% endif %}{{'<|turn|>' + message['role'] + '
' + message['content'] + '<|end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|turn|>assistant
' }}{% endif %}"""

# Headers, a date, tools as JSON in the first user message, content trimmed.
FAMILIES["headers_and_date"] = r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes out of the list. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- Its header. #}
{{- "<|head|>system<|/head|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: python\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n"}}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You have these functions. Answer with JSON.\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}

{%- if tools_in_user_message and not tools is none %}
    {#- The first user message takes the tools. #}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message to put the tools into!") }}
{%- endif %}
    {{- '<|head|>user<|/head|>\n\n' -}}
    {{- "Given these functions, answer with a JSON call.\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot|>"}}
{%- endif %}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\n\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- '<|head|>assistant<|/head|>\n\n' -}}
            {{- "<|py|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
                {%- endfor %}
            {{- ")" }}
        {%- else  %}
            {{- '<|head|>assistant<|/head|>\n\n' -}}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {%- if builtin_tools is defined %}
            {{- "<|eom|>" }}
        {%- else %}
            {{- "<|eot|>" }}
        {%- endif %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|head|>ipython<|/head|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\n\n' }}
{%- endif %}
"""

# Brackets around instructions, strict alternation, tools before the last user message, ids of calls.
FAMILIES["instructions"] = r"""{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- elif tools is not none %}
    {%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS][" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Call ids have 9 characters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[RESULT]{"content": ' + content|string + "[/RESULT]" }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are known, but for a first system message!") }}
    {%- endif %}
{%- endfor %}
"""

# Everything on one line, flags in a namespace, reasoning dropped.
FAMILIES["distilled"] = r"""{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<U>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<A><calls><call>' + tool['type'] + '<sep>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments'] + '\n' + '```' + '</call>'}}{%- set ns.is_first = true -%}{%- else %}{{'\n' + '<call>' + tool['type'] + '<sep>' + tool['function']['name'] + '\n' + '```json' + '\n' + tool['function']['arguments'] + '\n' + '```' + '</call>'}}{{'</calls>' + eos_token}}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{'</outputs>' + message['content'] + eos_token}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<A>' + content + eos_token}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<outputs><output>' + message['content'] + '</output>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\n<output>' + message['content'] + '</output>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'</outputs>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<A><think>\n'}}{% endif %}"""

# Contents that are lists, a system message folded into the first turn, roles renamed.
FAMILIES["turns_of_parts"] = r"""{{ bos_token }}
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
        {{ raise_exception("Roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '</turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model
'}}
{%- endif -%}
"""

# Short role tags built from the role, generation marked for training.
FAMILIES["role_tags"] = r"""{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% elif message['role'] == 'assistant' %}{{ '<|assistant|>' }}{% generation %}{{ (message['content'] or '') + '<|end|>' }}{% endgeneration %}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""

# Macros that write a schema's types, recursion over JSON, dictsort, documents.
FAMILIES["typed_tools"] = r"""{%- macro type_of(schema, indent=0) -%}
    {%- if schema.enum -%}
        {%- for option in schema.enum -%}
            {{- '"' ~ option ~ '"' -}}
            {%- if not loop.last %} | {% endif -%}
        {%- endfor -%}
    {%- elif schema.type == 'object' -%}
        {{- '{\n' -}}
        {%- for name, inner in schema.properties | dictsort -%}
            {{- '  ' * (indent + 1) ~ name ~ ('' if name in (schema.required or []) else '?') ~ ': ' ~ type_of(inner, indent + 1) ~ ',' -}}
            {%- if inner.description %}{{ ' // ' ~ inner.description }}{% endif -%}
            {{- '\n' -}}
        {%- endfor -%}
        {{- '  ' * indent ~ '}' -}}
    {%- elif schema.type == 'array' -%}
        {{- type_of(schema['items'], indent) ~ '[]' -}}
    {%- elif schema.type is iterable and schema.type is not string -%}
        {{- schema.type | join(' | ') -}}
    {%- else -%}
        {{- schema.type | default('any', true) -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro section(title) -%}
# {{ title | title }}
{{ caller() | indent(2, first=true) }}
{% endmacro -%}
{{- bos_token -}}
{%- if tools is not none and tools is iterable and tools|length > 0 -%}
{%- call section('available tools') -%}
{%- for tool in tools | map(attribute='function') -%}
type {{ tool.name }} = (_: {{ type_of(tool.parameters) }}) => any;
{% endfor -%}
{%- endcall -%}
{%- endif -%}
{%- if documents -%}
{%- call section('documents') -%}
{%- for document in documents -%}
[{{ loop.index }}/{{ loop.length }}] {{ document.title | default('untitled') }}: {{ document.text | truncate(40) }}
{% endfor -%}
{%- endcall -%}
{%- endif -%}
{%- for message in messages -%}
{{- '<' ~ message.role ~ '>' -}}
{%- filter trim -%}
{%- if message.content is string -%}{{ message.content }}
{%- elif message.content -%}{{ message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\n') }}
{%- endif -%}
{%- endfilter -%}
{%- for call in message.tool_calls or [] -%}
{{- '\n' ~ call.function.name ~ '(' -}}
{%- if call.function.arguments is mapping -%}
{%- for key, value in call.function.arguments.items() -%}{{ key }}={{ value | tojson(separators=(',', ':'), sort_keys=true) }}{{ ', ' if not loop.last }}{%- endfor -%}
{%- else -%}{{ call.function.arguments }}{%- endif -%}
{{- ')' -}}
{%- endfor -%}
{{- '</' ~ message.role ~ '>\n' -}}
{%- endfor -%}
{{- '<assistant>' if add_generation_prompt -}}
"""

VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {
        "name": "weather", "description": "The weather at a place; \"now\" if no day is given.",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "A town <name> & land"},
            "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 1e2},
            "unit": {"enum": ["°C", "°F"]},
            "options": {"type": "object", "properties": {"verbose": {"type": "boolean", "default": False},
                                                         "tags": {"type": "array", "items": {"type": "string"}}}},
        }, "required": ["place"]}}},
    {"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}},
]


def call(name: str, arguments: Any, identity: str = "abcdefghi") -> dict[str, Any]:
    return {"type": "function", "id": identity, "function": {"name": name, "arguments": arguments}}


WEATHER = call("weather", {"place": "Köln", "days": None, "options": {"verbose": True, "tags": ["a", "b\"c"]}})
DIALOGUE = [
    {"role": "user", "content": "Hello!"},
    {"role": "assistant", "content": "Hi. What can I do?"},
    {"role": "user", "content": "Sum 2 and 2."},
]

CHATS: dict[str, dict[str, Any]] = {
    "one": {"messages": [{"role": "user", "content": "Hi"}]},
    "prompted": {"messages": [{"role": "user", "content": "Hi"}], "options": {"add_generation_prompt": True}},
    "system": {"messages": [{"role": "system", "content": " Be brief.\n"}, *DIALOGUE],
               "options": {"add_generation_prompt": True}},
    "not_thinking": {"messages": DIALOGUE, "options": {"add_generation_prompt": True, "enable_thinking": False}},
    "unicode": {"messages": [{"role": "user", "content": "\u3000Grüße, 世界 🙂\n\t\u00a0"},
                             {"role": "assistant", "content": "Ünï\u2028cödé \x85"}]},
    "empty": {"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]},
    "reasoning": {"messages": [*DIALOGUE, {"role": "assistant", "content": "4", "reasoning_content": "\n2 + 2 = 4\n"}]},
    "thinking_name": {"messages": [*DIALOGUE, {"role": "assistant", "thinking": "two and two", "content": "4"}]},
    "think_tags": {"messages": [{"role": "user", "content": "Go"},
                                {"role": "assistant", "content": "<think>\nhm\n</think>\n\nDone"},
                                {"role": "user", "content": "More"},
                                {"role": "assistant", "content": "<think>\n\n</think>\n\n\nYes"}]},
    "tools": {"messages": [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "Weather in Köln?"}],
              "options": {"tools": TOOLS, "add_generation_prompt": True}},
    "no_tools_listed": {"messages": [{"role": "user", "content": "Hi"}], "options": {"tools": []}},
    "tool_round": {"messages": [
        {"role": "user", "content": "Weather in Köln?"},
        {"role": "assistant", "content": None, "tool_calls": [WEATHER]},
        {"role": "tool", "name": "weather", "content": "{\"t\": 21, \"sky\": \"clear\"}"},
        {"role": "assistant", "content": "21 °C and clear."},
        {"role": "user", "content": "Thanks"}], "options": {"tools": TOOLS[:1], "add_generation_prompt": True}},
    "two_calls": {"messages": [
        {"role": "user", "content": "Both"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [
            WEATHER, call("add", {"a": 1, "b": -2.5e-07}, "ijklmnopq")]},
        {"role": "tool", "content": "21"}, {"role": "tool", "content": "0.9"}], "options": {"tools": TOOLS}},
    "text_arguments": {"messages": [
        {"role": "user", "content": "Both"},
        {"role": "assistant", "content": None, "tool_calls": [call("add", "{\"a\": 1}"), call("add", "{}")]},
        {"role": "tool", "content": "1"}], "options": {"add_generation_prompt": True}},
    "parts": {"messages": [
        {"role": "user", "content": [{"type": "text", "text": " Look: "}, {"type": "image"}, {"type": "text", "text": "?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}], "options": {"add_generation_prompt": True}},
    "documents": {"messages": [{"role": "user", "content": "Read"}], "options": {"documents": [
        {"title": "One", "text": "word " * 20}, {"text": "short"}]}},
    "not_alternating": {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
    "unknown_role": {"messages": [{"role": "user", "content": "a"}, {"role": "judge", "content": "b"}]},
    "no_content": {"messages": [{"role": "user"}]},
    "null_content": {"messages": [{"role": "user", "content": None}]},
    "number_content": {"messages": [{"role": "user", "content": 5}]},
    "dated": {"messages": DIALOGUE, "options": {"date_string": "1 Jan 2030", "builtin_tools": ["search", "code_interpreter"]}},
    "own_tools": {"messages": DIALOGUE, "options": {"custom_tools": TOOLS[1:], "tools_in_user_message": False}},
    "continued": {"messages": [*DIALOGUE, {"role": "assistant", "content": "It is "}],
                  "options": {"continue_final_message": True}},
    "continued_parts": {"messages": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [
        {"type": "text", "text": "It is"}, {"type": "image"}]}], "options": {"continue_final_message": True}},
    "continued_reasoning": {"messages": [*DIALOGUE, {"role": "assistant", "content": "", "reasoning": "so far"}],
                            "options": {"continue_final_message": "reasoning_content"}},
    "continued_and_prompted": {"messages": DIALOGUE, "options": {"continue_final_message": True,
                                                                 "add_generation_prompt": True}},
    "system_last": {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]},
    "own_bos": {"messages": DIALOGUE, "options": {"bos_token": "<mine>"}},
    "none": {"messages": []},
    "text_message": {"messages": ["Hi"]},
}
