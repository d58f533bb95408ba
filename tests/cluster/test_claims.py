"""Claims of real processes on real files."""

import multiprocessing as mp
import os
import random
import signal
import time

from accelbench.cluster.job import Claims

IDS = [f"{number:012x}" for number in range(40)]


def claims_of(folder, job, alive=(), done=frozenset()):
    return Claims(folder, job, lambda other: other in alive, lambda other, cell_id: (other, cell_id) in done)


def measure(folder, job, dead, pause_s):
    """A job: takes its turns; a line in `log` for each, and a file once it is done. Jobs in `dead` have ended."""

    def is_done(owner, cell_id):
        return (folder / f"{cell_id}-{owner}.json").exists()

    made = Claims(folder / "claims", job, lambda other: other not in dead, is_done)
    for cell_id in made.turns(IDS):
        with (folder / "log").open("a") as log:
            log.write(f"{cell_id} {job} begins\n")
        time.sleep(pause_s)
        (folder / f"{cell_id}-{job}.json").write_text("")


def run_jobs(folder, jobs, dead=(), pause_s=0.002):
    """The jobs' processes, which have started."""
    context = mp.get_context("fork")
    processes = [context.Process(target=measure, args=(folder, job, dead, pause_s)) for job in jobs]
    for process in processes:
        process.start()
    return processes


def measured(folder):
    return sorted(path.stem.partition("-")[0] for path in folder.glob("*-*.json"))


def test_jobs_at_once_measure_each_cell_once(tmp_path):
    for process in run_jobs(tmp_path, ["a", "b", "c", "d"]):
        process.join()
        assert process.exitcode == 0
    assert measured(tmp_path) == IDS
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == len(IDS)
    assert not [path for path in (tmp_path / "claims").iterdir() if path.name.startswith(".")]


def test_a_cell_of_a_job_that_lives_is_left_to_it(tmp_path):
    next(claims_of(tmp_path, "a").turns(IDS[:1]))
    assert list(claims_of(tmp_path, "b", alive={"a"}).turns(IDS[:1])) == []
    assert claims_of(tmp_path, "b").owners(IDS[0]) == ["a"]


def test_a_cell_of_a_job_that_has_ended_is_taken_over_unless_it_has_a_record(tmp_path):
    for _ in claims_of(tmp_path, "a", done={("a", IDS[0])}).turns(IDS[:1]):
        pass
    assert list(claims_of(tmp_path, "b", done={("a", IDS[0])}).turns(IDS[:1])) == []
    assert next(claims_of(tmp_path, "b").turns(IDS[:1])) == IDS[0]
    assert claims_of(tmp_path, "b").owners(IDS[0]) == ["a", "b"]
    assert list(claims_of(tmp_path, "a", alive={"b"}).turns(IDS[:1])) == []  # even if it came back


def test_kills_at_random_moments_lose_no_cell_and_repeat_only_the_one_that_was_cut_off(tmp_path):
    generator, dead, num_kills = random.Random(1), set(), 0
    job = 0
    while len(measured(tmp_path)) < len(IDS):
        names = [f"{job}-{number}" for number in range(3)]
        processes = run_jobs(tmp_path, names, dead=set(dead))
        time.sleep(generator.uniform(0, 0.04))
        for process in processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                num_kills += 1
            process.join()
        dead |= set(names)
        job += 1
    assert measured(tmp_path) == IDS  # each once
    begun = len((tmp_path / "log").read_text().splitlines())
    assert len(IDS) <= begun <= len(IDS) + num_kills
