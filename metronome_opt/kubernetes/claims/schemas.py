"""The two custom resources: STBandwidthCapacity and STBandwidthClaim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

Manifest = dict[str, Any]
Manifests = Mapping[str, Sequence[Manifest]]

VERSION = "v1alpha1"
CLAIM = "STBandwidthClaim"
CAPACITY = "STBandwidthCapacity"


def read_shipped(name: str) -> list[Any]:
    """Return the documents of a YAML file beside this module."""
    text = files("metronome_opt.kubernetes.claims").joinpath(name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))
