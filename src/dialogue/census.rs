use std::collections::BTreeMap;

use super::{Profile, ProfileSet};

/// Who is in a set of profiles: counts by hidden intention, character type and more, and lengths of texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Census {
    /// Number of profiles.
    pub profiles: usize,
    /// Profiles with a fixed first line.
    pub with_first_talk: usize,
    /// Counts by intention, character type, language, setting and trait, each by name.
    pub groups: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// Least, mean and most characters of persona, scene and first line.
    pub lengths: BTreeMap<&'static str, (usize, f64, usize)>,
}

impl Census {
    /// Counts a set.
    pub fn of(set: &ProfileSet) -> Census {
        let mut census = Census { profiles: set.len(), ..Census::default() };
        let mut lengths: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for profile in set.iter() {
            census.with_first_talk += usize::from(profile.first_talk.is_some());
            for (group, name) in groups(profile) {
                *census.groups.entry(group).or_default().entry(name).or_default() += 1;
            }
            let texts = [
                ("persona", Some(&profile.player)),
                ("scene", Some(&profile.scene)),
                ("first line", profile.first_talk.as_ref()),
            ];
            for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
                lengths.entry(name).or_default().push(text.chars().count());
            }
        }
        census.lengths = lengths
            .into_iter()
            .filter_map(|(name, all)| {
                let mean = all.iter().sum::<usize>() as f64 / all.len() as f64;
                Some((name, (*all.iter().min()?, mean, *all.iter().max()?)))
            })
            .collect();
        census
    }
}

fn groups(profile: &Profile) -> Vec<(&'static str, String)> {
    let mut groups = vec![
        ("hidden intention", profile.intention().to_string()),
        ("character type", profile.character().to_string()),
        ("language", profile.language().to_string()),
    ];
    groups.extend(profile.setting.iter().map(|setting| ("setting", setting.clone())));
    groups.extend(profile.cha_group.iter().map(|word| ("trait", word.clone())));
    groups
}
