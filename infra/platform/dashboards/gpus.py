"""The dashboard of the GPUs, from the metrics of Triton and the DCGM exporter."""

from __future__ import annotations

from infra.platform.dashboards.board import Dashboard, Query, Row, dashboard, timeseries
from spec.prometheus.rule import series

_GPU = "{{Hostname}} GPU {{gpu}} {{pod}}"


def gpus() -> Dashboard:
    """Return the GPU dashboard, which is the same for every stack."""
    return dashboard(
        "triton-gpus",
        "Triton: GPUs",
        "Work, memory, power and faults. A GPU that several pods share shows the whole GPU's numbers for each of them.",
        [_work(), _memory(), _state(), _triton()],
    )


def _work() -> Row:
    return Row(
        "Work",
        [
            timeseries(
                "Engine active",
                "Share of the time in which the GPU computed. DCGM_FI_DEV_GPU_UTIL only says that some kernel ran.",
                "percentunit",
                _dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
            ),
            timeseries(
                "Tensor cores active",
                "Share of the cycles. Next to nothing while the engine is active: the model runs in full precision.",
                "percentunit",
                _dcgm("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
            ),
            timeseries(
                "Memory active",
                "Share of the cycles in which memory was read or written. Near 1: the model waits for memory.",
                "percentunit",
                _dcgm("DCGM_FI_PROF_DRAM_ACTIVE"),
            ),
        ],
    )


def _memory() -> Row:
    used, free = (f"max by (Hostname, gpu, pod) (DCGM_FI_DEV_FB_{kind})" for kind in ("USED", "FREE"))
    return Row(
        "Memory",
        [
            timeseries("Used", "Of the GPU's memory.", "percentunit", Query(f"{used} / ({used} + {free})", _GPU)),
            timeseries("Free", "What another instance or model could take.", "mbytes", _dcgm("DCGM_FI_DEV_FB_FREE")),
        ],
    )


def _state() -> Row:
    return Row(
        "Health",
        [
            timeseries("Power", "Drawn by each GPU.", "watt", _dcgm("DCGM_FI_DEV_POWER_USAGE")),
            timeseries("Temperature", "Of each GPU.", "celsius", _dcgm("DCGM_FI_DEV_GPU_TEMP"), zero_based=False),
            timeseries(
                "Last Xid error",
                "0: none since the driver was loaded. 48, 64, 79 and 95 are faults of the hardware: replace the node.",
                "short",
                _dcgm("DCGM_FI_DEV_XID_ERRORS"),
            ),
        ],
    )


def _triton() -> Row:
    used, total = (f"max by (pod, gpu_uuid) ({series(f'nv_gpu_memory_{kind}_bytes')})" for kind in ("used", "total"))
    return Row(
        "As Triton sees them",
        [
            timeseries(
                "Utilization",
                "Share of the time in which some kernel ran, of the whole GPU.",
                "percentunit",
                Query(f"max by (pod, gpu_uuid) ({series('nv_gpu_utilization')})", "{{pod}} {{gpu_uuid}}"),
            ),
            timeseries(
                "Memory",
                "Of the whole GPU: TritonGpuMemoryHigh.",
                "percentunit",
                Query(f"{used} / {total}", "{{pod}} {{gpu_uuid}}"),
            ),
            timeseries(
                "Power",
                "Of the whole GPU.",
                "watt",
                Query(f"max by (pod, gpu_uuid) ({series('nv_gpu_power_usage')})", "{{pod}} {{gpu_uuid}}"),
            ),
        ],
    )


def _dcgm(name: str) -> Query:
    return Query(f"max by (Hostname, gpu, pod) ({name})", _GPU)
