"""How much do the groups have in common?
======================================

A hierarchical model in NumPyro, as it is written for NUTS, sampled on minibatches: 16 clinics with very different
numbers of patients. Clinics with few patients borrow from the others. The model decides how much.
"""

# %%
# The only difference from a model for NUTS is ``subsample_size`` on the plate of the data. Every clinic has enough
# patients to say more of its effect than the others do, so the groups are written centred. With two or three patients
# each they would be a funnel, which ``run.diagnose`` finds, and ``mu + tau * z`` with ``z ~ N(0, 1)`` the way to
# write it.

import os

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import stalegrad as sg

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
STEPS = 4_000 if SMALL else 30_000
CLINICS = 16

rng = np.random.default_rng(3)
sizes = np.round(np.geomspace(8, 400, CLINICS)).astype(int)
truth = 1.0 + 0.6 * rng.standard_normal(CLINICS)
clinic = np.repeat(np.arange(CLINICS), sizes)
outcome = (truth[clinic] + rng.standard_normal(clinic.size)).astype(np.float32)


def model(clinic, outcome, subsample_size=None):
    """outcome_i ~ N(effect_clinic, sigma), effect ~ N(mu, tau)."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    effect = numpyro.sample("effect", dist.Normal(mu, tau).expand([CLINICS]).to_event(1))
    with numpyro.plate("patients", len(outcome), subsample_size=subsample_size) as batch:
        numpyro.sample("outcome", dist.Normal(effect[clinic[batch]], sigma), obs=outcome[batch])


potential = sg.potentials.from_numpyro(model, clinic, outcome, subsample_size=500)
run = sg.sample(potential, steps=STEPS, servers=2, engine="inline", progress=False)
print(run.warmup)

# %%
# ``variables`` gives the sites of the model by name, on their own scale.

sites = potential.variables(run.draws)
print({name: value.shape for name, value in sites.items()})
for name in ("mu", "tau", "sigma"):
    print(f"{name}: {sites[name].mean():.2f} ± {sites[name].std():.2f}")
print(run.diagnose(potential))

# %%
# Small clinics are drawn to the mean of all, large ones stay where their own patients put them.

effect = sites["effect"].reshape(-1, CLINICS)
alone = np.array([outcome[clinic == number].mean() for number in range(CLINICS)])
figure, axis = plt.subplots(figsize=(8.5, 4), constrained_layout=True)
axis.axhline(sites["mu"].mean(), color="0.8", label="mean of all clinics")
axis.vlines(sizes, *np.quantile(effect, [0.05, 0.95], axis=0), color="#4c72b0", alpha=0.5, lw=3)
axis.plot(sizes, alone, "x", color="#c44e52", ms=5, label="mean of its own patients")
axis.plot(sizes, effect.mean(0), "o", color="#4c72b0", ms=4, label="posterior, 90 % interval")
axis.plot(sizes, truth, "_", color="k", ms=8, label="truth")
axis.set(xscale="log", xlabel="patients of the clinic", ylabel="effect", title="Small clinics borrow from the others")
figure.legend(frameon=False, ncols=4, loc="outside lower center")
plt.show()
