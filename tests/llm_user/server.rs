//! A chat-completions server of ours, as bad as a test wants it to be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// How many came before it.
    pub(crate) number: usize,
    /// `Authorization`, if it was sent.
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

impl Request {
    /// The form in which JSON is asked for.
    pub(crate) fn format(&self) -> &str {
        self.body["response_format"]["type"].as_str().unwrap_or("text")
    }

    /// All that was said, in one text.
    pub(crate) fn text(&self) -> String {
        let messages = self.body["messages"].as_array().expect("messages");
        messages.iter().map(|m| m["content"].as_str().expect("text")).collect::<Vec<_>>().join("\n")
    }

    /// Whether this is the first chain's question.
    pub(crate) fn asks_for_appraisal(&self) -> bool {
        self.text().contains("\"change\": 0")
    }

    /// A good answer to whatever is asked: an appraisal with `change`, or a line.
    pub(crate) fn answer(&self, change: i64) -> Reaction {
        let content = if self.asks_for_appraisal() {
            json!({"content": "listens", "fit": "near it", "activity": "hm", "feeling": "all right", "change": change})
        } else {
            json!({"reply": "Well, there is more to it.", "farewell": false})
        };
        Reaction::Content(content.to_string())
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// A proper completion with this content.
    Content(String),
    /// A completion that the token limit cut off.
    CutOff(String),
    /// Status 200 and this body.
    Body(String),
    /// A status, headers and a body.
    Status(u16, &'static str, String),
    /// Announces a whole completion and sends half of it.
    Half(String),
    /// Closes the connection while the request is still being sent, which resets it.
    Reset,
    /// Waits first.
    Slow(Duration, Box<Reaction>),
}

/// The server. It runs until the process ends.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<AtomicUsize>,
    /// Requests being answered at this moment, and the most there ever were.
    busiest: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(react: impl Fn(&Request) -> Reaction + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let server = Server { url, requests: Arc::default(), busiest: Arc::default(), seen: Arc::default() };
        let (requests, busiest, seen) = (server.requests.clone(), server.busiest.clone(), server.seen.clone());
        let (react, busy) = (Arc::new(react), Arc::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (react, busy) = (react.clone(), busy.clone());
                let (requests, busiest, seen) = (requests.clone(), busiest.clone(), seen.clone());
                std::thread::spawn(move || {
                    busiest.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let number = requests.fetch_add(1, Ordering::SeqCst);
                    // Clients of a broken server may go away at any time.
                    let _ = serve(stream, number, react.as_ref(), &seen);
                    busy.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn busiest(&self) -> usize {
        self.busiest.load(Ordering::SeqCst)
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().expect("no panic while held").clone()
    }
}

fn serve(
    mut stream: TcpStream,
    number: usize,
    react: &(impl Fn(&Request) -> Reaction + ?Sized),
    seen: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(64, stream.try_clone()?);
    let (mut line, mut length, mut authorization) = (String::new(), 0, None);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if lower.starts_with("authorization:") {
            authorization = Some(line["authorization:".len()..].trim().to_string());
        }
        if line.trim().is_empty() {
            break;
        }
    }
    // To know what to do the body must be read, unless the connection is to be reset while it is still coming in.
    let probe = Request { number, authorization: authorization.clone(), body: json!({"messages": []}) };
    if length > 0 && matches!(react(&probe), Reaction::Reset) {
        return Ok(());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).expect("clients send JSON");
    let request = Request { number, authorization, body };
    seen.lock().expect("no panic while held").push(request.clone());
    write(&mut stream, react(&request))
}

fn completion(content: &str, finish: &str) -> String {
    let message = json!({"role": "assistant", "content": content});
    json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "ours",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    })
    .to_string()
}

fn write(stream: &mut TcpStream, reaction: Reaction) -> std::io::Result<()> {
    let (status, headers, body) = match reaction {
        Reaction::Slow(wait, then) => {
            std::thread::sleep(wait);
            return write(stream, *then);
        }
        Reaction::Reset => return Ok(()),
        Reaction::Content(content) => (200, "", completion(&content, "stop")),
        Reaction::CutOff(content) => (200, "", completion(&content, "length")),
        Reaction::Body(body) => (200, "", body),
        Reaction::Status(status, headers, body) => (status, headers, body),
        Reaction::Half(content) => {
            let body = completion(&content, "stop");
            let half = &body.as_bytes()[..body.len() / 2];
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )?;
            return stream.write_all(half);
        }
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
