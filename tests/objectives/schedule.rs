//! Learning-rate schedules against verl.

use rlver::objective::{LrDecay, LrSchedule, ObjectiveError};

use super::{GOLDEN, cases, close, fixture, name, number, vector};

#[test]
fn golden_schedules() {
    let fixture = fixture("ppo_lr_schedule.json");
    for case in cases(&fixture) {
        let params = &case["params"];
        let decay = if name(case).starts_with("cosine") { LrDecay::Cosine } else { LrDecay::Constant };
        let total_steps = params["total"].as_u64().unwrap();
        let schedule = LrSchedule {
            decay,
            warmup_steps: params["warmup"].as_u64().unwrap(),
            total_steps,
            min_lr_ratio: number(&params["min_lr_ratio"]),
        };
        for (step, expected) in vector(&case["expected"]["lr"]).into_iter().enumerate() {
            // Past the end verl's cosine rises again; ours stays at the floor.
            let past = decay == LrDecay::Cosine && step as u64 > total_steps;
            let expected = if past { schedule.min_lr_ratio } else { expected };
            close(schedule.factor(step as u64).unwrap(), expected, GOLDEN, name(case));
        }
    }
    assert_eq!(cases(&fixture).len(), 3);
}

#[test]
fn linear_reaches_the_floor_and_stays() {
    let schedule = LrSchedule { decay: LrDecay::Linear, warmup_steps: 2, total_steps: 6, min_lr_ratio: 0.2 };
    let factors: Vec<f64> = (0..8).map(|step| schedule.factor(step).unwrap()).collect();
    super::all_close(&factors, &[0.0, 0.5, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2], 1e-12, "linear");
}

#[test]
fn odd_settings_do_not_panic() {
    let short = LrSchedule { decay: LrDecay::Cosine, warmup_steps: 5, total_steps: 2, min_lr_ratio: 0.0 };
    assert_eq!(short.factor(5).unwrap(), 1.0);
    assert_eq!(short.factor(9).unwrap(), 0.0);
    let refused = LrSchedule { min_lr_ratio: 2.0, ..short }.factor(0);
    assert!(matches!(refused, Err(ObjectiveError::OutOfRange { .. })));
}
