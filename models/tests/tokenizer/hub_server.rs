//! A hub of one repository, as far as a download needs it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;

/// The commit every revision stands for.
pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the server does with a path below `/org/name/resolve/REVISION/`.
#[derive(Clone)]
pub(super) enum Answer {
    File(Vec<u8>),
    /// Announces all bytes, sends half.
    CutOff(Vec<u8>),
    /// Says in the range that there is more than it sends.
    Short(Vec<u8>),
    Status(u16),
}

/// Answers one request and writes its path down; `otherwise` is the status of paths without an answer.
pub(super) fn answer(
    stream: TcpStream,
    answers: &HashMap<String, Answer>,
    otherwise: u16,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut start = 0;
    let mut only_first = false;
    let mut authorized = false;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            only_first = range == "0-0";
            start = range.split('-').next().and_then(|s| s.parse().ok()).unwrap_or(0);
        }
        authorized |= line == "authorization: bearer secret";
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().expect("no panic while held").push(path.clone());
    let file = path.split_once("/org/name/resolve/").and_then(|(_, rest)| rest.split_once('/')).map(|(_, file)| file);
    let found = file.and_then(|file| answers.get(file)).cloned().unwrap_or(Answer::Status(otherwise));
    let mut stream = stream;
    let (bytes, announced, sent) = match found {
        Answer::Status(401) if authorized => (b"{}".to_vec(), 2, 2),
        Answer::Status(status) => {
            return write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        Answer::File(bytes) => (bytes.clone(), bytes.len(), bytes.len()),
        Answer::CutOff(bytes) => (bytes.clone(), bytes.len(), bytes.len() / 2),
        Answer::Short(bytes) => (bytes.clone(), bytes.len() / 2, bytes.len() / 2),
    };
    let (announced, body) = if only_first {
        (1, &bytes[..1])
    } else {
        (announced.saturating_sub(start), bytes.get(start..sent).unwrap_or_default())
    };
    write!(
        stream,
        "HTTP/1.1 206 Partial\r\nContent-Length: {announced}\r\nContent-Range: bytes {start}-{}/{}\r\n\
         ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        (start + announced).saturating_sub(1),
        bytes.len(),
        file.unwrap_or_default().replace('.', "-"),
    )?;
    stream.write_all(body)
}
