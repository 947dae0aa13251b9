"""Naive Bayes and logistic regression against scikit-learn: the same posterior, SST-2 accuracy, text to
model and prediction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, collect, data, peer, seconds, table

Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    bench = Bench(quick)
    table(
        "naive Bayes",
        collect(bench.suites(), only),
        ("figure", "peer", "ours", "ours against the peer"),
    )


def scikit_learn(variant: str = "Multinomial", **options: Any) -> Any:
    """Its words and naive Bayes with its own defaults, or None."""
    if (words := peer("sklearn.feature_extraction.text")) is None:
        return None
    from sklearn import naive_bayes
    from sklearn.pipeline import make_pipeline

    return make_pipeline(words.CountVectorizer(**options), getattr(naive_bayes, f"{variant}NB")())


class Bench:
    def __init__(self, quick: bool) -> None:
        self.quick, self.times = quick, 2 if quick else 5

    def suites(self) -> dict[str, Callable[[], Iterator[Row]]]:
        return {
            "posterior": self.posterior,
            "sst2": self.sst2,
            "speed": self.speed,
            "logistic": self.logistic,
        }

    def logistic(self) -> Iterator[Row]:
        """TF-IDF and logistic regression on SST-2: theirs stops where its own tolerance says, ours at the
        minimum, with which the probabilities of a converged one are compared.
        """
        from seqloom.models.classification.logistic import Logistic

        if (found := self._sst2()) is None:
            return
        train, _, test = found
        words = peer("sklearn.feature_extraction.text")
        for ngrams, strength in ((1, 1.0), (1, 10.0), (2, 10.0)):
            name = f"SST-2, n-grams up to {ngrams}, C {strength:g}"
            model, other, converged = (
                Logistic(tokenizer="whitespace", ngrams=ngrams, C=strength),
                None,
                None,
            )
            if words is not None:
                from sklearn.linear_model import LogisticRegression
                from sklearn.pipeline import make_pipeline

                other, converged = (
                    make_pipeline(
                        words.TfidfVectorizer(
                            token_pattern=r"(?a)\S+", lowercase=False, ngram_range=(1, ngrams)
                        ),
                        LogisticRegression(C=strength, max_iter=1000, tol=tolerance),
                    )
                    for tolerance in (1e-4, 1e-8)
                )
            model.fit(train).predict(test.texts)  # compiles
            fit = alternate(
                lambda m=model: seconds(lambda: m.fit(train)),
                other and (lambda p=other: seconds(lambda: p.fit(train.texts, train.labels))),
                self.times,
            )
            yield (
                f"text to model, {name}",
                f"scikit-learn, {fit.peer:.3f} s",
                f"{fit.ours:.3f} s",
                str(fit),
            )
            ask = alternate(
                lambda m=model: seconds(lambda: m.predict(test.texts)),
                other and (lambda p=other: seconds(lambda: p.predict(test.texts))),
                self.times,
            )
            yield (
                f"prediction, {name}",
                f"scikit-learn, {ask.peer:.3f} s",
                f"{ask.ours:.3f} s",
                str(ask),
            )
            ours, theirs = model.predict_proba(test.texts), np.nan
            if converged is not None:
                theirs = converged.fit(train.texts, train.labels).predict_proba(test.texts)
            yield (
                f"largest difference of p(class), {name}",
                "scikit-learn with tol 1e-8",
                f"{np.abs(ours - theirs).max():.1e}",
                "bar 1e-3",
            )

    def posterior(self) -> Iterator[Row]:
        """Log-probabilities of the SST-2 test sentences, trained on the train sentences."""
        from seqloom.models.classification.naive_bayes import NaiveBayes

        if (found := self._sst2()) is None:
            return
        train, _, test = found
        for variant, ngrams in (
            (v, n) for v in ("multinomial", "bernoulli", "complement") for n in (1, 2)
        ):
            other = scikit_learn(
                variant.capitalize(),
                token_pattern=r"(?a)\S+",  # a no-break space joins
                lowercase=False,
                ngram_range=(1, ngrams),
            )
            ours = (
                NaiveBayes(tokenizer="whitespace", variant=variant, ngrams=ngrams)
                .fit(train)
                .log_probs(test.texts)
            )
            theirs = (
                other.fit(train.texts, train.labels).predict_log_proba(test.texts)
                if other
                else np.nan
            )
            yield (
                f"largest difference of log p(class), {variant}, n-grams up to {ngrams}",
                "scikit-learn",
                f"{np.abs(ours - theirs).max():.1e}",
                "bar 1e-9",
            )

    def sst2(self) -> Iterator[Row]:
        """Trained on the 6,920 sentences of train alone. The tokenizer was chosen on dev, the last
        two settings by cross-validation on train and dev together.
        """
        from seqloom.models.classification.naive_bayes import NaiveBayes

        if (found := self._sst2()) is None:
            return
        train, dev, test = found
        chosen: list[tuple[str, dict[str, Any], str]] = [
            ("unigrams", {}, "bar 81.8 %"),
            ("uni- and bigrams", {"ngrams": 2}, "bar 82.1 %"),
            (
                "unigrams of stems",
                {
                    "normalize": "stem=snowball",
                    "features": "presence",
                    "k": 1.5,
                    "prior": "uniform",
                },
                "",
            ),
            (
                "uni- and bigrams, presence",
                {
                    "tokenizer": "whitespace",
                    "ngrams": 2,
                    "features": "presence",
                    "prior": "uniform",
                },
                "",
            ),
        ]
        for name, options, bar in chosen:
            model = NaiveBayes(**options).fit(train)
            other = scikit_learn(token_pattern=r"\S+", ngram_range=(1, options.get("ngrams", 1)))
            other = other and other.fit(train.texts, train.labels)
            theirs = [
                other.score(part.texts, part.labels) if other else np.nan for part in (dev, test)
            ]
            ours = [model.evaluate(part, samples=100)["accuracy"] for part in (dev, test)]
            yield (
                f"SST-2 accuracy, {name}",
                f"dev {theirs[0]:.2%}, test {theirs[1]:.2%} (plain)",
                f"dev {ours[0]:.2%}, test {ours[1]:.2%}",
                bar,
            )

    def speed(self) -> Iterator[Row]:
        """From lists of str: text to model, and the labels of the same texts; all in this process."""
        from seqloom.models.classification.naive_bayes import NaiveBayes

        documents = self._documents()
        if documents is None:
            return
        texts, labels = documents
        size = f"{len(texts):,} documents, {sum(map(len, texts)) / 1e6:.0f} MB, {len(set(labels))} classes"
        cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("words by white space", {"tokenizer": "whitespace"}, {"analyzer": str.split}),
            ("words, each by its default", {}, {}),
            (
                "uni- and bigrams",
                {"tokenizer": "whitespace", "ngrams": 2},
                {
                    "tokenizer": str.split,
                    "token_pattern": None,
                    "lowercase": False,
                    "ngram_range": (1, 2),
                },
            ),
        ]
        for name, options, peer_options in cases:
            times = self.times if options.get("ngrams", 1) == 1 else min(self.times, 2)
            model, other = NaiveBayes(**options), scikit_learn(**peer_options)
            model.fit((texts[:100], labels[:100])).predict(texts[:100])  # compiles
            fit = alternate(
                lambda m=model: seconds(lambda: m.fit((texts, labels))),
                other and (lambda p=other: seconds(lambda: p.fit(texts, labels))),
                times,
            )
            yield (
                f"text to model, {name}: {size}",
                f"scikit-learn, {fit.peer:.2f} s",
                f"{fit.ours:.2f} s",
                str(fit),
            )
            ask = alternate(
                lambda m=model: seconds(lambda: m.predict(texts)),
                other and (lambda p=other: seconds(lambda: p.predict(texts))),
                times,
            )
            same = (
                np.mean(np.array(model.predict(texts)) == other.predict(texts)) if other else np.nan
            )
            yield (
                f"prediction, {name} ({same:.2%} the same label)",
                f"scikit-learn, {ask.peer:.2f} s",
                f"{ask.ours:.2f} s",
                str(ask),
            )

    def _sst2(self) -> tuple[Any, Any, Any] | None:
        from seqloom.data.classification import read_labelled

        paths = [data("sst2", f"stsa.binary.{part}") for part in ("train", "dev", "test")]
        if None in paths:
            return None
        train, dev, test = (read_labelled(path, form="lines") for path in paths if path)
        return train, dev, test

    def _documents(self) -> tuple[list[str], list[str]] | None:
        """WikiText-2 and the beginning of text8 cut into pieces of 20 to 60 words; a class is a
        fifth of one of the two.
        """
        paths = {
            "wikitext": data("wikitext-2", "train.txt"),
            "text8": data("text8_prefix", "text8_prefix.txt"),
        }
        draw = random.Random(0)
        texts: list[str] = []
        labels: list[str] = []
        for name, path in paths.items():
            if path is None:
                return None
            words = path.read_text("utf-8")[: 1_000_000 if self.quick else 40_000_000].split()
            start = 0
            while start < len(words):
                stop = start + draw.randint(20, 60)
                texts.append(" ".join(words[start:stop]))
                labels.append(f"{name}-{5 * start // len(words)}")
                start = stop
        return texts, labels
