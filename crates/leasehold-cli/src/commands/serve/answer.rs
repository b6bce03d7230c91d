//! Answers that are alike everywhere.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request was not done, and what would mend that.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    error: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    /// Who asks must say the token first.
    pub(super) fn without_token() -> Self {
        let why = "a token is needed: send it as `Authorization: Bearer TOKEN`, or sign in";
        Self::new(StatusCode::UNAUTHORIZED, why)
    }

    /// The store does not answer.
    pub(super) fn away(why: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

#[derive(Serialize)]
struct ErrorView {
    error: String,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorView { error: self.error })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
