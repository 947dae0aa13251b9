"""What sacrebleu, rouge-score and jiwer say of some texts: asked now where they are installed, and
as they once answered.

Cases: `odd` has what is easily got wrong (empty texts, Chinese, entities, numbers, tabs), `mixed`
many such pieces at random, `nothing` matches in no word, `empty` has empty hypotheses only,
`silent` empty references too.
"""

import json
import random
from pathlib import Path

import pytest

FILE = Path(__file__).parent / "text_scores.json"
ODD = [  # hypothesis, reference
    ("The cat sat on the mat.", "The cat sat on a mat ."),
    ("", "Nothing was said."),
    ("Something was said.", ""),
    ("", ""),
    ("猫在垫子上。", "猫坐在垫子上。"),
    ("It costs $3.50, or 1,000-2,000 yen...", "It cost $3.5 or 1,000 - 2,000 yen."),
    ("&quot;Tom &amp; Jerry&quot; <skipped> &amp;lt;", '"Tom & Jerry" <'),
    ("over-\nflow of\nlines", "overflow of lines"),
    ("a\tb  c\u00a0d", "a b c d"),
    ("Über naïve cafés 😀!", "über naive Cafés 😀 !"),
    ("b a", "a b"),
    ("a b c d e f g", "g f e d c b a"),
    ("x" * 90, "x" * 45 + "y" + "x" * 45),
    ("running dogs happily generalise", "the dog runs happy generalisations"),
    ("(hi) 'tis don't U.S.A. e.g., 5. 10-year", "( hi ) it's dont USA eg 5 10 year"),
    ("the the the the", "the cat the dog"),
    (" padded ", "padded"),
    ("one", "one"),
    ("abcdef", "abdf"),
    ("spelling mitsake here", "speling mistake here now"),
]
PIECES = [
    "a",
    "b",
    "the",
    "cat",
    "Cat",
    "cats",
    "running",
    "3.5",
    "1,000",
    "10-year",
    ".",
    ",",
    "...",
    "(x)",
    "&quot;",
    "it's",
    "über",
    "猫在这里",
    "，",
    "😀",
    "x",
    "!?",
    "a.b",
    "5.",
    "\t",
    "\n",
    "-",
    "'",
    "%",
    "a/b",
    "e\u0301",
    "relational",
    "flies",
]


def texts():
    """Hypotheses and references of each case."""
    rng = random.Random(7)
    references = [" ".join(rng.choices(PIECES, k=rng.choice([1, 2, 5, 9, 14]))) for _ in range(40)]
    hypotheses = [
        " ".join(
            rng.choice(PIECES) if rng.random() < 0.2 else piece
            for piece in text.split(" ")
            if rng.random() < 0.9
        )
        for text in references
    ]
    cases = {
        "odd": ODD,
        "mixed": list(zip(hypotheses, references)),
        "nothing": [("a b c d e", "v w x y z")],
        "empty": [("", "some text")],
        "silent": [("two words", ""), ("", "")],
    }
    return {name: [list(side) for side in zip(*pairs)] for name, pairs in cases.items()}


def case(name, source):
    """Hypotheses, references and answers; `source`: recorded or live."""
    hypotheses, references = texts()[name]
    known = (
        json.loads(FILE.read_text(encoding="utf-8"))[name]
        if source == "recorded"
        else asked(hypotheses, references)
    )
    return hypotheses, references, known


def asked(hypotheses, references):
    metrics = pytest.importorskip("sacrebleu.metrics")
    rouge, jiwer = pytest.importorskip("rouge_score.rouge_scorer"), pytest.importorskip("jiwer")
    answers = {}
    for tokenize, lowercase in (("13a", False), ("13a", True), ("char", False), ("none", False)):
        metric = metrics.BLEU(tokenize=tokenize, lowercase=lowercase)
        score = metric.corpus_score(hypotheses, [references])
        answers[f"bleu {tokenize} {int(lowercase)}"] = [
            score.score,
            score.precisions,
            score.bp,
            str(metric.get_signature()),
        ]
    for words, lowercase in ((0, False), (2, False), (0, True)):
        metric = metrics.CHRF(word_order=words, lowercase=lowercase)
        answers[f"chrf {words} {int(lowercase)}"] = [
            metric.corpus_score(hypotheses, [references]).score,
            str(metric.get_signature()),
        ]
    pairs = list(zip(hypotheses, references))
    sentence = metrics.BLEU(effective_order=True)
    answers["each bleu"] = [sentence.sentence_score(a, [b]).score for a, b in pairs]
    answers["each chrf"] = [metrics.CHRF().sentence_score(a, [b]).score for a, b in pairs]
    for stem in (0, 1):
        scorer = rouge.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=bool(stem))
        rows = [scorer.score(b, a) for a, b in pairs]
        answers[f"rouge {stem}"] = {name: [row[name].fmeasure for row in rows] for name in rows[0]}
    for name, said, key in (
        ("words", jiwer.process_words(references, hypotheses), "wer"),
        ("characters", jiwer.process_characters(references, hypotheses), "cer"),
    ):
        answers[name] = [
            getattr(said, key),
            said.substitutions,
            said.deletions,
            said.insertions,
            said.hits,
        ]
    return answers


def record():
    answers = {name: asked(*sides) for name, sides in texts().items()}
    FILE.write_text(json.dumps(answers, separators=(",", ":")) + "\n", encoding="utf-8")
