"""Networks of random weights, of the shapes that `rlver bench --shape` knows."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2ForTokenClassification

SMALL = dict(h=256, layers=4, heads=8, kv=2, ffn=704, vocab=4096)
SMOLLM2 = dict(h=576, layers=30, heads=9, kv=3, ffn=1536, vocab=49152)


def config(shape):
    """Reads `small`, `smollm2` or `h=…,layers=…` as `rlver bench --shape` does."""
    sizes = dict(SMOLLM2 if shape == "smollm2" else SMALL)
    if shape not in ("small", "smollm2"):
        sizes.update((key, int(value)) for key, value in (pair.split("=") for pair in shape.split(",")))
    return Qwen2Config(
        vocab_size=sizes["vocab"],
        hidden_size=sizes["h"],
        intermediate_size=sizes["ffn"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv"],
        max_position_embeddings=16384,
        tie_word_embeddings=True,
        initializer_range=sizes["h"] ** -0.5,
        attn_implementation="sdpa",
        dtype=torch.float32,
    )


def policy(shape):
    torch.manual_seed(1)
    return Qwen2ForCausalLM(config(shape)).float()


def critic(shape):
    torch.manual_seed(2)
    settings = config(shape)
    settings.num_labels = 1
    return Qwen2ForTokenClassification(settings).float()


def token_logprobs(model, ids, mask=None):
    """Log-probabilities and entropies of every token but the first of each row."""
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    logp = torch.log_softmax(logits, -1)
    entropy = -(logp.exp() * logp).sum(-1)
    return logp.gather(-1, ids[:, 1:, None]).squeeze(-1), entropy


def clipped_surrogate(logp, entropy, old, reference, advantages, mask):
    """PPO's clipped surrogate with an entropy bonus and the k3 estimate of the KL, averaged over the masked tokens."""
    ratio = (logp - old).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    difference = reference - logp
    k3 = difference.exp() - difference - 1
    return ((-surrogate + 0.001 * k3 - 0.001 * entropy) * mask).sum() / mask.sum()
