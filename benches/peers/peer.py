"""One stage of the benchmark with torch and transformers, spoken to as `rlver bench --serve` is: it prepares, warms up, says
`{"ready": true}`, does one run per line of input, and says its peak of memory at the end."""

import argparse
import json
import sys
import time

import torch

import models
import step

PREFILL, PROMPT, NEW = 512, 128, 64


def prefill(model):
    model.eval()

    @torch.no_grad()
    def run(_):
        ids = torch.randint(model.config.vocab_size, (1, PREFILL))
        begun = time.perf_counter()
        logits = model(input_ids=ids, use_cache=True, logits_to_keep=1).logits[:, -1]
        torch.multinomial(torch.softmax(logits, -1), 1)
        return time.perf_counter() - begun, PREFILL

    return run


def decode(model, rows):
    """A plain loop over the model's own cache, without the bookkeeping of `generate`."""
    model.eval()

    @torch.no_grad()
    def run(_):
        ids = torch.randint(model.config.vocab_size, (rows, PROMPT))
        out = model(input_ids=ids, use_cache=True, logits_to_keep=1)

        def sample(out):
            logp = torch.log_softmax(out.logits[:, -1], -1)
            ids = torch.multinomial(logp.exp(), 1)
            return ids, logp.gather(-1, ids)

        ids, _ = sample(out)
        begun = time.perf_counter()
        for _ in range(NEW):
            out = model(input_ids=ids, cache=out.cache, use_cache=True, logits_to_keep=1)
            ids, _ = sample(out)
            ids.tolist()
        return time.perf_counter() - begun, rows * NEW

    return run


def update(model):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.01)
    ids = torch.randint(model.config.vocab_size, (4, 256))
    with torch.no_grad():
        old, _ = models.token_logprobs(model, ids)
    advantages = torch.where(torch.arange(255) % 2 == 0, 0.5, -0.5).expand(4, 255)
    mask = torch.ones_like(old)

    def run(_):
        begun = time.perf_counter()
        logp, entropy = models.token_logprobs(model, ids)
        models.clipped_surrogate(logp, entropy, old, old, advantages, mask).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begun, ids.numel()

    return run


def peak_rss_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", required=True)
    parser.add_argument("--shape", default="small")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.stage == "step":
        run = step.prepare(args.shape)
    else:
        name, _, rows = args.stage.partition("-")
        stage = {"prefill": prefill, "decode": lambda model: decode(model, int(rows)), "update": update}[name]
        run = stage(models.policy(args.shape))
    run({})
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line) if line.strip() else {}
        seconds, tokens, *parts = run(request)
        print(json.dumps({"seconds": seconds, "tokens": tokens, "parts": parts[0] if parts else {}}), flush=True)
    print(json.dumps({"peak_rss_bytes": peak_rss_bytes()}), flush=True)


if __name__ == "__main__":
    main()
