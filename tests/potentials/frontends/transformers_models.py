"""A small language model made from a configuration, with LoRA adapters, and sequences of different lengths."""

import warnings

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel

from stalegrad.potentials import from_torch

WORDS, LENGTH, N = 23, 9, 24
LENGTHS = 4 + np.arange(N) % (LENGTH - 3)


def sequences():
    """Tokens, which of them are there, and labels, in which padding is −100."""
    tokens = np.random.default_rng(3).integers(WORDS, size=(N, LENGTH))
    there = np.arange(LENGTH) < LENGTHS[:, None]
    return {
        "input_ids": torch.from_numpy(np.where(there, tokens, 0)),
        "attention_mask": torch.from_numpy(there.astype(np.int64)),
        "labels": torch.from_numpy(np.where(there, tokens, -100)),
    }


class Sequences(Dataset):
    """The same, item by item, without padding."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return sequences()["input_ids"][i, : LENGTHS[i]]


def padded(items):
    """A collate function."""
    widest = LENGTH
    there = torch.stack([torch.arange(widest) < len(item) for item in items])
    tokens = torch.stack([torch.nn.functional.pad(item, (0, widest - len(item))) for item in items])
    return {"input_ids": tokens, "attention_mask": there.long(), "labels": torch.where(there, tokens, -100)}


def language_model(dtype=torch.float32):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        settings = GPT2Config(
            vocab_size=WORDS, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
            use_cache=False,
        )  # fmt: skip
        return GPT2LMHeadModel(settings).eval().to(dtype)


def with_lora(dtype=torch.float32):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft on GPT-2's layers, which are transposed
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(1)
            adapters = LoraConfig(r=2, lora_alpha=4, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True)
            return get_peft_model(language_model(dtype), adapters).eval()


def lora_potential(**options):
    """Every argument that MPI ranks, too, need to make the same model."""
    return from_torch(with_lora(), "next_token", sequences(), prior=0.5, **{"batch_size": 6, **options})
