//! Answers that all requests share.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::{FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold::error::StoreError;
use serde::Serialize;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Described, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// A refused request: the reason and the remedy.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    error: String,
    /// The kind of trouble with the store, as a word.
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

    /// The store answered, and refused.
    pub(super) fn by_store(error: &StoreError) -> Self {
        let kind = Some(error.kind().as_str());
        Self { status: StatusCode::BAD_GATEWAY, error: error.to_string(), kind }
    }

    /// The store does not answer.
    pub(super) fn away(why: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

/// The reason why a request was refused.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(super) struct ErrorView {
    error: String,
    /// What kind of trouble the store has, such as `version` or `corrupt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
}

/// The refusals that any request may get.
impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let said = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
        let described = |(status, why): (&str, &str)| {
            let answer = ResponseBuilder::new().description(why);
            (status.to_owned(), answer.content("application/json", said.clone()).build().into())
        };
        let all = [
            ("401", "A token is needed."),
            ("403", "Not allowed here, or requested by a page of another origin."),
            ("421", "The Host header names another host."),
        ];
        all.map(described).into()
    }
}

/// Answers to faulty requests are JSON, like all other answers.
macro_rules! refused_by {
    ($($rejection:ty),+) => {
        $(impl From<$rejection> for Refused {
            fn from(rejection: $rejection) -> Self {
                Self::new(rejection.status(), rejection.body_text())
            }
        })+
    };
}

refused_by!(FormRejection, JsonRejection, PathRejection, QueryRejection);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, Json(ErrorView { error: self.error, kind: self.kind })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
