"""Rules for messages about the agent itself."""

from __future__ import annotations

from prime_ext.models.offline import intents as i
from prime_ext.models.offline.grammar import Found, rule


def _tour(found: Found) -> i.Intent:
    number = found["n"]
    return i.Tour(int(number) if number else None, resume=found["go"] is not None)


RULES = [
    rule(
        lambda _: i.Help(),
        "(help|/help|/?|commands|get started)",
        "(i need|need|some) help",
        "what [else] can you (do|help with|help me with)",
        "what do you do",
        "how (do|can) i use (you|this)",
        "(show|list) [the|your] commands",
        "what (can|should) i (ask|do|say|type|try) [you|here|next|now|first]",
    ),
    rule(
        _tour,
        "/tour [step] [{n:number}]",
        "/tour {go:continue|resume|next}",
        "(start|begin|take|play|give|show|do|run) [me] (the|a) [guided] tour",
        "{go:continue|resume|go on} [with] the tour",
    ),
    rule(
        lambda found: i.Compact(found["how"]),
        "(compact|/compact) [[the] (conversation|context|chat|session|history|now)]",
        "(compact|/compact) [[the] (conversation|context|chat|session)], [and] "
        "(keep|focus on|mind|remember) {how}",
        "(summarize|summarise|shorten|reduce) (the|this|our) (conversation|context|chat|session)",
    ),
    rule(
        lambda _: i.Greeting(),
        "(hi|hello|hey|yo|greetings|good morning|good afternoon|good evening) [there]",
    ),
    rule(
        lambda _: i.Thanks(),
        "(thanks?|thank you|thx|cheers) [you] [a lot|so much|very much]",
        "(great|nice|cool|perfect|ok|okay|good|awesome), [thanks?|thank you|great|work|job]",
    ),
    rule(
        lambda _: i.About(),
        "(are|r) you [a|an] (ai|llm|language model|real|human|bot|claude|gpt|chatgpt) *",
        "(who|what) are you *",
        "(what's|what is) your name",
        "(what's|what is) (this|the) [offline] (agent|assistant) *",
        "what model (are you|is this) *",
        "why (are you|can't you) *",
    ),
    rule(
        lambda _: i.ConnectModel(),
        "* (connect|set|setup|set up|configure|use|add|switch to|enable|enter) * (model|llm|claude|"
        "anthropic|api key|api-key|apikey|sonnet|opus|haiku|ollama|bedrock|vertex|local server) *",
    ),
]
