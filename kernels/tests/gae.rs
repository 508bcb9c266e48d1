use burn::tensor::{Tensor, TensorData};
use rlver_kernels::Segments;
use rlver_kernels::gae::{gae, reference};

use crate::common::{close, device, plain_device, read, same_bits, values};
use crate::fixtures::{Case, cases};

fn tensor(values: &[f32]) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &plain_device())
}

#[test]
fn the_scan_equals_the_recursion() {
    for lengths in [vec![1], vec![3, 0, 1, 200], vec![63, 64, 65, 129], vec![2_000, 7]] {
        let segments = Segments::from_lengths(lengths.clone());
        let n = segments.tokens();
        let (r, v) = (tensor(&values(n, 1, 1.0)), tensor(&values(n, 2, 1.0)));
        for (gamma, lambda) in [(1.0, 1.0), (1.0, 0.95), (0.99, 0.9), (0.5, 0.0), (0.0, 1.0)] {
            let ours = gae(r.clone(), v.clone(), &segments, gamma, lambda).unwrap();
            let expected = reference(r.clone(), v.clone(), &segments, gamma, lambda);
            let name = format!("lengths {lengths:?}, gamma {gamma}, lambda {lambda}");
            close(&name, &read(&ours.advantages), &read(&expected.advantages), 5e-6);
            close(&name, &read(&ours.returns), &read(&expected.returns), 5e-6);
        }
    }
}

#[test]
fn a_segment_does_not_see_the_next() {
    let segments = Segments::from_lengths([9, 130, 11]);
    let run = |poison: f32| {
        let make = |seed| {
            let mut v = values(150, seed, 1.0);
            v[..9].fill(poison);
            v[139..].fill(poison);
            tensor(&v)
        };
        let out = gae(make(1), make(2), &segments, 0.99, 0.95).unwrap();
        [read(&out.advantages)[9..139].to_vec(), read(&out.returns)[9..139].to_vec()].concat()
    };
    let clean = run(0.0);
    for poison in [1e30, f32::NAN] {
        same_bits("neighbouring segments", &run(poison), &clean);
    }
}

#[test]
fn no_tokens_and_tracked_inputs_are_fine_and_bad_ones_refused() {
    let out = gae(tensor(&[]), tensor(&[]), &Segments::from_lengths([0]), 1.0, 1.0).unwrap();
    assert_eq!(out.advantages.dims(), [0]);
    let tracked = Tensor::<1>::from_data(TensorData::new(vec![1.0f32, 2.0], [2]), &device());
    let out = gae(tracked.clone(), tracked, &Segments::from_lengths([2]), 1.0, 1.0).unwrap();
    assert_eq!(read(&out.advantages), [2.0, 0.0]);
    let two = || tensor(&[1.0, 2.0]);
    assert!(gae(two(), two(), &Segments::from_lengths([3]), 1.0, 1.0).is_err());
    let error = gae(two(), two(), &Segments::from_lengths([2]), 1.5, 1.0).unwrap_err();
    assert!(error.to_string().contains("gamma"), "{error}");
}

/// verl 0.9.1 in f64. Its recursion runs over padded rows with masked tokens; ours over the actions alone, which must
/// give the same at the actions.
#[test]
fn the_fixtures_come_out_at_the_actions() {
    let Some(all) = cases("ppo_gae.json") else { return };
    let mut seen = 0;
    for Case { name, inputs, params, expected } in all {
        let mask = inputs.rows("response_mask").concat();
        let actions = |key: &str, from: &crate::fixtures::Numbers| -> Vec<f32> {
            from.flat(key).iter().zip(&mask).filter(|(_, m)| **m > 0.0).map(|(v, _)| *v).collect()
        };
        let lengths = inputs.rows("response_mask").iter().map(|r| r.iter().sum::<f64>() as usize).collect::<Vec<_>>();
        let out = gae(
            tensor(&actions("token_level_rewards", &inputs)),
            tensor(&actions("values", &inputs)),
            &Segments::from_lengths(lengths),
            params["gamma"].as_f64().unwrap() as f32,
            params["lam"].as_f64().unwrap() as f32,
        )
        .unwrap();
        close(&name, &read(&out.advantages), &actions("advantages_raw", &expected), 1e-5);
        close(&name, &read(&out.returns), &actions("returns", &expected), 1e-5);
        seen += 1;
    }
    assert!(seen > 10, "only {seen} cases were read");
}
