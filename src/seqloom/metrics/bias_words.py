"""Word lists for measuring and removing bias, and the reading of own ones.

The lists of the tests are those of Caliskan, Bryson and Narayanan 2017 (`Semantics derived automatically from language
corpora contain human-like biases`, supplement), the defining pairs those of Bolukbasi et al. 2016 (`Man is to computer
programmer as woman is to homemaker?`, appendix), names included. A file of own lists is a JSON object:

    {"career": ["office", "salary"], "family": ["home", "wedding"], ...}      lists, as WEFE has them
    {"pairs": [["he", "she"], ["man", "woman"]]}                              pairs
    {"tests": {"work": ["career", "family", "he", "she"]}}                    a test: the names of X, Y, A and B
    {"X": [...], "Y": [...], "A": [...], "B": [...]}                          one test alone, or several such objects by name
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqloom.errors import ConfigError, DataError, suggest_known

Pairs = list[tuple[str, str]]
FOUR = ("X", "Y", "A", "B")  # two lists of targets, two of attributes

_LISTS = {
    "flowers": "aster clover hyacinth marigold poppy azalea crocus iris orchid rose bluebell daffodil lilac pansy tulip "
               "buttercup daisy lily peony violet carnation gladiola magnolia petunia zinnia",
    "insects": "ant caterpillar flea locust spider bedbug centipede fly maggot tarantula bee cockroach gnat mosquito termite "
               "beetle cricket hornet moth wasp blackfly dragonfly horsefly roach weevil",
    "instruments": "bagpipe cello guitar lute trombone banjo clarinet harmonica mandolin trumpet bassoon drum harp oboe tuba "
                   "bell fiddle harpsichord piano viola bongo flute horn saxophone violin",
    "weapons": "arrow club gun missile spear axe dagger harpoon pistol sword blade dynamite hatchet rifle tank bomb firearm "
               "knife shotgun teargas cannon grenade mace slingshot whip",
    "pleasant": "caress freedom health love peace cheer friend heaven loyal pleasure diamond gentle honest lucky rainbow "
                "diploma gift honor miracle sunrise family happy laughter paradise vacation",
    "unpleasant": "abuse crash filth murder sickness accident death grief poison stink assault disaster hatred pollute "
                  "tragedy divorce jail poverty ugly cancer kill rotten vomit agony prison",
    "european_american_names": "Brad Brendan Geoffrey Greg Brett Jay Matthew Neil Todd Allison Anne Carrie Emily Jill Laurie "
                               "Kristen Meredith Sarah",
    "african_american_names": "Darnell Hakim Jermaine Kareem Jamal Leroy Rasheed Tremayne Tyrone Aisha Ebony Keisha Kenya "
                              "Latonya Lakisha Latoya Tamika Tanisha",
    "pleasant_short": "joy love peace wonderful pleasure friend laughter happy",
    "unpleasant_short": "agony terrible horrible nasty evil war awful failure",
    "male_names": "John Paul Mike Kevin Steve Greg Jeff Bill",
    "female_names": "Amy Joan Lisa Sarah Diana Kate Ann Donna",
    "career": "executive management professional corporation salary office business career",
    "family": "home parents children family cousins marriage wedding relatives",
    "math": "math algebra geometry calculus equations computation numbers addition",
    "arts": "poetry art dance literature novel symphony drama sculpture",
    "male_terms": "male man boy brother he him his son",
    "female_terms": "female woman girl sister she her hers daughter",
    "science": "science technology physics chemistry Einstein NASA experiment astronomy",
    "arts_2": "poetry art Shakespeare dance literature novel symphony drama",
    "male_terms_2": "brother father uncle grandfather son he his him",
    "female_terms_2": "sister mother aunt grandmother daughter she hers her",
    "young_people_names": "Tiffany Michelle Cindy Kristy Brad Eric Joey Bill",
    "old_people_names": "Ethel Bernice Gertrude Agnes Cecil Wilbert Mortimer Edgar",
    "occupations": "accountant architect artist athlete author baker barber bartender biologist broker butcher captain "
                   "carpenter cashier chef chemist cleaner clerk coach composer cook counselor dancer dentist designer "
                   "detective diplomat director doctor drummer economist editor electrician engineer farmer firefighter "
                   "gardener guard guitarist hairdresser historian housekeeper illustrator inspector janitor journalist judge "
                   "lawyer lecturer librarian magician manager mathematician mechanic minister musician nanny novelist nurse "
                   "officer painter pharmacist philosopher photographer physician physicist pianist pilot plumber poet "
                   "politician porter president principal professor programmer psychologist receptionist "
                   "reporter researcher sailor scholar scientist sculptor secretary senator sheriff singer socialite "
                   "soldier stylist surgeon surveyor tailor teacher technician therapist trader translator tutor violinist "
                   "writer",
}
_NEUTRAL = "occupations career family math arts science arts_2"  # which ought not to lean, but for the people among them
_PAIRS = {"gender": "she:he her:his woman:man Mary:John herself:himself daughter:son mother:father gal:guy girl:boy "
                    "female:male",
          "gender_equal": "she:he her:his herself:himself woman:man women:men girl:boy girls:boys female:male females:males "
                          "mother:father mothers:fathers daughter:son daughters:sons sister:brother sisters:brothers "
                          "aunt:uncle grandmother:grandfather granddaughter:grandson wife:husband wives:husbands queen:king "
                          "princess:prince niece:nephew actress:actor gal:guy lady:gentleman ladies:gentlemen"}
_TESTS = {
    "flowers-insects": ("flowers", "insects", "pleasant", "unpleasant"),
    "instruments-weapons": ("instruments", "weapons", "pleasant", "unpleasant"),
    "names-pleasant": ("european_american_names", "african_american_names", "pleasant_short", "unpleasant_short"),
    "career-family": ("male_names", "female_names", "career", "family"),
    "math-arts": ("math", "arts", "male_terms", "female_terms"),
    "science-arts": ("science", "arts_2", "male_terms_2", "female_terms_2"),
    "young-old": ("young_people_names", "old_people_names", "pleasant_short", "unpleasant_short"),
}


@dataclass(frozen=True)
class WordLists:
    """Lists, pairs and tests by name."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    tests: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)

    def test(self, name: str) -> tuple[list[str], list[str], list[str], list[str]]:
        """X, Y, A and B of a test: by its name, or by the names of the four lists, with commas."""
        names = self.tests.get(name) or tuple(part.strip() for part in name.split(","))
        if len(names) == 1:
            raise ConfigError(f"unknown test {name!r}{suggest_known(name, self.tests)}; or name four lists, X,Y,A,B")
        if len(names) != 4:
            raise ConfigError(f"a test compares four lists X,Y,A,B; {name!r} names {len(names)}")
        x, y, a, b = (self.words(part) for part in names)
        return x, y, a, b

    def words(self, name: str) -> list[str]:
        if name not in self.lists:
            raise ConfigError(f"unknown list {name!r}{suggest_known(name, self.lists)}")
        return self.lists[name]


def built_in() -> WordLists:
    lists = {name: words.split() for name, words in _LISTS.items()}
    lists["neutral"] = list(dict.fromkeys(word for name in _NEUTRAL.split() for word in lists[name] if word.islower()))
    return WordLists(lists,
                     {name: [_pair(pair) for pair in pairs.split()] for name, pairs in _PAIRS.items()}, dict(_TESTS))


def read_word_lists(path: str | Path) -> WordLists:
    """What a JSON file holds; `tests` may also name built-in lists, which an own list of that name replaces."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file of word lists ({error})") from None
    if isinstance(content, list):
        content = {Path(path).stem: content}
    if not isinstance(content, dict) or not content:
        raise DataError(f'{path}: a JSON object of word lists is needed, such as {{"career": ["office", "salary"], ..}}')
    made = WordLists()
    if set(FOUR) <= content.keys():
        content = {**{key: value for key, value in content.items() if key not in FOUR},
                   Path(path).stem: {key: content[key] for key in FOUR}}
    for name, value in content.items():
        if name == "tests" and isinstance(value, dict):
            for test, four in value.items():
                _take_test(made, str(path), test, four)
        elif isinstance(value, dict):
            _take_test(made, str(path), name, value)
        else:
            _take_list(made, str(path), name, value)
    return made


def with_built_in(own: WordLists | None) -> WordLists:
    """Own lists take the place of built-in ones of the same name."""
    known = built_in()
    return known if own is None else WordLists(known.lists | own.lists, known.pairs | own.pairs, known.tests | own.tests)


def _take_list(made: WordLists, path: str, name: str, value: Any) -> None:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        made.lists[name] = list(dict.fromkeys(value))
    elif isinstance(value, list) and value and all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in value):
        made.pairs[name] = [(first, second) for first, second in value]
    else:
        raise DataError(f"{path}: {name!r} is neither a list of words nor a list of pairs of words")


def _take_test(made: WordLists, path: str, name: str, value: Any) -> None:
    """The names of four lists, or the four lists themselves."""
    four = [value.get(key) for key in FOUR] if isinstance(value, dict) else value
    if not isinstance(four, list) or len(four) != 4 or not all(four):
        raise DataError(f"{path}: the test {name!r} needs four lists, X, Y, A and B")
    names = []
    for key, part in zip(FOUR, four):
        if isinstance(part, list):
            _take_list(made, path, f"{name} {key}", part)
        names.append(part if isinstance(part, str) else f"{name} {key}")
    made.tests[name] = (names[0], names[1], names[2], names[3])


def as_pairs(text: str) -> Pairs:
    """`he,she` is one pair, `he:she,man:woman` are several.

    >>> as_pairs("he,she"), as_pairs("he:she, man:woman")
    ([('he', 'she')], [('he', 'she'), ('man', 'woman')])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if ":" not in text and len(parts) == 2:
        return [(parts[0], parts[1])]
    bad = [part for part in parts if part.count(":") != 1 or not all(_pair(part))]
    if bad or not parts:
        raise ConfigError(f"{text!r} is not a pair he,she nor a list of pairs he:she,man:woman")
    return [_pair(part) for part in parts]


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition(":")
    return first.strip(), second.strip()


def word_list(text: str, known: WordLists) -> list[str]:
    """Words by the name of a list, from a file (JSON, or one word a line), or written out with commas."""
    if text in known.lists:
        return known.lists[text]
    if Path(text).is_file():
        if Path(text).suffix.lower() == ".json":
            return sorted({word for words in read_word_lists(text).lists.values() for word in words})
        return _lines(text)
    if "," in text:
        return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    raise ConfigError(f"{text}: neither a list of words nor a file{suggest_known(text, known.lists)}")


def _lines(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as a list of words: {error}") from None
    words = list(dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#")))
    if not words:
        raise DataError(f"{path} is empty; it must hold one word per line")
    return words
