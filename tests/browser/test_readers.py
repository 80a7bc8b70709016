"""What TensorBoard's and MLflow's own readers find in what was written for them."""

import numpy as np
import pytest

import stalegrad as sg


def sampled(*observers):
    model = sg.potentials.from_gradient(lambda theta, indices: theta, size=2, n_data=4)
    functions = {"θ₀ <b>": lambda theta: theta[0]}
    return sg.sample(
        model, sg.SGLD(step_size=0.1), steps=200, workers=2, progress=False, observers=observers, functions=functions
    )


def test_tensorboard_reads_it(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = sampled(sg.observers.TensorBoard(tmp_path, every=0.05))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()
    assert {"updates", "staleness/mean", "progress"} <= set(tags["scalars"])
    last = events.Scalars("updates")[-1]
    assert (last.step, last.value) == (200, 200)
    value = events.Scalars("estimate/.._.b.")[-1].value
    np.testing.assert_allclose(value, run.estimate(lambda theta: theta[0]).value, rtol=1e-5)
    assert "recipe/text_summary" in tags["tensors"]


@pytest.mark.filterwarnings("default")  # those of MLflow and of what it imports are not ours to mend
def test_mlflow_reads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    place = f"file://{tmp_path}/mlruns"
    sampled(sg.observers.MLflow("trial", tracking_uri=place, every=0.05))
    client = mlflow.MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name("trial")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["settings.steps"] == "200"
    assert run.data.metrics["updates"] == 200
    history = client.get_metric_history(run.info.run_id, "updates")
    assert history[-1].step == 200
