"""Texts of tables by Python's own parsers: (number of the row, text) or the line that is wrong."""

import csv
import io
import json


def json_texts(data: bytes, steps: tuple[str, ...]) -> list[tuple[int, str]] | int:
    found = []
    for number, line in enumerate(data.decode().split("\n"), 1):
        if not line.strip(" \t\r"):
            continue
        try:
            value = json.loads(line)
        except ValueError:
            return number
        if not isinstance(value, dict):
            return number
        for step in steps:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                value = None
        if value is not None and not isinstance(value, str):
            return number
        if value:
            found.append((number, without_halves(value)))
    return found


def without_halves(text: str) -> str:
    """Pairs of surrogates joined, halves replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def csv_texts(data: bytes, column: str, separator: str = ",") -> list[tuple[int, str]] | int:
    """Ragged rows are met before broken quotes only if they come first."""
    rows = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=separator, strict=True)
    found, header, number, line = [], None, -1, 1
    try:
        for row in rows:
            if row:
                number += 1
                header = header or row
                if len(row) != len(header):
                    return line
                if number and row[header.index(column)]:
                    found.append((number, row[header.index(column)]))
            line = rows.line_num + 1
    except csv.Error as error:
        return rows.line_num if "expected after" in str(error) else line
    return found


def tsv_texts(data: bytes, column: str) -> list[tuple[int, str]] | int:
    *lines, last = data.decode().split("\n")
    lines = [*(line.removesuffix("\r") for line in lines), last]
    (_, header), *rows = [
        (number, line.split("\t")) for number, line in enumerate(lines, 1) if line
    ]
    for number, row in rows:
        if len(row) != len(header):
            return number
    texts = [row[header.index(column)] for _, row in rows]
    return [(number, text) for number, text in enumerate(texts, 1) if text]
