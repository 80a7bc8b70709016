"""What if it is killed in the middle?
===================================

A run in a process of its own is ended with ``SIGKILL``, which no program can prepare for. It is resumed here, with
another number of workers, on another engine. Then the whole of it is replayed, to the same bits.
"""

# %%
# The process that samples. Its model is in a file, as yours would be, so that anybody can make it again.

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 30_000 if SMALL else 300_000
folder = Path(tempfile.mkdtemp())
SCRIPT = """
import numpy as np, stalegrad as sg

def model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10))
    y = rng.random(20_000) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, 10)))
    return sg.potentials.Logistic(X, y, prior_scale=1.0, batch_size=200)

if __name__ == "__main__":
    kernel = sg.SGHMC(step_size=2e-3, friction=50.0)
    sg.sample(model(), kernel, steps=10**9, thin=500, workers=2, store="run", checkpoint_every=1.0, progress=False)
"""
(folder / "long_run.py").write_text(SCRIPT)
process = subprocess.Popen([sys.executable, "long_run.py"], cwd=folder)

# %%
# A thousand million updates take hours. We wait until some are on disk, and kill it.


def stored():
    """Updates of chain 0 that are on disk."""
    try:
        return len(sg.load(folder / "run").trace.chains[0])
    except sg.StoreError:
        return 0


while stored() < STEPS // 3 and process.poll() is None:
    time.sleep(0.2)
process.send_signal(signal.SIGKILL)
process.wait()
killed_at = stored()
print(f"killed; {killed_at:,} gradients are on disk")

# %%
# It goes on from its last checkpoint, with one worker, in this process, to an end that we choose now.

sys.path.insert(0, str(folder))
from long_run import model  # noqa: E402

total = sg.load(folder / "run").draws.shape[1] * 500 + STEPS // 2
run = sg.resume(folder / "run", model(), workers=1, engine="inline", steps=total, progress=False)
print(run)

# %%
# **A run is its trace.** All randomness is a function of the seed and of addresses in the trace, so that replaying
# the trace of both sessions gives the same draws, to the last bit.

again = sg.replay(run.trace, model())
print("replayed bit for bit:", np.array_equal(again.draws, np.asarray(run.draws[:])))

# %%
# The staleness shows where the second session begins: two workers before, one after.

ages = run.trace.chains[0].staleness
draws = np.asarray(run.draws[0])
figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True, constrained_layout=True)
top.plot(np.arange(len(draws)) * 500, draws[:, 0], lw=0.8, color="#4c72b0")
top.set(title="one parameter, over both sessions", ylabel="θ₀")
window = max(1, len(ages) // 300)
bottom.plot(np.arange(len(ages) // window) * window, ages[: len(ages) // window * window].reshape(-1, window).mean(1))
bottom.set(title="staleness of its gradients", xlabel="update", ylabel="updates old")
for axis in (top, bottom):
    axis.axvline(killed_at, color="#c44e52", ls="--", lw=1)
top.annotate("kill -9", (killed_at, 0.97), xycoords=("data", "axes fraction"), va="top", color="#c44e52")
plt.show()
