//! Who may use the server: the token, the host and the origin of a request.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq as _;

use super::App;
use super::answer::Refused;
use crate::args::Serve;
use crate::report::Failure;
use crate::user::host;

/// The fewest characters of a token: 16, so that nobody can guess it.
const SHORTEST_TOKEN: usize = 16;

/// Longest token that is read: 4 KiB, far more than anybody needs.
const LONGEST_TOKEN: u64 = 4096;

/// The rights of users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// The address for requests, and the token and rights that a request needs.
#[derive(Debug)]
pub(super) struct Access {
    token: Option<String>,
    pub(super) allows_revoke: bool,
    /// Reading needs the token, too.
    protects_reading: bool,
    /// Names by which this server is reached, besides addresses.
    hosts: Vec<String>,
    is_tls: bool,
}

impl Access {
    /// The access that the options ask for.
    ///
    /// # Errors
    ///
    /// If that would not be safe, or the token cannot be read.
    pub(super) fn new(args: &Serve) -> Result<Self, Failure> {
        let token = args.token_file.as_deref().map(read_token).transpose()?;
        let protects_reading = !args.listen.ip().is_loopback();
        if protects_reading && token.is_none() {
            return Err(Failure::usage(format!(
                "--listen {}: others can reach this address: give --token-file, or listen at \
                 127.0.0.1",
                args.listen
            )));
        }
        let own = host().to_lowercase();
        let given = args.allow_host.iter().map(|host| host.to_lowercase());
        let hosts = given.chain(["localhost".to_owned(), own]).collect();
        Ok(Self {
            token,
            allows_revoke: args.allow_revoke,
            protects_reading,
            hosts,
            is_tls: args.tls_cert.is_some(),
        })
    }

    /// Access with this token, which is needed for reading, too, and allows revoking.
    #[cfg(fuzzing)]
    pub(super) fn with_token(token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            allows_revoke: true,
            protects_reading: true,
            hosts: vec!["localhost".to_owned()],
            is_tls: false,
        }
    }

    /// Whether a request has the right token; none if it has no token, or this server needs none.
    fn is_known(&self, headers: &HeaderMap) -> Option<bool> {
        let token = self.token.as_deref()?.as_bytes();
        let sent = text(headers, "authorization")?.strip_prefix("Bearer ")?.trim().as_bytes();
        // The check takes the same time for every wrong text.
        Some(bool::from(token.ct_eq(sent)))
    }

    /// Whether the Host header of a request names this server. A page of an attacker may use
    /// another name that leads here (DNS rebinding).
    fn is_for_us(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let host = host.to_str().ok().filter(|host| !host.contains('@'));
        let Some(Ok(host)) = host.map(str::parse::<Authority>) else { return false };
        let name = host.host().to_lowercase();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = bare.unwrap_or(&name).parse::<IpAddr>().is_ok();
        // An address needs no check, because rebinding needs a name.
        is_address || self.hosts.contains(&name)
    }

    /// Whether a request comes from a page of another origin. Without TLS, the page may have come
    /// by https: from a proxy that does TLS and leaves the host as it is.
    fn is_foreign(&self, headers: &HeaderMap) -> bool {
        let is_own = |origin: &str| {
            let (scheme, host) = origin.split_once("://").unwrap_or_default();
            let is_ours = scheme == "https" || (scheme == "http" && !self.is_tls);
            is_ours && text(headers, "host") == Some(host)
        };
        let is_elsewhere = text(headers, "origin").is_some_and(|origin| !is_own(origin));
        let site = text(headers, "sec-fetch-site");
        let is_cross = site.is_some_and(|site| !["same-origin", "none"].contains(&site));
        is_elsewhere || is_cross
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// The token in a file: its only line.
fn read_token(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let cannot = |error| Failure::usage(format!("--token-file {shown}: {error}"));
    let file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.mode() & OTHERS != 0 {
        let why = format!("every user of this machine may read it: run `chmod o= {shown}`");
        return Err(Failure::usage(format!("--token-file {shown}: {why}")));
    }
    let mut text = String::new();
    file.take(LONGEST_TOKEN).read_to_string(&mut text).map_err(cannot)?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < SHORTEST_TOKEN || !is_plain {
        return Err(Failure::usage(format!(
            "--token-file {shown}: it holds no token: write {SHORTEST_TOKEN} or more letters and \
             digits on one line, as from `openssl rand -hex 32`"
        )));
    }
    Ok(token.to_owned())
}

/// The permission that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// None: the route shows nothing about any lock.
    Nothing,
    /// Permission to read: the token, if others can reach this server.
    Reading,
    /// Permission to revoke: always the token, and `--allow-revoke`.
    Revoking,
}

/// Lets a request through, or refuses it with the reason.
pub(super) async fn authorize(
    State((app, needs)): State<(Arc<App>, Needs)>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let (access, headers) = (&app.access, request.headers());
    if !access.is_for_us(headers) {
        let why = "the Host header names another host: use an address, or start `leasehold \
                   serve` with --allow-host NAME";
        return Err(Refused::new(StatusCode::MISDIRECTED_REQUEST, why));
    }
    let is_reading = [Method::GET, Method::HEAD].contains(request.method());
    let is_page = needs == Needs::Nothing && is_reading;
    if !is_page && access.is_foreign(headers) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "asked by a page of another origin"));
    }
    let known = access.is_known(headers);
    let may_pass = match needs {
        Needs::Nothing => true,
        // With a wrong token, somebody wants to know that it is wrong.
        Needs::Reading => !access.protects_reading && known.is_none(),
        Needs::Revoking if !access.allows_revoke => {
            let why = "nothing is revoked here: start `leasehold serve` with --allow-revoke";
            return Err(Refused::new(StatusCode::FORBIDDEN, why));
        }
        Needs::Revoking => false,
    };
    if !may_pass && known != Some(true) {
        return Err(Refused::without_token());
    }
    Ok(next.run(request).await)
}
