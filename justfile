# Shortcuts. Each is one plain cargo command or a few; nothing needs `just`.
#
#   just train-ppo
#   just train-ppo recipe=recipes/qwen2.5-0.5b-ppo.toml --set run.seed=2
#   just features=cuda train-ppo recipe=recipes/qwen2.5-0.5b-ppo.toml --device cuda

# Cargo features of the build, e.g. cuda or wgpu.
features := ''
# Where `just bench` measures: flex, cuda, wgpu, vulkan or cpu.
device := 'flex'
gpu := if device == 'flex' { 'cuda' } else { device }

rlver := "cargo run --release" + (if features == '' { '' } else { ' --features ' + features }) + " --"

# Show what there is.
default:
    @just --list

# Train with PPO; by default pico, on the CPU.
train-ppo recipe='recipes/train-ppo.toml' *args='':
    {{ rlver }} train {{ trim_start_match(recipe, 'recipe=') }} {{ args }}

# Train with GRPO; by default pico, on the CPU.
train-grpo recipe='recipes/train-grpo.toml' *args='':
    {{ rlver }} train {{ trim_start_match(recipe, 'recipe=') }} {{ args }}

# Objectives side by side on pico, three seeds each: runs/compare/compare.md and compare.svg. Hours on two cores.
compare-objectives *args='':
    {{ rlver }} compare recipes/train-ppo.toml recipes/train-grpo.toml recipes/turn-rloo.toml recipes/ctc-grpo.toml \
        recipes/distance-potential.toml recipes/dual-loop.toml --set user.model=rules {{ args }}

# The supervised warm start that makes the pico policy.
sft-pico *args='':
    {{ rlver }} train recipes/sft-pico.toml {{ args }}

# Evaluate a policy on held-out people.
eval model='builtin:pico' *args='':
    {{ rlver }} eval --model {{ trim_start_match(model, 'model=') }} {{ args }}

# A page about runs: just report runs/train-ppo
report run *args='':
    {{ rlver }} report {{ run }} {{ args }}

# Be the supporter yourself: just play en-train-001
play profile *args='':
    {{ rlver }} play --profile {{ profile }} {{ args }}

# Talk with a policy.
chat model='builtin:pico' *args='':
    {{ rlver }} chat --model {{ trim_start_match(model, 'model=') }} {{ args }}

# All tests.
test:
    cargo test --release --workspace

# Format, lints and documentation, as the continuous integration checks them.
check:
    cargo fmt --all --check
    cargo clippy --release --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps

# Kernels beside their references: just bench ppo; just device=wgpu bench attention. Names are parts of rows' names.
bench operation='':
    RLVER_TEST_DEVICE={{ device }} cargo bench -p rlver-kernels {{ if device == 'flex' { '' } else { '--features ' + device } }} \
        --bench table -- '{{ trim_start_match(operation, 'operation=') }}'

# The kernel suite on a GPU, then the kernels' speed; device=wgpu or vulkan where there is no NVIDIA one.
test-gpu:
    RLVER_TEST_DEVICE={{ gpu }} cargo test --release -p rlver-kernels --features {{ gpu }} --lib --test kernels
    RLVER_TEST_DEVICE={{ gpu }} cargo bench -p rlver-kernels --features {{ gpu }} --bench table

# Ours against torch and transformers, run by run in turn. `python` needs benches/peers/requirements.txt.
bench-peers python='python3' *args='':
    cargo build --release
    {{ trim_start_match(python, 'python=') }} benches/peers/compare.py --json benches/peers.json {{ args }}

# The same, compared with the committed ratios; ends with 1 where we fell behind. Not part of the CI.
bench-check python='python3' *args='':
    cargo build --release
    {{ trim_start_match(python, 'python=') }} benches/peers/compare.py --check benches/peers.json {{ args }}

# Write docs/recipes.md anew from the recipe keys.
update-docs:
    cargo build --release
    cargo run --release --quiet -- recipe explain > docs/recipes.md.part
    mv docs/recipes.md.part docs/recipes.md
