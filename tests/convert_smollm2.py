#!/usr/bin/env python3
"""Write a Llama-architecture GGUF file as a Hugging Face folder of `model_type` qwen2.

    convert_smollm2.py MODEL.gguf FOLDER

Qwen2 is Llama with biases on the q, k and v projections, so zero biases make a Llama checkpoint a Qwen2 one. Weights
are dequantised and stored as bfloat16. Written for SmolLM2-135M-Instruct; needs numpy, gguf and safetensors.
"""

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader, TokenType
from gguf.quants import dequantize
from safetensors import safe_open

BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def halves(rows, heads):
    """Rotary rows of each head: GGUF interleaves the pairs, Hugging Face keeps the two halves apart."""
    size = rows.shape[0] // heads
    pairs = rows.reshape(heads, size // 2, 2, -1)
    return pairs.transpose(0, 2, 1, 3).reshape(rows.shape)


def weights(reader, meta):
    """Checkpoint names and float32 arrays, biases included."""
    query_heads, key_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    for tensor in reader.tensors:
        array = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        array = array.reshape([int(n) for n in tensor.shape[::-1]])
        if tensor.name in OUTER:
            yield OUTER[tensor.name], array
            continue
        _, layer, kind, _ = tensor.name.split(".")
        if kind in ("attn_q", "attn_k"):
            array = halves(array, query_heads if kind == "attn_q" else key_heads)
        name = f"model.layers.{layer}.{BLOCK[kind]}"
        yield f"{name}.weight", array
        if kind in ("attn_q", "attn_k", "attn_v"):
            yield f"{name}.bias", np.zeros(array.shape[0], np.float32)


def bfloat16(array):
    """The upper half of each float, rounded to nearest even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_safetensors(path, tensors):
    """A safetensors file: length of the header, the header, the data (numpy has no bfloat16 of its own)."""
    header, data, start = {}, [], 0
    for name, array in sorted(tensors.items()):
        data.append(bfloat16(array))
        end = start + len(data[-1])
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(data)


def tokenizer(meta):
    """SmolLM2's tokenizer.json: byte-level BPE over GPT-2's words, digits one by one."""
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    added = (int(TokenType.CONTROL), int(TokenType.USER_DEFINED))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, **flags} for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind in added
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": list(meta["tokenizer.ggml.merges"]),
        },
    }


def main(source, folder):
    reader = GGUFReader(source)
    meta = {key: field.contents() for key, field in reader.fields.items()}
    if meta["general.architecture"] != "llama":
        sys.exit(f"{source}: expected a llama GGUF, found {meta['general.architecture']}")
    tensors = dict(weights(reader, meta))
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    with safe_open(folder / "model.safetensors", "np") as written:
        if set(written.keys()) != set(tensors):
            sys.exit(f"{folder}: the weights did not read back")

    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": meta["llama.attention.head_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "max_position_embeddings": meta["llama.context_length"],
        "rope_theta": meta["llama.rope.freq_base"],
        # Stored as a float32: six digits give back the decimal it was meant to be.
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "use_sliding_window": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": meta["llama.context_length"],
        "chat_template": meta["tokenizer.chat_template"],
    }
    for name, value in (("tokenizer.json", tokenizer(meta)), ("tokenizer_config.json", tokenizer_config),
                        ("config.json", config)):
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
