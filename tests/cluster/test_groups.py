from accelbench.cluster.controller import Need, groups, shares
from accelbench.schema.vocab import Device
from fakes import make_cell


def test_cells_that_need_the_same_are_one_group():
    cells = [
        make_cell(device=device, devices=num)
        for device, num in [
            (Device.cpu, 1),
            (Device.gpu, 1),
            (Device.cpu, 2),
            (Device.xla_cpu, 1),
            (Device.gpu, 2),
            (Device.gpu, 1),
        ]
    ]
    found = groups(cells)
    assert {str(need): [cells.index(cell) for cell in group] for need, group in found.items()} == {
        "cpu": [0, 2, 3],
        "gpu": [1, 1],
        "2 x gpu": [4],
    }
    assert Need.of(cells[4]) == Need(Device.gpu, 2)


def test_each_job_begins_with_its_own_share_and_may_take_all():
    cells = [make_cell(batch_size=size) for size in range(1, 6)]
    parts = shares(cells, 2)
    assert [[cell.batch_size for cell in part] for part in parts] == [[1, 3, 5, 2, 4], [2, 4, 1, 3, 5]]


def test_the_cells_of_a_repeat_belong_to_one_job_if_there_are_enough_repeats():
    cells = [make_cell(batch_size=size, repeat=repeat) for repeat in range(3) for size in (1, 2)]
    numbers = [[(cell.repeat, cell.batch_size) for cell in part] for part in shares(cells, 2)]
    assert numbers[0] == [(0, 1), (0, 2), (2, 1), (2, 2), (1, 1), (1, 2)]
    assert numbers[1] == [(1, 1), (1, 2), (0, 1), (0, 2), (2, 1), (2, 2)]
    begun = [part[0] for part in shares(cells, 5)]  # fewer repeats than jobs: those of a repeat share it
    assert [(cell.repeat, cell.batch_size) for cell in begun] == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)]


def test_there_are_no_more_jobs_than_cells():
    cells = [make_cell(batch_size=size) for size in (1, 2)]
    assert len(shares(cells, 5)) == 2
    assert shares(cells, 1) == [cells]
