"""Jobs under Slurm that are put into the queue again, or leave no result; squeue is a script here."""

from types import SimpleNamespace

import pytest

from workflows.command_line import cluster
from workflows.command_line.cluster import TERMINATED, Queue


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue that is looked at each time; and what it holds, None: squeue fails."""
    program, listed = tmp_path / "squeue", tmp_path / "listed"
    program.write_text(f"#!/bin/sh\ncat {listed}\n")
    program.chmod(0o755)
    monkeypatch.setattr(cluster, "SQUEUE", [str(program), *cluster.SQUEUE[1:]])
    monkeypatch.setattr(cluster, "QUEUE_S", 0.0)

    def holds(*names):
        listed.unlink(missing_ok=True)
        if names != (None,):
            listed.write_text("".join(f"{name}\n" for name in names))

    return Queue(True), holds


def job(name, code=None):
    """As submitit has it: without a result, or with one."""
    return SimpleNamespace(
        job_id=name, done=lambda: code is not None, exception=lambda: None, results=lambda: [code]
    )


def test_a_job_that_was_told_to_end_and_waits_again_is_waited_for(queue):
    looked, holds = queue
    holds("5_0", "5_1")
    assert not looked.ended(job("5_0", TERMINATED))
    assert looked.ended(job("5_0", 0)) and looked.ended(job("5_0", 1))
    holds("5_1")
    assert looked.ended(job("5_0", TERMINATED))
    assert not looked.ended(job("5_1"))


def test_a_job_that_is_gone_without_a_result_is_lost_at_the_second_look(queue):
    looked, holds = queue
    holds("5_0")
    assert not looked.ended(job("5_0"))
    holds()
    assert not looked.ended(job("5_0"))
    assert looked.ended(job("5_0"))


def test_where_nobody_knows_the_queue_results_are_waited_for(queue):
    looked, holds = queue
    holds(None)
    for known in (looked, Queue(False)):
        for _ in range(3):
            assert not known.ended(job("5_0"))
        assert known.ended(job("5_0", TERMINATED))
