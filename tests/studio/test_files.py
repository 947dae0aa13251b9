"""The files of the page: what is vendored is what the lock says, small, and nothing leads outside."""

import hashlib
import json
import re
import shutil
import subprocess

import pytest

from seqloom.studio.page import IMPORTS, KINDS, STATIC

VENDOR = STATIC / "vendor"
LOCK = json.loads((VENDOR / "LOCK.json").read_text())
OWN = sorted(path for path in STATIC.rglob("*") if path.is_file() and VENDOR not in path.parents)
MOST_BYTES = 400_000  # script and style of all views: the bar of the page


def test_what_is_vendored_is_what_the_lock_says():
    assert {one["file"] for one in LOCK} == {path.name for path in VENDOR.iterdir()} - {"LOCK.json"}
    for one in LOCK:
        assert hashlib.sha256((VENDOR / one["file"]).read_bytes()).hexdigest() == one["sha256"]
        assert one["integrity"].startswith("sha512-")
        assert one["licence"]
        assert one["version"]
    for name in {one["name"] for one in LOCK}:
        assert any(one["file"] == f"{name}.LICENSE.txt" for one in LOCK)


def test_the_page_is_small():
    sizes = [
        path.stat().st_size for path in STATIC.rglob("*") if path.suffix in (".js", ".mjs", ".css")
    ]
    assert 0 < sum(sizes) < MOST_BYTES


def test_every_file_has_a_kind_and_a_place_in_the_package():
    assert {path.suffix for path in STATIC.rglob("*") if path.is_file()} <= KINDS.keys()
    folders = {
        path.parent.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()
    }
    assert folders == {".", "parts", "views", "vendor"}  # as in pyproject.toml


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_own_files_lead_nowhere_and_write_no_markup(path):
    text = path.read_text(encoding="utf-8")
    urls = re.findall(r"https?://[^\"'` )]+", text)
    assert set(urls) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    for word in (
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "dangerouslySet",
        "eval(",
        "new Function",
    ):
        assert word not in text
    for name in re.findall(r"(?:from|import\() ?\"([^\"]+)\"", text):
        if name.startswith("."):
            assert (path.parent / name).is_file(), name
        else:
            assert name in json.loads(IMPORTS)["imports"]


@pytest.mark.parametrize("path", [p for p in OWN if p.suffix == ".js"], ids=lambda path: path.name)
def test_node_can_read_it(path):
    if shutil.which("node") is None:
        pytest.skip("no node")
    source = path.read_text(encoding="utf-8")
    command = ["node", "--input-type=module", "--check"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
