use burn::tensor::{Tensor, TensorData};
use rlver_kernels::sample::{SampleConfig, Sampled, Stream, reference, sample};

use crate::common::{close, plain_device, read, same_bits, values};

const ALL: SampleConfig = SampleConfig { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, vocabulary: 1 };

fn tensor(data: &[f32], batch: usize) -> Tensor<2> {
    Tensor::from_data(TensorData::new(data.to_vec(), [batch, data.len() / batch]), &plain_device())
}

fn streams(batch: usize) -> Vec<Stream> {
    (0..batch).map(|i| Stream { seed: 0x1234_5678_9abc_def0 ^ (i as u64) << 33, draw: 7 * i as u32 }).collect()
}

fn ids(out: &Sampled) -> Vec<i32> {
    out.ids.to_data().convert::<i32>().try_to_vec().expect("converted to i32")
}

fn configs(vocabulary: usize) -> Vec<SampleConfig> {
    let all = SampleConfig { vocabulary, ..ALL };
    vec![
        all,
        SampleConfig { temperature: 0.0, ..all },
        SampleConfig { temperature: 0.6, top_p: 0.8, ..all },
        SampleConfig { temperature: 1.3, top_k: 5, ..all },
        SampleConfig { min_p: 0.1, ..all },
        SampleConfig { temperature: 0.9, top_k: 20, top_p: 0.95, min_p: 0.01, ..all },
    ]
}

/// The same draws everywhere: seeds and counters decide, not the device.
#[test]
fn draws_equal_those_of_the_host_in_f64() {
    for (columns, vocabulary, batch) in [(1, 1, 3), (7, 7, 40), (300, 290, 40), (4_099, 4_099, 9)] {
        let logits = tensor(&values(batch * columns, 3, 3.0), batch);
        for config in configs(vocabulary) {
            let ours = sample(logits.clone(), config, &streams(batch)).unwrap();
            let expected = reference(logits.clone(), config, &streams(batch));
            let name = format!("{columns} columns, {config:?}");
            assert_eq!(ids(&ours), ids(&expected), "{name}");
            close(&name, &read(&ours.logprob), &read(&expected.logprob), 4e-6);
        }
    }
}

#[test]
fn draws_follow_the_filtered_distribution() {
    // Probabilities 0.4, 0.3, 0.2, 0.1 with top-p 0.65: the first two remain, at 4/7 and 3/7.
    let batch = 4_000;
    let row: Vec<f32> = [0.4f32, 0.3, 0.2, 0.1].iter().map(|p| p.ln()).collect();
    let logits = tensor(&row.repeat(batch), batch);
    let streams: Vec<Stream> = (0..batch).map(|i| Stream { seed: 5, draw: i as u32 }).collect();
    let count = |config: SampleConfig| {
        let drawn = ids(&sample(logits.clone(), config, &streams).unwrap());
        [0, 1, 2, 3].map(|id| drawn.iter().filter(|d| **d == id).count() as f64 / batch as f64)
    };
    let all = SampleConfig { vocabulary: 4, ..ALL };
    // Five standard deviations of a share of 4,000 draws.
    let near = |share: f64, p: f64| (share - p).abs() < 5.0 * (p * (1.0 - p) / batch as f64).sqrt() + 1e-12;
    let shares = count(all);
    assert!([0.4, 0.3, 0.2, 0.1].iter().zip(shares).all(|(p, s)| near(s, *p)), "{shares:?}");
    let shares = count(SampleConfig { top_p: 0.65, ..all });
    assert!(near(shares[0], 4.0 / 7.0) && near(shares[1], 3.0 / 7.0), "{shares:?}");
    let shares = count(SampleConfig { top_k: 1, ..all });
    assert_eq!(shares, [1.0, 0.0, 0.0, 0.0]);
    let shares = count(SampleConfig { min_p: 0.4, ..all });
    assert!(near(shares[0], 4.0 / 9.0) && shares[3] == 0.0, "{shares:?}");
}

#[test]
fn columns_beyond_the_vocabulary_are_never_read_and_never_drawn() {
    let run = |poison: f32| {
        let mut data = values(6 * 64, 3, 1.0);
        data.chunks_exact_mut(64).for_each(|row| row[50..].fill(poison));
        let logits = tensor(&data, 6);
        configs(50)
            .into_iter()
            .flat_map(|config| {
                let out = sample(logits.clone(), config, &streams(6)).unwrap();
                assert!(ids(&out).iter().all(|id| (0..50).contains(id)));
                [read(&out.logprob), ids(&out).iter().map(|i| *i as f32).collect()].concat()
            })
            .collect::<Vec<f32>>()
    };
    let clean = run(0.0);
    for poison in [1e30, f32::NAN] {
        same_bits("columns beyond the vocabulary", &run(poison), &clean);
    }
}

#[test]
fn a_row_s_draw_depends_on_its_stream_alone() {
    let data = values(5 * 40, 3, 1.0);
    let config = SampleConfig { vocabulary: 40, ..ALL };
    let together = ids(&sample(tensor(&data, 5), config, &streams(5)).unwrap());
    for i in 0..5 {
        let alone = sample(tensor(&data[i * 40..(i + 1) * 40], 1), config, &streams(5)[i..=i]).unwrap();
        assert_eq!(ids(&alone), [together[i]]);
    }
}

#[test]
fn empty_batches_are_fine_and_bad_settings_refused() {
    let none = Tensor::<2>::from_data(TensorData::new(Vec::<f32>::new(), [0, 8]), &plain_device());
    let config = SampleConfig { vocabulary: 8, ..ALL };
    assert_eq!(sample(none, config, &[]).unwrap().ids.dims(), [0]);
    let logits = || tensor(&[0.0; 8], 1);
    let refuse = |config: SampleConfig| sample(logits(), config, &streams(1)).map(|_| ()).unwrap_err().to_string();
    assert!(refuse(SampleConfig { vocabulary: 9, ..config }).contains("vocabulary"));
    assert!(refuse(SampleConfig { temperature: -1.0, ..config }).contains("temperature"));
    assert!(refuse(SampleConfig { top_p: 0.0, ..config }).contains("top_p"));
    assert!(refuse(SampleConfig { min_p: 1.0, ..config }).contains("min_p"));
    assert!(sample(logits(), config, &streams(2)).is_err());
}
