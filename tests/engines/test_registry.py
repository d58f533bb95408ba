from accelbench.engines.registry import host_spec
from accelbench.vocab import Device
from fakes import make_cell


def test_each_device_gets_the_environment_that_its_library_reads_at_import():
    environments = {device: dict(host_spec(make_cell(device=device)).environment) for device in Device}
    assert environments == {
        Device.cpu: {},
        # As NVML numbers GPUs: what is sampled is what computes.
        Device.gpu: {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        Device.tpu: {"PJRT_DEVICE": "TPU"},
        Device.xla_cpu: {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"},
    }


def test_cells_that_need_different_environments_share_no_host():
    keys = {host_spec(make_cell(device=device)).key for device in Device}
    assert len(keys) == len(Device)
    assert host_spec(make_cell(batch_size=1)).key == host_spec(make_cell(batch_size=2)).key
