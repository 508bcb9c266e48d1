use std::path::PathBuf;

use tiny_http::{Header, Method, Request, Response, Server};

use super::error::ReportError;
use super::page::{ReportOptions, render, render_data};
use super::run::{RunDigest, TokenText};

/// Serves the report of runs that may still be training, on this machine only, until `keep_going` says no.
///
/// `/` is the page, `/stamp` a number that changes with the runs' files, `/data.json` the page's data anew. Port 0 takes
/// any free one; `ready` is told the address. `tokenizer` is asked for runs that have none yet.
///
/// # Errors
/// When a folder is no run, or the port cannot be had.
pub fn watch(
    roots: &[PathBuf],
    options: ReportOptions,
    port: u16,
    tokenizer: &dyn Fn(&RunDigest) -> Option<TokenText>,
    ready: &mut dyn FnMut(&str),
    keep_going: &dyn Fn() -> bool,
) -> Result<(), ReportError> {
    let mut runs: Vec<RunDigest> = roots.iter().map(|root| RunDigest::read(root)).collect::<Result<_, _>>()?;
    let wanted = format!("127.0.0.1:{port}");
    let fail = |problem: String| ReportError::Serve { address: wanted.clone(), problem };
    let server = Server::http(&wanted).map_err(|e| fail(e.to_string()))?;
    ready(&format!("http://{}/", server.server_addr()));
    let options = ReportOptions { live: true, ..options };
    while keep_going() {
        let request = server.recv_timeout(std::time::Duration::from_millis(200)).map_err(|e| fail(e.to_string()))?;
        if let Some(request) = request {
            answer(request, &mut runs, &options, tokenizer);
        }
    }
    Ok(())
}

fn answer(
    request: Request,
    runs: &mut [RunDigest],
    options: &ReportOptions,
    tokenizer: &dyn Fn(&RunDigest) -> Option<TokenText>,
) {
    let path = request.url().split('?').next().unwrap_or_default().to_string();
    let (status, kind, body) = if !is_local(&request) {
        // A web page elsewhere that makes its name point here must not read a run.
        (403, "text/plain", "this server answers under 127.0.0.1 and localhost only\n".into())
    } else if *request.method() != Method::Get {
        (405, "text/plain", "only GET\n".into())
    } else {
        match page(&path, runs, options, tokenizer) {
            Ok(Some((kind, body))) => (200, kind, body),
            Ok(None) => (404, "text/plain", "there are /, /stamp and /data.json\n".into()),
            Err(error) => (500, "text/plain", format!("{error}\n")),
        }
    };
    let headers = [("Content-Type", format!("{kind}; charset=utf-8")), ("Cache-Control", "no-store".into())];
    let mut response = Response::from_string(body).with_status_code(status);
    for (name, value) in headers {
        response.add_header(Header::from_bytes(name, value).expect("plain ASCII"));
    }
    // A browser that went away is its own business.
    let _ = request.respond(response);
}

fn page(
    path: &str,
    runs: &mut [RunDigest],
    options: &ReportOptions,
    tokenizer: &dyn Fn(&RunDigest) -> Option<TokenText>,
) -> Result<Option<(&'static str, String)>, ReportError> {
    let mut fresh = || -> Result<(), ReportError> {
        for run in runs.iter_mut() {
            run.refresh()?;
            if run.tokens.is_none() {
                run.tokens = tokenizer(run);
            }
        }
        Ok(())
    };
    Ok(match path {
        "/" => {
            fresh()?;
            Some(("text/html", render(runs, options)?.html))
        }
        "/data.json" => {
            fresh()?;
            Some(("application/json", render_data(runs, options)?))
        }
        "/stamp" => {
            let stamps: Vec<String> =
                runs.iter().map(|r| RunDigest::stamp(&r.root).map(|s| s.to_string())).collect::<Result<_, _>>()?;
            Some(("text/plain", stamps.join(" ")))
        }
        _ => None,
    })
}

fn is_local(request: &Request) -> bool {
    let host = request.headers().iter().find(|h| h.field.equiv("Host")).map_or("", |h| h.value.as_str());
    let name =
        host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |(n, _)| n);
    matches!(name, "127.0.0.1" | "localhost")
}
