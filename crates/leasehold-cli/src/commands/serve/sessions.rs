//! People who have shown the token: a cookie instead of it, in their browser.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

/// How long a cookie is good for: 12 hours, a long day.
pub(super) const LIFE: Duration = Duration::from_secs(12 * 3600);

/// The most people at the same time: beyond that, the first of them must sign in again.
const MOST: usize = 100;

/// Cookies that were given out.
#[derive(Debug)]
pub(super) struct Sessions {
    /// A different name for each port: cookies are shared by all ports of a host.
    cookie: String,
    open: Mutex<VecDeque<(String, Instant)>>,
}

impl Sessions {
    pub(super) fn new(port: u16) -> Self {
        Self { cookie: format!("leasehold-{port}"), open: Mutex::default() }
    }

    /// Whether a request brings a cookie that was given out.
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

    /// A new cookie's value; none if there are no random numbers.
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

    /// The cookie as it is set: no script sees it, and no page of another site brings it along.
    pub(super) fn cookie(&self, id: &str, life: Duration, is_tls: bool) -> String {
        let (name, seconds) = (&self.cookie, life.as_secs());
        let secure = if is_tls { "; Secure" } else { "" };
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }
}
