//! A `leasehold serve` on a free port.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::http::{Answer, get, send};
use crate::harness::{Background, Place, until};

pub(super) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[derive(Debug)]
pub(crate) struct Served {
    pub(super) address: SocketAddr,
    pub(super) process: Background,
}

impl Served {
    /// A server on a free port of this machine, which only this machine reaches.
    pub(crate) fn start(place: &Place, options: &[&str]) -> Self {
        Self::start_at(place, "127.0.0.1:0", options)
    }

    pub(crate) fn start_at(place: &Place, listen: &str, options: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", listen], options].concat();
        let mut process = Background::start(place.leasehold(&arguments));
        let line = process.error_line();
        let address = line.rsplit_once("://").and_then(|(_, rest)| rest.strip_suffix('/'));
        let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { address: SocketAddr::new([127, 0, 0, 1].into(), address.port()), process }
    }

    /// A server that lets clients revoke if they know [`TOKEN`].
    pub(crate) fn with_token(place: &Place) -> Self {
        let file = token_file(place, TOKEN, 0o600);
        Self::start(place, &["--allow-revoke", "--token-file", &file])
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        get(self.address, path)
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) fn post(&self, path: &str, headers: &[&str], body: &str) -> Answer {
        let headers = [&["Content-Type: application/json"], headers].concat();
        send(self.address, &format!("POST {path}"), &headers, body)
    }

    /// Waits until it has looked at everything, and knows `held` locks.
    pub(crate) fn knows(&self, held: usize) {
        until("it knows the locks", || {
            let state = self.json("/api/v1/state");
            state["is_whole"] == true && state["held"] == held
        });
    }
}

/// A file with a token.
pub(crate) fn token_file(place: &Place, token: &str, mode: u32) -> String {
    let path = place.path("token");
    fs::write(&path, token).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Waits until a holder has lost its lock, while its stdin is open.
#[track_caller]
pub(crate) fn loses_it(holder: &mut Background) {
    let mut code = None;
    until("its holder has lost it", || {
        code = holder.child().try_wait().unwrap().map(|status| status.code());
        code.is_some()
    });
    assert_eq!(code, Some(Some(76)));
}
