"""What the demo's agents write and read. Tidewater, a program that shows tides, does not exist."""

from __future__ import annotations


def sections(text: str) -> list[dict[str, str]]:
    """Lines of `Head: text` as the sections that the writer takes."""
    lines = (line.split(":", 1) for line in text.strip().splitlines())
    return [{"head": head.strip(), "text": words.strip()} for head, words in lines]


NOTES = """\
# Tidewater 2.4

## New
- **Charts work offline.** Pick a coast once; its tides for the year are kept on the device.
- Two harbours can be compared side by side.
- The widget shows the next high water.

## Fixed
- Times were an hour off on the night when the clocks change.
- Printing cut the last column of long tables.
- The program started slowly with more than 200 saved places.
"""

UPGRADE_GUIDE = """\
# From 2.3 to 2.4

1. Update as usual. Saved places are kept.
2. At the first start the program offers to keep charts on the device. This takes about 40 MB for a coast.
3. If you wrote scripts against the export, note that heights are now in metres with two decimals.

**What may surprise you:** places are sorted by distance, no longer by name. The old order is in the menu *View*.
"""

ANNOUNCEMENT = """\
What is new: Charts are kept on your device, so the tide is there where the network is not.
Who it is for: Everyone who has stood on a beach without reception.
How to get it: Update as usual, or download it from our page. It costs nothing.
"""

CHAPTERS: list[tuple[str, dict[str, str]]] = [
    ("First steps", {}),
    ("Finding a harbour", {"2.3": "the search field has moved"}),
    ("Reading a chart", {}),
    ("Charts offline", {"4.1": "says 60 MB, the program says 40 MB"}),
    ("Comparing harbours", {"5.2": "needs a new screenshot"}),
    ("Export and print", {"6.4": "heights are in metres now"}),
    ("The widget", {"7.1": "the picture shows the old widget"}),
    ("Alarms", {}),
    ("Sun and moon", {"9.3": "a link leads nowhere"}),
    ("Currents", {}),
    ("On a boat", {"11.2": "the night colours are in another menu"}),
    ("When something goes wrong", {}),
]

LANGUAGES: dict[str, tuple[str, str]] = {
    "da": ("Danish", "Nyt: Kortene virker uden net.\nRettet: Tiderne passer også den nat, hvor uret stilles."),
    "de": ("German", "Neu: Karten funktionieren ohne Netz.\nBehoben: Zeiten stimmen auch bei der Zeitumstellung."),
    "fr": ("French", "Nouveau : les cartes marchent hors ligne.\nCorrigé : les heures au changement d'heure."),
    "nl": ("Dutch", "Nieuw: Kaarten werken zonder netwerk.\nOpgelost: De tijden in de nacht dat de klok wordt verzet."),
    "sv": ("Swedish", "Nytt: Korten fungerar utan nät.\nRättat: Tiderna stämmer även natten då klockan ställs om."),
    "nb": ("Norwegian", "Nytt: Kartene virker uten nett.\nRettet: Tidene stemmer også natten da klokka stilles."),
    "es": ("Spanish", "Novedades: Las cartas funcionan sin red.\nCorregido: Las horas en el cambio de hora."),
    "it": ("Italian", "Novità: Le carte funzionano senza rete.\nCorretto: Gli orari al cambio dell'ora."),
    "pt": ("Portuguese", "Novidades: As cartas funcionam sem rede.\nCorrigido: As horas na mudança da hora."),
}
