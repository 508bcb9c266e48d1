"""Ours and theirs, run by run in turn, so that whatever else the machine does meets both; ratios of medians.

    python benches/peers/compare.py --rlver target/release/rlver --json benches/peers.json
    python benches/peers/compare.py --rlver target/release/rlver --check benches/peers.json
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STAGES = ["prefill", "decode-1", "decode-8", "update", "step"]
BF16 = ["decode-1-bf16", "decode-8-bf16"]


class Worker:
    """A process that measures one stage, one run per line."""

    def __init__(self, command, threads):
        environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args} ended with {self.process.wait()}; its message is above")
        return json.loads(line)

    def once(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def finish(self):
        self.process.stdin.close()
        peak = self.hear()["peak_rss_bytes"]
        self.process.wait()
        return peak


def measure(args, shape, stage):
    ours = Worker([args.rlver, "bench", "--serve", "--shape", shape, "--stage", stage], args.threads)
    theirs = Worker(
        # Theirs is f32 whatever ours is.
        [
            *[sys.executable, str(HERE / "peer.py"), "--shape", shape, "--stage", stage.removesuffix("-bf16")],
            *["--threads", str(args.threads)],
        ],
        args.threads,
    )
    ours_rates, their_rates = [], []
    for run in range(args.repeats):
        print(f"{shape}, {stage}: run {run + 1} of {args.repeats}", file=sys.stderr)
        sample = ours.once({})
        ours_rates.append(sample["tokens"] / sample["seconds"])
        # A step of theirs has as many turns as ours had.
        peer = theirs.once(sample["parts"])
        their_rates.append(peer["tokens"] / peer["seconds"])
    ours_peak, their_peak = ours.finish(), theirs.finish()
    pairs = sorted(a / b for a, b in zip(ours_rates, their_rates))
    return {
        "shape": shape,
        "stage": stage,
        "tokens_per_s": {"ours": statistics.median(ours_rates), "theirs": statistics.median(their_rates)},
        "ratio": statistics.median(pairs),
        "ratio_low": pairs[0],
        "ratio_high": pairs[-1],
        "peak_rss_bytes": {"ours": ours_peak, "theirs": their_peak},
        "peak_ratio": ours_peak / their_peak,
        "runs": {"ours": ours_rates, "theirs": their_rates},
    }


def table(results):
    lines = [
        "| shape | stage | ours, tokens/s | theirs, tokens/s | ratio (low–high) | peak, ours | peak, theirs | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        rate, peak = r["tokens_per_s"], r["peak_rss_bytes"]
        lines.append(
            f"| {r['shape']} | {r['stage']} | {rate['ours']:,.0f} | {rate['theirs']:,.0f} "
            f"| {r['ratio']:.2f} ({r['ratio_low']:.2f}–{r['ratio_high']:.2f}) "
            f"| {peak['ours'] / 1e6:,.0f} MB | {peak['theirs'] / 1e6:,.0f} MB | {r['peak_ratio']:.2f} |"
        )
    return "\n".join(lines)


def regressions(results, committed):
    """Stages that are slower than the committed ratio by more than both runs scatter, or hold a tenth more memory.

    A pair of runs scatters by the half width of the middle of its ratios; 15 % is allowed in any case."""

    def scatter(result):
        ratios = sorted(a / b for a, b in zip(result["runs"]["ours"], result["runs"]["theirs"]))
        return statistics.median(abs(r - result["ratio"]) for r in ratios) / result["ratio"]

    found = []
    before = {(r["shape"], r["stage"]): r for r in committed["results"]}
    for now in results:
        then = before.get((now["shape"], now["stage"]))
        if then is None:
            continue
        allowed = max(0.15, 3 * (scatter(now) ** 2 + scatter(then) ** 2) ** 0.5)
        if now["ratio"] < then["ratio"] * (1 - allowed):
            found.append(f"{now['shape']}, {now['stage']}: ratio {now['ratio']:.2f}, was {then['ratio']:.2f} ± {allowed:.0%}")
        if now["peak_ratio"] > then["peak_ratio"] * 1.1:
            found.append(f"{now['shape']}, {now['stage']}: memory ratio {now['peak_ratio']:.2f}, was {then['peak_ratio']:.2f}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rlver", default="target/release/rlver", help="the program")
    parser.add_argument("--shape", action="append", help="small and smollm2, if none is given")
    parser.add_argument("--stage", action="append", help="all but a step of smollm2, if none is given")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--check", type=Path, help="compare with these results; ends with 1 if we fell behind")
    args = parser.parse_args()
    load_before, results = os.getloadavg()[0], []
    for shape in args.shape or ["small", "smollm2"]:
        for stage in args.stage or STAGES + (BF16 if shape == "smollm2" else []):
            if stage == "step" and shape == "smollm2" and not args.stage:
                continue
            results.append(measure(args, shape, stage))
    print(table(results))
    if args.json:
        import torch
        import transformers

        record = {
            "peers": {"torch": torch.__version__, "transformers": transformers.__version__},
            "threads": args.threads,
            "load_average": {"before": load_before, "after": os.getloadavg()[0]},
            "results": results,
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    if args.check:
        found = regressions(results, json.loads(args.check.read_text()))
        print("\n".join(found) or "no stage fell behind the committed ratios")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
