"""Training of subword vocabularies by the tokenizers library, made repeatable.

The library counts words in hash tables of random order. BPE does not depend on it. WordPiece gives ids to
continuing characters (`##x`) in that order, and ids decide ties, so these ids are fixed beforehand. Unigram
gives slightly different scores to unseen characters in that order, so these are made equal afterwards.

The text is read once. WordPiece needs it twice, the characters first, and stores it in a temporary file.
"""

from __future__ import annotations

import json
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from threading import Event
from typing import IO, TYPE_CHECKING

from seqloom import progress
from seqloom.errors import DataError, SeqloomError
from seqloom.kernels.parallel import interruptible
from seqloom.progress import Bar
from seqloom.text.boundaries import cut_before_word
from seqloom.text.subword import SPACE_RULE, Subword
from seqloom.text.vocabulary import TokenCounts

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine
    from tokenizers.pre_tokenizers import PreTokenizer

Texts = Callable[[Iterable[bytes]], Iterator[str]]  # from UTF-8 blocks to texts for the library

LONGEST_WORD = 1000  # characters

_PIECE = 1 << 14
_WORDS = re.compile(r"[^\W\d_]+|\d+|(?:[^\w\s]|_)+|\s+")  # nearly as GPT-2's rule splits them
_STRETCHES = re.compile(r"\S+|\s+")
_BLANKS = re.compile(rf"\s{{{LONGEST_WORD}}}\s")
_ALPHABET_SIZE = 1000  # WordPiece: the most frequent characters; others are unknown
# characters that are words by themselves
_CHINESE = ((0x4E00, 0xA000), (0x3400, 0x4DC0), (0x20000, 0x30000), (0xF900, 0xFB00))


def train(
    kind: str, blocks: Iterator[bytes], size: int, min_count: int, boundary: str, bar: Bar
) -> Subword:
    """Train a subword tokenizer with at most `size` ids on blocks of UTF-8."""
    filled = filter(None, blocks)
    first = next(filled, None)
    if first is None:
        raise DataError("there is no text to train the tokenizer on; is the input empty?")

    maker = {"bpe": _bpe, "words": _words, "unigram": _unigram, "wordpiece": _wordpiece}[kind]

    def make(stop: Event) -> Engine:
        warned = False

        def texts(some: Iterable[bytes]) -> Iterator[str]:
            nonlocal warned
            for block in some:
                for piece in _pieces(block):
                    if stop.is_set():
                        raise InterruptedError
                    parts = _cut_words(piece.decode("utf-8", "replace"), boundary)
                    if len(parts) > 1 and not warned:
                        warned = True
                        progress.say(
                            f"to train the tokenizer, words of more than {LONGEST_WORD:,} characters are cut"
                        )
                    yield from parts
                bar.advance(len(block))

        return maker(
            chain([first], filled),
            lambda some: progress.in_this_context(texts(some)),
            size - 1,
            min_count,
            boundary,
        )  # one id is left for the end

    return Subword(interruptible(make), None)


def _pieces(block: bytes) -> Iterator[bytes]:
    """Split a block where no token crosses: the library counts words of several texts in parallel, but not
    of one.
    """
    at = 0
    while at < len(block):
        end = at + _PIECE
        near = end - _PIECE // 8
        cut = cut_before_word(block[near:end], False) if end < len(block) else 0
        end = near + cut if cut else len(block)  # without a cut, all remaining bytes
        yield block[at:end]
        at = end


def _cut_words(text: str, boundary: str) -> list[str]:
    """Split words that are so long that training, which is quadratic in their length, would not end."""
    if max(map(len, text.split()), default=0) <= LONGEST_WORD and not _BLANKS.search(text):
        return [text]
    words = (_WORDS if boundary == "gpt2" else _STRETCHES).finditer(text)
    cuts = [
        cut
        for word in words
        for cut in range(word.start() + LONGEST_WORD, word.end(), LONGEST_WORD)
    ]
    return [text[low:high] for low, high in pairwise([0, *cuts, len(text)])]


def _byte_level(boundary: str) -> PreTokenizer:
    from tokenizers import Regex, pre_tokenizers

    if boundary == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPACE_RULE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _bpe(blocks: Iterable[bytes], texts: Texts, size: int, min_count: int, boundary: str) -> Engine:
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, pre_tokenizers, trainers

    engine = Engine(models.BPE())
    engine.pre_tokenizer, engine.decoder = _byte_level(boundary), decoders.ByteLevel()
    engine.train_from_iterator(
        texts(blocks),
        trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=min_count,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    return engine


def _words(
    blocks: Iterable[bytes], texts: Texts, size: int, min_count: int, boundary: str
) -> Engine:
    """Learn words with the blank before them, and single bytes for others: BPE without merges that looks up
    a word first.
    """
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, pre_tokenizers, trainers

    counted = Engine(models.WordLevel())
    counted.pre_tokenizer = _byte_level(boundary)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    counted.train_from_iterator(
        texts(blocks),
        trainers.WordLevelTrainer(
            vocab_size=size, min_frequency=min_count, show_progress=False, special_tokens=[]
        ),
    )
    ranked = sorted(counted.get_vocab().items(), key=lambda pair: pair[1])
    words = [word for word, _ in ranked if word not in set(alphabet)][: size - len(alphabet)]
    engine = Engine(
        models.BPE(
            vocab={token: i for i, token in enumerate([*alphabet, *words])},
            merges=[],
            ignore_merges=True,
        )
    )
    engine.pre_tokenizer, engine.decoder = _byte_level(boundary), decoders.ByteLevel()
    return engine


def _unigram(
    blocks: Iterable[bytes], texts: Texts, size: int, min_count: int, boundary: str
) -> Engine:
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, pre_tokenizers, trainers

    engine = Engine(models.Unigram())
    engine.pre_tokenizer, engine.decoder = _byte_level(boundary), decoders.ByteLevel()
    engine.train_from_iterator(
        texts(blocks),
        trainers.UnigramTrainer(
            vocab_size=size,
            show_progress=False,
            special_tokens=[],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        ),
    )
    spec = json.loads(engine.to_str())
    spec["model"]["vocab"] = _repeatable(spec["model"]["vocab"])
    return Engine.from_str(json.dumps(spec))


def _repeatable(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Give equal scores to the characters that the library appends, 0.0001 apart; round and sort."""
    lowest = min(score for _, score in pieces)
    added = {piece for piece, score in pieces if len(piece) == 1 and score < lowest + 1e-4 * 257}
    rounded = [(piece, round(lowest if piece in added else score, 4)) for piece, score in pieces]
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))


def _wordpiece(
    blocks: Iterable[bytes], texts: Texts, size: int, min_count: int, boundary: str
) -> Engine:
    from tokenizers import Tokenizer as Engine
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    engine = Engine(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=False, strip_accents=False, lowercase=False
    )
    engine.pre_tokenizer, engine.decoder = (
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(cleanup=False),
    )
    with tempfile.TemporaryFile(prefix="seqloom-text-") as file:
        counts, sizes = _count_and_keep(blocks, file)
        alphabet = _alphabet(counts, min(_ALPHABET_SIZE, max(size // 3, 1)))
        fixed = [
            "[UNK]",
            *alphabet,
            *("##" + character for character in alphabet if _continues(character)),
        ]
        engine.train_from_iterator(
            texts(map(file.read, sizes)),
            trainers.WordPieceTrainer(
                vocab_size=size,
                min_frequency=min_count,
                show_progress=False,
                special_tokens=fixed,
                limit_alphabet=len(alphabet),
                initial_alphabet=alphabet,
            ),
        )
    spec = json.loads(engine.to_str())
    # they were special only to fix their ids, and must not be matched in a text
    spec["added_tokens"] = []
    return Engine.from_str(json.dumps(spec))


def _count_and_keep(blocks: Iterable[bytes], file: IO[bytes]) -> tuple[TokenCounts, list[int]]:
    """Write blocks to a file and rewind it; return the counts of characters, and the sizes of the blocks."""
    counts, sizes = TokenCounts("char"), []
    try:
        for block in blocks:
            counts.add(block)
            sizes.append(file.write(block))
        file.seek(0)
    except OSError as error:
        raise SeqloomError(
            f"no room to keep the text in {tempfile.gettempdir()} while the tokenizer is trained "
            f"({error.strerror}); set TMPDIR to a larger disk"
        ) from error
    return counts, sizes


def _alphabet(counts: TokenCounts, limit: int) -> list[str]:
    characters = [spelling.decode("utf-8", "replace") for spelling in counts.ranked(1, limit)]
    return sorted({character for character in characters if not character.isspace()})


def _continues(character: str) -> bool:
    """Return whether the pre-tokenizer of BERT can leave this character inside a word."""
    code = ord(character)
    ascii_symbol = code < 128 and not character.isalnum()
    chinese = any(first <= code < last for first, last in _CHINESE)
    return not (ascii_symbol or chinese or unicodedata.category(character).startswith("P"))
