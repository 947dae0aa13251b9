"""How far back forecasters look where nobody says."""

from __future__ import annotations

SEASONS = 14
MOST = 1000  # steps; a day of minutes is a season of 1,440


def seasons_back(season: int, without: int) -> int:
    """Steps of 14 seasons, fewer where seasons are long, at least two of them; `without`: where there is no season."""
    return without if season == 1 else max(min(SEASONS * season, MOST), 2 * season)
