"""``metronome controller``: place waiting pods of a cluster, gang by gang."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, quote

if TYPE_CHECKING:
    from metronome_opt.kubernetes.controller.loop import ControllerMetrics


def controller(
    state: options.State,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Make STATE if it is missing, as place does; else apply changes of its nodes.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The kubeconfig.", show_default="KUBECONFIG, ~/.kube/config"
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Place only pods of this namespace.", show_default="all"),
    ] = None,
    bind_timeout: Annotated[
        float,
        typer.Option(
            min=1, metavar="S", help="Restart a gang with a pod that is not bound after S seconds."
        ),
    ] = 60.0,
    node_timeout: Annotated[
        float,
        typer.Option(min=1, metavar="S", help="Restart gangs of a node not ready for S seconds."),
    ] = 300.0,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of the Prometheus server: jobs that deviate from claims get other windows.",
            show_default="none: windows change only if jobs arrive or depart",
        ),
    ] = None,
    gpu_resource: options.GpuResources = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve metrics here.")
    ] = None,
) -> int:
    """Give waiting pods of a cluster nodes and windows.

    Pods wait behind the scheduling gate metronome.x-k8s.io/place. Killed at any moment, the
    controller goes on from STATE and the pods' annotations.
    """
    from metronome_opt.kubernetes.claims.names import check_namespace
    from metronome_opt.kubernetes.controller.client import ALL_NAMESPACES, connect
    from metronome_opt.kubernetes.controller.live import LiveCluster
    from metronome_opt.kubernetes.controller.loop import ControllerMetrics, run, watch
    from metronome_opt.kubernetes.controller.reconcile import Controller
    from metronome_opt.kubernetes.state.scenario import make_state
    from metronome_opt.kubernetes.state.store import Store

    where = check_namespace(namespace) if namespace is not None else ALL_NAMESPACES
    read = None
    if prometheus is not None:
        from metronome_opt.kubernetes.profiles.prometheus import Prometheus

        read = Prometheus(prometheus).read
    changed, stop = threading.Event(), threading.Event()

    def end_round(*_: object) -> None:
        stop.set()
        changed.set()

    metrics = ControllerMetrics()
    with ExitStack() as stack:
        client = stack.enter_context(connect(kubeconfig))
        live = LiveCluster(client, gpu_resource or ())
        if listen is not None:
            _answer_scrapes(listen, metrics)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end_round)
        new = None if cluster is None else make_state(cluster, time.time())
        if new is not None and not state.exists():
            store = stack.enter_context(Store.keep(state, new))
            options.wrote(state)
        else:
            store = stack.enter_context(Store(state))
            if new is not None and store.change_cluster(new.cluster):
                typer.echo(f"{state}: has the nodes and links of {cluster} now", err=True)
        loop = Controller(
            store.state,
            live,
            namespace=namespace,
            bind_timeout_s=bind_timeout,
            node_timeout_s=node_timeout,
        )
        watch(client, where, changed, stop)
        run(
            loop,
            live,
            read,
            stop=stop,
            changed=changed,
            metrics=metrics,
            notify=lambda line: typer.echo(line, err=True),
        )
    return 0


def _answer_scrapes(address: str, metrics: ControllerMetrics) -> None:
    """Answer scrapes at ``HOST:PORT`` until the process ends; an IPv6 address is in brackets."""
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    try:
        start_http_server(int(port), host.removeprefix("[").removesuffix("]"), metrics.registry)
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"--listen: {quote(address)}: cannot be listened on ({error}); give HOST:PORT"
        ) from None
