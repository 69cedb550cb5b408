"""The prices of prices.toml as values. Whoever pays compares them with Linode's own."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

# Linode's month: 24 dollars of it are 0.036 an hour (api.linode.com/v4/linode/types).
HOURS = 24 / 0.036


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars without tax, read on a day from a source; an hour's may be derived."""

    name: str
    hourly: float
    monthly: float
    as_of: str
    source: str
    derived: bool = False


@cache
def plans() -> dict[str, Price]:
    """Every plan that a pool can be made of."""
    return _prices("plans")


@cache
def others() -> dict[str, Price]:
    """Everything else that is billed: per piece, and per GiB for `volume`."""
    return _prices("others")


def _prices(table: str) -> dict[str, Price]:
    text = resources.files("nearfar_infra").joinpath("prices.toml").read_text("utf-8")
    return {name: _price(name, entry) for name, entry in tomllib.loads(text)[table].items()}


def _price(name: str, entry: dict[str, float | str]) -> Price:
    monthly = float(entry["monthly"])
    hourly = float(entry.get("hourly", round(monthly / HOURS, 4)))
    derived = "hourly" not in entry
    return Price(name, hourly, monthly, str(entry["as_of"]), str(entry["source"]), derived)
