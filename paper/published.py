"""Headline numbers of others, each with its source."""

from __future__ import annotations

from collections.abc import Mapping

HEADLINES: Mapping[str, str] = {
    # arXiv 2510.12274, abstract: "up to", against existing scheduling mechanisms of Kubernetes.
    "headlineCompletion": "19.50",
    "headlineUtilisation": "23.20",
    "headlineModels": "13",
    # arXiv 2308.00852 (NSDI'24): mean and tail completion time, ECN marks; servers of the testbed.
    "headlineCassiniMean": "1.6",
    "headlineCassiniTail": "2.5",
    "headlineCassiniMarks": "33",
    "headlineCassiniServers": "24",
    "headlineCassiniNic": "50",
    "headlineCassiniStep": "5",
    # SIGCOMM'24: GPU utilisation.
    "headlineCruxLow": "8.3",
    "headlineCruxHigh": "14.8",
    # HotNets'24: mean and p99 iteration time, up to.
    "headlineMltcpMean": "2",
    "headlineMltcpTail": "4",
    # RTAS'24.
    "headlineTsnkitSchedulers": "17",
    "headlineTsnkitInstances": "38,400",
}
"""Texts of macros. References stand in the paper's bibliography."""
