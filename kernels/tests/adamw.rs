//! The optimizer step changes what a run computes in its last bit if it rounds elsewhere than the reference.

use rlver_kernels::adamw::{AdamWStep, Updated, adamw, reference};

use crate::common::{leaf, read};

#[test]
fn the_fused_step_gives_the_bits_of_the_reference() {
    let n = 40_000;
    let parameter = || Updated {
        weight: leaf([n], 1, 1.0).inner(),
        first: leaf([n], 2, 0.1).inner(),
        second: leaf([n], 3, 0.1).inner().square(),
    };
    for (step, scale) in [(1, 1.0), (7, 0.37)] {
        let step = AdamWStep { scale, learning_rate: 6e-4, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.01, step };
        let gradient = leaf([n], 4, 1.0).inner();
        // Read before the next begins: how the fusion layer rounds depends on what it has to run at once.
        let bits = |t: Updated| {
            [t.weight, t.first, t.second].map(|t| read(&t).into_iter().map(f32::to_bits).collect::<Vec<u32>>())
        };
        let fused = bits(adamw(parameter(), gradient.clone(), step).unwrap());
        let plain = bits(reference(parameter(), gradient, step));
        for (i, what) in ["weight", "first moment", "second moment"].iter().enumerate() {
            assert!(fused[i] == plain[i], "{what}");
        }
    }
}

#[test]
fn lengths_that_differ_are_refused() {
    let leaf = |n: usize| leaf([n], 1, 1.0).inner();
    let parameter = Updated { weight: leaf(3), first: leaf(3), second: leaf(2) };
    let step = AdamWStep { scale: 1.0, learning_rate: 1.0, betas: [0.9; 2], eps: 1e-8, weight_decay: 0.0, step: 1 };
    assert!(adamw(parameter, leaf(3), step).unwrap_err().to_string().contains("second"));
}
