"""The deployment files of docs/serving.md: commands that are taken, and waits that are long enough."""

import re
import shlex
from pathlib import Path

import pytest

from seqloom.cli.options import given
from seqloom.cli.serve import command
from seqloom.serving.configs import ServeConfig

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def block(begins):
    (found,) = [one for one in BLOCKS if one.startswith(begins)]
    return found


def taken(words):
    """The options of a command, as `seqloom serve` takes them."""
    assert Path(words[0]).name == "seqloom"
    assert words[1] == "serve"
    context = command.make_context("serve", words[2:])
    options = {
        key: value for key, value in context.params.items() if key not in ("models", "as_json")
    }
    with context:
        return ServeConfig(**given(ServeConfig, options))


def test_systemd():
    unit = dict(line.split("=", 1) for line in block("[Unit]").splitlines() if "=" in line)
    config = taken(shlex.split(unit["ExecStart"]))
    assert int(unit["TimeoutStopSec"]) > config.drain
    # the kernels' cache is where the service may write, and stays
    assert f"NUMBA_CACHE_DIR=/var/cache/{unit['CacheDirectory']}" in unit["Environment"].split()


def test_compose_and_nginx():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load(block("services:"))["services"]
    config = taken(shlex.split(services["model"]["command"]))
    assert config.host == "0.0.0.0"
    assert int(services["model"]["stop_grace_period"].removesuffix("s")) > config.drain
    assert f":{config.port}/ready" in services["model"]["healthcheck"]["test"][-1]
    assert f"server model:{config.port};" in block("events")


def test_kubernetes():
    yaml = pytest.importorskip("yaml")
    pod = yaml.safe_load(block("apiVersion"))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    config = taken(container["command"])
    assert config.host == "0.0.0.0"
    assert pod["terminationGracePeriodSeconds"] > config.drain
    assert container["ports"] == [{"containerPort": config.port}]
    for probe, path in (("startup", "ready"), ("readiness", "ready"), ("liveness", "health")):
        asked = container[f"{probe}Probe"]["httpGet"]
        assert asked == {"path": f"/{path}", "port": config.port}
