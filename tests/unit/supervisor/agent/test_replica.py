"""What a replica's processes are started with."""

from opentela.supervisor.agent.replica import surroundings


def test_a_replica_is_configured_by_its_agent_alone() -> None:
    """Variables that configure supervisors and agents mean those that people start."""
    environ = {"PATH": "/bin", "OTELA_SUPERVISOR__BEAT_S": "9", "OTELA_AGENT__SLOTS": "2"}
    assert surroundings(environ, template={}, devices={}) == {"PATH": "/bin"}


def test_gpus_win_over_the_template_and_that_over_the_environment() -> None:
    """No template can reach for GPUs of another replica."""
    told = surroundings(
        {"A": "1", "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "0,1"},
        template={"A": "2", "CUDA_VISIBLE_DEVICES": "7"},
        devices={"CUDA_VISIBLE_DEVICES": "1", "SLURM_STEP_GPUS": None},
    )
    assert told == {"A": "2", "CUDA_VISIBLE_DEVICES": "1"}
