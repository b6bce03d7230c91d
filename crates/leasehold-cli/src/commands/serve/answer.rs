//! Refusals of requests, as JSON like all other answers.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold::Error;
use leasehold::error::InvalidInput;
use serde::Serialize;

/// A refused request: the reason and the remedy.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    /// The kind of trouble with the store, such as `version` or `corrupt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
}

impl Refused {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), kind: None }
    }

    /// The client must send the token first.
    pub(super) fn without_token() -> Self {
        let why = "a token is needed: send it as `Authorization: Bearer TOKEN`, or sign in";
        Self::new(StatusCode::UNAUTHORIZED, why)
    }

    /// The store does not answer.
    pub(super) fn away(why: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

/// The store does not answer, or has answered and refused.
impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) if error.kind().is_outage() => Self::away(error.to_string()),
            Error::Store(error) => {
                let kind = Some(error.kind().as_str());
                Self { kind, ..Self::new(StatusCode::BAD_GATEWAY, error.to_string()) }
            }
            error => Self::new(StatusCode::BAD_GATEWAY, error.to_string()),
        }
    }
}

/// A name or a lease of the request is wrong.
impl From<InvalidInput> for Refused {
    fn from(refusal: InvalidInput) -> Self {
        Self::new(StatusCode::BAD_REQUEST, refusal.to_string())
    }
}

/// Answers to faulty requests are JSON, too.
macro_rules! refused_by {
    ($($rejection:ty),+) => {
        $(impl From<$rejection> for Refused {
            fn from(rejection: $rejection) -> Self {
                Self::new(rejection.status(), rejection.body_text())
            }
        })+
    };
}

refused_by!(JsonRejection, PathRejection, QueryRejection);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
