"""Telling members what waits on them: by mail, by webhook, in their browser (spec: 04 section 4).

It writes deliveries, their debts and members' preferences, and nothing else; what waits is read through
`boards.queries`, and answering is `boards.people`'s alone.
"""

from boards.telling.collecting import collect, forget_deliveries
from boards.telling.links import delivery_of
from boards.telling.news import News, news, words_of
from boards.telling.preferences import Given, preference_of, save, send_test
from boards.telling.sending import carriers, deliver

__all__ = [
    "Given",
    "News",
    "carriers",
    "collect",
    "deliver",
    "delivery_of",
    "forget_deliveries",
    "news",
    "preference_of",
    "save",
    "send_test",
    "words_of",
]
