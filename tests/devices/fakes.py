"""An NVML that answers from memory. Queries named in `failing` raise as the library does."""

from types import SimpleNamespace

import pynvml


def refuse(*args, error=pynvml.NVML_ERROR_NOT_SUPPORTED):
    raise pynvml.NVMLError(error)


class FakeNvml:
    def __init__(self, gpus=("NVIDIA A100",), failing=(), driver=True, capability=(8, 0), cuda=13000):
        def of_whole(answer):
            return lambda handle: refuse() if handle.startswith("mig-") else answer

        def of_mig(answer):
            return lambda handle: answer(handle) if handle.startswith("mig-") else refuse()

        answers = {
            "Init": lambda: None if driver else refuse(error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND),
            "SystemGetDriverVersion": lambda: "580.65.06",
            "SystemGetCudaDriverVersion": lambda: cuda,
            "DeviceGetCount": lambda: len(gpus),
            "DeviceGetHandleByIndex": lambda index: f"handle-{index}",
            "DeviceGetHandleByUUID": lambda uuid: "mig-handle-0" if uuid == "MIG-1" else refuse(),
            "DeviceGetDeviceHandleFromMigDeviceHandle": of_mig(lambda handle: handle.removeprefix("mig-")),
            "DeviceGetUUID": lambda handle: ["GPU-aaaa-1", "GPU-abbb-2", "GPU-cccc-3"][int(handle[-1])],
            "DeviceGetName": lambda handle: gpus[int(handle[-1])],
            "DeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=(42 - int(handle[-1])) * 10**9, used=3 * 10**9),
            "DeviceGetCudaComputeCapability": of_whole(capability),
            "DeviceGetAttributes": of_mig(lambda handle: SimpleNamespace(multiprocessorCount=42)),
            "DeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=87),
            "DeviceGetPowerUsage": lambda handle: 251_500 + int(handle[-1]),
            "DeviceGetTemperature": lambda handle, sensor: {pynvml.NVML_TEMPERATURE_GPU: 61}[sensor],
            "DeviceGetTotalEnergyConsumption": lambda handle: 1_234_567 + 1000 * int(handle[-1]),
            # The driver's thermal slowdown, and the power cap that is no fault.
            "DeviceGetCurrentClocksEventReasons": lambda handle: 0x20 | 0x4,
            "DeviceGetClockInfo": lambda handle, clock: {pynvml.NVML_CLOCK_SM: 1410}[clock],
        }
        self.answers = {f"nvml{name}": answer for name, answer in answers.items()} | dict.fromkeys(failing, refuse)

    def answer(self, monkeypatch, visible=None):
        """Instead of the library, in an environment whose CUDA_VISIBLE_DEVICES is `visible`."""
        for name, answer in self.answers.items():
            monkeypatch.setattr(pynvml, name, answer)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
