import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seqloom.decoding.spelling import StopStrings, TextStream, Utf8Decoder
from seqloom.errors import ConfigError

words = st.text("abc", max_size=12)
stop_lists = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)


def pieces(whole, cuts):
    row_offsets = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    return [whole[low:high] for low, high in itertools.pairwise(row_offsets)]


def first_stop(text, stops):
    """(text before it, whether there is one): the first place where some stop string is complete."""
    for end in range(len(text) + 1):
        ends_here = [stop for stop in stops if text[:end].endswith(stop)]
        if ends_here:
            return text[: end - max(map(len, ends_here))], True
    return text, False


@given(words, stop_lists, st.lists(st.integers(0, 12), max_size=6))
@example("abcd", ["abcd", "bc"], [1, 2, 3])
def test_any_cutting_gives_the_same(text, stops, cuts):
    stream = StopStrings(stops)
    shown, stopped = "", False
    for piece in pieces(text, cuts):
        fresh, stopped = stream.feed(piece)
        shown += fresh
        expected, hit = first_stop(text, stops)
        assert expected.startswith(shown)  # nothing was shown that has to be taken back
    shown += stream.flush()
    assert (shown, stopped) == (expected, hit)
    assert (stream.hit in stops) == hit


def test_no_more_is_held_back_than_needed():
    stream = StopStrings(["END", "\n\n"])
    assert stream.feed("spEND") == ("sp", True)
    stream = StopStrings(["END", "\n\n"])
    assert stream.feed("EE") == ("E", False)
    assert stream.feed("x\n") == ("Ex", False)
    assert stream.flush() == "\n"
    assert stream.hit is None


def test_after_a_stop_nothing_comes():
    stream = StopStrings(["."])
    assert stream.feed("a.b") == ("a", True)
    assert stream.hit == "."
    assert stream.feed("c") == ("", True)
    assert stream.flush() == ""


@pytest.mark.parametrize("stops", ["END", ["a", ""]])
def test_bad_stop_strings(stops):
    with pytest.raises(ConfigError, match="stop string"):
        StopStrings(stops)


raw_bytes = st.one_of(st.binary(max_size=12), st.text(max_size=6).map(str.encode))


@given(raw_bytes, st.lists(st.integers(0, 12), max_size=6))
def test_utf8_in_pieces_equals_the_whole(data, cuts):
    decoder = Utf8Decoder()
    assert "".join(map(decoder.feed, pieces(data, cuts))) + decoder.flush() == data.decode(
        errors="replace"
    )


@given(st.text(min_size=1, max_size=6))
def test_half_characters_are_never_shown(text):
    decoder = Utf8Decoder()
    shown = ""
    for byte in text.encode():
        shown += decoder.feed(bytes([byte]))
        assert text.startswith(shown)
    assert shown == text


def test_text_stream_joins_healing_characters_and_stops():
    stream = TextStream(["é!"], skip=3)
    assert stream.feed(b"ab") == ("", False)
    assert stream.feed(b"cd\xc3") == ("d", False)
    assert stream.feed(b"\xa9") == ("", False)  # could be the start of the stop string
    assert stream.feed(b"? \xc3\xa9") == ("é? ", False)
    assert stream.feed(b"! more") == ("", True)
    assert stream.hit == "é!"


def test_flush_ends_a_broken_character_and_may_complete_a_stop():
    stream = TextStream(["x\ufffd"])
    assert stream.feed(b"a\xc3") == ("a", False)
    assert stream.flush() == ("\ufffd", False)
    stream = TextStream(["x\ufffd"])
    assert stream.feed(b"ax\xc3") == ("a", False)
    assert stream.flush() == ("", True)
