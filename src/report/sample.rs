use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use rayon::prelude::*;

use super::digest::{Brief, Digest, parse};
use super::error::ReportError;
use super::run::RunDigest;
use crate::rollout::Episode;

/// A dialogue's place: run, digest, line of its file.
pub(super) type Place = (usize, usize, usize);

/// The dialogues a page carries, and which of them it shows first.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Every chosen dialogue, in the order of runs and steps.
    pub(super) places: Vec<Place>,
    /// The best ones.
    pub(super) best: Vec<Place>,
    /// The worst ones.
    pub(super) worst: Vec<Place>,
    /// Pairs of an early and a late dialogue with the same person, largest gain first.
    pub(super) improved: Vec<(Place, Place)>,
    /// Dialogues there are.
    pub(super) total: usize,
}

/// How many dialogues each list of highlights has.
const HIGHLIGHTS: usize = 6;

/// Chooses at most `most` dialogues: the highlights, then from every file its best, its worst and evenly spread others, as
/// many from each file as there is room for.
pub(super) fn choose(runs: &[RunDigest], most: usize) -> Sample {
    let all: Vec<(Place, &Brief)> = places(runs).collect();
    let mut scored: Vec<(Place, &Brief)> = all.iter().filter(|(_, b)| b.counted.is_some()).copied().collect();
    // A quick success and a quick failure come first: they are the clearest.
    scored.sort_by_key(|(place, b)| (std::cmp::Reverse(b.counted), b.emotions.len(), *place));
    let best = distinct_profiles(scored.iter());
    scored.sort_by_key(|(place, b)| (b.counted, b.emotions.len(), *place));
    let worst = distinct_profiles(scored.iter());
    let improved = most_improved(runs);
    let mut chosen: BTreeSet<Place> = best.iter().chain(&worst).copied().collect();
    chosen.extend(improved.iter().flat_map(|(early, late)| [*early, *late]));
    let files: Vec<(usize, usize, &Digest)> = runs
        .iter()
        .enumerate()
        .flat_map(|(r, run)| run.digests.iter().enumerate().map(move |(d, g)| (r, d, g)))
        .collect();
    // Rounds of one dialogue per file; when a round does not fit as a whole, evenly spread files get theirs.
    let orders: Vec<Vec<usize>> = files.iter().map(|(_, _, digest)| order(digest)).collect();
    for round in 0.. {
        let having: Vec<usize> = (0..files.len()).filter(|f| orders[*f].len() > round).collect();
        let room = most.saturating_sub(chosen.len());
        if having.is_empty() || room == 0 {
            break;
        }
        let take = having.len().min(room);
        for i in 0..take {
            let file = having[i * having.len() / take];
            let (run, digest, _) = files[file];
            chosen.insert((run, digest, orders[file][round]));
        }
    }
    Sample { places: chosen.into_iter().collect(), best, worst, improved, total: all.len() }
}

fn places(runs: &[RunDigest]) -> impl Iterator<Item = (Place, &Brief)> {
    runs.iter().enumerate().flat_map(|(r, run)| {
        run.digests
            .iter()
            .enumerate()
            .flat_map(move |(d, digest)| digest.dialogues.iter().map(move |b| ((r, d, b.index), b)))
    })
}

fn distinct_profiles<'a>(sorted: impl Iterator<Item = &'a (Place, &'a Brief)>) -> Vec<Place> {
    let mut seen = BTreeSet::new();
    sorted.filter(|(_, b)| seen.insert(b.profile.as_str())).map(|(place, _)| *place).take(HIGHLIGHTS).collect()
}

/// The order in which a file gives its dialogues: best, worst, then spread over the rest.
fn order(digest: &Digest) -> Vec<usize> {
    let mut sorted: Vec<&Brief> = digest.dialogues.iter().collect();
    sorted.sort_by_key(|b| (std::cmp::Reverse(b.counted), b.index));
    let n = sorted.len();
    let mut ranks: Vec<usize> = if n > 1 { vec![0, n - 1] } else { (0..n).collect() };
    // Halving steps spread over the ranks in between.
    let mut gap = n.next_power_of_two() / 2;
    while gap > 0 {
        ranks.extend((gap..n).step_by(2 * gap));
        gap /= 2;
    }
    let mut seen = vec![false; n];
    ranks.retain(|rank| !std::mem::replace(&mut seen[*rank], true));
    ranks.into_iter().map(|rank| sorted[rank].index).collect()
}

/// For each person with an early and a late dialogue, the pair, if the late one ended better.
fn most_improved(runs: &[RunDigest]) -> Vec<(Place, Place)> {
    let mut pairs: Vec<(i32, Place, Place)> = Vec::new();
    for (r, run) in runs.iter().enumerate() {
        let Some([(_, early), (_, late)]) = run.ends() else { continue };
        let position = |digest: &Digest| run.digests.iter().position(|d| d.stage == digest.stage).expect("its own");
        let mut first: HashMap<(&str, usize), (Place, u8)> = HashMap::new();
        let mut nth: HashMap<&str, usize> = HashMap::new();
        for digest in &early {
            for b in &digest.dialogues {
                let n = nth.entry(&b.profile).and_modify(|n| *n += 1).or_insert(0);
                if let Some(counted) = b.counted {
                    first.insert((&b.profile, *n), ((r, position(digest), b.index), counted));
                }
            }
        }
        nth.clear();
        for digest in &late {
            for b in &digest.dialogues {
                let n = nth.entry(&b.profile).and_modify(|n| *n += 1).or_insert(0);
                if let (Some(counted), Some((place, before))) = (b.counted, first.get(&(b.profile.as_str(), *n))) {
                    let gain = i32::from(counted) - i32::from(*before);
                    pairs.push((gain, *place, (r, position(digest), b.index)));
                }
            }
        }
    }
    pairs.retain(|(gain, ..)| *gain > 0);
    pairs.sort_by_key(|(gain, early, late)| (std::cmp::Reverse(*gain), *early, *late));
    pairs.into_iter().map(|(_, early, late)| (early, late)).take(HIGHLIGHTS).collect()
}

/// Reads the chosen dialogues' episodes, in the order of `places`.
pub(super) fn load(runs: &[RunDigest], places: &[Place]) -> Result<Vec<Episode>, ReportError> {
    let mut files: Vec<&[Place]> = places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
    files.sort_by_key(|group| group[0]);
    let read: Vec<Vec<Episode>> = files
        .par_iter()
        .map(|group| {
            let path: &Path = &runs[group[0].0].digests[group[0].1].path;
            let text = std::fs::read_to_string(path).map_err(|e| ReportError::read(path, e))?;
            let lines: Vec<&str> = text.lines().collect();
            let line = |index: usize| lines.get(index).copied().unwrap_or_default();
            group.iter().map(|place| parse(path, place.2, line(place.2))).collect()
        })
        .collect::<Result<_, ReportError>>()?;
    Ok(read.into_iter().flatten().collect())
}
