"""Decimal numbers and lines of vectors against Python's own float and split."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.kernels.decimals import parse_binary_vectors, parse_numbers, parse_vectors


def bytes_of(text):
    return np.frombuffer(bytearray(text if isinstance(text, bytes) else text.encode()), np.uint8)


def parse(text, n=1):
    out = np.full(n, 7, np.float32)
    data = bytes_of(text)
    return parse_numbers(data, 0, len(data), out), out


def within_one_ulp(found, text):
    with np.errstate(over="ignore"):
        wanted = np.float32(float(text))
    return (
        found == wanted
        or np.nextafter(found, wanted) == wanted
        or (np.isnan(found) and np.isnan(wanted))
    )


def random_spellings(rng, n):
    for _ in range(n):
        value = rng.uniform(-1, 1) * 10.0 ** rng.randint(-50, 45)
        yield rng.choice(
            [
                f"{value:.17g}",
                f"{value:.6f}",
                f"{value:.3e}",
                f"{rng.uniform(-5, 5):.{rng.randint(0, 30)}f}",
                repr(np.float32(rng.gauss(0, 1)).item()),
                str(rng.randint(-(10**25), 10**25)),
                f"{value:.40e}",
            ]
        )


def test_numbers_of_every_size_and_form():
    exact = 0
    texts = list(random_spellings(random.Random(3), 4000))
    for text in texts:
        after, (found,) = parse(f" {text}")
        assert after == len(text) + 1
        assert within_one_ulp(found, text), text
        with np.errstate(over="ignore"):
            exact += bool(found == np.float32(float(text)))
    assert exact >= 0.999 * len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0.0",
        "+1",
        ".5",
        "5.",
        "1e5",
        "1E-5",
        "1e+05",
        "00012.50",
        "1.17549435e-38",
        "1e-45",
        "3.4028235e38",
        "1e39",
        "1e-400",
        "1e99999999999",
        "0e99999999999",
        "0.0000000000000000000000001",
        "123456789012345678901234567890",
        "16777217",
        "nan",
        "-NaN",
        "inf",
        "-Infinity",
        "+INF",
    ],
)
def test_special_numbers(text):
    after, (found,) = parse(f"\t{text} \r\nnext")
    assert after == len(text) + 4
    assert within_one_ulp(found, text)
    assert np.signbit(found) == text.startswith("-") or np.isnan(found)


@pytest.mark.parametrize(
    "line",
    [
        "1",
        " ",
        " a",
        " 1a",
        " 1e",
        " 1e+",
        " .",
        " -",
        " --1",
        " 1.2.3",
        " 0x10",
        " 1 2",
        " 1,5",
        " in",
        " infx",
        " 1_000",
        " nano",
        "",
    ],
)
def test_what_is_no_number(line):
    assert parse(line + "\n")[0] == -1
    assert parse(line)[0] == -1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    st.sampled_from([" ", "\t", "  "]),
)
def test_shortest_spellings_read_back_to_the_bit(values, blank):
    text = "".join(blank + str(np.float32(v)) for v in values)
    after, found = parse(text + "\n", len(values))
    assert after == len(text) + 1
    assert found.tobytes() == np.array(values, np.float32).tobytes()


def test_lines_with_words_that_have_blanks():
    lines = [
        "the 1 2 3",
        ". . . 4 5 6",
        "at 7 8 9 10 ",
        "1 2 11 12 13",
        "no-break\u00a0space\t14\t15\t16",
        "é 1e1 -2 0.5\r",
        "  odd 1 2 3",
        "two  blanks 1 2 3",
    ]
    data = bytes_of("\n".join(lines))
    matrix, starts, stops = (
        np.empty((9, 3), np.float32),
        np.empty(9, np.int64),
        np.empty(9, np.int64),
    )
    done, at = parse_vectors(data, 0, len(data), matrix, starts, stops)
    assert (done, at) == (8, len(data))
    words = [data[a:b].tobytes().decode() for a, b in zip(starts[:8], stops[:8])]
    assert words == [
        "the",
        ". . .",
        "at 7",
        "1 2",
        "no-break\u00a0space",
        "é",
        "  odd",
        "two  blanks",
    ]
    assert matrix[:8].tolist() == [[float(x) for x in line.split()[-3:]] for line in lines]


@pytest.mark.parametrize("bad", ["word 1 2", "1 2 3", "word 1 2 x", "", "word", "word 1 2 3 x"])
def test_stops_before_a_line_of_another_form(bad):
    data = bytes_of(f"good 1 2 3\n{bad}\ngood 4 5 6\n")
    matrix, starts, stops = (
        np.empty((3, 3), np.float32),
        np.empty(3, np.int64),
        np.empty(3, np.int64),
    )
    assert parse_vectors(data, 0, len(data), matrix, starts, stops) == (1, 11)


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_binary_records(newline):
    values = np.random.default_rng(0).normal(size=(3, 4)).astype("<f4")
    values[1] = np.frombuffer(b"\n\n  " * 4, "<f4")  # bytes that look like the ends of words
    data = bytes_of(
        b"".join(
            word + b" " + row.tobytes() + newline for word, row in zip([b"a", b"bc", b"d"], values)
        )
    )
    raw, starts, stops = np.zeros((3, 16), np.uint8), np.empty(3, np.int64), np.empty(3, np.int64)
    assert parse_binary_vectors(data, 0, len(data), raw, starts, stops)[0] == 3
    assert raw.tobytes() == values.tobytes()
    assert [data[a:b].tobytes() for a, b in zip(starts, stops)] == [b"a", b"bc", b"d"]
    cut = len(data) - 1 - len(newline)
    assert parse_binary_vectors(data, 0, cut, raw, starts, stops)[0] == 2
