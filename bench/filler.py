"""Text of a wanted size: it reads like output or code, and no two pieces are alike."""

from __future__ import annotations

import random

_WORDS = """
the of and to in for is on that by this with you it not or be are from at as your all have new
more an was we will home can us about if page my has search free but our one other do no time they
site he up may what which their news out use any there see only so his when contact here business
who web also now help get view first am been would how were me some these click its like service
than find price date back top people had list name just over state year day into email two world
next used go work last most make them should product system post her city add policy number such
please available copyright support message after best software then good video well where info
rights public books high school through each links she review years order very privacy book items
company read group need many user said de does set under general research university mail full map
reviews program life know games way days management part could great united real item
international center must store travel comments made development report off member details line
terms before hotels did send right type because local those using results office education
national car design take posted internet address community within states area want phone shipping
reserved subject between forum family long based code show even black check special prices website
index being women much sign file link open today technology south case project same pages version
section own found sports house related security both county american photo game members power
while care network down computer systems three total place end following download him without per
access think north resources current posts big media law control water history pictures size art
personal since including guide shop directory board location change white text small rating rate
government
"""
WORDS = tuple(_WORDS.split())
"""Each is one token of the public tokenizer with a space before it."""

WORDS_IN_A_LINE = 14


def text_of(tokens: int, seed: str) -> str:
    """About ``tokens`` tokens of lines of words, of the public tokenizer; always the same for one
    ``seed``."""
    chosen = random.Random(seed).choices(WORDS, k=max(1, tokens))
    # The end of a line is a token, too: it stands for the word that is left out there.
    lines = [
        " ".join(chosen[start : start + WORDS_IN_A_LINE])
        for start in range(0, len(chosen), WORDS_IN_A_LINE + 1)
    ]
    return "\n".join(lines)
