//! The checks of a request: the token, the host, and the origin.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::sessions::Sessions;
use crate::args::Serve;
use crate::report::Failure;

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
    allows_revoke: bool,
    /// Reading needs the token, too.
    pub(super) protects_reading: bool,
    /// Names by which this server is reached, besides addresses.
    hosts: Vec<String>,
    is_tls: bool,
    pub(super) sessions: Sessions,
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
        let own = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let given = args.allow_host.iter().map(|host| host.to_lowercase());
        let hosts = given.chain(["localhost".to_owned(), own]).collect();
        Ok(Self {
            token,
            allows_revoke: args.allow_revoke,
            protects_reading,
            hosts,
            is_tls: false,
            sessions: Sessions::new(0),
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
            sessions: Sessions::new(0),
        }
    }

    /// The same, once the address for requests is known.
    pub(super) fn at(self, address: SocketAddr, is_tls: bool) -> Self {
        Self { is_tls, sessions: Sessions::new(address.port()), ..self }
    }

    pub(super) fn may_revoke(&self) -> bool {
        self.allows_revoke
    }

    /// Whether this is the token. The check takes the same time for every wrong text.
    pub(super) fn is_token(&self, text: &str) -> bool {
        let token = self.token.as_deref().unwrap_or_default();
        !token.is_empty() && bool::from(token.as_bytes().ct_eq(text.as_bytes()))
    }

    /// Whether a request has the token, or the cookie of a sender who has shown the token before.
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match bearer {
            Some(token) => self.is_token(token.trim()),
            None => self.sessions.is_open(headers),
        }
    }

    /// Whether the Host header of a request names this server. A page of an attacker may use
    /// another name that leads here (DNS rebinding).
    pub(super) fn is_for_us(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let name = without_port(host).to_lowercase();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = bare.unwrap_or(&name).parse::<IpAddr>().is_ok();
        // An address needs no check, because rebinding needs a name.
        is_address || self.hosts.contains(&name)
    }

    /// Whether a request comes from a page of another origin. Without TLS, the page may have come
    /// by https: from a proxy that does TLS and leaves the host as it is.
    pub(super) fn is_foreign(&self, headers: &HeaderMap) -> bool {
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

    /// Whether the sender of a request uses TLS, to this server or to a proxy before it.
    pub(super) fn is_by_tls(&self, headers: &HeaderMap) -> bool {
        let origin = text(headers, "origin").unwrap_or_default();
        self.is_tls || origin.starts_with("https://")
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// A host without its port. An IPv6 address is in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_host_and_an_address_keeps_its_colons() {
        for (host, name) in [
            ("localhost:9740", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:9740", "[::1]"),
            ("[::1]", "[::1]"),
            ("a.example:x", "a.example:x"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
