"""What tests of MPI and Ray share; imported inside, once the conftest above has said where compiled code goes."""

import logging
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def nodes():
    """A cluster that listens on the loopback alone and asks for a token; this process is connected to it."""
    import ray
    from ray._private.authentication_test_utils import reset_auth_token_state
    from ray.cluster_utils import Cluster

    from stalegrad.engines.ray.connection import on_loopback

    from .ray_stage import NODE, SYSTEM, TOKEN

    folder = Path(tempfile.mkdtemp(prefix="sg-"))  # a short name: Ray's sockets are in it
    (folder / "token").write_text(TOKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(folder / "token"))
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_worker_niceness", "0")  # else whatever runs beside these tests comes first
        patch.setenv("RAY_raylet_start_wait_time_s", "300")  # half a minute is too short beside other load
        patch.delenv("RAY_ADDRESS", raising=False)
        reset_auth_token_state()  # Ray has read the variables when it was imported
        made = Cluster()
        try:
            made.add_node(num_cpus=4, _system_config=SYSTEM, **NODE)
            with on_loopback():
                ray.init(address=made.address, logging_level=logging.ERROR, log_to_driver=False)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def stage(nodes, tmp_path):
    """A script and a run on that cluster."""
    from .ray_stage import Stage

    return Stage(tmp_path)
