//! Lets requests through, or does not.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::Refused;
use super::app::App;

/// What each part needs of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: it tells nothing of any lock.
    Nothing,
    /// To read: a token where others can reach this.
    Reading,
    /// To change something: always a token, and permission given when `serve` was started.
    Revoking,
}

/// Lets a request through, or says why not.
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
    match needs {
        Needs::Reading if access.protects_reading && !access.is_known(headers) => {
            return Err(Refused::without_token());
        }
        Needs::Revoking if !access.may_revoke() => {
            let why = "nothing is revoked here: start `leasehold serve` with --allow-revoke";
            return Err(Refused::new(StatusCode::FORBIDDEN, why));
        }
        Needs::Revoking if !access.is_known(headers) => return Err(Refused::without_token()),
        Needs::Nothing | Needs::Reading | Needs::Revoking => {}
    }
    Ok(next.run(request).await)
}
