"""GPUs, cores and memory: needs of pods, and resources of nodes.

A GPU is any accelerator: an extended resource that a device plugin offers, or a device that is
claimed (dynamic resource allocation, DRA). A claim states the class of its devices; the class
states an extended resource or the driver of its devices, or is called like the driver.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from operator import add

from metronome_opt.errors import first_few, sanitize
from metronome_opt.kubernetes.reading.fields import (
    Field,
    KubernetesObject,
    UnreadableError,
    UnsuitableError,
)
from metronome_opt.scenario.nodes import Resources

DEVICE_GROUP = "resource.k8s.io"
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")

_KNOWN = re.compile(
    r"nvidia\.com/(gpu(\.shared)?|mig-.+)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/neuron(core|device)?|huawei\.com/(Ascend.+|npu)"
    r"|(gpu|mig|npu|tpu|neuron|gaudi)\.[^/]+"  # classes and drivers of claimed devices
)
_EXTENDED = {"gpu.nvidia.com": "nvidia.com/gpu", "gpu.amd.com": "amd.com/gpu"}  # by driver
_POLICIES = {  # of jobs of a JobSet, with their lists of jobs, the newest first
    "replicatedJobs": "targetReplicatedJobs",
    "replicatedJobPolicies": "targetReplicatedJob",
}
_SHARES = ("gpu-fraction", "gpu-memory")  # annotations of KAI
_DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([^\"']+)")
_TYPE = re.compile(r"\.type\s*==\s*[\"'](\w+)")
_ORDINARY = re.compile(r"[^/]*|.*kubernetes\.io/.*")  # resources that no plugin offers

_MAX_LISTED = 200  # characters of names of resources in a message
_MEBI = 2**20
_MAX_AMOUNT = 2**40  # of any resource, as in scenarios


def gpu_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names of resources that are stated to count as GPUs, and of their devices."""
    stated = frozenset(names)
    return stated | {_EXTENDED[name] for name in stated if name in _EXTENDED}


def needs_of(spec: Field) -> Resources:
    """Return the resources that a pod needs on its node, as Kubernetes counts them.

    These are the needs of its containers together with its sidecars, or of an init container
    together with the sidecars before it, whichever is more. Requests of the pod as a whole count
    instead, and its overhead is added. A limit without a request counts as a request. Source: the
    page "Effective Pod requests and limits" of the Kubernetes documentation. Claimed devices are
    added.
    """
    running, needs = [Fraction(0)] * 3, [Fraction(0)] * 3
    for container in (spec / "initContainers").items():
        starting = list(map(add, running, _requests(container)))
        needs = list(map(max, needs, starting))
        if (container / "restartPolicy").value == "Always":
            running = starting
    for container in (spec / "containers").items():
        running = list(map(add, running, _requests(container)))
    needs = list(map(max, needs, running))
    if needs[0] % 1:
        spec.fail(f"its containers ask for {float(needs[0]):g} GPUs; GPUs are whole")
    stated, limited = (_amounts(spec.at(f"resources.{name}")) for name in ("requests", "limits"))
    whole = [first or own or last for first, own, last in zip(stated, needs, limited, strict=True)]
    whole[0] += sum(count for name, count, _ in _claims(spec) if _counts(name, spec))
    return _resources(spec, map(add, whole, _amounts(spec / "overhead")), math.ceil)


def accelerators_of(spec: Field) -> set[str]:
    """Return the resources of a pod that count as GPUs."""
    return {name for name in _asked(spec) if _counts(name, spec)}


def explain_no_gpus(template: Field) -> UnsuitableError:
    """Return the reason why the pods of a template hold no GPUs."""
    spec, stated = template / "spec", template.at("metadata.annotations").texts()
    reasons = [reason for _, _, reason in _claims(spec) if reason]
    if reasons:
        return UnreadableError(f"claims devices (DRA): {reasons[0]}")
    shares = [name for name in _SHARES if name in stated]
    if shares:
        return UnreadableError(f"with a share of a GPU ({shares[0]}); GPUs are whole")
    others = sorted(name for name in _asked(spec) if not _ORDINARY.fullmatch(name))
    asked = sanitize(first_few(others), _MAX_LISTED)
    if any(map(_KNOWN.fullmatch, others)):
        return UnsuitableError(f"without GPUs of --gpu-resource, with {asked}")
    remedy = f"; of {asked}, --gpu-resource names the one that counts" if others else ""
    return UnreadableError(f"without GPUs{remedy}")


def check_claims(spec: Field) -> None:
    """Refuse claims of devices that count as GPUs, but whose number for a pod is not known."""
    for name, _, reason in _claims(spec):
        if reason and _counts(name, spec):
            raise UnreadableError(f"claims devices (DRA): {reason}")


def has_of(node: Field, devices: Mapping[str, int]) -> Resources:
    """Return the resources of a Node for pods, rounded down; of its GPUs the most of one kind."""
    has = node.at("status.allocatable") or node.at("status.capacity")
    _, cores, memory = _amounts(has)
    return _resources(has, (max(devices.values(), default=0), cores, memory), math.floor)


def count_offered(node: Field, claimable: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the GPUs of a node by resource: of its plugins, and devices that can be claimed."""
    has = node.at("status.allocatable") or node.at("status.capacity")
    stated = {name: int((has / name).quantity()) for name in has.mapping() if _counts(name, node)}
    devices = {name: count for name, count in (claimable or {}).items() if _counts(name, node)}
    every = {name: max(stated.get(name, 0), devices.get(name, 0)) for name in {*stated, *devices}}
    return {name: count for name, count in sorted(every.items()) if count}


def count_claimable(slices: Iterable[KubernetesObject]) -> dict[str, Counter[str]]:
    """Return the devices of ResourceSlices by node and resource."""
    devices: dict[str, Counter[str]] = defaultdict(Counter)
    for source in slices:
        spec = source / "spec"
        driver = (spec / "driver").text()
        for device in (spec / "devices").items():
            kind = device.at("attributes.type.string") or device.at("basic.attributes.type.string")
            name = _resource_of(driver, kind.value)
            devices[(spec / "nodeName").text("")][name] += 1
    return devices


def neediest(needs: Iterable[Resources]) -> Resources:
    """Return the maximum of each resource."""
    gpus, cores, memory = map(max, zip(*(need.vector for need in needs), strict=True))
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)


def _counts(name: str, field: Field) -> bool:
    """Return whether a resource counts as GPUs."""
    root = field if isinstance(field, KubernetesObject) else field.root
    chosen = root.context.gpu_resources if root else ()
    return name in chosen if chosen else _KNOWN.fullmatch(name) is not None


def _asked(spec: Field) -> set[str]:
    """Return the resources of which a pod asks for some, also of those that do not count."""
    containers = [*(spec / "initContainers").items(), *(spec / "containers").items(), spec]
    stated = [one.at(f"resources.{key}") for one in containers for key in ("requests", "limits")]
    amounts = [(name, value) for field in stated for name, value in field.mapping().items()]
    plain = {name for name, value in amounts if value not in (None, 0, "0")}
    return plain | {name for name, count, _ in _claims(spec) if count}


def _requests(container: Field) -> list[Fraction]:
    return _amounts(container.at("resources.requests"), container.at("resources.limits"))


def _amounts(*fields: Field) -> list[Fraction]:
    """Return GPUs, thousandths of a core and MiB, by the first field that states them."""

    def amount(name: str) -> Fraction:
        stated = next(filter(None, (field / name for field in fields)), None)
        return Fraction(0) if stated is None else stated.quantity()

    if not any(fields):
        return [Fraction(0)] * 3
    names = {name for field in fields for name in field.mapping() if _counts(name, field)}
    gpus = sum(map(amount, names), Fraction(0))
    return [gpus, 1000 * amount("cpu"), amount("memory") / _MEBI]


def _resources(
    field: Field, amounts: Iterable[Fraction | int], rounded: Callable[[Fraction | int], int]
) -> Resources:
    gpus, millicores, mebibytes = map(rounded, amounts)
    if max(gpus, millicores, mebibytes) > _MAX_AMOUNT:
        field.fail(f"GPUs, thousandths of a core and MiB must be at most {_MAX_AMOUNT}")
    return Resources(gpus=gpus, cpu_millicores=millicores, memory_mib=mebibytes)


# ------------------------------------------------------------------ claimed devices


def scheduling_policies(root: KubernetesObject) -> Iterator[tuple[Field, list[str] | None]]:
    """Yield what a JobSet states for PodGroups of its jobs, with names of jobs, None for all.

    The root may also be a runtime, which has the template of a JobSet.
    """
    is_runtime = root.kind in RUNTIMES
    if root.kind != "JobSet" and not is_runtime:
        return
    scheduling = root.at("spec.template.spec.scheduling" if is_runtime else "spec.scheduling")
    yield scheduling, None
    for name, targets in _POLICIES.items():
        for policy in (scheduling / name).items():
            jobs = policy / targets
            if isinstance(jobs.value, str):  # in the oldest form
                jobs = jobs.inside([jobs.value])
            names = [job.text() for job in jobs.items()]
            yield policy, names
            yield policy / "job", names


def _claims(spec: Field) -> Iterator[tuple[str, int, str]]:
    """Yield resources that a pod claims, with numbers, or why they do not count."""
    shared: set[str] = set()
    if (spec / "resourceClaims") and spec.root:
        group = spec.at("schedulingGroup.podGroupName").text("?")
        gang = spec.root.find("PodGroup", "scheduling.k8s.io", group)
        policies = [gang / "spec"] if gang else []
        policies += [policy for policy, _ in scheduling_policies(spec.root)]
        claims = (claim for policy in policies for claim in (policy / "resourceClaims").items())
        shared = {(claim / "name").text("") for claim in claims}
    for claim in (spec / "resourceClaims").items():
        if (name := (claim / "name").text("")) in shared:
            yield "", 0, f"pods of a PodGroup share claim {name}; let each have its own"
            continue
        kind = "ResourceClaimTemplate" if claim / "resourceClaimTemplateName" else "ResourceClaim"
        name = (claim / f"r{kind[1:]}Name").text("?")
        source = spec.root.find(kind, DEVICE_GROUP, name) if spec.root else None
        if source is None:
            yield "", 0, f"{kind} {name} is missing; add it"
            continue
        inner = "spec.spec.devices" if kind == "ResourceClaimTemplate" else "spec.devices"
        for request in source.at(f"{inner}.requests").items():
            yield _requested(request, source, is_shared=kind == "ResourceClaim", spec=spec)


def _requested(
    request: Field, source: KubernetesObject, *, is_shared: bool, spec: Field
) -> tuple[str, int, str]:
    """Return the resource, the number and the fault of one request of a claim."""
    first = next(iter((request / "firstAvailable").items()), None)
    exact = first or request / "exactly"
    exact = exact if exact else request
    name = (exact / "deviceClassName").text()
    resource = _resource_of_class(name, source)
    if not _counts(resource, source) and not _counts(name, source):
        return resource, 0, f"class {name} is not known; --gpu-resource {name} counts its devices"
    if (exact / "adminAccess").flag():
        return resource, 0, f"{source.title} only monitors devices"
    if (exact / "allocationMode").text("ExactCount") != "ExactCount":
        return resource, 0, f"{source.title} takes all devices of a node; state their number"
    if is_shared and spec.root and spec.root.kind != "Pod":
        return resource, 0, f"all pods share {source.title}; claim by a ResourceClaimTemplate"
    return resource, (exact / "count").integer(1, 1, _MAX_AMOUNT), ""


def _resource_of_class(name: str, source: KubernetesObject) -> str:
    """Return the resource that devices of a class count as."""
    known = source.find("DeviceClass", DEVICE_GROUP, name)
    if name in source.context.gpu_resources or known is None:
        return _EXTENDED.get(name, name)
    text = " ".join(
        selector.at("cel.expression").text("", _MAX_AMOUNT)
        for selector in known.at("spec.selectors").items()
    )
    driver, kind = _DRIVER.search(text), _TYPE.search(text)
    stated = known.at("spec.extendedResourceName").text("")
    return stated or _resource_of(driver[1] if driver else name, kind[1] if kind else None)


def _resource_of(driver: str, kind: object) -> str:
    """Return the resource that devices of a driver count as; partitions are of their own kind."""
    if kind == "mig":
        driver = f"mig.{driver.partition('.')[2]}"
    return _EXTENDED.get(driver, driver)
