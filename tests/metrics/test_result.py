import json
import math

import numpy as np
import pytest

from seqloom import _version
from seqloom.metrics.result import Result, Signature, short_hash

FULL = Signature(
    model="ngram5-modified-kneser-ney",
    tokenizer="byte",
    data="ab12cd34",
    split="last-tenth",
    unit="stream",
    carry=False,
    context=4,
    seed=0,
    version="0.1.0",
    extras={"stride": 64},
)


def test_the_line_names_everything_in_order():
    assert str(FULL) == (
        "model:ngram5-modified-kneser-ney|tok:byte|data:ab12cd34|split:last-tenth|unit:stream|"
        "carry:no|context:4|seed:0|version:0.1.0|stride:64"
    )


def test_what_does_not_apply_is_left_out():
    assert str(Signature(model="uniform")) == f"model:uniform|version:{_version.__version__}"
    assert Signature(model="uniform", version="1").to_dict() == {"model": "uniform", "version": "1"}


def test_a_value_cannot_break_the_line():
    assert str(Signature(model="a|b\nc", version="1")) == "model:a/b c|version:1"
    with pytest.raises(ValueError, match="seed"):
        str(Signature(model="a", extras={"seed": 3}))


def test_json_has_no_infinity():
    metrics = {
        "perplexity": math.inf,
        "worst": -np.inf,
        "unknown": math.nan,
        "interval": (np.float64(1.5), math.inf),
        "tokens": np.int64(3),
        "without": None,
    }
    plain = Result(metrics, FULL, notes=("zero probabilities",)).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == {
        "metrics": {
            "perplexity": "inf",
            "worst": "-inf",
            "unknown": "nan",
            "interval": [1.5, "inf"],
            "tokens": 3,
            "without": None,
        },
        "signature": FULL.to_dict(),
        "notes": ["zero probabilities"],
    }


def test_metrics_by_name():
    result = Result({"bits_per_byte": 2.0}, FULL)
    assert result["bits_per_byte"] == 2.0
    with pytest.raises(KeyError, match="did you mean 'bits_per_byte'"):
        result["bits_per_bite"]


def test_a_result_is_read_like_a_dictionary():
    metrics = {"bleu": 30.5, "chrf": 55.0}
    result = Result(metrics, FULL)
    assert [name in result for name in ("bleu", "rouge", 0)] == [True, False, False]
    assert (list(result), len(result)) == (["bleu", "chrf"], 2)
    assert dict(result) == {**result} == metrics
    assert Result({}, FULL), "one without metrics is a result, too"


def test_the_table():
    metrics = {
        "bits_per_byte": 2.25,
        "interval": (2.0, 2.5),
        "tokens": np.int64(12345),
        "oov": None,
        "ppl": math.inf,
    }
    assert str(Result(metrics, Signature(model="m", version="1"), ("a remark",))).splitlines() == [
        "bits_per_byte            2.2500",
        "interval       2.0000 to 2.5000",
        "tokens                   12,345",
        "oov                           -",
        "ppl                         inf",
        "signature      model:m|version:1",
        "note           a remark",
    ]


def test_short_hash_tells_texts_apart():
    assert short_hash(b"abc") == "ba7816bf"  # the published SHA-256 of "abc"
    assert short_hash(b"abd") != short_hash(b"abc")
