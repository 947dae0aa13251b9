"""Parts of cross-validation, as `ab` makes them."""


def folds(ladder, data, n):
    """Return training and held-out parts, so many times."""
    return [(parts.train, parts.test) for parts in ladder.folds(ladder.read(data), n)]
