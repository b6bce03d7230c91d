//! The verbs of the native client for operators.

use std::sync::Arc;

use leasehold::admin::{Admin, LeaseId};
use pyo3::prelude::*;

use crate::client::{Client, NativeClient};
use crate::done::Done;
use crate::errors::{Failure, refused};
use crate::options::{parse_name, whole};
use crate::verb::Verb;

async fn admin(client: &Arc<Client>) -> Result<Admin, Failure> {
    Ok(client.here().await?.client.admin())
}

#[pymethods]
impl NativeClient {
    fn names(&self, prefix: String, limit: &Bound<'_, PyAny>) -> PyResult<Verb> {
        let limit = whole(limit, "limit", 0)?;
        let client = Arc::clone(&self.0);
        Ok(Verb::new(
            async move { Ok(Done::Names(admin(&client).await?.list(&prefix, limit).await?)) },
        ))
    }

    fn inspect(&self, name: &Bound<'_, PyAny>) -> PyResult<Verb> {
        let (client, name) = (Arc::clone(&self.0), parse_name(name)?);
        Ok(Verb::new(async move {
            Ok(Done::Status(Box::new(admin(&client).await?.inspect(name).await?)))
        }))
    }

    fn revoke(&self, name: &Bound<'_, PyAny>, lease: &str, now: bool) -> PyResult<Verb> {
        let (client, name) = (Arc::clone(&self.0), parse_name(name)?);
        let lease: LeaseId = lease.parse().map_err(refused)?;
        Ok(Verb::new(async move {
            let admin = admin(&client).await?;
            Ok(Done::Flag(match now {
                true => admin.revoke_now(name, lease).await?,
                false => admin.revoke(name, lease).await?,
            }))
        }))
    }

    fn end_quarantine(&self) -> Verb {
        let client = Arc::clone(&self.0);
        Verb::new(async move { Ok(Done::Flag(admin(&client).await?.end_quarantine().await?)) })
    }
}
