use rlver_models::generate::SamplingSettings;

use super::{Trainer, emotion};
use crate::Error;
use crate::dialogue::{Language, prompt};
use crate::evaluate::{self, EvalResult, Summary};
use crate::metrics::Metrics;
use crate::rollout::{Episode, RolloutSettings};
use crate::train::{Event, Stage, describe};

impl Trainer<'_> {
    /// Evaluates, unless an earlier session of this run did.
    pub(super) fn evaluate_once(
        &mut self,
        name: &'static str,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary, Error> {
        let file = if name == "before" { Stage::Before } else { Stage::After }.name();
        let earlier = if name == "before" { self.folder.read_episodes(&file)? } else { None };
        let summary = match earlier {
            Some(episodes) => self.summarise(&episodes)?,
            None => {
                let summary = self.evaluate(&file, report)?;
                if name == "before" && self.step == 0 || name == "after" {
                    self.record_evaluation(name, &summary)?;
                }
                summary
            }
        };
        report(Event::Evaluated(name, &summary));
        Ok(summary)
    }

    fn record_evaluation(&mut self, name: &str, summary: &Summary) -> Result<(), Error> {
        if name == "before" {
            let mut metrics = Metrics::new(0);
            describe::evaluation(&mut metrics, summary);
            self.log.write(&metrics)?;
            self.events.scalars(&metrics)?;
        }
        Ok(())
    }

    pub(super) fn evaluate(&mut self, file: &str, report: &mut dyn FnMut(Event<'_>)) -> Result<Summary, Error> {
        let e = &self.recipe.eval;
        let settings = RolloutSettings {
            mode: self.recipe.rollout.mode,
            max_turns: e.max_turns,
            start: emotion(e.start_emotion),
            sampling: SamplingSettings::at(e.temperature as f32),
            max_new_tokens: self.recipe.rollout.max_new_tokens,
        };
        self.engine.set_model(&self.learner.model);
        let episodes = evaluate::hold_dialogues(
            &self.policy,
            &mut self.engine,
            self.evaluated_with.as_ref().unwrap_or(&self.users).as_ref(),
            &self.eval_profiles,
            settings,
            (self.recipe.run.seed, e.seeds),
            |progress| report(Event::Dialogues("evaluation", progress)),
        )?;
        self.folder.write_episodes(file, &episodes)?;
        evaluate::refuse_too_many_unscored(&episodes, self.recipe.user.max_unscored)?;
        let summary = self.summarise(&episodes)?;
        let result = EvalResult {
            outcomes: evaluate::outcomes(&episodes),
            unscored: episodes.iter().filter(|e| e.reward.is_none()).count(),
            settings: self.evaluation_settings(),
            seed: self.recipe.run.seed,
        };
        let json = result.to_json().map_err(|e| Error::NothingScored(e.to_string()))?;
        self.folder.write_json(&format!("{file}.json"), &json)?;
        Ok(summary)
    }

    /// What the score of an evaluation depends on, as `rlver eval --json` writes it.
    fn evaluation_settings(&self) -> serde_json::Map<String, serde_json::Value> {
        let (e, r) = (&self.recipe.eval, &self.recipe.rollout);
        let settings = serde_json::json!({
            "rlver": env!("CARGO_PKG_VERSION"),
            "model": format!("{} after step {}", self.recipe.model.policy, self.step),
            "mode": r.mode,
            "system_zh": prompt::system(r.mode, Language::Zh),
            "system_en": prompt::system(r.mode, Language::En),
            "start_emotion": e.start_emotion,
            "max_turns": e.max_turns,
            "temperature": e.temperature,
            "max_new_tokens": r.max_new_tokens,
            "max_context": r.max_context,
            "seed": self.recipe.run.seed,
            "seeds": e.seeds,
            "device": self.recipe.run.device,
            "profiles": self.eval_profiles.origin(),
            "profiles_fingerprint": evaluate::fingerprint(&self.eval_profiles),
            "user": self.evaluated_with.as_ref().unwrap_or(&self.users).name(),
        });
        settings.as_object().cloned().unwrap_or_default()
    }

    fn summarise(&self, episodes: &[Episode]) -> Result<Summary, Error> {
        Summary::new(&evaluate::outcomes(episodes), self.recipe.run.seed)
            .map_err(|e| Error::NothingScored(e.to_string()))
    }
}
