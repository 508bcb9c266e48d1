//! Lowers every kernel this crate launches to machine code for NVIDIA GPUs, without a GPU or a driver.
//!
//! The way to CUDA is the one the runtime takes: CubeCL's LLVM compiler makes PTX, `ptxas` assembles it. Needs
//! `ptxas` and `libdevice.10.bc` under `CUDA_PATH` (`bin/`, `nvvm/libdevice/`), both in the PyPI wheel
//! `nvidia-cuda-nvcc-cu12`. `RLVER_UPDATE=1` writes `RESOURCES.md` anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cubecl::Compiler;
use cubecl::define_kernel;
use cubecl::ir::features::{Features, MmaConfig};
use cubecl::ir::nvidia::SmArch;
use cubecl::ir::settings::{ExecutionMode, KernelSettings};
use cubecl::ir::{
    AddressType, DeviceIdentity, DeviceProperties, ElemType, FloatKind, HardwareProperties, MemoryDeviceProperties,
    TargetProperties,
};
use cubecl::prelude::*;
use cubecl::profile::TimingMethod;
use cubecl_llvm::nvptx::ptx_version::PtxVersion;
use cubecl_llvm::{LlvmTarget, PlironArtifact, PlironCompiler, PlironOptions};

use crate::attention::cube::{
    Pass, Plan, Tile, backward_kernels, forward_kernels, tensor_backward_kernels, tensor_forward_kernels,
};
use crate::cube::Limits;
use crate::fragment::Fragment;
use crate::logprob::cube as logprob;
use crate::ppo::KlPenalty;
use crate::ppo::cube::{Terms, kernels as ppo_kernels};
use crate::sample::cube::{Draw, kernels as sample_kernels};

const F32: ElemType = ElemType::Float(FloatKind::F32);
const F16: ElemType = ElemType::Float(FloatKind::F16);
const BF16: ElemType = ElemType::Float(FloatKind::BF16);
/// What every CUDA device offers a kernel that asks for nothing special.
const LIMITS: Limits = Limits { units: 1024, shared: (48 << 10) / 4 };

/// What tensor cores multiply at once, as the CUDA runtime tells it from Volta on.
const FRAGMENT: Fragment = Fragment { m: 16, n: 16, k: 16, plane: 32 };

/// A kernel ready to be lowered.
struct Variant {
    name: String,
    definition: Box<dyn Fn() -> KernelDefinition>,
    /// Whether training or generation spends its time here, so that nothing may be spilled.
    hot: bool,
}

fn properties() -> Arc<DeviceProperties> {
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 1024,
        max_shared_memory_size: 48 << 10,
        max_cube_count: (i32::MAX as u32, 65_535, 65_535),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: 16,
        cube_mma_reserved_shared_memory: 0,
    };
    let memory = MemoryDeviceProperties::new(u64::MAX, 512);
    let identity = DeviceIdentity { name: "none".into(), fingerprint: "none".into(), physical: None };
    let mut features = Features::default();
    features.matmul.cmma.extend([F16, BF16].map(|half| MmaConfig {
        a_type: half,
        b_type: half,
        cd_type: F32,
        m: FRAGMENT.m as u32,
        n: FRAGMENT.n as u32,
        k: FRAGMENT.k as u32,
    }));
    Arc::new(DeviceProperties::new(features, memory, hardware, TimingMethod::Device, identity))
}

fn settings(units: usize) -> KernelSettings {
    KernelSettings::new(CubeDim::new_1d(units as u32).into(), ExecutionMode::Checked, AddressType::U32)
}

fn buffer() -> BufferCompilationArg {
    BufferCompilationArg { inplace: None }
}

/// Adds `module::Kernel` with the given launch arguments (`b` a buffer, `()` a number) and comptime values.
macro_rules! variant {
    ($list:ident, $hot:literal, $units:expr, $name:expr, $kernel:path, [$($arg:tt)*], [$($comptime:expr),* $(,)?]) => {
        $list.push(Variant {
            name: $name,
            definition: Box::new(move || {
                define_kernel(&variant!(@new $kernel, $units, [$($comptime),*], [] $($arg)*))
                    .expect("the kernel expands")
            }),
            hot: $hot,
        });
    };
    (@new $kernel:path, $units:expr, [$($comptime:expr),*], [$($done:expr,)*] b $($rest:tt)*) => {
        variant!(@new $kernel, $units, [$($comptime),*], [$($done,)* buffer(),] $($rest)*)
    };
    (@new $kernel:path, $units:expr, [$($comptime:expr),*], [$($done:expr,)*] n $($rest:tt)*) => {
        variant!(@new $kernel, $units, [$($comptime),*], [$($done,)* (),] $($rest)*)
    };
    (@new $kernel:path, $units:expr, [$($comptime:expr),*], [$($done:expr,)*]) => {{
        use $kernel as Kernel;
        Kernel::new(settings($units), properties(), Arc::new(TargetProperties::default()), $($done,)* $($comptime),*)
    }};
}

fn type_name(dtype: ElemType) -> &'static str {
    match dtype {
        BF16 => "bf16",
        F16 => "f16",
        _ => "f32",
    }
}

fn attention(list: &mut Vec<Variant>) {
    for dtype in [F32, F16, BF16] {
        for d in [64, 96, 128, 256] {
            let name = |what: &str| format!("{what}, head {d}, {}", type_name(dtype));
            let t = Tile::choose(Pass::Forward, d, 1, LIMITS).expect("fits");
            variant!(list, true, t.units(), name("attention_forward"),
                forward_kernels::attention_forward::AttentionForward, [b b b b b b n n n n], [t, [dtype, dtype]]);
            let t = Tile::choose(Pass::Forward, d, 7, LIMITS).expect("fits");
            variant!(list, true, t.units(), name("attention_forward, decode, 7 heads a group"),
                forward_kernels::attention_forward::AttentionForward, [b b b b b b n n n n], [t, [dtype, F32]]);
            variant!(list, false, 64, name("attention_merge"),
                forward_kernels::attention_merge::AttentionMerge, [b b b n], [d, dtype]);
            variant!(list, false, 64, name("attention_delta"),
                backward_kernels::attention_delta::AttentionDelta, [b b b b], [d, dtype]);
            let t = Tile::choose(Pass::Query, d, 1, LIMITS).expect("fits");
            variant!(list, true, t.units(), name("attention_backward_q"),
                backward_kernels::attention_backward_q::AttentionBackwardQ, [b b b b b b b n n n n], [t, dtype]);
            let t = Tile::choose(Pass::Keys, d, 1, LIMITS).expect("fits");
            variant!(list, true, t.units(), name("attention_backward_kv"),
                backward_kernels::attention_backward_kv::AttentionBackwardKv, [b b b b b b b n n n n], [t, dtype]);
        }
    }
}

/// Attention on tensor cores; the widest heads have no backward there.
fn tensor_attention(list: &mut Vec<Variant>) {
    for dtype in [F16, BF16] {
        for d in [64, 96, 128, 256] {
            let name = |what: &str| format!("{what}, head {d}, {}", type_name(dtype));
            let plan = |pass| Plan::choose(pass, d, LIMITS, FRAGMENT);
            if let Some(p) = plan(Pass::Forward) {
                variant!(list, true, p.units(), name("attention_forward_tensor"),
                    tensor_forward_kernels::attention_forward_tensor::AttentionForwardTensor,
                    [b b b b b b n n n n], [p, dtype]);
            }
            if let Some(p) = plan(Pass::Query) {
                variant!(list, true, p.units(), name("attention_backward_q_tensor"),
                    tensor_backward_kernels::attention_backward_q_tensor::AttentionBackwardQTensor,
                    [b b b b b b b n n n n], [p, dtype]);
            }
            if let Some(p) = plan(Pass::Keys) {
                variant!(list, true, p.units(), name("attention_backward_kv_tensor"),
                    tensor_backward_kernels::attention_backward_kv_tensor::AttentionBackwardKvTensor,
                    [b b b b b b b n n n n], [p, dtype]);
            }
        }
    }
}

fn tensor_projection(list: &mut Vec<Variant>) {
    let g = logprob::Grid::on_tensor_cores(LIMITS, FRAGMENT).expect("fits");
    for dtype in [F16, BF16] {
        let name = |what: &str| format!("{what}, {}", type_name(dtype));
        variant!(list, true, g.units(), name("logprob_partial, tensor cores"),
            logprob::forward_kernels::logprob_partial::LogprobPartial, [b b b b n n n n], [g, dtype]);
        variant!(list, true, g.units(), name("logprob_slopes_tensor"),
            logprob::tensor_kernels::logprob_slopes_tensor::LogprobSlopesTensor,
            [b b b b b b b n n n n n n], [g, dtype]);
        for (along, what) in [(true, "multiply_add_tensor, dhidden"), (false, "multiply_add_tensor, dweight")] {
            variant!(list, true, g.units(), name(what),
                logprob::tensor_kernels::multiply_add_tensor::MultiplyAddTensor,
                [b b b b n n n n n n n], [along, g, dtype]);
        }
    }
    variant!(list, false, 64, "gradient_scale".into(),
        logprob::tensor_kernels::gradient_scale::GradientScale, [b b], []);
}

fn projection(list: &mut Vec<Variant>) {
    let g = logprob::Grid::choose(LIMITS);
    for dtype in [F32, F16, BF16] {
        let name = |what: &str| format!("{what}, {}", type_name(dtype));
        variant!(list, true, g.units(), name("logprob_partial"),
            logprob::forward_kernels::logprob_partial::LogprobPartial, [b b b b n n n n], [g, dtype]);
        variant!(list, true, g.units(), name("logprob_slopes"),
            logprob::backward_kernels::logprob_slopes::LogprobSlopes, [b b b b b b n n n n n n], [g, dtype]);
        for (along, what) in [(true, "multiply_add, dhidden"), (false, "multiply_add, dweight")] {
            variant!(list, true, g.units(), name(what),
                logprob::product_kernels::multiply_add::MultiplyAdd, [b b b n n n n n n n], [along, true, g, [F32, dtype]]);
        }
    }
    variant!(list, false, 64, "logprob_merge".into(), logprob::forward_kernels::logprob_merge::LogprobMerge, [b b n], []);
}

fn losses(list: &mut Vec<Variant>) {
    for (kl, what) in [
        (None, "policy_loss"),
        (Some(KlPenalty::K1), "policy_loss, k1"),
        (Some(KlPenalty::K2), "policy_loss, k2"),
        (Some(KlPenalty::K3), "policy_loss, k3"),
        (Some(KlPenalty::K3Bounded), "policy_loss, k3 bounded"),
    ] {
        let terms = Terms { dual_clip: true, entropy: true, kl, importance: true, units: 256 };
        variant!(list, true, 256, what.into(), ppo_kernels::policy_loss::PolicyLoss,
            [b b b b b b b b b n n n n n], [terms]);
    }
    for (clips, what) in [(true, "value_loss"), (false, "value_loss, without clipping")] {
        variant!(list, true, 256, what.into(), ppo_kernels::value_loss::ValueLoss, [b b b b b b n], [clips, 256]);
    }
    variant!(list, false, 8, "merge_sums".into(), ppo_kernels::merge_sums::MergeSums, [b b], [crate::ppo::PPO_SUMS, true]);
    variant!(list, true, 64, "gae_scan".into(), crate::gae::cube::kernels::gae_scan::GaeScan, [b b b b b n n], [64]);
}

fn generation(list: &mut Vec<Variant>) {
    for dtype in [F32, F16, BF16] {
        variant!(list, true, 64, format!("cache_scatter, {}", type_name(dtype)),
            crate::cache::cube::kernels::cache_scatter::CacheScatter, [b b b n], [dtype]);
        for (what, greedy, filtered) in
            [("greedy", true, false), ("all ids", false, false), ("top-k, top-p, min-p", false, true)]
        {
            let draw = Draw { greedy, top_k: filtered, top_p: filtered, min_p: filtered, units: 256 };
            variant!(list, true, 256, format!("sample_rows, {what}, {}", type_name(dtype)),
                sample_kernels::sample_rows::SampleRows, [b b b b n n n n n n], [draw, dtype]);
        }
    }
}

/// What `ptxas -v` says about a kernel.
struct Resources {
    registers: u32,
    spilled: u32,
    shared: usize,
    /// Whether it multiplies on tensor cores.
    tensor_cores: bool,
}

fn assemble(ptxas: &Path, folder: &Path, variant: &Variant, version: u32) -> Result<Resources, String> {
    let arch = SmArch::new(version, true);
    // As the CUDA runtime sets them.
    let options = PlironOptions {
        sm_arch: Some(arch),
        ptx_version: PtxVersion::for_driver(12_080),
        grid_constants: true,
        ..Default::default()
    };
    let lowered = PlironCompiler { target: LlvmTarget::Nvptx }
        .compile((variant.definition)(), &options)
        .map_err(|e| format!("lowering: {e}"))?;
    let PlironArtifact::NvptxCode(module) = lowered else { return Err("not PTX".into()) };
    let shared = module.shared_memory_size;
    let text: Vec<u8> = module.ptx.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    let file = folder.join("kernel.ptx");
    let [registers, spilled] = ptxas_of(ptxas, &file, &text, arch)?;
    Ok(Resources { registers, spilled, shared, tensor_cores: text.contains("wmma.mma") })
}

/// Registers and spilled bytes that `ptxas` reports.
fn ptxas_of(ptxas: &Path, file: &Path, text: &str, arch: SmArch) -> Result<[u32; 2], String> {
    std::fs::write(file, text).map_err(|e| e.to_string())?;
    let out = Command::new(ptxas)
        .args(["-v", &format!("-arch={}", arch.target_cpu()), "-o", "/dev/null"])
        .arg(file)
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("ptxas: {said}"));
    }
    let number_before = |what: &str| -> Option<u32> {
        let words: Vec<&str> = said.split([' ', ',', '\n']).filter(|w| !w.is_empty()).collect();
        words.windows(3).find(|w| w[1..].join(" ").starts_with(what))?[0].parse().ok()
    };
    let registers = said.split_once("Used ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let missing = |what: &str| format!("ptxas did not say {what}: {said}");
    Ok([
        registers.ok_or_else(|| missing("how many registers"))?,
        number_before("bytes spill").ok_or_else(|| missing("how much it spills"))?,
    ])
}

fn tools() -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var_os("CUDA_PATH")?);
    let ptxas = root.join("bin/ptxas");
    (ptxas.exists() && root.join("nvvm/libdevice/libdevice.10.bc").exists()).then_some(ptxas)
}

#[test]
#[allow(clippy::print_stderr)]
fn every_kernel_assembles_for_ampere_and_hopper_and_no_hot_one_spills() {
    let Some(ptxas) = tools() else {
        eprintln!(
            "SKIPPED: CUDA_PATH has no bin/ptxas and nvvm/libdevice/libdevice.10.bc (PyPI nvidia-cuda-nvcc-cu12)"
        );
        return;
    };
    let said = Command::new(&ptxas).arg("--version").output().expect("ptxas runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split("release ").nth(1).and_then(|r| r.split(',').next()).unwrap_or("unknown").to_owned();
    let folder = std::env::temp_dir().join(format!("rlver-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for PTX");

    let mut variants = Vec::new();
    attention(&mut variants);
    tensor_attention(&mut variants);
    projection(&mut variants);
    tensor_projection(&mut variants);
    losses(&mut variants);
    generation(&mut variants);
    let mut table = format!(
        "# Resources of the CUDA kernels\n\nMade by the test `ptx` with `RLVER_UPDATE=1` (ptxas {version}, through \
         CubeCL's LLVM compiler); do not edit.\nNo GPU was involved: these are what the assembler assigns, not \
         measurements.\n\n| kernel | units | shared memory, bytes | registers sm_80 | registers sm_90a | spilled bytes |\n\
         |---|---|---|---|---|---|\n"
    );
    let mut faults = Vec::new();
    for variant in &variants {
        let both = [80, 90].map(|v| assemble(&ptxas, &folder, variant, v));
        match both {
            [Ok(ampere), Ok(hopper)] => {
                let spilled = ampere.spilled.max(hopper.spilled);
                if variant.hot && spilled > 0 {
                    faults.push(format!("{} spills {spilled} bytes", variant.name));
                }
                if [ampere.tensor_cores, hopper.tensor_cores] != [variant.name.contains("tensor"); 2] {
                    faults.push(format!("{} does or does not use tensor cores against its name", variant.name));
                }
                let dim = (variant.definition)().settings.cube_dim;
                let units = dim.x * dim.y * dim.z;
                writeln!(
                    table,
                    "| {} | {units} | {} | {} | {} | {spilled} |",
                    variant.name, ampere.shared, ampere.registers, hopper.registers
                )
                .expect("writing to a string");
            }
            results => {
                faults.extend(results.into_iter().filter_map(|r| r.err()).map(|e| format!("{}: {e}", variant.name)))
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder was made here");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("RESOURCES.md");
    if std::env::var_os("RLVER_UPDATE").is_some() {
        std::fs::write(&file, &table).expect("RESOURCES.md can be written");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(variants.len() > 50, "only {} variants", variants.len());

    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    if committed.contains(&format!("ptxas {version},")) {
        assert_eq!(committed, table, "RESOURCES.md is out of date: RLVER_UPDATE=1 writes it anew");
    } else {
        eprintln!("note: RESOURCES.md was made with another ptxas than {version}; not compared");
    }
}
