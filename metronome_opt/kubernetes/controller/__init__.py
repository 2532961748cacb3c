"""Controller: gives waiting pods nodes and slots, gang by gang."""

from __future__ import annotations

from metronome_opt.kubernetes.controller.reconcile import Controller

__all__ = ["Controller"]
