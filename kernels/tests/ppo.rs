use burn::tensor::{Tensor, TensorData};
use rlver_kernels::ppo::{
    ActionTokens, KlPenalty, PpoLossConfig, PpoMetrics, ppo_loss, reference_ppo_loss, reference_value_loss, value_loss,
};

use crate::common::{close, device, leaf_of, numeric_gradient, on_flex, read, same_bits, values, wide};
use crate::fixtures::{Case, cases};

fn tensor(values: &[f32]) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &device())
}

const CONFIG: PpoLossConfig = PpoLossConfig {
    clip_low: 0.2,
    clip_high: 0.2,
    dual_clip: Some(3.0),
    entropy_coef: 0.0,
    kl_coef: 0.0,
    kl: KlPenalty::K3,
};

/// Inputs of a batch of n tokens; every seventh is masked.
struct Batch {
    logprob: Vec<f32>,
    entropy: Vec<f32>,
    old: Vec<f32>,
    advantage: Vec<f32>,
    weight: Vec<f32>,
    reference: Vec<f32>,
    importance: Vec<f32>,
}

impl Batch {
    fn new(n: usize, spread: f32) -> Batch {
        let base = values(n, 1, 1.0);
        let near = |seed| -> Vec<f32> { values(n, seed, spread).iter().zip(&base).map(|(d, b)| b + d).collect() };
        Batch {
            logprob: near(2),
            entropy: values(n, 3, 1.0).iter().map(|v| v.abs()).collect(),
            old: near(4),
            advantage: values(n, 5, 1.0),
            weight: (0..n).map(|i| if i % 7 == 3 { 0.0 } else { 1.0 / n as f32 }).collect(),
            reference: near(6),
            importance: values(n, 7, 0.5).iter().map(|v| 1.0 + v.abs()).collect(),
        }
    }

    fn tokens(&self, config: PpoLossConfig, importance: bool) -> ActionTokens {
        ActionTokens {
            old_logprob: tensor(&self.old),
            advantage: tensor(&self.advantage),
            weight: tensor(&self.weight),
            reference_logprob: (config.kl_coef != 0.0).then(|| tensor(&self.reference)),
            importance_weight: importance.then(|| tensor(&self.importance)),
        }
    }

    /// Loss, metrics, dlogprob and dentropy on the device under test.
    fn run(&self, config: PpoLossConfig, importance: bool) -> (f32, PpoMetrics, [Vec<f32>; 2]) {
        let (lp, h) = (leaf_of(&self.logprob, [self.logprob.len()]), leaf_of(&self.entropy, [self.logprob.len()]));
        let out = ppo_loss(lp.clone(), h.clone(), &self.tokens(config, importance), config).unwrap();
        let metrics = out.metrics();
        let loss = read(&out.loss)[0];
        let grads = (out.loss * 2.0).backward();
        (loss, metrics, [lp, h].map(|t| read(&t.grad(&grads).unwrap()).iter().map(|g| g / 2.0).collect()))
    }

    /// The formula, token by token, in f64.
    fn expected(&self, config: PpoLossConfig, importance: bool, logprob: &[f64], entropy: &[f64]) -> (f64, PpoMetrics) {
        let (mut loss, mut m) = (0.0, PpoMetrics::default());
        for t in 0..logprob.len() {
            let weight = f64::from(self.weight[t]);
            if weight == 0.0 {
                continue;
            }
            let a = f64::from(self.advantage[t]);
            let log_ratio = (logprob[t] - f64::from(self.old[t])).clamp(-20.0, 20.0);
            let ratio = log_ratio.exp();
            let held = ratio.clamp(1.0 - f64::from(config.clip_low), 1.0 + f64::from(config.clip_high));
            let (free, clipped) = (-a * ratio, -a * held);
            let mut surrogate = free.max(clipped);
            m.clipped += f64::from(u8::from(clipped > free));
            if let Some(bound) = config.dual_clip.filter(|_| a < 0.0) {
                let ceiling = -a * f64::from(bound);
                m.clipped_lower += f64::from(u8::from(surrogate > ceiling));
                surrogate = surrogate.min(ceiling);
            }
            if importance {
                surrogate *= f64::from(self.importance[t]);
            }
            let d = f64::from(self.reference[t]) - logprob[t];
            let kl = match config.kl {
                KlPenalty::K1 => -d,
                KlPenalty::K2 => 0.5 * d * d,
                KlPenalty::K3 => d.exp() - d - 1.0,
                KlPenalty::K3Bounded => {
                    let c = d.clamp(-20.0, 20.0);
                    (c.exp() - c - 1.0).min(10.0)
                }
            };
            loss += weight * (surrogate - f64::from(config.entropy_coef) * entropy[t] + f64::from(config.kl_coef) * kl);
            m.kl_k1 -= log_ratio;
            m.kl_k3 += ratio - 1.0 - log_ratio;
            m.ratio_max = m.ratio_max.max(ratio);
        }
        (loss, m)
    }
}

fn agree(name: &str, ours: &PpoMetrics, expected: &PpoMetrics) {
    let list = |m: &PpoMetrics| [m.clipped, m.clipped_lower, m.kl_k1, m.kl_k3, m.ratio_max].map(|v| v as f32);
    for (i, (a, b)) in list(ours).iter().zip(list(expected)).enumerate() {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{name}, metric {i}: {a} instead of {b}");
    }
}

fn configs() -> Vec<(PpoLossConfig, bool)> {
    let mut all = vec![(CONFIG, false), (PpoLossConfig { dual_clip: None, clip_high: 0.28, ..CONFIG }, true)];
    for kl in [KlPenalty::K1, KlPenalty::K2, KlPenalty::K3, KlPenalty::K3Bounded] {
        all.push((PpoLossConfig { entropy_coef: 0.01, kl_coef: 0.1, kl, ..CONFIG }, kl == KlPenalty::K2));
    }
    all
}

#[test]
fn loss_metrics_and_gradients_equal_host_loops() {
    for (n, spread) in [(1, 0.3), (15, 0.3), (16, 2.0), (1_000, 0.5), (40_001, 1.0)] {
        let batch = Batch::new(n, spread);
        for (config, importance) in configs() {
            let name = format!("n {n}, {config:?}, importance {importance}");
            let (loss, metrics, [dlogprob, dentropy]) = batch.run(config, importance);
            let (lp, h) = (wide(&batch.logprob), wide(&batch.entropy));
            let (expected, expected_metrics) = batch.expected(config, importance, &lp, &h);
            close(&name, &[loss], &[expected as f32], 3e-6);
            agree(&name, &metrics, &expected_metrics);
            // Tokens are independent: their gradients by finite differences, one at a time, for some of them.
            for t in (0..n).step_by(n.div_ceil(40)) {
                let one = Batch {
                    logprob: vec![],
                    entropy: vec![],
                    old: vec![batch.old[t]],
                    advantage: vec![batch.advantage[t]],
                    weight: vec![batch.weight[t]],
                    reference: vec![batch.reference[t]],
                    importance: vec![batch.importance[t]],
                };
                let value = |lp: &[f64], h: &[f64]| one.expected(config, importance, lp, h).0;
                let numeric = [
                    numeric_gradient(&lp[t..=t], |lp| value(lp, &h[t..=t]))[0],
                    numeric_gradient(&h[t..=t], |h| value(&lp[t..=t], h))[0],
                ];
                let w = f64::from(batch.weight[t]).max(1e-12);
                for (what, ours, numeric) in
                    [("dlogprob", dlogprob[t], numeric[0]), ("dentropy", dentropy[t], numeric[1])]
                {
                    let (ours, numeric) = (f64::from(ours) / w, numeric / w);
                    let tolerance = 1e-4 * numeric.abs().max(1.0);
                    assert!((ours - numeric).abs() < tolerance, "{name} {what}[{t}]: {ours} instead of {numeric}");
                }
            }
        }
    }
}

#[test]
fn the_reference_says_the_same() {
    if !on_flex() {
        // Plain operations are Burn's, not ours; one device is enough.
        return;
    }
    let batch = Batch::new(300, 1.0);
    for (config, importance) in configs() {
        let (lp, h) = (leaf_of(&batch.logprob, [300]), leaf_of(&batch.entropy, [300]));
        let out = reference_ppo_loss(lp.clone(), h.clone(), &batch.tokens(config, importance), config);
        let metrics = out.metrics();
        let (loss, ours, [dlogprob, dentropy]) = batch.run(config, importance);
        close("loss", &read(&out.loss), &[loss], 3e-6);
        agree("metrics", &metrics, &ours);
        let grads = out.loss.backward();
        close("dlogprob", &read(&lp.grad(&grads).unwrap()), &dlogprob, 3e-6);
        if config.entropy_coef != 0.0 {
            close("dentropy", &read(&h.grad(&grads).unwrap()), &dentropy, 3e-6);
        }
    }
    let [v, old, r] = [1, 2, 3].map(|seed| values(300, seed, 1.0));
    for clip in [None, Some(0.2)] {
        let at = leaf_of(&v, [300]);
        let run = |reference: bool| {
            let f = if reference {
                reference_value_loss(at.clone(), tensor(&old), tensor(&r), tensor(&batch.weight), clip)
            } else {
                value_loss(at.clone(), tensor(&old), tensor(&r), tensor(&batch.weight), clip).unwrap()
            };
            let clipped = read(&f.clipped);
            let loss = read(&f.loss);
            (loss, clipped, read(&at.grad(&f.loss.backward()).unwrap()))
        };
        let (plain, fused) = (run(true), run(false));
        close("value loss", &plain.0, &fused.0, 3e-6);
        assert_eq!(plain.1, fused.1);
        close("dvalues", &plain.2, &fused.2, 3e-6);
    }
}

#[test]
fn masked_tokens_are_never_read() {
    for (config, importance) in configs() {
        let run = |poison: f32| {
            let mut batch = Batch::new(50, 0.5);
            for t in (0..50).filter(|t| t % 7 == 3) {
                for data in [
                    &mut batch.logprob,
                    &mut batch.entropy,
                    &mut batch.old,
                    &mut batch.advantage,
                    &mut batch.reference,
                    &mut batch.importance,
                ] {
                    data[t] = poison;
                }
            }
            let (loss, metrics, [dlogprob, dentropy]) = batch.run(config, importance);
            let weight = batch.weight;
            let [v, old, r] = [1, 2, 3].map(|seed| {
                let mut v = values(50, seed, 1.0);
                (0..50).filter(|t| t % 7 == 3).for_each(|t| v[t] = poison);
                v
            });
            let at = leaf_of(&v, [50]);
            let value = value_loss(at.clone(), tensor(&old), tensor(&r), tensor(&weight), Some(0.2)).unwrap();
            let numbers = [vec![loss], dlogprob, dentropy, read(&value.loss), read(&value.clipped)].concat();
            let dvalues = read(&at.grad(&value.loss.backward()).unwrap());
            (metrics, [numbers, dvalues].concat())
        };
        let (metrics, clean) = run(0.0);
        for poison in [1e30, f32::NAN] {
            let (poisoned_metrics, poisoned) = run(poison);
            assert_eq!(poisoned_metrics, metrics);
            same_bits("masked tokens", &poisoned, &clean);
        }
    }
}

#[test]
fn a_fully_masked_batch_and_an_empty_one_have_no_loss() {
    let mut batch = Batch::new(5, 1.0);
    batch.weight.fill(0.0);
    batch.logprob.fill(f32::NAN);
    let (loss, metrics, [dlogprob, dentropy]) = batch.run(CONFIG, false);
    assert_eq!((loss, metrics), (0.0, PpoMetrics::default()));
    assert!(dlogprob.iter().chain(&dentropy).all(|g| *g == 0.0));
    let none = || tensor(&[]);
    let tokens = ActionTokens {
        old_logprob: none(),
        advantage: none(),
        weight: none(),
        reference_logprob: None,
        importance_weight: None,
    };
    let out = ppo_loss(none(), none(), &tokens, CONFIG).unwrap();
    assert_eq!((read(&out.loss), out.metrics()), (vec![0.0], PpoMetrics::default()));
    assert_eq!(read(&value_loss(none(), none(), none(), none(), None).unwrap().loss), [0.0]);
}

#[test]
fn log_ratios_beyond_twenty_are_held_and_have_no_slope() {
    let tokens = ActionTokens {
        old_logprob: tensor(&[-100.0, 0.0]),
        advantage: tensor(&[-1.0, 1.0]),
        weight: tensor(&[1.0, 1.0]),
        reference_logprob: None,
        importance_weight: None,
    };
    let lp = leaf_of(&[0.0, -100.0], [2]);
    let config = PpoLossConfig { dual_clip: None, ..CONFIG };
    let out = ppo_loss(lp.clone(), tensor(&[0.0; 2]), &tokens, config).unwrap();
    let expected = 20f64.exp();
    let loss = f64::from(read(&out.loss)[0]);
    assert!((loss / expected - 1.0).abs() < 1e-5, "{loss} instead of {expected}");
    let grads = out.loss.backward();
    assert_eq!(read(&lp.grad(&grads).unwrap()), [0.0, 0.0]);
}

#[test]
fn settings_and_lengths_that_make_no_sense_are_refused() {
    let batch = Batch::new(4, 1.0);
    let run = |config: PpoLossConfig, tokens: &ActionTokens| {
        ppo_loss(tensor(&batch.logprob), tensor(&batch.entropy), tokens, config).map(|_| ()).unwrap_err().to_string()
    };
    let tokens = batch.tokens(CONFIG, false);
    assert!(run(PpoLossConfig { clip_low: 1.5, ..CONFIG }, &tokens).contains("clip_low"));
    assert!(run(PpoLossConfig { dual_clip: Some(0.5), ..CONFIG }, &tokens).contains("dual_clip"));
    assert!(run(PpoLossConfig { kl_coef: 0.1, ..CONFIG }, &tokens).contains("reference_logprob"));
    let short = ActionTokens { advantage: tensor(&[1.0]), ..tokens };
    assert!(run(CONFIG, &short).contains("advantage"));
}

/// Weights of the actions of a padded batch, for the aggregation modes of the fixtures.
fn weights(mode: &str, mask: &[Vec<f64>]) -> Option<Vec<Vec<f32>>> {
    let counts: Vec<f64> = mask.iter().map(|r| r.iter().sum()).collect();
    let (total, rows) = (counts.iter().sum::<f64>(), counts.iter().filter(|c| **c > 0.0).count() as f64);
    let width = mask.first().map_or(0, Vec::len) as f64;
    let weight = |count: f64| match mode {
        "token-mean" => Some(1.0 / total),
        "token-sum" => Some(1.0),
        "seq-mean-token-sum" => Some(1.0 / rows),
        "seq-mean-token-mean" => Some(1.0 / rows / count.max(1.0)),
        "seq-mean-token-sum-norm" => Some(1.0 / width / rows),
        _ => None,
    };
    mask.iter()
        .zip(&counts)
        .map(|(row, count)| Some(row.iter().map(|m| (m * weight(*count).unwrap_or(f64::NAN)) as f32).collect()))
        .collect::<Option<Vec<_>>>()
        .filter(|_| weight(1.0).is_some())
}

/// verl 0.9.1 in f64: loss, clip fractions and the gradient, masked tokens left in place.
#[test]
fn the_policy_loss_reproduces_the_fixtures() {
    let Some(all) = cases("ppo_policy_loss.json") else { return };
    let mut seen = 0;
    for Case { name, inputs, params, expected } in all {
        let mode = params["loss_agg_mode"].as_str().expect("a mode");
        let mask = inputs.rows("response_mask");
        let Some(weights) = weights(mode, &mask) else { panic!("{name}: unknown aggregation {mode}") };
        let config = PpoLossConfig {
            clip_low: params["clip_low"].as_f64().unwrap() as f32,
            clip_high: params["clip_high"].as_f64().unwrap() as f32,
            dual_clip: Some(params["clip_ratio_c"].as_f64().unwrap() as f32),
            ..CONFIG
        };
        let weight = weights.concat();
        let n = weight.len();
        let tokens = ActionTokens {
            old_logprob: tensor(&inputs.flat("old_log_prob")),
            advantage: tensor(&inputs.flat("advantages")),
            weight: tensor(&weight),
            reference_logprob: None,
            importance_weight: None,
        };
        let lp = leaf_of(&inputs.flat("log_prob"), [n]);
        let out = ppo_loss(lp.clone(), tensor(&vec![0.0; n]), &tokens, config).unwrap();
        let total: f64 = mask.concat().iter().sum();
        let metrics = out.metrics();
        let loss = read(&out.loss);
        let scale = expected["pg_loss"].as_f64().unwrap().abs().max(1.0) as f32;
        close(&name, &[loss[0] / scale], &[expected["pg_loss"].as_f64().unwrap() as f32 / scale], 1e-5);
        close(&name, &[(metrics.clipped / total) as f32], &[expected["pg_clipfrac"].as_f64().unwrap() as f32], 1e-5);
        let lower = expected["pg_clipfrac_lower"].as_f64().unwrap() as f32;
        close(&name, &[(metrics.clipped_lower / total) as f32], &[lower], 1e-5);
        close(&name, &[(metrics.kl_k1 / total) as f32], &[expected["ppo_kl"].as_f64().unwrap() as f32], 1e-5);
        let grads = out.loss.backward();
        close(&name, &read(&lp.grad(&grads).unwrap()), &expected.flat("grad_log_prob"), 1e-5);
        seen += 1;
    }
    assert!(seen > 20, "only {seen} cases were read");
}

#[test]
fn the_value_loss_reproduces_the_fixtures() {
    let Some(all) = cases("ppo_value_loss.json") else { return };
    let mut seen = 0;
    for Case { name, inputs, params, expected } in all {
        let mode = params["loss_agg_mode"].as_str().expect("a mode");
        let mask = inputs.rows("response_mask");
        let Some(weights) = weights(mode, &mask) else { panic!("{name}: unknown aggregation {mode}") };
        let weight = weights.concat();
        let values = leaf_of(&inputs.flat("vpreds"), [weight.len()]);
        let out = value_loss(
            values.clone(),
            tensor(&inputs.flat("values")),
            tensor(&inputs.flat("returns")),
            tensor(&weight),
            Some(params["cliprange_value"].as_f64().unwrap() as f32),
        )
        .unwrap();
        let total: f64 = mask.concat().iter().sum();
        let clipped = f64::from(read(&out.clipped)[0]) / total;
        close(&name, &read(&out.loss), &[expected["vf_loss"].as_f64().unwrap() as f32], 1e-5);
        close(&name, &[clipped as f32], &[expected["vf_clipfrac"].as_f64().unwrap() as f32], 1e-5);
        let grads = out.loss.backward();
        close(&name, &read(&values.grad(&grads).unwrap()), &expected.flat("grad_vpreds"), 1e-5);
        seen += 1;
    }
    assert!(seen > 20, "only {seen} cases were read");
}
