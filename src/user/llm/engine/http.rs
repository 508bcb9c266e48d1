use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ureq::http::Uri;

use super::backoff::retry_after;
use super::limit::Limit;
use super::usage::Counter;
use super::{ApiKey, Backoff, ChatEngine, ChatRequest, Completion, EngineError, Prices, ResponseFormat, Usage, wire};

/// Longest answer that is read, in bytes.
const LONGEST_BODY: u64 = 8 << 20;
/// Characters of a server's complaint that are passed on.
const LONGEST_COMPLAINT: usize = 300;

/// How a server is reached.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Base address, such as `https://api.deepseek.com/v1`.
    pub url: String,
    /// The model to ask for.
    pub model: String,
    /// The key, for servers that want one.
    pub key: Option<ApiKey>,
    /// Most requests at once.
    pub concurrency: usize,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Longest time for one attempt, from connecting to the last byte.
    pub timeout: Duration,
    /// Attempts beyond the first.
    pub retries: usize,
    /// Waiting between attempts.
    pub backoff: Backoff,
    /// How JSON is asked for.
    pub format: ResponseFormat,
    /// What tokens cost.
    pub prices: Prices,
}

/// A server that speaks OpenAI's chat-completions protocol: DeepSeek, vLLM, SGLang, Ollama, llama.cpp and others.
///
/// Refused connections, timeouts, resets, half-sent or malformed bodies, and statuses 408, 409, 425, 429 and 5xx are
/// tried again after a wait that doubles, honouring `Retry-After`; other statuses are final.
#[derive(Debug)]
pub struct HttpEngine {
    settings: HttpSettings,
    endpoint: String,
    agent: ureq::Agent,
    limit: Limit,
    counter: Counter,
    /// Index into the format's attempts of the first one the server has not refused.
    format: AtomicUsize,
}

/// How an attempt failed.
enum Failure {
    Final(EngineError),
    Again { problem: String, asked: Option<Duration> },
}

impl Failure {
    /// Whether the server may have failed because it does not know the response format. A request that is wrong otherwise
    /// is refused in the plainest format, too, and that refusal is reported.
    fn may_mean_the_format(&self) -> bool {
        match self {
            Failure::Final(EngineError::Refused { status: 400 | 404 | 415 | 422 | 501, .. }) => true,
            // llama.cpp's Python server answers with status 500, and says why.
            Failure::Again { problem, .. } => problem.contains("response_format"),
            Failure::Final(_) => false,
        }
    }
}

impl HttpEngine {
    /// An engine; nothing is connected yet.
    ///
    /// # Errors
    /// When the address cannot be one, or holds what could be a secret.
    pub fn new(settings: HttpSettings) -> Result<HttpEngine, EngineError> {
        let uri = check_address(&settings.url)?;
        let base = settings.url.trim_end_matches('/');
        let endpoint = match base.ends_with("/chat/completions") {
            true => base.to_string(),
            false => format!("{base}/chat/completions"),
        };
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_global(Some(settings.timeout))
            .max_idle_connections(settings.concurrency.max(1))
            .max_idle_connections_per_host(settings.concurrency.max(1))
            .user_agent(concat!("rlver/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&uri) {
            config = config.proxy(None);
        }
        Ok(HttpEngine {
            limit: Limit::new(settings.concurrency),
            agent: config.build().new_agent(),
            endpoint,
            counter: Counter::default(),
            format: AtomicUsize::new(0),
            settings,
        })
    }

    /// One request, in the best format the server takes.
    fn attempt(&self, request: &ChatRequest<'_>) -> Result<Completion, Failure> {
        if request.shape.is_words() {
            return self.send(request, ResponseFormat::Text);
        }
        let formats = self.settings.format.attempts();
        let first = self.format.load(Ordering::Relaxed).min(formats.len() - 1);
        for (index, format) in formats.iter().enumerate().skip(first) {
            match self.send(request, *format) {
                Err(failure) if index + 1 < formats.len() && failure.may_mean_the_format() => {}
                Ok(completion) => {
                    self.format.fetch_max(index, Ordering::Relaxed);
                    return Ok(completion);
                }
                failed => return failed,
            }
        }
        unreachable!("the last format returns")
    }

    fn send(&self, request: &ChatRequest<'_>, format: ResponseFormat) -> Result<Completion, Failure> {
        let again = |problem: String| Failure::Again { problem: self.redact(&problem), asked: None };
        let body = wire::body(&self.settings.model, request, format).to_string();
        let mut call = self.agent.post(&self.endpoint).header("Content-Type", "application/json");
        if let Some(key) = &self.settings.key {
            call = call.header("Authorization", key.bearer());
        }
        let mut response = call.send(body.as_str()).map_err(|e| again(e.to_string()))?;
        let status = response.status().as_u16();
        let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let asked = asked.and_then(|value| retry_after(value, SystemTime::now()));
        let bytes = response.body_mut().with_config().limit(LONGEST_BODY).read_to_vec();
        if !(200..300).contains(&status) {
            let body = self.redact(&String::from_utf8_lossy(&bytes.unwrap_or_default()));
            let body: String = body.trim().chars().take(LONGEST_COMPLAINT).collect();
            return Err(match status {
                408 | 409 | 425 | 429 | 500.. => Failure::Again { problem: format!("status {status}: {body}"), asked },
                _ => Failure::Final(EngineError::Refused { url: self.endpoint.clone(), status, body }),
            });
        }
        let bytes = bytes.map_err(|e| again(format!("its answer breaks off: {e}")))?;
        let completion = wire::read(&bytes).map_err(again)?;
        self.counter.tokens(completion.prompt_tokens, completion.completion_tokens);
        Ok(Completion { text: self.redact(&completion.text), ..completion })
    }

    fn persist(&self, request: &ChatRequest<'_>) -> Result<Completion, EngineError> {
        let mut tried = 0;
        loop {
            let (problem, asked) = match self.attempt(request) {
                Ok(completion) => return Ok(completion),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again { problem, asked }) => (problem, asked),
            };
            tried += 1;
            let backoff = self.settings.backoff;
            let too_long = asked.filter(|asked| *asked > backoff.longest);
            if tried > self.settings.retries || too_long.is_some() {
                let last = match too_long {
                    Some(asked) => format!("{problem} (asks to come back in {} s)", asked.as_secs()),
                    None => problem,
                };
                return Err(EngineError::GaveUp { url: self.endpoint.clone(), attempts: tried, last });
            }
            self.counter.retry();
            std::thread::sleep(backoff.wait(tried - 1, asked));
        }
    }

    fn redact(&self, text: &str) -> String {
        self.settings.key.as_ref().map_or_else(|| text.to_string(), |key| key.redact(text))
    }
}

impl ChatEngine for HttpEngine {
    fn model(&self) -> String {
        self.settings.model.clone()
    }

    fn complete(&self, request: &ChatRequest<'_>) -> Result<Completion, EngineError> {
        // The place is kept while waiting: a server that asks for patience gets fewer requests.
        let _place = self.limit.enter();
        let begun = Instant::now();
        let result = self.persist(request);
        self.counter.request(begun.elapsed(), result.is_ok());
        result
    }

    fn concurrency(&self) -> usize {
        self.settings.concurrency.max(1)
    }

    fn usage(&self) -> Usage {
        self.counter.read(self.settings.prices)
    }
}

/// Refuses what is no address, and addresses that carry secrets: recipes and records name the address.
pub(crate) fn check_address(url: &str) -> Result<Uri, EngineError> {
    let shown = if url.contains('@') || url.contains('?') { "(not shown)" } else { url };
    let fail = |problem: &str| EngineError::Address { url: shown.into(), problem: problem.into() };
    let uri: Uri = url.parse().map_err(|_| fail("is no address; expected something like http://127.0.0.1:8000/v1"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(fail("expected an address such as http://127.0.0.1:8000/v1"));
    }
    if shown != url {
        return Err(fail(
            "an address must hold no user name and no query; name the key's environment variable instead",
        ));
    }
    Ok(uri)
}

fn is_loopback(uri: &Uri) -> bool {
    uri.host().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "::1"))
}
