"""Can ten lines teach a transformer?
==================================

A language model that has read some of Python's documentation, character by character, is to learn The Zen of Python,
of which there are eight hundred characters. Its weights stay as they are; what is sampled are the matrices of LoRA
adapters. Model and adapters are Hugging Face's, made from a configuration: nothing is downloaded, and all text comes
with Python.

``pip install 'stalegrad[examples,torch]'``, then ``python examples/lora.py``.
"""

import codecs
import contextlib
import io
import os
import warnings
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

import stalegrad as sg

with contextlib.redirect_stdout(io.StringIO()):
    import this

SMALL = os.environ.get("STALEGRAD_EXAMPLES") == "small"  # the size of tests
TRAINING, STEPS, LENGTH = (100, 200, 32) if SMALL else (400, 1_500, 64)

# %%
# Characters as tokens
# --------------------
# What a Hugging Face model takes is a dict. Padding has the label −100, which the loss leaves out.

zen = [line for line in codecs.decode(this.s, "rot13").splitlines()[2:] if line]
documentation = "\n".join(topics[name] for name in sorted(topics))[:200_000]
alphabet = sorted(set(documentation) | set("".join(zen)))
number = {character: place for place, character in enumerate(alphabet, start=1)}  # 0 is padding


def tokens(lines: list[str]) -> dict[str, torch.Tensor]:
    """Lines as a batch, cut or padded to one length."""
    ids = torch.zeros(len(lines), LENGTH, dtype=torch.long)
    for row, line in zip(ids, lines, strict=True):
        codes = [number[character] for character in line[:LENGTH]]
        row[: len(codes)] = torch.tensor(codes)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.where(ids > 0, ids, -100)}


# %%
# A model that knows the documentation
# ------------------------------------

torch.manual_seed(0)
settings = GPT2Config(
    vocab_size=len(alphabet) + 1, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
    use_cache=False, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
)  # fmt: skip
model = GPT2LMHeadModel(settings)
text = torch.tensor([number[character] for character in documentation])
optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
for _ in range(TRAINING):
    starts = torch.randint(len(text) - LENGTH, (24,))
    batch = torch.stack([text[start : start + LENGTH] for start in starts.tolist()])
    optimiser.zero_grad()
    logits = model(input_ids=batch).logits
    F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten()).backward()
    optimiser.step()

# %%
# Adapters, and their posterior
# -----------------------------
# Every second line of the Zen is learnt, the others are for the test. A datum is a line: its log-likelihood is the sum
# over its characters, and N/J counts lines.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of peft, about layers that GPT-2 stores transposed
    adapters = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)
    adapted = get_peft_model(model, adapters).eval()
learnt, held_out = tokens(zen[::2]), tokens(zen[1::2])
potential = sg.potentials.from_torch(adapted, "next_token", learnt, prior=0.1, batch_size=5)
print(f"{potential.size:,} of {sum(p.numel() for p in adapted.parameters()):,} parameters are sampled")

kernel = sg.SGHMC(step_size=5e-3, friction=20.0)
run = sg.sample(potential, kernel, steps=STEPS, workers=2, burn_in=STEPS // 3, thin=10, seed=0, progress=False)

# %%
# What the lines that it has not seen look like to it
# ---------------------------------------------------
# ``predictive`` gives the probabilities of every character at every place, the lines one after the other.

predict = potential.predictive(held_out)
labels = held_out["labels"].numpy()
counted = labels[:, 1:] >= 0


def of_the_characters(probabilities: np.ndarray) -> np.ndarray:
    """The probability of each character that came, given those before it."""
    shaped = probabilities.reshape(*labels.shape, -1)[:, :-1]
    return np.take_along_axis(shaped, np.maximum(labels[:, 1:], 0)[..., None], axis=2)[..., 0]


before, last = of_the_characters(predict(potential.initial())), of_the_characters(predict(run.draws[0, -1]))
average = of_the_characters(run.predict(predict).probabilities)
for name, found in (("before", before), ("one draw", last), ("averaged", average)):
    print(f"{name}: {-np.log(found[counted]).mean():.3f} nats a character of the lines held out")

# %%
# A picture of it
# ---------------
# At its full size, one draw of the adapters does worse on the lines held out than no adapters at all, and the average
# over draws better.

line = int(np.argmax(counted.sum(axis=1)))
width = int(counted[line].sum())
figure, panel = plt.subplots(figsize=(9, 2.6), layout="constrained")
panel.plot(-np.log(before[line, :width]), color="0.6", label="before")
panel.plot(-np.log(average[line, :width]), color="C0", label="averaged over adapters")
panel.set_xticks(range(width), list(zen[1::2][line][1 : width + 1]), fontsize=7)
panel.set(ylabel="surprise, nats", title="How much each character of a line held out surprises")
panel.legend(frameon=False)
plt.show()
