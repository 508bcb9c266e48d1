use rlver::dialogue::{Role, Transcript};
use rlver::evaluate::capability::{JudgedCapabilities, RubricJudge, rubric};
use rlver::evaluate::strategy::{self, BuiltinLabeller, JudgeLabeller};
use rlver::evaluate::{Behaviour, ChatJudge};
use rlver::rollout::Episode;
use rlver::user::llm::engine::{ChatEngine, ChatSampling};
use serde_json::{Map, Value, json};

use super::Args;

/// The language model of `--judge` and what it judges.
pub(super) struct Judging {
    engine: Box<dyn ChatEngine>,
    address: String,
    sampling: ChatSampling,
    strategies: bool,
    capabilities: bool,
    repeats: usize,
    seed: u64,
}

/// What is said about the replies, and by whom.
pub(super) struct Judged {
    pub(super) behaviour: Behaviour,
    pub(super) capabilities: Option<JudgedCapabilities>,
    /// What the judgements depend on; nothing when only built-in estimates were made.
    pub(super) settings: Option<Value>,
}

impl Judging {
    /// The judge that the arguments name, if they name one.
    pub(super) fn open(args: &Args) -> anyhow::Result<Option<Judging>> {
        let Some(spec) = &args.judge else { return Ok(None) };
        let (mut strategies, mut capabilities) = (args.judged.is_empty(), args.judged.is_empty());
        for what in &args.judged {
            match what.as_str() {
                "strategies" => strategies = true,
                "capabilities" => capabilities = true,
                other => anyhow::bail!("--judged {other} is unknown; expected strategies or capabilities"),
            }
        }
        let recipe = crate::cli::user::recipe_of_model("--judge", spec, &args.device)?;
        let llm = &recipe.llm;
        let sampling = ChatSampling {
            temperature: llm.temperature,
            top_p: llm.top_p,
            max_tokens: llm.max_tokens,
            seed: args.seed,
        };
        let (engine, address) = (recipe.open_llm()?, llm.url.clone());
        let (repeats, seed) = (args.judge_repeats.max(1), args.seed);
        Ok(Some(Judging { engine, address, sampling, strategies, capabilities, repeats, seed }))
    }

    /// Judges what the replies of `episodes` do.
    pub(super) fn judge(&self, episodes: &[Episode]) -> anyhow::Result<Judged> {
        let judge = || ChatJudge::new(self.engine.as_ref(), self.sampling);
        let at_once = self.engine.concurrency();
        let behaviour = match self.strategies {
            true => {
                let labeller = JudgeLabeller::new(judge(), self.seed);
                super::side_by_side(at_once, || Behaviour::of(episodes, &labeller))?
            }
            false => Behaviour::of(episodes, &BuiltinLabeller),
        };
        let capabilities = match self.capabilities {
            true => {
                let transcripts: Vec<Transcript> = episodes.iter().map(transcript).collect();
                let judge = RubricJudge::new(judge(), self.repeats);
                Some(super::side_by_side(at_once, || judge.judge(&transcripts, self.seed))??)
            }
            false => None,
        };
        crate::cli::tell(format_args!("judge: {}", self.engine.usage()));
        let mut settings = judge().settings();
        settings.extend(self.written());
        Ok(Judged { behaviour, capabilities, settings: Some(settings.into()) })
    }

    fn written(&self) -> Map<String, Value> {
        let mut written = Map::new();
        if !self.address.is_empty() {
            written.insert("endpoint".into(), self.address.clone().into());
        }
        written.insert("seed".into(), self.seed.into());
        if self.strategies {
            written.insert("strategies".into(), strategy::rubric::VERSION.into());
        }
        if self.capabilities {
            written.insert("capabilities".into(), json!({ "rubric": rubric::VERSION, "repeats": self.repeats }));
        }
        written
    }
}

impl Judged {
    /// The built-in estimates alone.
    pub(super) fn builtin(episodes: &[Episode]) -> Judged {
        Judged { behaviour: Behaviour::of(episodes, &BuiltinLabeller), capabilities: None, settings: None }
    }
}

/// What was said aloud in a dialogue.
fn transcript(episode: &Episode) -> Transcript {
    let mut said = Transcript::default();
    said.push(Role::User, &*episode.opening);
    for turn in &episode.turns {
        said.push(Role::Assistant, &*turn.reply);
        if let Some(user) = &turn.user {
            said.push(Role::User, &*user.line);
        }
    }
    said
}
