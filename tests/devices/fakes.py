"""An NVML that answers from memory. Queries named in `failing` raise as the library does."""

from types import SimpleNamespace

import pynvml


class FakeNvml:
    def __init__(self, gpus=("NVIDIA A100",), failing=(), driver=True, capability=(8, 0), cuda=13000):
        self.gpus, self.failing, self.driver = gpus, set(failing), driver
        self.capability, self.cuda = capability, cuda

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in self.failing:
            return self._refuse
        return super().__getattribute__(name)

    def _refuse(self, *args):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlInit(self):
        if not self.driver:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def nvmlSystemGetDriverVersion(self):
        return "580.65.06"

    def nvmlSystemGetCudaDriverVersion(self):
        return self.cuda

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return f"handle-{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != "MIG-1":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return "mig-handle-0"

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        if not handle.startswith("mig-"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return handle.removeprefix("mig-")

    def nvmlDeviceGetUUID(self, handle):
        return {"handle-0": "GPU-aaaa-1", "handle-1": "GPU-abbb-2", "handle-2": "GPU-cccc-3"}[handle]

    def nvmlDeviceGetName(self, handle):
        return self.gpus[int(handle[-1])]

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=(40 + int(handle[-1])) * 10**9, used=3 * 10**9)

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        if handle.startswith("mig-"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self.capability

    def nvmlDeviceGetAttributes(self, handle):
        if not handle.startswith("mig-"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(multiprocessorCount=42)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 400_000

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=87)

    def nvmlDeviceGetPowerUsage(self, handle):
        return 251_500 + int(handle[-1])

    def nvmlDeviceGetTemperature(self, handle, sensor):
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return 61

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return 1_234_567 + 1000 * int(handle[-1])

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return 0x20 | 0x4  # the driver's thermal slowdown, and the power cap that is no fault

    def nvmlDeviceGetClockInfo(self, handle, clock):
        assert clock == pynvml.NVML_CLOCK_SM
        return 1410
