"""Where throughput is usually found: counters of bytes sent, as Prometheus names them."""

from __future__ import annotations

import json
import re

from metronome_opt.errors import InputError, show

NODE_COUNTER = "node_network_transmit_bytes_total"
"""Of node_exporter, by `device`: all that leaves an interface, read when it is scraped."""

POD_COUNTER = "container_network_transmit_bytes_total"
"""Of the kubelet's cAdvisor, by `namespace`, `pod` and `interface`: what leaves a pod, read as
often as the kubelet is set to, which may be too seldom to see bursts."""

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def selector(metric: str, **labels: str) -> str:
    """Return the PromQL that selects the series of `metric` with exactly these labels.

    >>> selector(NODE_COUNTER, instance="n-1:9100", device="eth0")
    'node_network_transmit_bytes_total{instance="n-1:9100",device="eth0"}'

    Raises
    ------
    InputError
        If a name is none that Prometheus takes.
    """
    for name, pattern in [(metric, _METRIC), *((label, _LABEL) for label in labels)]:
        if not pattern.fullmatch(name):
            raise InputError(f"{show(name)}: no name of Prometheus; use letters, digits and _")
    matchers = ",".join(
        f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in labels.items()
    )
    return f"{metric}{{{matchers}}}"
