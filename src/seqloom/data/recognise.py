"""What kind of data a file holds, by its name and its first lines: labels, tags, a series, or just text.

Only clear signs count: a plain .txt file, a directory and anything in doubt is text.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from seqloom.data import columns
from seqloom.data.classification_forms import MARK
from seqloom.data.columns import LABEL_NAMES, TEXT_NAMES
from seqloom.data.documents import Document, line_blocks
from seqloom.data.pieces import COMPRESSED
from seqloom.data.rows import open_rows, table_kind
from seqloom.data.sources import find_documents
from seqloom.data.tagging_forms import SPAN_TAG, is_pair, read_pair, read_sentences
from seqloom.data.translation_sides import looks_numeric
from seqloom.errors import SeqloomError

TAGGED = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".bioes")
_HEAD = 50  # lines
_CONLLU = 10  # columns
_DIFFERENT = 0.5  # share of distinct texts in the first lines, below which they are labels


def labels_in(path: Path) -> str:
    """Say in a few words why the texts have labels; return an empty string if they do not seem to."""
    document = _document(path)
    if document is None or _tag_line_by_line(document):
        return ""
    kind = table_kind(document.name)
    try:
        if kind in ("tsv", "csv") and looks_numeric(document):
            return f"{document.name} has a label and a series of numbers in each line"
        if kind is None:
            return (
                f"{document.name} has lines that begin with {MARK}"
                if _head(document)[:1] and all(line.startswith(MARK) for line in _head(document))
                else ""
            )
        names = open_rows(document, kind, (None, None), doubtful=False).kinds
        lower = {name.lower(): name for name in names}
        if list(names) == ["1", "2"]:  # without a header
            return _repeated(document, kind)
        if not any(name in lower for name in LABEL_NAMES) or not (
            len(names) == 2 or any(name in lower for name in TEXT_NAMES)
        ):
            return ""
        pair = columns.choose_pair(document.name, names, (None, None))
    except (SeqloomError, UnicodeDecodeError):
        return ""  # reading it will raise the error
    return (
        f"{document.name} has a column of labels ({pair[1]!r}) beside the text ({pair[0]!r})"
        if pair
        else ""
    )


def _repeated(document: Document, kind: str) -> str:
    """Say why a table of two columns without names has labels: the values of only one of them repeat."""
    rows = open_rows(document, kind, ("1", "2"), doubtful=False)
    block = next(iter(rows.blocks(("1", "2"))), None)
    heads = (
        [[str(value) for value in cells[:_HEAD]] for cells in block.values]
        if block is not None
        else []
    )
    repeats = [len(set(head)) < _DIFFERENT * len(head) for head in heads]
    if sorted(repeats) != [False, True] or rows.kinds["12"[repeats.index(False)]] != columns.TEXT:
        return ""
    label, text = ("1", "2") if repeats[0] else ("2", "1")
    return f"{document.name} has a column of labels ({label!r}) beside the text ({text!r})"


def tags_in(data: Path | tuple[Path, ...]) -> str:
    """Say why the words have tags; return an empty string if they do not seem to. Two files may be
    one of words and one of tags.
    """
    if isinstance(data, tuple):
        return _tag_files_in(*data) if len(data) == 2 else ""
    document = _document(data)
    if document is None:
        return ""
    if tag := _tag_line_by_line(document):
        return f"{document.name} has words, a tab and as many tags in each line, such as {tag}"
    if _suffix(document.name) in TAGGED:
        return f"{document.name} is CoNLL by its name"
    if table_kind(document.name):
        return ""
    try:
        rows = [line.split("\t") for line in _head(document) if not line.startswith("#")]
    except (SeqloomError, UnicodeDecodeError):
        return ""
    if rows and all(len(row) == _CONLLU and row[0][:1].isdecimal() for row in rows):
        return f"{document.name} has the ten columns of CoNLL-U"
    words = ["\t".join(row).split() for row in rows]
    spans = [row[-1] for row in words if len(row) > 1 and SPAN_TAG.fullmatch(row[-1])]
    looks = (
        len(spans) == len(rows)
        and len(set(map(len, words))) == 1
        and any(tag != "O" for tag in spans)
    )
    return (
        f"{document.name} has words with tags of spans, such as {max(spans, key=len)}"
        if looks
        else ""
    )


def _tag_files_in(first: Path, second: Path) -> str:
    """Say why these are a file of words and one of their tags; those of two languages are not."""
    documents = [_document(path, also_text=True) for path in (first, second)]
    if None in documents or pairs_in((first, second)):
        return ""
    tag = _tag_line_by_line(*(document for document in documents if document is not None))
    return (
        f"{second.name} has as many tags, such as {tag}, as {first.name} has words" if tag else ""
    )


def _tag_line_by_line(*documents: Document) -> str:
    """Return one of the tags if the first lines have a tag for each word, in one file or in two: tags of
    spans, or few different ones that come again and again; else an empty string.
    """
    if table_kind(documents[0].name) not in (None, "tsv"):
        return ""
    try:
        heads = [
            Document(document.name, data="\n".join(_head(document)).encode())
            for document in documents
        ]
        if len(heads) == 1:
            found = read_sentences(heads[0], "lines", None)
        elif is_pair(heads[0], heads[1]):
            found = read_pair(heads[0], heads[1])
        else:
            return ""
    except (SeqloomError, UnicodeDecodeError):
        return ""
    words, tags = (list(chain.from_iterable(side)) for side in (found.words, found.tags))
    spans = all(map(SPAN_TAG.fullmatch, tags)) and set(tags) != {"O"}
    few = 2 * len(set(tags)) <= len(tags) and len(set(tags)) < len(set(words))
    return max(tags, key=len) if (spans or few) and len(words) > len(found.words) else ""


def times_in(path: Path) -> str:
    """Say why the file holds a series: a column of times or step numbers beside number columns and nothing
    else, or one column of numbers.
    """
    document = _document(path)
    if document is None or (kind := table_kind(document.name)) is None:
        return ""
    from seqloom.data.forecasting_forms import is_counted, time_column

    try:
        rows = open_rows(document, kind, ())
        time = time_column(rows)
        if time is None and rows.kinds and is_counted(rows):
            return f"{document.name} has nothing but numbers"
    except (SeqloomError, UnicodeDecodeError):
        return ""
    other_kinds = [kind for name, kind in rows.kinds.items() if name != time]
    numeric = other_kinds and set(other_kinds) <= {columns.NUMBER, columns.NOTHING}
    return (
        f"{document.name} has a column of times ({time!r}) beside numbers"
        if time and numeric
        else ""
    )


def pairs_in(data: Path | tuple[Path, ...]) -> str:
    """Say why the data holds sources and targets: two files of one name with languages as extensions, a
    file of arrays and one of texts, or a table with two text columns, without names or named as sides,
    neither of which repeats as labels do.
    """
    if isinstance(data, tuple):
        return _sides_in(*data) if len(data) == 2 else ""
    document = _document(data)
    if document is None or (kind := table_kind(document.name)) is None:
        return ""
    from seqloom.data.translation_sides import choose_sides

    try:
        rows = open_rows(document, kind, (None, None), doubtful=False)
        plain = {name: held for name, held in rows.kinds.items() if held != columns.OBJECT}
        texts = [name for name, held in plain.items() if held == columns.TEXT]
        if len(texts) != 2 or (len(plain) != 2 and not _are_translations(texts)):
            return ""
        sides = choose_sides(document.name, rows.kinds, (None, None))
        block = next(iter(rows.blocks(sides)), None)
    except (SeqloomError, UnicodeDecodeError):
        return ""
    if block is None or any(
        len(set(cells[:_HEAD])) < _DIFFERENT * len(cells[:_HEAD]) for cells in block.values
    ):
        return ""
    from seqloom.data.translation_forms import is_side

    named = [side for side in sides if side is not None and not side.isdecimal()]
    if named and not all(is_side(side.rsplit(".", 1)[-1]) for side in named):
        return ""
    return f"{document.name} has two columns of texts ({sides[0]!r} and {sides[1]!r})"


def _are_translations(texts: list[str]) -> bool:
    """Return whether these are the sides of a field `translation`; the table may have other fields, too."""
    return all(name.startswith("translation.") for name in texts)


def _sides_in(first: Path, second: Path) -> str:
    from seqloom.data.translation_forms import ARRAY_FILES, is_side

    if first.suffix in ARRAY_FILES and second.suffix not in ARRAY_FILES:
        return f"{first.name} has arrays, for which {second.name} may have texts"
    plain = [path.with_name(_unpacked(path.name)) for path in (first, second)]
    are_sides = (
        plain[0] != plain[1]
        and plain[0].with_suffix("") == plain[1].with_suffix("")
        and all(is_side(path.suffix[1:]) for path in plain)
    )
    return f"{first.name} and {second.name} are two sides of one text" if are_sides else ""


def _document(path: Path, also_text: bool = False) -> Document | None:
    """Return the file of that name; None if it is missing or, unless `also_text`, can only be read
    as text.
    """
    # not a pipe, which can be read only once
    if path.exists() and not path.is_file():
        return None
    if _suffix(path.name) == ".txt" and not also_text:
        return None
    try:
        documents = find_documents(path, "utf-8")
    except SeqloomError:
        return None
    return documents[0] if documents else None


def _suffix(name: str) -> str:
    return Path(_unpacked(name)).suffix.lower()


def _unpacked(name: str) -> str:
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return name


def _head(document: Document) -> list[str]:
    block = next(line_blocks(document, 1), b"").decode("utf-8", "replace")
    return [line for line in block.split("\n")[:_HEAD] if line.strip()]
