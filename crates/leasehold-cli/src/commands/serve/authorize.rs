//! Lets requests through, or refuses them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::Refused;
use super::app::App;

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
