//! Sessions of people who have shown the token: their browser sends a cookie instead.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

/// How long a cookie is valid: 12 hours, a long day.
pub(super) const LIFE: Duration = Duration::from_secs(12 * 3600);

/// The most sessions at the same time: 100. A further session ends the oldest.
const MOST: usize = 100;

/// The cookies that were given out.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The name of the cookie. It contains the port, because all ports of a host share cookies.
    cookie: String,
    open: Mutex<VecDeque<(String, Instant)>>,
}

impl Sessions {
    pub(super) fn new(port: u16) -> Self {
        Self { cookie: format!("leasehold-{port}"), open: Mutex::default() }
    }

    /// Whether a request has a cookie that was given out.
    pub(super) fn is_open(&self, headers: &HeaderMap) -> bool {
        let Some(id) = self.id_in(headers) else { return false };
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(other, until): &(String, Instant)| {
            bool::from(other.as_bytes().ct_eq(id.as_bytes())) && Instant::now() < *until
        };
        open.iter().any(is_it)
    }

    fn id_in<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';'));
        cookies.find_map(|cookie| cookie.trim().strip_prefix(&self.cookie)?.strip_prefix('='))
    }

    /// Makes the value of a new cookie; none if there are no random numbers.
    pub(super) fn begin(&self) -> Option<String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).ok()?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back((id.clone(), Instant::now() + LIFE));
        if open.len() > MOST {
            open.pop_front();
        }
        Some(id)
    }

    pub(super) fn end(&self, headers: &HeaderMap) {
        if let Some(id) = self.id_in(headers) {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|(other, _)| other != id);
        }
    }

    /// The header that sets the cookie: no script can read the cookie, and no page of another site
    /// sends it.
    pub(super) fn cookie(&self, id: &str, life: Duration, is_tls: bool) -> String {
        let (name, seconds) = (&self.cookie, life.as_secs());
        let secure = if is_tls { "; Secure" } else { "" };
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }
}
