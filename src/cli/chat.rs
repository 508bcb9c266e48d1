use std::io::{BufRead, IsTerminal};

use anyhow::Context;
use rlver::device::DeviceChoice;
use rlver::dialogue::think::{self, ReplyMode};
use rlver::dialogue::{Language, Role, Transcript, prompt};
use rlver::rollout::Policy;
use rlver::train::load_policy;
use rlver_models::generate::{Engine, Finish, RowId, Sampler, SamplingSettings};
use rlver_models::tokenizer::{ChatMessage, StreamDecoder};

use super::Ended;

/// `rlver chat`: talk with a policy in the terminal.
///
/// `/reset` forgets the conversation, `/system TEXT` changes the system prompt (`/system` alone shows it), `/thoughts`
/// shows or hides thoughts, `/quit` or Ctrl-D ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy: `builtin:pico`, a folder or a Hugging Face id.
    #[arg(long)]
    model: String,
    /// Ask for thoughts before each reply.
    #[arg(long)]
    think: bool,
    /// Show the thoughts.
    #[arg(long)]
    show_thoughts: bool,
    /// System prompt instead of ours.
    #[arg(long)]
    system: Option<String>,
    /// Sampling temperature; 0 is greedy.
    #[arg(long, default_value_t = 0.7)]
    temperature: f32,
    /// Most tokens per reply.
    #[arg(long, default_value_t = 512)]
    max_new_tokens: usize,
    /// Most tokens per conversation.
    #[arg(long, default_value_t = 4096)]
    max_context: usize,
    /// Seed of the sampling.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to compute.
    #[arg(long, default_value = "flex")]
    device: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ended> {
    let sampling = SamplingSettings::at(args.temperature);
    sampling.check()?;
    let device = DeviceChoice::parse(&args.device).map_err(anyhow::Error::msg)?.open();
    let policy = load_policy(&args.model, "", &device)?;
    let mut chat = Chat::new(&policy, &args, sampling)?;
    let stdin = std::io::stdin();
    let prompt = stdin.is_terminal();
    loop {
        if prompt {
            super::print(format_args!("you> "));
        }
        let mut line = String::new();
        if stdin.lock().read_line(&mut line).context("cannot read standard input")? == 0 {
            return Ok(Ended::Done);
        }
        match line.trim() {
            "" => {}
            "/quit" | "/exit" => return Ok(Ended::Done),
            "/reset" => {
                chat.transcript = Transcript::default();
                say!("(forgotten)");
            }
            "/thoughts" => {
                chat.show_thoughts = !chat.show_thoughts;
                say!("(thoughts are {})", if chat.show_thoughts { "shown" } else { "hidden" });
            }
            "/system" => say!("(system: {})", chat.system_prompt("")),
            text => match text.strip_prefix("/system ") {
                Some(system) => {
                    chat.system = Some(system.trim().to_string());
                    chat.transcript = Transcript::default();
                    say!("(new system prompt; the conversation starts again)");
                }
                None if text.starts_with('/') => say!("(commands: /reset /system TEXT /thoughts /quit)"),
                None => chat.answer(text)?,
            },
        }
    }
}

struct Chat<'a> {
    policy: &'a Policy,
    engine: Engine,
    row: RowId,
    mode: ReplyMode,
    system: Option<String>,
    show_thoughts: bool,
    sampling: SamplingSettings,
    max_new_tokens: usize,
    seed: u64,
    transcript: Transcript,
}

impl<'a> Chat<'a> {
    fn new(policy: &'a Policy, args: &Args, sampling: SamplingSettings) -> anyhow::Result<Chat<'a>> {
        let capacity = args.max_context.min(policy.model.config().max_position_embeddings);
        let mut engine = Engine::new(&policy.model, policy.vocabulary(), 1, capacity);
        let row = engine.open().context("a new engine has a free row")?;
        Ok(Chat {
            policy,
            engine,
            row,
            mode: if args.think { ReplyMode::Think } else { ReplyMode::Direct },
            system: args.system.clone(),
            show_thoughts: args.show_thoughts,
            sampling,
            max_new_tokens: args.max_new_tokens,
            seed: args.seed,
            transcript: Transcript::default(),
        })
    }

    /// The given system prompt, or ours in the language of `text`.
    fn system_prompt(&self, text: &str) -> String {
        let language = Language::detect(text).unwrap_or(Language::En);
        self.system.clone().unwrap_or_else(|| prompt::system(self.mode, language).to_string())
    }

    fn answer(&mut self, text: &str) -> anyhow::Result<()> {
        self.transcript.push(Role::User, text);
        let first = self.transcript.0[0].content.clone();
        let system = self.system_prompt(&first);
        let mut messages = vec![ChatMessage::system(&system)];
        messages.extend(self.transcript.0.iter().map(|u| match u.role {
            Role::User => ChatMessage::user(&u.content),
            _ => ChatMessage::assistant(&u.content),
        }));
        let ids = self.policy.chat.prompt_ids(&messages)?;
        if ids.len() >= self.engine.capacity() {
            self.transcript.0.pop();
            say!("(the conversation is too long for --max-context {}; /reset to go on)", self.engine.capacity());
            return Ok(());
        }
        let turn = self.transcript.0.len() as u64;
        let sampler = Sampler::new(self.sampling, rlver::seed::mix(&[self.seed, turn]));
        self.engine.set_prompt(self.row, ids);
        self.engine.start_turn(self.row, sampler, self.max_new_tokens, &self.policy.stop_ids());
        let raw = self.stream()?;
        self.transcript.push(Role::Assistant, think::parse(&raw, self.mode).text);
        Ok(())
    }

    /// Prints the reply as it is sampled; thoughts only when they are shown.
    fn stream(&mut self) -> anyhow::Result<String> {
        let mut decoder = StreamDecoder::new(&self.policy.tokenizer, true);
        let (mut raw, mut shown) = (String::new(), 0);
        while self.engine.is_busy() {
            for sampled in self.engine.step()? {
                if sampled.finish != Some(Finish::Stop) {
                    raw.extend(decoder.push(sampled.id));
                }
            }
            self.print_from(&raw, &mut shown)?;
        }
        raw.extend(decoder.flush());
        if self.mode == ReplyMode::Think && !self.show_thoughts && !raw.contains(think::CLOSE) {
            super::print(format_args!("{}", raw.trim_start()));
        } else {
            self.print_from(&raw, &mut shown)?;
        }
        say!("");
        Ok(raw)
    }

    fn print_from(&self, raw: &str, shown: &mut usize) -> anyhow::Result<()> {
        if self.mode == ReplyMode::Think && !self.show_thoughts {
            let Some(end) = raw.find(think::CLOSE) else { return Ok(()) };
            let reply = end + think::CLOSE.len();
            *shown = (*shown).max(reply + (raw[reply..].len() - raw[reply..].trim_start().len()));
        }
        super::print(format_args!("{}", &raw[*shown..]));
        *shown = raw.len();
        Ok(())
    }
}
