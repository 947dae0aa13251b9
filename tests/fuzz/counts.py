"""What became of the attempts of one attack."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Counts:
    """An attempt ends well when it is refused by one clear line, or works and gives a sane answer;
    all else is wrong.
    """

    refused: int = 0
    worked: int = 0
    wrong: list[str] = field(
        default_factory=list
    )  # what was done and what came of it, so that it can be repeated

    @property
    def tried(self) -> int:
        return self.refused + self.worked + len(self.wrong)

    def row(self, name: str) -> str:
        return f"| {name} | {self.tried:,} | {self.refused:,} | {self.worked:,} | {len(self.wrong):,} |"
