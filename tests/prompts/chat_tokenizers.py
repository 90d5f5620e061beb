"""A small tokenizer with chat templates of the kinds that models have, each a few lines."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.prompts.small_tokenizers import single_digits

LOOP = "{% for message in messages %}"
TURN = "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
ASK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
SYSTEM = "<|im_start|>system\nYou are kind.<|im_end|>\n"
INST = (
    "{% if message.role == 'user' %}[INST] {{ message.content }} [/INST]"
    "{% else %} {{ message.content }}</s>{% endif %}{% endfor %}"
)

TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        "marks": LOOP + TURN + ASK,
        "system": SYSTEM + LOOP + TURN + ASK,
        "dated": "<s>Today is {{ strftime_now('%d %B %Y') }}.\n" + LOOP + TURN + ASK,
        "begun": "<s>" + LOOP + TURN + ASK,
        "instructions": "<s>" + LOOP + INST,
        "begun each turn": LOOP + INST.replace("[INST]", "<s>[INST]"),
        "words": (
            LOOP + "{{ 'User: ' if message.role == 'user' else 'Bot: ' }}{{ message.content }}\n"
            "{% endfor %}{% if add_generation_prompt %}Bot: {% endif %}"
        ),
        "thoughts": (
            LOOP + "<|im_start|>{{ message.role }}\n{% if loop.last and message.role != 'user' %}"
            "<think>{% endif %}{{ message.content }}<|im_end|>\n{% endfor %}" + ASK
        ),
        "ended": (
            LOOP + "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% else %}<|im_end|>{% endif %}"
        ),
        "trimming": LOOP + TURN.replace("content", "content | trim") + ASK,
    }
)
"""Templates under which queries, demonstrations and lessons are the same turns."""

ALTERED: Mapping[str, str] = MappingProxyType(
    {
        "numbered": LOOP + "[{{ loop.index }}] " + TURN + ASK,
        "counted": "{{ messages | length }} turns\n" + LOOP + TURN + ASK,
        "thinking": LOOP + TURN + "<|im_start|>assistant\n<think>\n",
        "lower case": LOOP + TURN.replace("content", "content | lower | replace('l:', 'l;')") + ASK,
        "no assistant": LOOP + "{{ raise_exception('only users') if loop.index > 1 }}" + TURN + ASK,
    }
)
"""Templates that print a turn otherwise by its place or its text."""


def chat_tokenizer(template: str | None, *, begin: str = "<s>") -> Any:
    """One token a byte, and the marks of the templates as tokens of their own."""
    tokenizer = single_digits()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.bos_token = begin
    tokenizer.chat_template = template
    return tokenizer
