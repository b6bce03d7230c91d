//! One session, and the statements that the server has prepared in it.

use std::collections::HashMap;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use super::dial::{Dialed, listen};
use crate::mutex::Mutex;

/// A value for a statement, with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One session that carries requests.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) server: String,
    /// The place of its server among those of the dialer.
    pub(super) at: usize,
    /// Whether nobody is in between who could give the session to another client.
    pub(super) is_direct: bool,
    /// Whether its server was asked what it may have forgotten.
    pub(super) is_asked: bool,
    /// What the server has prepared. The driver's names are numbers, which are unique only in a
    /// session of this store alone.
    prepared: Mutex<HashMap<String, Statement>>,
}

impl Session {
    /// A session, which is driven from now on.
    pub(super) fn begin(Dialed { client, mut driver, server, at, is_direct }: Dialed) -> Self {
        tokio::spawn(async move { listen(&mut driver, |_, _| {}).await });
        Self { client, server, at, is_direct, is_asked: false, prepared: Mutex::default() }
    }

    /// Sends one statement, which the server prepares if it can.
    pub(super) async fn query(&self, sql: String, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        if !self.is_direct {
            return self.client.query_typed(&sql, values).await;
        }
        let known = self.prepared.lock().get(&sql).cloned();
        let prepared = match known {
            Some(prepared) => prepared,
            None => {
                let types: Vec<Type> = values.iter().map(|(_, of)| of.clone()).collect();
                let prepared = self.client.prepare_typed(&sql, &types).await?;
                self.prepared.lock().insert(sql, prepared.clone());
                prepared
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
        self.client.query(&prepared, &values).await
    }
}
