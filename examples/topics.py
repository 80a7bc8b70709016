"""Can probabilities be sampled with noisy, old gradients?
=======================================================

A topic model on the simplex: latent Dirichlet allocation with SGRLD and the expanded mean, and four workers.
``python examples/topics.py``
"""

# %%
# Sixty documents of three topics, and a gradient without any 1/θ in it.

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np

import stalegrad as sg

TOPICS, WORDS, DOCUMENTS, LENGTH = 3, 20, 60, 100
SPARSE, MIXED = 0.2, 0.5  # the Dirichlet priors: of the words of a topic, and of the topics of a document


def documents(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Topics (TOPICS, WORDS), and how often each word stands in each document (DOCUMENTS, WORDS)."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(WORDS, SPARSE), size=TOPICS)
    mixtures = rng.dirichlet(np.full(TOPICS, MIXED), size=DOCUMENTS)
    return topics, rng.multinomial(LENGTH, mixtures @ topics)


truth, counts = documents(seed=1)

# 1. Positive parameters: the weights of words in topics, and of topics in documents. Divided by their sums they are the
#    probabilities; with Gamma(a, 1) priors these have Dirichlet(a) priors.
LAYOUT = {"topics": (TOPICS, WORDS), "documents": (DOCUMENTS, TOPICS)}


def pieces(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two blocks of θ, as matrices."""
    return theta[: TOPICS * WORDS].reshape(LAYOUT["topics"]), theta[TOPICS * WORDS :].reshape(LAYOUT["documents"])


def natural_gradient(theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """θ ∇U(θ) on some documents, which topic each word came from being summed over exactly.

    Word v of document d is from topic k with the probability r ∝ π_dk φ_kv. With N_kv = Σ_d n_dv r and N_k its sum, the
    likelihood gives N_kv − φ_kv N_k for the weights of words, and the same over words for those of topics. Neither has
    a 1/θ in it, so that it is harmless when it comes late.
    """
    of_words, of_topics = pieces(theta)
    phi = of_words / of_words.sum(axis=1, keepdims=True)
    pi = of_topics[indices] / of_topics[indices].sum(axis=1, keepdims=True)
    share = counts[indices] / (pi @ phi)
    scale = DOCUMENTS / indices.size
    words_from = scale * phi * (pi.T @ share)
    topics_in = scale * pi * (share @ phi.T)
    for_words = of_words - (SPARSE - 1) - (words_from - phi * words_from.sum(axis=1, keepdims=True))
    for_topics = of_topics - (MIXED - 1)
    for_topics[indices] -= topics_in - pi * topics_in.sum(axis=1, keepdims=True)
    return np.concatenate([for_words.ravel(), for_topics.ravel()])


# 2. Chains start with weights that are nearly equal: whatever breaks the symmetry decides which topic is which.
start = 1 + 0.1 * np.random.default_rng(2).random(TOPICS * WORDS + DOCUMENTS * TOPICS)
potential = sg.potentials.from_gradient(
    natural_gradient, start.size, n_data=DOCUMENTS, batch_size=20, dtype=np.float64, initial=start
)

# 3. The workers send natural gradients, and the server moves each weight by steps in proportion to its root.
kernel = sg.SGRLD(step_size=5e-4, metric=sg.metrics.ExpandedMean(), natural=True)
run = sg.sample(potential, kernel, steps=6_000, workers=4, burn_in=2_000, thin=20, seed=0, progress=False)

# %%
# 4. The posterior mean of the topics, in the order that fits the true ones best.
weights = run.draws[0][:, : TOPICS * WORDS].reshape(-1, TOPICS, WORDS)
found = (weights / weights.sum(axis=2, keepdims=True)).mean(axis=0)
distance = 0.5 * np.abs(found[:, None] - truth[None]).sum(axis=2)  # total variation, from 0 to 1
best = min(permutations(range(TOPICS)), key=lambda order: distance[order, range(TOPICS)].sum())
print(f"gradients were {run.trace.chains[0].updates().staleness.mean():.1f} updates old on average")
for topic, at in enumerate(best):
    likely = ", ".join(f"{word}" for word in np.argsort(-found[at])[:5])
    print(f"topic {topic}: total variation {distance[at, topic]:.3f} from the truth; its words: {likely}")

# %%
# What was found, below what the documents were made from.

figure, axes = plt.subplots(3, 1, figsize=(9, 5), sharex=True, constrained_layout=True)
for topic, (axis, at) in enumerate(zip(axes, best, strict=True)):
    spread = (weights[:, at] / weights[:, at].sum(axis=1, keepdims=True)).std(axis=0)
    axis.bar(np.arange(WORDS) - 0.2, truth[topic], 0.4, color="0.7", label="truth")
    axis.bar(np.arange(WORDS) + 0.2, found[at], 0.4, yerr=2 * spread, color="#4c72b0", label="posterior, ± 2 sd")
    axis.set(ylabel=f"topic {topic}")
axes[0].set_title("Probabilities of words")
axes[0].legend(frameon=False)
axes[-1].set_xlabel("word")
plt.show()
