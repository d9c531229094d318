"""Stem English words by Porter's algorithm (1980), as its author revised it later.

In the revision, words of one or two letters are stems, -bli becomes -ble (in the paper -abli
becomes -able), and -logi becomes -log. The VERSION of the stems is that of `index_terms`.
"""

from collections.abc import Mapping


def _read_rules(text: str) -> dict[str, str]:
    """Read rules `suffix>replacement`, separated by spaces."""
    return dict(rule.split(">") for rule in text.split())


# The first suffix that a word ends with decides, so -ational stands before -tional.
STEP_1A = _read_rules("sses>ss ies>i ss>ss s>")
STEP_2 = _read_rules(
    "ational>ate tional>tion enci>ence anci>ance izer>ize bli>ble alli>al entli>ent eli>e "
    "ousli>ous ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous "
    "aliti>al iviti>ive biliti>ble logi>log"
)
STEP_3 = _read_rules("icate>ic ative> alize>al iciti>ic ical>ic ful> ness>")
STEP_4 = _read_rules(
    "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> "
    "ize>"
)


def stem(word: str) -> str:
    """Return the stem of a lower-cased word; characters other than a-z count as consonants."""
    if len(word) <= 2:
        return word
    word = _apply_rules(word, STEP_1A, 0)
    word = _apply_step_1b(word)
    if word.endswith("y") and "v" in _classify(word[:-1]):
        word = word[:-1] + "i"
    word = _apply_rules(word, STEP_2, 1)
    word = _apply_rules(word, STEP_3, 1)
    if not word.endswith("ion") or word.endswith(("sion", "tion")):
        word = _apply_rules(word, STEP_4, 2)
    return _apply_step_5(word)


def _apply_rules(word: str, rules: Mapping[str, str], min_measure: int) -> str:
    """Replace a suffix, if what precedes it has at least this measure."""
    for suffix, replacement in rules.items():
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + replacement if _measure(base) >= min_measure else word
    return word


def _apply_step_1b(word: str) -> str:
    """Remove -ed or -ing after a vowel, and adapt the end of what remains; shorten -eed."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    base = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    kinds = _classify(base)
    if base == word or "v" not in kinds:
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base[-1:] == base[-2:-1] and kinds.endswith("c"):
        return base if base[-1] in "lsz" else base[:-1]
    if kinds.count("vc") == 1 and _ends_in_short_syllable(base):
        return base + "e"
    return base


def _apply_step_5(word: str) -> str:
    """Remove a final -e, and one letter of a final -ll, after a long base."""
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_in_short_syllable(base)):
            word = base
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _classify(word: str) -> str:
    """Return "c" for each consonant and "v" for each vowel; y is a vowel after a consonant."""
    kinds = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and kinds.endswith("c"))
        kinds += "v" if is_vowel else "c"
    return kinds


def _measure(word: str) -> int:
    """Return the number of consonant groups that follow a vowel (Porter's m)."""
    return _classify(word).count("vc")


def _ends_in_short_syllable(word: str) -> bool:
    """Return whether a word ends in Porter's *o: consonant, vowel, consonant but w, x, y."""
    return _classify(word).endswith("cvc") and word[-1] not in "wxy"
